#pragma once
#include "../support/workload_values.hpp"

#include <attune/mpi/exchange.hpp>
#include <attune/mpi/rows.hpp>
#include <attune/workload.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <list>
#include <numeric>
#include <span>
#include <string>
#include <vector>

/// A call of the whole sequence, and each rank's part of it.
namespace attune {

inline constexpr float infinity = std::numeric_limits<float>::infinity();

/// One rank's arguments: its rows of what is over queries or keys, and memory for its outputs. In decode, `own` are its
/// keys, and it has all queries.
class arguments_of_rank {
public:
    arguments_of_rank(const support::workload& whole, const graph_ir& of_whole, const graph_ir& shard,
                      const reference::results& expected, std::span<const std::int32_t> own, bool decodes = false)
        : expected_(&expected), own_(own.begin(), own.end()) {
        const auto given = whole.arguments();
        const auto lengths = std::ranges::find(given, "kv_lengths", &detail::named_argument::name);
        if (lengths != given.end()) all.push_back({.name = "lengths", .view = lengths->view});
        if (decodes) {
            own_.resize(static_cast<std::size_t>(expected.outputs[0].shape[2]));
            std::iota(own_.begin(), own_.end(), 0);
        }
        for (const input_declaration& input : shard.inputs) {
            const auto passed = std::ranges::find(given, input.name, &detail::named_argument::name);
            if (passed == given.end()) continue;
            all.push_back(*passed);
            if (passed->is != detail::named_argument::form::view) continue;
            for (int axis = 0; axis < input.rank; ++axis) {
                const axis_kind over = input.axes[static_cast<std::size_t>(axis)].kind;
                if (over != axis_kind::key && (decodes || over != axis_kind::query)) continue;
                auto& memory = held_.emplace_back(own.size() * mpi::detail::bytes_of_row(all.back().view, axis));
                mpi::detail::copy_rows(all.back().view, axis, own, memory.data());
                all.back().view = mpi::detail::of_rows(all.back().view, axis, std::ssize(own), memory.data());
            }
        }
        for (std::size_t o = 0; o < of_whole.outputs.size(); ++o) {
            std::vector<std::int64_t> shape = expected.outputs[o].shape;
            shape[2] = std::ssize(own_);
            std::size_t size = 1;
            for (const std::int64_t extent : shape) size *= static_cast<std::size_t>(extent);
            auto& memory = made_.emplace_back(size, std::nanf(""));
            all.push_back({.name = of_whole.outputs[o].name, .view = tensor(memory.data(), shape)});
        }
    }

    /// As a part of 1 + what is expected.
    double largest_difference() const {
        double worst = 0;
        std::size_t output = 0;
        for (const auto& got : made_) {
            const reference::array& expected = expected_->outputs[output++];
            const std::size_t width = expected.shape.size() > 3 ? static_cast<std::size_t>(expected.shape[3]) : 1,
                              all_rows = static_cast<std::size_t>(expected.shape[2]);
            for (std::size_t at = 0; at < got.size(); ++at) {
                const std::size_t row = at / width, above = row / own_.size(),
                                  position = static_cast<std::size_t>(own_[row % own_.size()]);
                const double x = got[at], y = expected.values[(above * all_rows + position) * width + at % width];
                if (x != y)
                    worst = std::max(worst, std::isfinite(x - y) ? std::abs(x - y) / (1 + std::abs(y)) : infinity);
            }
        }
        return worst;
    }

    /// In the same memory the rows of another call of the same shape.
    void hold_those_of(const arguments_of_rank& other) {
        expected_ = other.expected_;
        for (auto to = held_.begin(); const auto& from : other.held_) *to++ = from;  // of one size: in its place
    }

    const std::list<std::vector<float>>& outputs() const { return made_; }

    std::vector<detail::named_argument> all;

private:
    const reference::results* expected_;
    std::vector<std::int32_t> own_;
    std::list<std::vector<std::byte>> held_;
    std::list<std::vector<float>> made_;
};

struct whole_call {
    whole_call(const graph_ir& graph, const support::shape& shape, unsigned seed,
               const std::vector<std::int32_t>& lengths = {})
        : call(graph, shape, seed) {
        if (!lengths.empty()) call.set_lengths(lengths);
        if (std::ranges::find(graph.inputs, "slopes", &input_declaration::name) != graph.inputs.end())
            scale_by(call, "slopes", 0.05f);
        expected = call.expected();
    }
    support::workload call;
    reference::results expected;
};

/// The arguments of the whole call that a plan takes.
template <const auto& Shard>
std::vector<mpi::detail::graph_to_plan> to_plan(const support::workload& whole, std::span<const std::string> names) {
    mpi::detail::graph_to_plan made{detail::table_of<Shard>(), {}};
    for (const auto& each : whole.arguments())
        if (std::ranges::find(names, each.name) != names.end()) made.given.push_back(each);
    return {made};
}

inline mpi::planning planning_of(const support::shape& shape) {
    return {.batches = shape.batches,
            .heads = shape.heads,
            .key_heads = shape.key_heads,
            .tokens = shape.queries,
            .head_parts = 1};
}

inline mpi::planning decode_of(const support::shape& shape) {
    mpi::planning what = planning_of(shape);
    what.tokens = shape.keys, what.queries = shape.queries;
    return what;
}

}  // namespace attune
