#include "emit/registry.hpp"
#include "base/formatting.hpp"
#include "base/whole_file.hpp"
#include "emit/c_header.hpp"
#include "emit/kernel_record.hpp"

#include <algorithm>
#include <stdexcept>

namespace attune::generators::inline emit {
namespace {

/// Each field by its name. One that the record gains does not compile before it is said here.
std::string sums_of(const attune::kernel::sum_memory& sums) {
    const auto& [of_query, of_key, of_key_head, parts, blocks_of_part] = sums;
    return fmt::format("{{.of_query = {}, .of_key = {}, .of_key_head = {}, .parts = {}, .blocks_of_part = {}}}",
                       of_query, of_key, of_key_head, parts, blocks_of_part);
}

std::string key_bound_of(const attune::kernel::key_bound& seen) {
    const auto& [constant, numbers] = seen;
    std::string text;
    for (const auto& [node, factor] : numbers)
        if (factor != 0) text += fmt::format("{}{{{}, {}}}", text.empty() ? "" : ", ", node, factor);
    return fmt::format("{{.constant = {}, .numbers = {{{{{}}}}}}}", constant, text);
}

std::string kernel_row(const listed_kernel& made) {
    const attune::kernel row = kernel_record(made);
    const auto& [symbol, target, query, key, value, output, depth, value_depth, query_block, key_block, scratch_bytes,
                 schedule, call, blocks, stores, saved_rows, saved_outputs, shapes, from_queries, to_queries,
                 key_splits, visible_keys, row_bytes, splits, product_positions, product_channels, depths_of_pair, sums,
                 cpus, row_alignment, capability] = row;
    std::string text =
        fmt::format("    {{.symbol = \"{}\", .target = \"{}\"", made.symbol, made.request.target->called());
    const auto say = [&](std::string_view name, const auto& is) { text += fmt::format(", .{} = {}", name, is); };
    const auto element = [](element_type e) { return fmt::format("attune::element_type::{}", name_of(e)); };
    say("query", element(query)), say("key", element(key));
    say("value", element(value)), say("output", element(output));
    say("depth", depth), say("value_depth", value_depth);
    say("query_block", query_block), say("key_block", key_block);
    say("scratch_bytes", scratch_bytes);
    text += ",\n    ";
    say("schedule", fmt::format("R\"({})\"", to_json(made.request.schedule)));
    say("call", made.symbol + "_argv");
    say("blocks", is_for_recurrence(made.request.schedule)
                      ? "nullptr"
                      : fmt::format("ATTUNE_BLOCKS_OF({}_blocks_argv)", made.symbol));
    if (!made.request.graph().stores.empty()) say("stores", made.symbol + "_stores_argv");
    text += ",\n    ";
    say("saved_rows", saved_rows), say("saved_outputs", saved_outputs);
    say("shapes", fmt::format("attune::shape_class::{}", name_of(shapes)));
    say("from_queries", from_queries), say("to_queries", to_queries), say("key_splits", key_splits);
    if (visible_keys.bounded()) say("visible_keys", key_bound_of(visible_keys));
    say("row_bytes", row_bytes);
    say("splits", fmt::format("{{.of_row = {}, .rows = {}}}", splits.of_row, splits.rows));
    say("product_positions", product_positions), say("product_channels", product_channels);
    say("depths_of_pair", depths_of_pair);
    if (sums.parts != 0) say("sums", sums_of(sums));
    if (row_alignment != 0) say("row_alignment", row_alignment);
    if (capability != 0) say("capability", capability);
    if (!made.cpus.empty()) say("cpus", fmt::format("\"{}\"", made.cpus));
    for (std::size_t at; (at = text.find(",\n    , ")) != text.npos;) text.replace(at, 8, ",\n     ");
    return text + "},\n";
}

/// As a C++ literal.
std::string literal(std::string_view text) { return fmt::format("R\"text({})text\"", text); }

std::string notes_rows(const variant_notes& notes, std::size_t number) {
    std::string text, fields;
    if (!notes.conditions.empty()) {
        text += fmt::format("static const attune::graph_notes::condition conditions_{}[] = {{\n", number);
        for (const auto& [condition, why] : notes.conditions)
            text += fmt::format("    {{{}, {}}},\n", literal(condition), literal(why));
        text += "};\n";
        fields = fmt::format("conditions_{}", number);
    }
    text += fmt::format("static const char* const conventions_{}[] = {{\n", number);
    for (const std::string& convention : notes.conventions) text += fmt::format("    {},\n", literal(convention));
    return text + fmt::format("}};\nstatic const attune::graph_notes notes_{0}{{{{{1}}}, conventions_{0}}};\n", number,
                              fields);
}

}  // namespace

void emit_registry(std::span<const variant> variants, std::span<const listed_kernel> kernels,
                   std::span<const variant_notes> notes, const std::string& header, const std::string& file) {
    std::string text = fmt::format(
        "// Written by `emit --registry`: the kernels compiled for the graphs of {0}.\n#include \"{0}\"\n\n", header);
    text += "#include <attune/dsl.hpp>\n#include <attune/runtime/detail/kernel_table.hpp>\n\n";
    // Linkers drop objects that nothing names: a quarter of the kernels' bytes.
    text +=
        "#ifdef ATTUNE_WITHOUT_BLOCKS  // in a library that is never asked which blocks a call visits\n"
        "#define ATTUNE_BLOCKS_OF(function) nullptr\n#else\n#define ATTUNE_BLOCKS_OF(function) function\n#endif\n\n"
        "extern \"C\" {\n";
    for (const listed_kernel& kernel : kernels) {
        text += fmt::format("int {0}_argv(void**);\n", kernel.symbol);
        if (!is_for_recurrence(kernel.request.schedule))
            text += fmt::format("int {0}_blocks_argv(void**);\n", kernel.symbol);
        if (!kernel.request.graph().stores.empty()) text += fmt::format("int {}_stores_argv(void**);\n", kernel.symbol);
    }
    text += "}\n";
    for (std::size_t i = 0; i < variants.size(); ++i) {
        const variant& each = variants[i];
        const bool on_device = std::any_of(kernels.begin(), kernels.end(),
                                           [&](const listed_kernel& k) { return k.of == &each && k.request.on_gpu(); });
        text += fmt::format("\nstatic const attune::kernel kernels_{}[] = {{\n", i);
        for (const listed_kernel& kernel : kernels)
            if (kernel.of == &each) text += kernel_row(kernel);
        text += "};\n" + notes_rows(notes[i], i);
        text += fmt::format(
            "template <> const attune::kernel_table& attune::kernels_of<{0}, {1}ull>() {{\n"
            "    static const attune::kernel_table table{{attune::kernel_table_version, \"{0}\", "
            "attune::dsl::ir_of<{0}>, "
            "kernels_{2}, attune::detail::invoke, {3}, notes_{2}}};\n"
            "    return table;\n}}\n",
            each.name, each.graph.fingerprint, i, on_device ? "&attune::detail::gpus" : "nullptr");
    }
    text += c_handles(variants);
    text +=
        "\n// Whoever links the library asks for this name, and so for this registry: kernels of one graph in two "
        "libraries "
        "do not\n// link, where the first library would have served what the second was compiled for.\n"
        "#ifdef ATTUNE_LIBRARY\nextern \"C\" const char ATTUNE_LIBRARY;\nextern \"C\" const char ATTUNE_LIBRARY = 0;\n"
        "#endif\n";
    write_whole(file, text);
}

}  // namespace attune::generators::inline emit
