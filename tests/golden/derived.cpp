#include "derived.hpp"

#include "index_limits.hpp"

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
        for (std::size_t axis = extents.size(); axis-- > 0; rest /= extents[axis], step *= from.shape[axis])
            source += rest % extents[axis] % from.shape[axis] * step;
        std::memcpy(to.bytes.data() + static_cast<std::size_t>(i) * size,
                    from.bytes.data() + static_cast<std::size_t>(source) * size, size);
    }
    return to;
}

struct sizes_of_file : derived_sizes {
    std::int64_t beyond = 3;  ///< positions that nothing reads
    std::int64_t width{};     ///< of a layer's model: tables that are multiples of it grow with the heads
};

std::int64_t extent_of(axis_kind axis, std::int64_t old, bool core, const sizes_of_file& sizes) {
    if (old == 1 && !core) return 1;
    switch (axis) {
        case axis_kind::batch: return sizes.batches;
        case axis_kind::head:
        case axis_kind::key_head: return old * sizes.heads_factor;
        case axis_kind::query: return sizes.queries;
        case axis_kind::key: return sizes.keys;
        case axis_kind::position: return std::max(sizes.queries, sizes.keys) + sizes.beyond;
        case axis_kind::free: return sizes.width > 0 && old % sizes.width == 0 ? old * sizes.heads_factor : old;
        default: return old;
    }
}

/// Offsets of sequences, from 0 to the length, in the same proportions.
void stretch(support::file_tensor& offsets, std::int64_t length) {
    auto* values = offsets.as<std::int32_t>();
    const std::int64_t last = offsets.count() - 1, old = values[last];
    for (std::int64_t i = 0; i <= last; ++i) values[i] = static_cast<std::int32_t>(values[i] * length / old);
}

/// Largest finite magnitude.
double largest(const support::file_tensor& t) {
    double result = 0;
    for (const float* x = t.as<float>(); x != t.as<float>() + t.count(); ++x)
        if (std::isfinite(*x)) result = std::max(result, std::abs(static_cast<double>(*x)));
    return result;
}

/// The declaration of everything that the recipe's graphs read, once.
std::vector<input_declaration> inputs_of(const recipe& how) {
    std::vector<input_declaration> list;
    for (const step& s : how.steps)
        if (const auto* g = std::get_if<graph_step>(&s))
            for (const input_declaration& d : g->graph.inputs)
                if (std::ranges::find(list, d.name, &input_declaration::name) == list.end()) list.push_back(d);
    return list;
}

/// Of a layer: a sequence is as long as its queries, as wide as its heads, where their number is the call's.
void read_layer(const support::tensor_file& file, const std::vector<input_declaration>& inputs, sizes_of_file& sizes) {
    bool counts_heads = false;
    for (const input_declaration& d : inputs) {
        if (d.is_scalar) {
            counts_heads |= d.name == "heads";
            continue;
        }
        if (d.rank > 1 && d.rank < 4 && d.axes[1].kind == axis_kind::position)
            sizes.keys = sizes.queries, sizes.beyond = 0;
        const axis_declaration& last = d.axes[static_cast<std::size_t>(d.rank - 1)];
        if (const auto* t = file.find(d.name); t != nullptr && sizes.width == 0 && last.name == "model")
            sizes.width = t->shape.back();
    }
    // One head may have a projection of its own depth, which is compiled; wide layers take the evaluator minutes.
    if (!counts_heads || file.params.at("heads") < 2 || sizes.width > 64) sizes.width = 0, sizes.heads_factor = 1;
}

/// Drawn anew, of the old one's size.
void draw_like(support::file_tensor& to, const support::file_tensor& from, std::mt19937& random) {
    double squares = 0;
    for (const float* x = from.as<float>(); x != from.as<float>() + from.count(); ++x)
        squares += static_cast<double>(*x) * *x;
    std::normal_distribution<float> normal(0.0f,
                                           static_cast<float>(std::sqrt(squares / static_cast<double>(from.count()))));
    std::generate_n(to.as<float>(), to.count(), [&] { return normal(random); });
}

