#include "golden.hpp"

#include "../support/launches.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <stdexcept>

namespace attune::testing {
namespace {

tensor view_of(const support::file_tensor& t) { return {t.element, static_cast<const void*>(t.bytes.data()), t.shape}; }

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& what) {
    throw std::runtime_error(path.string() + ": " + what);
}

std::string environment(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
}

/// Largest absolute difference; infinities must agree, NaN never does.
template <class T> double largest_difference(const T* got, const T* expected, std::int64_t count) {
    double worst = 0;
    for (std::int64_t i = 0; i < count; ++i) {
        if (got[i] == expected[i]) continue;
        const double error = std::abs(static_cast<double>(got[i]) - static_cast<double>(expected[i]));
        worst = std::max(worst, std::isnan(error) ? std::numeric_limits<double>::infinity() : error);
    }
    return worst;
}

std::string text_of(const std::vector<std::int64_t>& shape) {
    std::string text;
    for (std::int64_t extent : shape) text += (text.empty() ? "" : ", ") + std::to_string(extent);
    return "(" + text + ")";
}

}  // namespace

std::string stem_of(const std::filesystem::path& file) {
    std::string name = file.filename().string();
    name = name.substr(0, name.find('.'));
    return name.substr(0, name.find("__"));
}

const std::vector<recipe>& all_recipes() {
    static const std::vector<recipe> all = [] {
        std::vector<recipe> list;
        for (auto* cases : {ATTUNE_GOLDEN_CASES})
            for (const recipe& r : cases()) list.push_back(r);
        return list;
    }();
    return all;
}

const recipe& recipe_for(const std::filesystem::path& file) {
    const std::string stem = stem_of(file);
    const auto& all = all_recipes();
    const auto found = std::ranges::find(all, stem, &recipe::stem);
    if (found == all.end())
        fail(file, "no recipe computes the stem `" + stem + "`; " + std::to_string(all.size()) +
                       " others are known (tests/golden/cases)");
    return *found;
}

bool is_elsewhere([[maybe_unused]] const std::filesystem::path& file) {
#ifdef ATTUNE_GOLDEN_ALL
    return false;
#else
    const std::string stem = stem_of(file);
    return stem.starts_with("seed") &&
           std::ranges::none_of(all_recipes(), [&](const recipe& r) { return r.stem == stem; });
#endif
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
    if (files.empty())
        fail(folder, pattern.empty() ? "no golden file (*.safetensors) in this folder"
                                     : "no golden file of a stem that matches `" + pattern + "`");
    std::ranges::sort(files);
    return files;
}

std::vector<reference::argument> arguments_of(const graph_ir& graph, const support::tensor_file& file) {
    std::vector<reference::argument> arguments;
    for (const input_declaration& input : graph.inputs) {
        const std::string name(input.name);
        if (input.is_scalar) {
            const auto found = file.params.find(name);
            if (found == file.params.end())
                fail(file.path, "the graph reads the number `" + name + "`, which is not among the file's params");
            if (input.element == element_type::i32 && found->second != std::floor(found->second))
                fail(file.path,
                     "the graph reads `" + name + "` as an integer, the file says " + std::to_string(found->second));
            arguments.push_back({input.name, found->second});
        } else {
            const support::file_tensor* t = file.find(name);
            if (t == nullptr) fail(file.path, "the graph reads `" + name + "`, which is not among the file's inputs");
            arguments.push_back({input.name, view_of(*t)});
        }
    }
    if (const auto* lengths = file.find("kv_lengths")) arguments.push_back({"kv_lengths", view_of(*lengths)});
    return arguments;
}

std::vector<attune::detail::named_argument> as_named(const graph_ir& graph,
                                                     const std::vector<reference::argument>& arguments) {
    using form = attune::detail::named_argument::form;
    std::vector<attune::detail::named_argument> all;
    for (const reference::argument& a : arguments) {
        attune::detail::named_argument& named = all.emplace_back();
        named.name = a.name;
        if (const auto* view = std::get_if<tensor>(&a.value)) {
            named.view = *view;
            continue;
        }
        const auto input = std::ranges::find(graph.inputs, a.name, &input_declaration::name);
        named.is = input->element == element_type::i32 ? form::integer : form::real;
        named.real = std::get<double>(a.value);
        named.integer = static_cast<std::int64_t>(named.real);
    }
    return all;
}

support::file_tensor reals(std::string name, std::vector<std::int64_t> shape) {
    support::file_tensor t{std::move(name), element_type::f32, std::move(shape), {}};
    t.bytes.resize(static_cast<std::size_t>(t.count()) * sizeof(float));
    std::fill_n(t.as<float>(), t.count(), std::nanf(""));
    return t;
}

