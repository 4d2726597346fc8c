#pragma once
#include "cut_call.hpp"

#include <attune/ir/differentiate.hpp>

#include <list>
#include <string_view>
#include <vector>

/// Calls of the shard of a gradient, whose parts are added up.
namespace attune::testing {

struct gradient_of_drawn {
    drawn_graph whole, shard;
    bool is_one{};
};
/// The gradient by what `of` names, and its shard, by the passes over the list.
gradient_of_drawn gradient_of(const drawn_graph& forward, const std::vector<std::string_view>& of);

/// A call of a gradient, of what the forward pass leaves and of random cotangents; `forward` has them among its
/// arguments afterwards.
struct whole_gradient {
    whole_gradient(whole_call& forward, const graph_ir& gradient, unsigned seed);
    whole_gradient(const whole_gradient&) = delete;

    reference::results expected;

private:
    std::list<std::vector<float>> held_;
};

/// The calls of all parts, each made by `run`, added up.
reference::results gradient_in_parts(const whole_call& forward, const whole_gradient& whole, const graph_ir& shard,
                                     const cut& by, std::mt19937& random, const shard_call& run);

/// The largest difference of a gradient, by 1 + its largest number. What is not finite in the whole is not compared.
double largest_difference(const reference::results& got, const whole_gradient& whole);

}  // namespace attune::testing
