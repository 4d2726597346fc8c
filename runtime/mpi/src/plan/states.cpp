#include "mpi/src/transport/elements.hpp"

#include <attune/mpi/inputs.hpp>
#include <attune/mpi/states.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace attune::mpi::detail {
namespace {

constexpr float none = -std::numeric_limits<float>::infinity();

/// The larger; a NaN if one of them is.
float larger(float x, float y) { return x > y || std::isnan(x) ? x : y; }

/// What the weights of two states are, whose sum is 1; no NaN where there are no keys at all.
struct shares {
    float lower, upper, together;  ///< `together`: relative to `base`
    float base;
    shares(float x, float y) : base(larger(x, y)) {
        const float from = base == none ? 0.0f : base;
        lower = std::exp(x - from), upper = std::exp(y - from), together = lower + upper;
    }
};

/// Calls `f(element, number)` for each element of a tensor, outermost axis first.
template <class Element, class F> void each_element(const tensor& of, F&& f) {
    std::int64_t extents[4], strides[4];
    for (int a = 0; a < 4; ++a) {
        extents[a] = a < of.rank() ? of.extent(a) : 1;
        strides[a] = a < of.rank() ? of.stride(a) : 0;
    }
    auto* const begin = static_cast<Element*>(of.mutable_data());
    std::int64_t number = 0;
    for (std::int64_t b = 0; b < extents[0]; ++b)
        for (std::int64_t h = 0; h < extents[1]; ++h)
            for (std::int64_t q = 0; q < extents[2]; ++q) {
                Element* at = begin + b * strides[0] + h * strides[1] + q * strides[2];
                for (std::int64_t d = 0; d < extents[3]; ++d, at += strides[3]) f(*at, number++);
            }
}

}  // namespace

joint joint_of(const graph_ir& shard, const output_declaration& output) {
    const std::vector<bool> reached = reached_from(shard, output.node);
    for (std::size_t o = 0; o < shard.outputs.size(); ++o) {
        const input_declaration* const before = before_of(shard, shard.outputs[o].name);
        if (!before || shard.outputs[o].name == output.name) continue;
        for (std::size_t n = 0; n < shard.nodes.size(); ++n)
            if (reached[n] && shard.nodes[n].op == operation::input &&
                &shard.inputs[static_cast<std::size_t>(shard.nodes[n].input)] == before)
                return {joint::weighted, o};
    }
    if (!begins_at_minus_infinity(shard, output)) return {joint::added};
    const bool is_largest = shard.nodes[output.node].op == operation::maximum;
    return {is_largest ? joint::largest : joint::log_sum};
}

output_states::output_states(const graph_ir& shard, std::int64_t rows, std::int64_t value_depth) : rows_(rows) {
    for (const output_declaration& output : shard.outputs) {
        const bool is_row = shard.nodes[output.node].kind == kind::row;
        parts_.push_back({joint_of(shard, output), numbers_, is_row ? 1 : value_depth});
        numbers_ += rows_ * parts_.back().width;
    }
}

void output_states::take(std::span<const tensor> outputs, float* to) const {
    for (std::size_t o = 0; o < parts_.size(); ++o)
        with_type(outputs[o].type(), [&]<class Element>(Element) {
            float* const begin = to + parts_[o].begin;
            each_element<Element>(outputs[o],
                                  [&](const Element& from, std::int64_t n) { begin[n] = static_cast<float>(from); });
        });
}

void output_states::give(const float* from, std::span<const tensor> outputs) const {
    for (std::size_t o = 0; o < parts_.size(); ++o)
        with_type(outputs[o].type(), [&]<class Element>(Element) {
            const float* const begin = from + parts_[o].begin;
            each_element<Element>(outputs[o], [&](Element& to, std::int64_t n) { to = Element(begin[n]); });
        });
}

void output_states::join(const part& each, const float* lower, const float* upper, float* to) const {
    const std::int64_t first = each.begin, last = first + rows_ * each.width;
    switch (each.how.how) {
        case joint::added:
            for (std::int64_t i = first; i < last; ++i) to[i] = lower[i] + upper[i];
            return;
        case joint::largest:
            for (std::int64_t i = first; i < last; ++i) to[i] = larger(lower[i], upper[i]);
            return;
        case joint::log_sum:
            for (std::int64_t i = first; i < last; ++i) {
                const shares of(lower[i], upper[i]);
                to[i] = of.base == none ? none : of.base + std::log(of.together);
            }
            return;
        case joint::weighted:
            const std::int64_t log_sums = parts_[each.how.log_sums].begin;
            for (std::int64_t row = 0; row < rows_; ++row) {
                const float x = lower[log_sums + row], y = upper[log_sums + row];
                const shares of(x, y);
                for (std::int64_t i = first + row * each.width, d = 0; d < each.width; ++d, ++i) {
                    // Of no keys, whatever lies there.
                    const float sum =
                        (x == none ? 0.0f : lower[i] * of.lower) + (y == none ? 0.0f : upper[i] * of.upper);
                    to[i] = of.base == none ? 0.0f : sum / of.together;
                }
            }
    }
}

void output_states::join(const float* lower, const float* upper, float* to) const {
    for (const bool weighted : {true, false})  // while the log-sum-exps are those of the halves
        for (const part& each : parts_)
            if ((each.how.how == joint::weighted) == weighted) join(each, lower, upper, to);
}

}  // namespace attune::mpi::detail
