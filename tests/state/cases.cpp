#include "cases.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>
#include <stdexcept>

namespace attune::testing {
namespace {

using support::file_tensor;
using support::tensor_file;

bool is_state(const std::string& name) {
    return name.ends_with("_in") || name.ends_with("_out") || name == "state_mid";
}

/// The axis of a tensor along which tokens lie; -1: none.
int token_axis(const file_tensor& t) {
    static const std::map<std::string, int> axes{{"q", 2},     {"k", 2},    {"v", 2},     {"beta", 2}, {"log_decay", 2},
                                                 {"kappa", 2}, {"rate", 2}, {"dt", 2},    {"a", 2},    {"b", 2},
                                                 {"z", 2},     {"x", 1},    {"mixed", 1}, {"out", 2},  {"states", 2}};
    const auto known = axes.find(t.name);
    if (known == axes.end() || t.shape.size() < 3) return -1;
    return t.name == "out" && t.shape.size() == 3 ? 1 : known->second;
}

file_tensor like(const file_tensor& t, std::vector<std::int64_t> shape) {
    file_tensor made{t.name, t.element, std::move(shape), {}};
    made.bytes.resize(static_cast<std::size_t>(made.count()) * sizeof(float));
    return made;
}

/// Copies a block along one axis out of a tensor, or back into it.
void copy(const file_tensor& whole, file_tensor& block, int axis, std::int64_t first, bool back) {
    const auto product = [](auto begin, auto end) {
        return std::accumulate(begin, end, std::int64_t{1}, std::multiplies<>());
    };
    const std::int64_t outer = product(whole.shape.begin(), whole.shape.begin() + axis),
                       inner = product(whole.shape.begin() + axis + 1, whole.shape.end()),
                       length = whole.shape[static_cast<std::size_t>(axis)],
                       count = block.shape[static_cast<std::size_t>(axis)];
    if (inner * count == 0) return;
    auto* large = const_cast<float*>(whole.as<float>());
    auto* small = block.as<float>();
    for (std::int64_t o = 0; o < outer; ++o) {
        float* at = large + (o * length + first) * inner;
        float* of_block = small + o * count * inner;
        const auto bytes = static_cast<std::size_t>(count * inner) * sizeof(float);
        if (back)
            std::memcpy(at, of_block, bytes);
        else
            std::memcpy(of_block, at, bytes);
    }
}

file_tensor sliced(const file_tensor& t, int axis, std::int64_t first, std::int64_t count) {
    std::vector<std::int64_t> shape = t.shape;
    shape[static_cast<std::size_t>(axis)] = count;
    file_tensor made = like(t, shape);
    copy(t, made, axis, first, false);
    return made;
}

std::vector<std::int32_t> integers(const file_tensor& t) {
    return {t.as<std::int32_t>(), t.as<std::int32_t>() + t.count()};
}

std::string how_of(const tensor_file& file) { return file.metadata.at("how"); }

/// The inputs of one part; `before` is the state that the part before made.
tensor_file inputs_of(const tensor_file& file, const call_part& part, const file_tensor* before) {
    tensor_file inputs;
    inputs.path = file.path, inputs.params = file.params, inputs.metadata = file.metadata;
    for (const std::string& name : file.inputs) {
        const file_tensor& t = file[name];
        if (t.element != element_type::f32) continue;  // cu_seqlens and lengths, which the parts stand for
        if (is_state(name)) {
            inputs.tensors.push_back(sliced(t, 0, part.first_state, part.batches));
        } else if (const int axis = token_axis(t); axis >= 0) {
            inputs.tensors.push_back(
                sliced(sliced(t, 0, part.first_batch, part.batches), axis, part.first_token, part.tokens));
        } else {
            inputs.tensors.push_back(t);
        }
    }
    if (before != nullptr) inputs.tensors.push_back(*before), inputs.tensors.back().name = "state_in";
    return inputs;
}

/// Puts an output of a part where it belongs.
void put(file_tensor& whole, const file_tensor& made, const call_part& part) {
    file_tensor block = made;
    if (block.shape.size() == whole.shape.size() + 1) {  // equal value channels: a normaliser
        block = sliced(block, static_cast<int>(block.shape.size()) - 1, 0, 1);
        block.shape.pop_back();
    }
    if (is_state(whole.name)) return copy(whole, block, 0, part.first_state, true);
    file_tensor rows = sliced(whole, 0, part.first_batch, part.batches);
    copy(rows, block, token_axis(whole), part.first_token, true);
    copy(whole, rows, 0, part.first_batch, true);
}

}  // namespace

std::vector<call_part> parts_of(const tensor_file& file) {
    const auto number = [&](const char* name) { return static_cast<std::int64_t>(file.params.at(name)); };
    const std::int64_t batches = number("B"), tokens = number("T");
    const std::string how = how_of(file);
    std::vector<call_part> parts;
    if (how == "packed") {
        const std::vector<std::int32_t> starts = integers(file["cu_seqlens"]);
        for (std::size_t s = 0; s + 1 < starts.size(); ++s)
            parts.push_back({0, 1, starts[s], starts[s + 1] - starts[s], static_cast<std::int64_t>(s)});
    } else if (how == "lengths") {
        const std::vector<std::int32_t> lengths = integers(file["lengths"]);
        for (std::size_t b = 0; b < lengths.size(); ++b)
            parts.push_back({static_cast<std::int64_t>(b), 1, 0, lengths[b], static_cast<std::int64_t>(b)});
    } else if (how == "continued") {
        parts.push_back({0, batches, 0, number("split"), 0});
        parts.push_back({0, batches, number("split"), tokens - number("split"), 0});
    } else if (how == "plain") {
        parts.push_back({0, batches, 0, tokens, 0});
    } else
        throw std::runtime_error(file.path.string() + ": `" + how + "` is no way to call a graph");
    return parts;
}

std::vector<file_tensor> outputs_of(const tensor_file& file, const evaluator& evaluate) {
    std::vector<file_tensor> all;
    for (const std::string& name : file.outputs) all.push_back(like(file[name], file[name].shape));
    const bool continued = how_of(file) == "continued";
    file_tensor before;
    for (const call_part& part : parts_of(file)) {
        const bool follows = !before.name.empty();
        const tensor_file inputs = inputs_of(file, part, follows ? &before : nullptr);
        const bool state_before = follows || file.find("state_in") != nullptr || file.find("conv_in") != nullptr;
        for (const file_tensor& made : evaluate(graph_of(file, state_before), inputs))
            for (file_tensor& whole : all) {
                const bool between = continued && !follows && made.name == "state_out" && whole.name == "state_mid";
                if (whole.name == made.name || between) put(whole, made, part);
                if (continued && made.name == "state_out") before = made;
            }
    }
    return all;
}

std::vector<difference> differences(const tensor_file& file, const std::vector<file_tensor>& made) {
    std::vector<difference> all;
    for (const std::string& name : file.outputs) {
        const file_tensor& expected = file[name];
        const auto found = std::ranges::find(made, name, &file_tensor::name);
        if (found == made.end()) throw std::runtime_error(file.path.string() + ": nothing made `" + name + "`");
        double worst = 0;
        for (std::int64_t i = 0; i < expected.count(); ++i) {
            const double error = std::abs(double{found->as<float>()[i]} - double{expected.as<float>()[i]});
            worst = std::max(worst, std::isnan(error) ? std::numeric_limits<double>::infinity() : error);
        }
        all.push_back({name, worst, file.tolerances.at(name)});
    }
    return all;
}

std::vector<std::filesystem::path> golden_state_files() {
    const char* given = std::getenv("ATTUNE_GOLDEN_STATE");
    const std::filesystem::path folder = given == nullptr ? ATTUNE_GOLDEN_STATE_FILES : given;
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder))
        if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
    if (files.empty()) throw std::runtime_error(folder.string() + ": expected golden files, got none");
    std::ranges::sort(files);
    return files;
}

}  // namespace attune::testing
