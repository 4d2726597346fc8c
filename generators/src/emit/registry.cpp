#include "analysis/plan.hpp"
#include "base/formatting.hpp"
#include "base/whole_file.hpp"
#include "codegen/object.hpp"
#include "emit/c_header.hpp"
#include "emit/index_warnings.hpp"
#include "kernel/device.hpp"

#include <algorithm>
#include <stdexcept>

namespace attune::generators {
namespace {

std::string kernel_row(const listed_kernel& kernel) {
    const auto& [graph, types, depths, cut] = kernel.request;
    const auto element = [](element_type e) { return fmt::format("attune::element_type::{}", name_of(e)); };
    return fmt::format(
        "    {{\"{0}\", \"{1}\", {2}, {3}, {4}, {5}, {6}, {7}, {8}, {9}, {10},\n     R\"({11})\", {0}_argv, "
        "{0}_blocks_argv, {12}, {13}, attune::shape_class::{14}, {15}, {16}, {17}, {18}, {19}}},\n",
        kernel.symbol, kernel.isa->name, element(types.query), element(types.key), element(types.value),
        element(types.output), depths.depth, depths.value_depth, cut.query_block, cut.key_block,
        scratch_bytes(kernel.request), to_json(cut), plan_of(graph).saved_rows,
        plan_of(graph).saved_output >= 0 ? 1 : 0, name_of(cut.shapes), kernel.from_queries, kernel.to_queries,
        cut.shapes == shape_class::decode ? cut.key_splits : 0, row_memory_of(kernel.request).scratch_bytes,
        row_memory_of(kernel.request).part_bytes);
}

}  // namespace

void emit_registry(std::span<const variant> variants, std::span<const listed_kernel> kernels, const std::string& header,
                   const std::string& file) {
    std::string text = fmt::format(
        "// Written by `emit --registry`: the kernels compiled for the graphs of {0}.\n#include \"{0}\"\n\n", header);
    text += "#include <attune/dsl.hpp>\n#include <attune/runtime/detail/kernel_table.hpp>\n\nextern \"C\" {\n";
    for (const listed_kernel& kernel : kernels)
        text += fmt::format("int {0}_argv(void**);\nint {0}_blocks_argv(void**);\n", kernel.symbol);
    text += "}\n";
    for (std::size_t i = 0; i < variants.size(); ++i) {
        const variant& each = variants[i];
        const bool on_device = std::any_of(kernels.begin(), kernels.end(),
                                           [&](const listed_kernel& k) { return k.of == &each && is_device(*k.isa); });
        text += fmt::format("\nstatic const attune::kernel kernels_{}[] = {{\n", i);
        for (const listed_kernel& kernel : kernels)
            if (kernel.of == &each) text += kernel_row(kernel);
        text += fmt::format(
            "}};\ntemplate <> const attune::kernel_table& attune::kernels_of<{0}, {1}ull>() {{\n"
            "    static const attune::kernel_table table{{attune::kernel_table_version, \"{0}\", "
            "attune::dsl::ir_of<{0}>, "
            "kernels_{2}{3}}};\n"
            "    return table;\n}}\n",
            each.name, each.graph.fingerprint, i, on_device ? ", attune::detail::invoke, &attune::detail::gpus" : "");
    }
    for (const variant& each : variants)
        for (const std::string& said : indices_that_may_leave(each.graph))
            fmt::print(stderr, "{}: {}\n", each.name, said);
    text += c_handles(variants);
    write_whole(file, text);
}

}  // namespace attune::generators
