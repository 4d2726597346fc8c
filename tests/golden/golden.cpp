#include "golden.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <stdexcept>

namespace attune::testing {
namespace {

const std::vector<variant_of_stem>& all_variants() {
    static const std::vector<variant_of_stem> all = [] {
        std::vector<variant_of_stem> list;
        for (auto* cases : {plain_cases, causal_cases, window_cases, document_cases, position_cases, image_cases, score_cases})
            for (const variant_of_stem& v : cases()) list.push_back(v);
        return list;
    }();
    return all;
}

tensor view_of(const support::file_tensor& t) { return {t.element, static_cast<const void*>(t.bytes.data()), t.shape}; }

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& what) { throw std::runtime_error(path.string() + ": " + what); }

std::string environment(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
}

/// Largest absolute difference; infinities must agree, NaN never does.
double largest_difference(const float* got, const float* expected, std::size_t count) {
    double worst = 0;
    for (std::size_t i = 0; i < count; ++i) {
        if (got[i] == expected[i]) continue;
        const double error = std::abs(static_cast<double>(got[i]) - static_cast<double>(expected[i]));
        worst = std::max(worst, std::isnan(error) ? std::numeric_limits<double>::infinity() : error);
    }
    return worst;
}

}  // namespace

std::string stem_of(const std::filesystem::path& file) {
    std::string name = file.filename().string();
    name = name.substr(0, name.find('.'));
    return name.substr(0, name.find("__"));
}

const variant_of_stem& variant_for(const std::filesystem::path& file) {
    const std::string stem = stem_of(file);
    const auto& all = all_variants();
    const auto found = std::ranges::find(all, stem, &variant_of_stem::stem);
    if (found == all.end()) fail(file, "no variant computes the stem `" + stem + "`; " + std::to_string(all.size()) + " others are known (tests/golden/cases)");
    return *found;
}

std::filesystem::path folder() {
    const std::string given = environment("ATTUNE_GOLDEN");
    return given.empty() ? std::filesystem::path(ATTUNE_GOLDEN_FILES) : std::filesystem::path(given);
}

std::string filter() { return environment("ATTUNE_GOLDEN_FILTER"); }

std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder, const std::string& pattern) {
    if (!std::filesystem::is_directory(folder)) fail(folder, "no such folder of golden files");
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        const auto& path = entry.path();
        if (path.extension() != ".safetensors") continue;
        if (pattern.empty() || fnmatch(pattern.c_str(), stem_of(path).c_str(), 0) == 0) files.push_back(path);
    }
    if (files.empty()) fail(folder, pattern.empty() ? "no golden file (*.safetensors) in this folder" : "no golden file of a stem that matches `" + pattern + "`");
    std::ranges::sort(files);
    return files;
}

bound_file::bound_file(support::tensor_file file, const variant_of_stem& variant) : file_(std::move(file)), variant_(variant) {
    const std::filesystem::path& path = file_.path;
    file_.drop_debug();
    for (const input_declaration& input : variant.graph.inputs) {
        const std::string name(input.name);
        if (input.is_scalar) {
            const auto found = file_.params.find(name);
            if (found == file_.params.end()) fail(path, "the graph reads the number `" + name + "`, which is not among the file's params");
            if (input.element == element_type::i32 && found->second != std::floor(found->second))
                fail(path, "the graph reads `" + name + "` as an integer, the file says " + std::to_string(found->second));
        } else if (file_.find(name) == nullptr) {
            fail(path, "the graph reads `" + name + "`, which the file does not have (debug tensors aside)");
        }
    }
    for (const std::string& output : file_.outputs)
        if (std::ranges::find(variant.graph.outputs, output, &output_declaration::name) == variant.graph.outputs.end())
            fail(path, "the file has the output `" + output + "`, which the variant does not make");
    for (const output_declaration& output : variant.graph.outputs)
        if (expected(output.name).type() != element_type::f32) fail(path, "the output `" + std::string(output.name) + "` is not f32");
}

tensor bound_file::expected(std::string_view output) const { return view_of(file_[output]); }

double bound_file::tolerance(std::string_view output) const {
    const auto found = file_.tolerances.find(std::string(output));
    if (found == file_.tolerances.end()) fail(file_.path, "no tolerance for `" + std::string(output) + "`");
    return found->second;
}

std::vector<reference::argument> bound_file::reference_arguments() const {
    std::vector<reference::argument> arguments;
    for (const input_declaration& input : variant_.graph.inputs) {
        if (input.is_scalar) arguments.push_back({input.name, file_.params.at(std::string(input.name))});
        else arguments.push_back({input.name, view_of(file_[input.name])});
    }
    if (const auto* lengths = file_.find("kv_lengths")) arguments.push_back({"kv_lengths", view_of(*lengths)});
    return arguments;
}

std::vector<detail::named_argument> bound_file::arguments() {
    using form = detail::named_argument::form;
    std::vector<detail::named_argument> arguments;
    for (const reference::argument& a : reference_arguments()) {
        detail::named_argument named{.name = a.name};
        if (const auto* view = std::get_if<tensor>(&a.value)) {
            named.view = *view;
        } else {
            const auto input = std::ranges::find(variant_.graph.inputs, a.name, &input_declaration::name);
            named.is = input->element == element_type::i32 ? form::integer : form::real;
            named.real = std::get<double>(a.value);
            named.integer = static_cast<std::int64_t>(named.real);
        }
        arguments.push_back(named);
    }
    written_.clear();
    for (const output_declaration& output : variant_.graph.outputs) {
        const tensor like = expected(output.name);
        auto& values = written_.emplace_back(static_cast<std::size_t>(file_[output.name].count()), std::nanf(""));
        arguments.push_back({.name = output.name, .view = tensor(values.data(), like.shape())});
    }
    return arguments;
}

std::vector<bound_file::comparison> bound_file::compare() const {
    std::vector<comparison> result;
    for (std::size_t i = 0; i < written_.size(); ++i) {
        const auto name = variant_.graph.outputs[i].name;
        const double error = largest_difference(written_[i].data(), static_cast<const float*>(expected(name).data()), written_[i].size());
        result.push_back({std::string(name), error, tolerance(name)});
    }
    return result;
}

std::vector<bound_file::comparison> bound_file::compare(const reference::results& results) const {
    std::vector<comparison> list;
    for (const output_declaration& output : variant_.graph.outputs)
        list.push_back({std::string(output.name), reference::largest_error(expected(output.name), results[output.name], results.rows), tolerance(output.name)});
    return list;
}

}  // namespace attune::testing
