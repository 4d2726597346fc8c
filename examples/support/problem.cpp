#include "problem.hpp"

#include <attune/mapped_tensors.hpp>
#include <attune/reference.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <numeric>
#include <stdexcept>

namespace attune::examples {
namespace {

using nlohmann::json;

/// Metadata of a golden file is JSON in a string; null where the file has none.
json field(const support::mapped_tensors& file, const std::string& name) {
    const auto found = file.metadata().find(name);
    if (found == file.metadata().end()) return nullptr;
    json parsed = json::parse(found->second, nullptr, false);
    if (parsed.is_discarded())
        throw std::runtime_error(file.path().string() + ": expected JSON in the metadata's " + name + ", got " +
                                 found->second);
    return parsed;
}

/// Numbers of an object by name; an array a is a_0, a_1, ...
void add_numbers(const std::string& name, const json& value, std::map<std::string, double>& to) {
    if (value.is_number()) to[name] = value.get<double>();
    if (value.is_boolean()) to[name] = value.get<bool>() ? 1 : 0;
    for (std::size_t i = 0; value.is_array() && i < value.size(); ++i)
        add_numbers(name + "_" + std::to_string(i), value[i], to);
}
std::map<std::string, double> numbers_of(const json& object) {
    std::map<std::string, double> all;
    for (const auto& [name, value] : object.items()) add_numbers(name, value, all);
    return all;
}

bool lists(const json& names, const std::string& name) { return std::ranges::find(names, json(name)) != names.end(); }

}  // namespace

template <class T> tensor problem::keep(std::vector<std::int64_t> shape, std::vector<T> values) {
    auto& kept = std::get<std::vector<T>>(buffers_.emplace_back(std::move(values)));
    return tensor(kept.data(), shape);
}

const tensor& problem::operator[](std::string_view name) const {
    const auto at = inputs_.find(std::string(name));
    if (at == inputs_.end())
        throw std::out_of_range("expected a tensor named " + std::string(name) +
                                ", got none; try --shape, or a file that has it");
    return at->second;
}

double problem::number(std::string_view name) const {
    const auto at = numbers_.find(std::string(name));
    if (at == numbers_.end())
        throw std::out_of_range("expected a number named " + std::string(name) +
                                ", got none; try --shape, or a file whose params have it");
    return at->second;
}

void problem::add(const std::string& name, std::vector<std::int64_t> shape, std::vector<float> values) {
    inputs_[name] = keep(std::move(shape), std::move(values));
}
void problem::add(const std::string& name, std::vector<std::int64_t> shape, std::vector<std::int32_t> values) {
    inputs_[name] = keep(std::move(shape), std::move(values));
}
void problem::add(const std::string& name, std::vector<std::int64_t> shape, std::vector<std::uint8_t> values) {
    inputs_[name] = keep(std::move(shape), std::move(values));
}

tensor problem::make(std::vector<std::int64_t> shape) {
    const auto count = std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
    return keep(std::move(shape), std::vector<float>(static_cast<std::size_t>(count)));
}

void problem::make_outputs(const graph_ir& graph) {
    for (const output_declaration& output : graph.outputs) {
        std::vector<std::int64_t> shape;
        for (const axis_kind axis : reference::axes_of(graph.nodes[static_cast<std::size_t>(output.node)].kind))
            shape.push_back(axis == axis_kind::batch   ? batches
                            : axis == axis_kind::head  ? heads
                            : axis == axis_kind::query ? query_length
                            : axis == axis_kind::key   ? key_length
                                                       : value_depth);
        outputs_[std::string(output.name)] = make(shape);
    }
    if (const auto at = outputs_.find("out"); at != outputs_.end()) out = at->second;
}

const tensor& problem::output(std::string_view name) const {
    const auto at = outputs_.find(std::string(name));
    if (at == outputs_.end())
        throw std::out_of_range("expected an output named " + std::string(name) +
                                ", got none; try one that the variant names");
    return at->second;
}

problem problem::of_shape(const std::string& shape) {
    problem p;
    long long b, h, lq, lk, d;
    int used = 0;
    if (std::sscanf(shape.c_str(), "%lldx%lldx%lldx%lldx%lld%n", &b, &h, &lq, &lk, &d, &used) != 5 ||
        shape[static_cast<std::size_t>(used)] != '\0' || b < 1 || h < 1 || lq < 1 || lk < 1 || d < 1 ||
        double(b) * double(h) * double(d) * double(std::max(lq, lk)) > double(1 << 30))
        throw std::invalid_argument("expected a shape BxHxLqxLkxD of at most 2^30 elements a tensor, got " + shape +
                                    "; try --shape 1x8x2048x2048x64");
    p.batches = b, p.heads = p.key_heads = h, p.query_length = lq, p.key_length = lk, p.depth = p.value_depth = d;
    std::normal_distribution<float> normal;
    const auto make = [&](std::int64_t length) {
        std::vector<float> values(static_cast<std::size_t>(b * h * length * d));
        for (float& x : values) x = normal(p.random);
        return p.keep({b, h, length, d}, std::move(values));
    };
    p.q = make(lq), p.k = make(lk), p.v = make(lk);
    return p;
}

problem problem::of_file(const std::filesystem::path& path) {
    const support::mapped_tensors file(path);
    const json outputs = field(file, "outputs"), debug = field(file, "debug");
    problem p;
    for (const auto& [name, t] : file.tensors()) {
        if (lists(debug, name)) continue;
        const auto copy = [bytes = t.bytes]<class T>(T) {
            std::vector<T> values(bytes.size() / sizeof(T));
            if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
            return values;
        };
        if (lists(outputs, name) && t.type == "F32")
            p.expected_[name] = copy(float{});
        else if (t.type == "F32")
            p.add(name, t.shape, copy(float{}));
        else if (t.type == "I32")
            p.add(name, t.shape, copy(std::int32_t{}));
        else if (t.type == "U8" || t.type == "BOOL")
            p.add(name, t.shape, copy(std::uint8_t{}));
        else
            throw std::runtime_error(path.string() + ": expected tensors of F32, I32, U8 or BOOL, got " + name +
                                     " of " + t.type);
    }
    p.numbers_ = numbers_of(field(file, "params"));
    p.q = p["q"], p.k = p["k"], p.v = p["v"];
    p.batches = p.q.extent(0), p.heads = p.q.extent(1), p.query_length = p.q.extent(2), p.depth = p.q.extent(3);
    p.key_heads = p.k.extent(1), p.key_length = p.k.extent(2), p.value_depth = p.v.extent(3);
    const std::map<std::string, double> tolerances = numbers_of(field(file, "tolerances"));
    if (const auto t = tolerances.find("out"); t != tolerances.end()) p.tolerance = t->second;
    return p;
}

}  // namespace attune::examples
