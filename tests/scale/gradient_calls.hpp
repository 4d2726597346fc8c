#pragma once
#include "../shards/cut_gradient.hpp"
#include "../support/workload_values.hpp"

#include <attune/mpi/exchange.hpp>
#include <attune/mpi/inputs.hpp>
#include <attune/mpi/rows.hpp>
#include <attune/workload.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <list>
#include <span>
#include <string>
#include <vector>

/// The gradient of a whole sequence, and each rank's part of the call.
namespace attune {

/// The arguments and results of the forward pass, cotangents, and the reference's gradients.
struct whole_gradient_call {
    whole_gradient_call(const graph_ir& of_forward, const graph_ir& gradient, const support::shape& shape,
                        unsigned seed, const std::vector<std::int32_t>& lengths = {})
        : drawn(drawn_for(of_forward, shape, seed, lengths)),
          forward(of_forward, drawn.reference_arguments(), {}),
          whole(forward, gradient, seed) {}

    static support::workload drawn_for(const graph_ir& graph, const support::shape& shape, unsigned seed,
                                       const std::vector<std::int32_t>& lengths) {
        support::workload made(graph, shape, seed);
        for (const input_declaration& each : graph.inputs)
            if (each.name == "slopes") scale_by(made, "slopes", 0.05f);
        if (!lengths.empty()) made.set_lengths(lengths);
        return made;
    }

    support::workload drawn;
    testing::whole_call forward;
    testing::whole_gradient whole;
};

class gradient_of_rank {
public:
    gradient_of_rank(const whole_gradient_call& of, const graph_ir& shard, std::span<const std::int32_t> own)
        : of_(of), shard_(shard), own_(own.begin(), own.end()) {
        for (const reference::argument& a : of.forward.arguments) {
            if (a.name == "kv_lengths") all.push_back({.name = "lengths", .view = std::get<tensor>(a.value)});
            const auto input = std::ranges::find(shard.inputs, a.name, &input_declaration::name);
            if (input == shard.inputs.end()) continue;
            detail::named_argument& mine = all.emplace_back(testing::named(a, shard));
            for (int axis = 0; axis < input->rank; ++axis) {
                if (!is_cut(*input, axis)) continue;
                auto& memory = held_.emplace_back(own_.size() * mpi::detail::bytes_of_row(mine.view, axis));
                mpi::detail::copy_rows(mine.view, axis, own_, memory.data());
                mine.view = mpi::detail::of_rows(mine.view, axis, std::ssize(own_), std::as_const(memory).data());
            }
        }
        for (std::size_t o = 0; o < shard.outputs.size(); ++o) {
            const input_declaration& input = mpi::detail::tensor_of_gradient(shard, shard.outputs[o]);
            std::vector<std::int64_t> shape = of.whole.expected[shard.outputs[o].name].shape;
            std::size_t size = 1;
            for (int axis = 0; axis < input.rank; ++axis) {
                if (is_cut(input, axis)) shape[static_cast<std::size_t>(axis)] = std::ssize(own_);
                size *= static_cast<std::size_t>(shape[static_cast<std::size_t>(axis)]);
            }
            auto& memory = made_.emplace_back(size, std::nanf(""));
            all.push_back({.name = shard.outputs[o].name, .view = tensor(memory.data(), shape)});
        }
    }

    /// Of each gradient, by 1 + the largest of its whole.
    double largest_difference() const {
        double worst = 0;
        std::size_t output = 0;
        for (const std::vector<float>& got : made_) {
            const reference::array& expected = of_.whole.expected[shard_.outputs[output].name];
            const input_declaration& input = mpi::detail::tensor_of_gradient(shard_, shard_.outputs[output++]);
            double largest = 1;
            for (const double each : expected.values) largest = std::max(largest, std::abs(each));
            for (std::size_t at = 0; at < got.size(); ++at) {
                const double off = std::abs(got[at] - expected.values[place(at, input, expected.shape)]);
                worst = std::max(worst, std::isnan(off) ? std::numeric_limits<double>::infinity() : off / largest);
            }
        }
        return worst;
    }

    /// The gradients of what every rank has whole.
    std::vector<float> of_whole() const {
        std::vector<float> numbers;
        for (std::size_t o = 0; const std::vector<float>& each : made_)
            if (const auto& input = mpi::detail::tensor_of_gradient(shard_, shard_.outputs[o++]);
                mpi::detail::role_of(shard_, input) == mpi::detail::role::whole)
                numbers.insert(numbers.end(), each.begin(), each.end());
        return numbers;
    }

    const std::list<std::vector<float>>& outputs() const { return made_; }
    void forget() {
        for (std::vector<float>& each : made_) std::ranges::fill(each, std::nanf(""));
    }

    std::vector<detail::named_argument> all;

private:
    static bool is_cut(const input_declaration& input, int axis) {
        const axis_kind over = input.axes[static_cast<std::size_t>(axis)].kind;
        return over == axis_kind::query || over == axis_kind::key;
    }
    /// Where the whole has an element of this rank's.
    std::size_t place(std::size_t element, const input_declaration& input, std::span<const std::int64_t> whole) const {
        std::size_t at = 0, step = 1;
        for (int axis = input.rank; axis-- > 0;) {
            const auto all = static_cast<std::size_t>(whole[static_cast<std::size_t>(axis)]);
            const std::size_t extent = is_cut(input, axis) ? own_.size() : all, i = element % extent;
            at += (is_cut(input, axis) ? static_cast<std::size_t>(own_[i]) : i) * step;
            element /= extent, step *= all;
        }
        return at;
    }

    const whole_gradient_call& of_;
    const graph_ir shard_;
    std::vector<std::int32_t> own_;
    std::list<std::vector<std::byte>> held_;
    std::list<std::vector<float>> made_;
};

}  // namespace attune
