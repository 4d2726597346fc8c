// golden_differences FILE: every golden file by the kernels that are linked, with a NaN among its inputs too,
// gradients' files, and in bf16 where kernels for that are linked. A line of JSON for each output on standard output,
// and what was computed, f32 after f32 in the order of the lines, in FILE. Exit status 77
// where this CPU lacks the level of the kernels. levels.py compares the levels.
#include "golden.hpp"

#include <attune/runtime/cpu.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <fstream>

using namespace attune;
using namespace attune::testing;

namespace {

void add_line(const std::filesystem::path& path, const char* kind, const golden_run::comparison& c,
              std::span<const float> made, std::ofstream& to) {
    to.write(reinterpret_cast<const char*>(made.data()), static_cast<std::streamsize>(made.size_bytes()));
    const nlohmann::ordered_json line{{"kind", kind},     {"file", path.stem().string()}, {"output", c.output},
                                      {"error", c.error}, {"tolerance", c.tolerance},     {"count", made.size()}};
    std::printf("%s\n", line.dump().c_str());
}

void add(const std::filesystem::path& path, const char* kind, std::ofstream& to) {
    golden_run run(path, recipe_for(path));
    run.with_kernels();
    for (const golden_run::comparison& c : run.compare()) {
        const support::file_tensor& made = run.made()[c.output];
        const bool real = made.element == element_type::f32;
        add_line(path, kind, c, {real ? made.as<float>() : nullptr, real ? static_cast<std::size_t>(made.count()) : 0},
                 to);
    }
}

void add_with_nan(const std::filesystem::path& path, std::ofstream& to) {
    for (const nan_comparison& c : compare_with_nan(path, recipe_for(path)))
        add_line(path, "nan", {c.input + " to " + c.output, static_cast<double>(c.wrong), 0}, c.made, to);
}

/// The graph of a file that one call of bf16 kernels computes; null for others.
const graph_step* in_bf16(const recipe& how) {
    const auto* const only = how.steps.size() == 1 ? std::get_if<graph_step>(&how.steps.front()) : nullptr;
    if (only == nullptr || only->kernels == nullptr) return nullptr;
    const auto is_bf16 = [](const kernel& k) {
        return k.query == element_type::bf16 && k.key == k.query && k.value == k.query && k.output == k.query;
    };
    return std::ranges::any_of(only->kernels().kernels, is_bf16) ? only : nullptr;
}

/// One output of a call of bf16 kernels: what bounds it, and where it is furthest off, as a part of that.
golden_run::comparison compared(const std::string& name, std::span<const float> made, const reference::array& expected,
                                double sums, double step, double rounded_weights) {
    golden_run::comparison worst{.output = name, .error = 0, .tolerance = sums};
    for (std::size_t i = 0; i < made.size(); ++i) {
        const double is = made[i], right = expected.values[i];
        if (is == right) continue;
        const double error = std::abs(is - right), bound = sums + rounded_weights + step * std::abs(right);
        if (!(error / bound <= worst.error / worst.tolerance)) worst.error = error, worst.tolerance = bound;
    }
    if (std::isnan(worst.error) || std::isnan(worst.tolerance)) worst.error = INFINITY, worst.tolerance = sums;
    return worst;
}

/// With q, k and v rounded to bf16, against the reference on the same numbers, by the bounds that
/// generators/docs/element_types.md states.
void add_in_bf16(const std::filesystem::path& path, const graph_step& step, std::ofstream& to) {
    support::tensor_file file = support::read_safetensors(path);
    file.drop_debug();
    double largest = 0;
    for (const input_declaration& declared : step.graph.inputs) {
        if (declared.element != element_type::any) continue;
        const auto found = std::ranges::find(file.tensors, declared.name, &support::file_tensor::name);
        if (found == file.tensors.end() || found->element != element_type::f32) return;
        support::file_tensor narrow{found->name, element_type::bf16, found->shape, {}};
        narrow.bytes.resize(static_cast<std::size_t>(found->count()) * sizeof(bfloat16));
        std::transform(found->as<float>(), found->as<float>() + found->count(), narrow.as<bfloat16>(),
                       [](float x) { return bfloat16(x); });
        if (declared.name == "v")
            for (std::int64_t i = 0; i < found->count(); ++i)
                largest = std::max(largest, std::abs(static_cast<double>(found->as<float>()[i])));
        *found = std::move(narrow);
    }
    const auto given = arguments_of(step.graph, file);
    const reference::results expected = reference::evaluate(step.graph, given);
    std::vector<attune::detail::named_argument> arguments = as_named(step.graph, given);
    std::vector<std::vector<bfloat16>> narrow(expected.outputs.size());
    std::vector<std::vector<float>> wide(expected.outputs.size());
    for (std::size_t i = 0; i < expected.outputs.size(); ++i) {
        const reference::array& output = expected.outputs[i];
        const auto declared = std::ranges::find(step.graph.outputs, output.name, &output_declaration::name);
        if (step.graph.nodes[declared->node].kind == kind::output) {
            narrow[i].resize(output.values.size());
            arguments.push_back({.name = declared->name, .view = tensor(narrow[i].data(), output.shape)});
        } else {
            wide[i].resize(output.values.size());
            arguments.push_back({.name = declared->name, .view = tensor(wide[i].data(), output.shape)});
        }
    }
    const kernel_table& table = step.kernels();
    attune::detail::call(table, arguments, {});
    const bool pairs = std::ranges::any_of(table.kernels, [](const kernel& k) {
        return k.query == element_type::bf16 &&
               (std::string_view(k.schedule).find("\"pairing\":2") != std::string_view::npos ||
                std::string_view(k.schedule).find("\"pairing\":32") != std::string_view::npos);
    });
    for (std::size_t i = 0; i < expected.outputs.size(); ++i) {
        const bool stored = !narrow[i].empty();
        if (stored) std::ranges::transform(narrow[i], std::back_inserter(wide[i]), [](bfloat16 x) { return float(x); });
        const auto c = compared(expected.outputs[i].name, wide[i], expected.outputs[i], 2e-5, stored ? 0x1p-8 : 0x1p-23,
                                pairs ? 0x1p-8 * (stored ? largest : 1) : 0);
        add_line(path, "bf16", c, wide[i], to);
    }
}

bool is_known(const std::filesystem::path& path) {
    return std::ranges::find(all_recipes(), stem_of(path), &recipe::stem) != all_recipes().end();
}

void add_folder(const std::filesystem::path& of, const char* kind, std::ofstream& to) {
    for (const std::filesystem::path& path : files_in(of, filter())) {
        if (!is_known(path)) continue;
        add(path, kind, to);
        if (const graph_step* const step = in_bf16(recipe_for(path))) add_in_bf16(path, *step, to);
    }
}

/// The features that this CPU lacks for the linked kernels, which are all of one level; empty if it has all.
std::string missing_here() {
    for (const recipe& how : all_recipes())
        for (const auto& step : how.steps)
            if (const auto* const one = std::get_if<graph_step>(&step); one != nullptr && one->kernels != nullptr)
                return missing_for(one->kernels().kernels.front().target);
    return {};
}

}  // namespace

int main(int argc, char** argv) try {
    if (argc != 2) return std::fprintf(stderr, "expected a file to write, got %d arguments\n", argc - 1), 2;
    if (const std::string lacks = missing_here(); !lacks.empty())
        return std::fprintf(stderr, "this CPU lacks %s\n", lacks.c_str()), 77;
    std::ofstream to(argv[1], std::ios::binary);
    add_folder(folder(), "f32", to);
    for (const std::filesystem::path& path : files_in(folder(), filter()))
        if (is_known(path)) add_with_nan(path, to);
#ifdef ATTUNE_GRADIENT_FILES
    add_folder(ATTUNE_GRADIENT_FILES, "gradients", to);
#endif
    to.close();
    return to ? 0 : (std::fprintf(stderr, "could not write %s\n", argv[1]), 2);
} catch (const std::exception& problem) {
    std::fprintf(stderr, "%s\n", problem.what());
    return 2;
}