/// How long axes of their own have to be for the positions of these sizes to stay inside them: tables of tiles, of
/// distances. By input; 0 where no position is an index.
std::vector<std::int64_t> reached_of(const support::tensor_file& file, const recipe& how, const sizes_of_file& sizes,
                                     const input_declaration& of) {
    std::vector<std::int64_t> reached(of.rank, 0);
    const auto heads = [&](const char* name) {
        const auto* t = file.find(name);
        return t == nullptr || t->shape.size() < 4 ? std::int64_t{1} : t->shape[1] * sizes.heads_factor;
    };
    for (const step& s : how.steps) {
        const auto* g = std::get_if<graph_step>(&s);
        if (g == nullptr) continue;
        const auto number = [&](const instruction& n) -> std::int64_t {
            if (n.op == operation::scalar) {
                const auto at = file.params.find(std::string(g->graph.inputs[static_cast<std::size_t>(n.input)].name));
                return at == file.params.end() ? 0 : static_cast<std::int64_t>(at->second);
            }
            if (n.op == operation::extent) {
                const std::int16_t input = g->graph.nodes[n.arguments[0]].input;
                if (input < 0) return 1;
                const input_declaration& d = g->graph.inputs[static_cast<std::size_t>(input)];
                const auto* t = file.find(d.name);
                const auto axis = static_cast<std::size_t>(n.integer);
                return t == nullptr ? 1 : extent_of(d.axes[axis].kind, t->shape.at(axis), is_core(d), sizes);
            }
            if (n.op == operation::b || n.op == operation::batches) return sizes.batches;
            if (n.op == operation::h || n.op == operation::heads) return heads("q");
            if (n.op == operation::key_heads) return heads("k");
            if (n.op == operation::q_idx || n.op == operation::query_length) return sizes.queries;
            return sizes.keys;
        };
        const support::index_limits limits = support::index_limits_of(g->graph, number);
        for (std::size_t i = 0; i < g->graph.inputs.size(); ++i)
            for (std::size_t axis = 0; g->graph.inputs[i].name == of.name && axis < of.rank; ++axis)
                reached[axis] = std::max(reached[axis], limits.reached[i][axis]);
    }
    return reached;
}

}  // namespace

support::tensor_file derive(const support::tensor_file& file, const recipe& how, derived_sizes of, unsigned seed) {
    const bool layer = how.stem.starts_with("seed");
    const std::vector<input_declaration> inputs = inputs_of(how);
    sizes_of_file sizes{of};
    if (layer) read_layer(file, inputs, sizes);
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    if (file.find("sizes") != nullptr) {  // lengths are whole tiles
        const auto tile = static_cast<std::int64_t>(file.params.at("T"));
        sizes.queries = (sizes.queries + tile - 1) / tile * tile;
        sizes.keys = (sizes.keys + tile - 1) / tile * tile;
    }
    support::tensor_file to;
    to.path = file.path;
    to.params = file.params;
    if (layer && sizes.width > 0) to.params["heads"] *= static_cast<double>(sizes.heads_factor);
    for (const input_declaration& d : inputs) {
        if (d.is_scalar) continue;
        if (std::ranges::find(file.inputs, d.name) == file.inputs.end()) continue;  // made by an earlier step
        const support::file_tensor& from = file[d.name];
        std::vector<std::int64_t> extents;
        const std::vector<std::int64_t> reached = reached_of(file, how, sizes, d);
        constexpr std::int64_t longest = 1 << 16;
        for (std::size_t axis = 0; axis < d.rank; ++axis) {
            extents.push_back(d.axes[axis].name == "vocabulary"
                                  ? from.shape.at(axis)
                                  : extent_of(d.axes[axis].kind, from.shape.at(axis), is_core(d), sizes));
            if (d.axes[axis].kind == axis_kind::free && reached[axis] <= longest)
                extents.back() = std::max(extents.back(), reached[axis]);
        }
        support::file_tensor t =
            is_core(d) ? support::file_tensor{from.name, from.element, extents, {}} : resized(from, extents);
        if (is_core(d)) {
            t.bytes.resize(static_cast<std::size_t>(t.count()) * sizeof(float));
            std::generate_n(t.as<float>(), t.count(), [&] { return normal(random); });
        }
        if (layer && !is_core(d) && d.element == element_type::f32) draw_like(t, from, random);
        if (d.name.starts_with("cu_seqlens")) stretch(t, d.name.ends_with("_q") ? sizes.queries : sizes.keys);
        to.tensors.push_back(std::move(t));
    }
    if (const auto* lengths = file.find("kv_lengths")) {
        to.tensors.push_back(resized(*lengths, {sizes.batches}));
        auto* values = to.tensors.back().as<std::int32_t>();
        for (std::int64_t b = 0; b < sizes.batches; ++b)
            values[b] = static_cast<std::int32_t>(std::min<std::int64_t>(values[b], sizes.keys));
    }
    golden_run run(to, how);
    run.with_reference();
    const support::file_tensor* sums = run.made().find("lse");
    const double largest_sum = sums == nullptr ? 0 : largest(*sums);
    for (const std::string& output : file.outputs) {
        const support::file_tensor& made = to.tensors.emplace_back(run.made()[output]);
        to.outputs.push_back(output);
        to.tolerances[output] =
            2e-5 + 2e-7 * largest_sum + 5e-7 * (made.element == element_type::f32 ? largest(made) : 0);
    }
    return to;
}

}  // namespace attune::testing