support::file_tensor integers(std::string name, std::vector<std::int64_t> shape,
                              const std::vector<std::int32_t>& values) {
    support::file_tensor t{std::move(name), element_type::i32, std::move(shape), {}};
    const auto bytes = std::as_bytes(std::span(values));
    t.bytes.assign(bytes.begin(), bytes.end());
    return t;
}

golden_run::golden_run(support::tensor_file file, const recipe& how) : file_(std::move(file)), how_(how) {
    file_.drop_debug();
    now_ = file_;
    std::erase_if(now_.tensors, [this](const support::file_tensor& t) {
        return std::ranges::find(file_.outputs, t.name) != file_.outputs.end();
    });
}

std::vector<std::int64_t> golden_run::shape_of(const graph_ir& graph, const output_declaration& output) const {
    if (const support::file_tensor* expected = file_.find(output.name)) return expected->shape;
    return by_reference(graph)[output.name].shape;  // what only later steps read is not in the file
}

reference::results golden_run::by_reference(const graph_ir& graph) const {
    reference::options how;
    for (const output_declaration& output :
         graph.outputs) {  // of values that no input has; in a file of inputs alone they have those of q
        const support::file_tensor* like =
            file_.find(output.name) != nullptr ? file_.find(output.name) : file_.find("q");
        if (like != nullptr && graph.nodes[output.node].kind == kind::output) how.value_depth = like->shape.at(3);
    }
    return reference::evaluate(graph, arguments_of(graph, now_), how);
}

int golden_run::with_kernels(const attune::options& how) {
    int launches = 0;
    for (const step& s : how_.steps) {
        if (const auto* between = std::get_if<step_between>(&s)) {
            (*between)(now_);
            continue;
        }
        const auto& [graph, kernels] = std::get<graph_step>(s);
        if (kernels == nullptr) {
            keep(by_reference(graph));
            continue;
        }
        std::vector<attune::detail::named_argument> arguments = as_named(graph, arguments_of(graph, now_));
        std::vector<support::file_tensor> written;
        written.reserve(graph.outputs.size());
        for (const output_declaration& output : graph.outputs) {
            support::file_tensor& t = written.emplace_back(reals(std::string(output.name), shape_of(graph, output)));
            arguments.push_back({.name = output.name, .view = tensor(t.as<float>(), t.shape)});
        }
        const support::counting_table counted(kernels());
        attune::detail::call(counted.table(), arguments, how);
        launches += counted.launches();
        std::ranges::move(written, std::back_inserter(now_.tensors));
    }
    return launches;
}

void golden_run::with_reference() {
    for (const step& s : how_.steps) {
        if (const auto* between = std::get_if<step_between>(&s)) {
            (*between)(now_);
            continue;
        }
        keep(by_reference(std::get<graph_step>(s).graph));
    }
}

void golden_run::keep(const reference::results& made) {
    for (const reference::array& a : made.outputs) {
        support::file_tensor& t = now_.tensors.emplace_back(reals(a.name, a.shape));
        std::ranges::transform(a.values, t.as<float>(), [](double x) { return static_cast<float>(x); });
    }
}

std::vector<golden_run::comparison> golden_run::compare() const {
    std::vector<comparison> result;
    for (const std::string& output : file_.outputs) {
        const support::file_tensor *got = now_.find(output), &expected = file_[output];
        if (got == nullptr) fail(file_.path, "the file has the output `" + output + "`, which nothing makes");
        if (got->shape != expected.shape || got->element != expected.element)
            fail(file_.path, "`" + output + "` is " + text_of(got->shape) + ", in the file " + text_of(expected.shape) +
                                 (got->element == expected.element ? "" : ", of another type"));
        if (expected.element == element_type::i32) {
            result.push_back(
                {output, largest_difference(got->as<std::int32_t>(), expected.as<std::int32_t>(), expected.count()),
                 0});
            continue;
        }
        if (expected.element == element_type::u8) {
            result.push_back(
                {output, largest_difference(got->as<std::uint8_t>(), expected.as<std::uint8_t>(), expected.count()),
                 0});
            continue;
        }
        const auto tolerance = file_.tolerances.find(output);
        if (tolerance == file_.tolerances.end()) fail(file_.path, "no tolerance for `" + output + "`");
        result.push_back(
            {output, largest_difference(got->as<float>(), expected.as<float>(), expected.count()), tolerance->second});
    }
    return result;
}

}  // namespace attune::testing
