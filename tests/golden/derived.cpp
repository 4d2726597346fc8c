#include "derived.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

namespace attune::testing {
namespace {

bool is_core(const input_declaration& d) { return d.element == element_type::any; }

/// A copy with other extents; what lies beyond the old ones is repeated.
support::file_tensor resized(const support::file_tensor& from, const std::vector<std::int64_t>& extents) {
    support::file_tensor to{from.name, from.element, extents, {}};
    const auto size = static_cast<std::size_t>(bytes_of(from.element));
    const std::int64_t count = to.count();
    to.bytes.resize(static_cast<std::size_t>(count) * size);
    for (std::int64_t i = 0; i < count; ++i) {
        std::int64_t rest = i, source = 0, step = 1;
        for (std::size_t axis = extents.size(); axis-- > 0; rest /= extents[axis], step *= from.shape[axis]) source += rest % extents[axis] % from.shape[axis] * step;
        std::memcpy(to.bytes.data() + static_cast<std::size_t>(i) * size, from.bytes.data() + static_cast<std::size_t>(source) * size, size);
    }
    return to;
}

std::int64_t extent_of(axis_kind axis, std::int64_t old, bool core, const derived_sizes& sizes) {
    if (old == 1 && !core) return 1;
    switch (axis) {
        case axis_kind::batch: return sizes.batches;
        case axis_kind::head: case axis_kind::key_head: return old * sizes.heads_factor;
        case axis_kind::query: return sizes.queries;
        case axis_kind::key: return sizes.keys;
        case axis_kind::position: return std::max(sizes.queries, sizes.keys) + 3;
        default: return old;
    }
}

support::file_tensor from_array(const reference::array& a) {
    support::file_tensor t{a.name, element_type::f32, a.shape, std::vector<std::byte>(a.values.size() * sizeof(float))};
    std::ranges::transform(a.values, t.as<float>(), [](double x) { return static_cast<float>(x); });
    return t;
}

}  // namespace

support::tensor_file derive(const support::tensor_file& file, const listing& graph, const derived_sizes& sizes, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    support::tensor_file to;
    to.path = file.path;
    to.params = file.params;
    std::vector<reference::argument> arguments;
    for (const input_declaration& d : graph.inputs) {
        if (d.is_scalar) {
            arguments.push_back({d.name, file.params.at(std::string(d.name))});
            continue;
        }
        const support::file_tensor& from = file[d.name];
        std::vector<std::int64_t> extents;
        for (std::size_t axis = 0; axis < d.rank; ++axis) extents.push_back(extent_of(d.axes[axis].is, from.shape.at(axis), is_core(d), sizes));
        support::file_tensor t = is_core(d) ? support::file_tensor{from.name, from.element, extents, {}} : resized(from, extents);
        if (is_core(d)) {
            t.bytes.resize(static_cast<std::size_t>(t.count()) * sizeof(float));
            std::generate_n(t.as<float>(), t.count(), [&] { return normal(random); });
        }
        to.tensors.push_back(std::move(t));
    }
    if (const auto* lengths = file.find("kv_lengths")) {
        to.tensors.push_back(resized(*lengths, {sizes.batches}));
        auto* values = to.tensors.back().as<std::int32_t>();
        for (std::int64_t b = 0; b < sizes.batches; ++b) values[b] = static_cast<std::int32_t>(std::min<std::int64_t>(values[b], sizes.keys));
    }
    for (const support::file_tensor& t : to.tensors) arguments.push_back({t.name, tensor(t.element, static_cast<const void*>(t.bytes.data()), t.shape)});
    const auto results = reference::evaluate(graph, arguments);
    double largest_sum = 0;
    for (double x : results["lse"].values)
        if (std::isfinite(x)) largest_sum = std::max(largest_sum, std::abs(x));
    for (const reference::array& a : results.outputs) {
        to.tensors.push_back(from_array(a));
        to.outputs.push_back(a.name);
        to.tolerances[a.name] = 2e-5 + 2e-7 * largest_sum;
    }
    return to;
}

}  // namespace attune::testing
