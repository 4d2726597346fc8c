#pragma once
#include <attune/ir/builder.hpp>
#include <attune/ir/operations.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace attune {

namespace detail {

/// What a number says of the pairs that one mask hides.
enum class hidden_pairs : std::uint8_t {
    unknown,  ///< nothing: the mask is no part of it, or it was chosen otherwise
    hidden,
    returned  ///< they have a number again
};

/// Follows one mask up to the nodes that are made of its scores.
class mask_followed {
public:
    constexpr mask_followed(node_list nodes, node_id mask) : nodes_(nodes) {
        states_[mask] = hidden_pairs::hidden;
        for (node_id n = node_at(mask + 1); n < std::ssize(nodes); ++n) states_[n] = state_of(nodes[n]);
    }
    /// Whether a softmax sees the pairs.
    constexpr bool returns() const {
        for (const instruction& node : nodes_)
            if ((node.op == operation::softmax || node.op == operation::log_sum_exp) &&
                of(node, 0) == hidden_pairs::returned)
                return true;
        return false;
    }

private:
    constexpr const instruction& argument(const instruction& node, std::size_t i) const {
        return nodes_[node.arguments[i]];
    }
    constexpr hidden_pairs of(const instruction& node, std::size_t i) const { return states_[node.arguments[i]]; }
    constexpr bool has(const instruction& node, hidden_pairs state) const {
        for (std::size_t i = 0; i < node.argument_count; ++i)
            if (of(node, i) == state) return true;
        return false;
    }
    constexpr hidden_pairs state_of(const instruction& node) const {
        using enum hidden_pairs;
        if (node.kind != kind::scores) return unknown;
        if (node.op == operation::mask) return of(node, 0);
        if (node.op == operation::maximum) return of_maximum(node);
        if (node.op == operation::where) return has(node, hidden) ? unknown : joined(node);
        if (family_of(node.op) != family::function || !limit_of(node.op) || of(node, 0) != hidden) return joined(node);
        return is_of_distance(node) ? unknown : returned;
    }
    constexpr hidden_pairs joined(const instruction& node) const {
        using enum hidden_pairs;
        return has(node, hidden) ? hidden : has(node, returned) ? returned : unknown;
    }
    /// If one of two scores is masked, the other one counts.
    constexpr hidden_pairs of_maximum(const instruction& node) const {
        using enum hidden_pairs;
        if (of(node, 0) == of(node, 1) || !has(node, hidden)) return joined(node);
        const bool of_scores = argument(node, 0).kind == kind::scores && argument(node, 1).kind == kind::scores;
        if (of_scores) return has(node, returned) ? returned : unknown;
        return is_added_in_logarithms(node) ? unknown : returned;
    }
    /// exp(-abs(x)), which logaddexp adds to a maximum.
    constexpr bool is_of_distance(const instruction& node) const {
        const instruction& exponent = argument(node, 0);
        return node.op == operation::exp && exponent.op == operation::negate &&
               argument(exponent, 0).op == operation::absolute;
    }
    /// Whether a maximum is that of logaddexp(x, y): abs(x - y) stands beside it.
    constexpr bool is_added_in_logarithms(const instruction& maximum) const {
        for (const instruction& node : nodes_)
            if (node.op == operation::absolute && argument(node, 0).op == operation::subtract &&
                argument(node, 0).arguments == maximum.arguments)
                return true;
        return false;
    }

    node_list nodes_;
    node_table<hidden_pairs> states_{};
};

}  // namespace detail

/// Whether a softmax sees pairs that mask(...) has hidden: a function such as tanh, or max with a number, made a finite
/// number of -infinity.
constexpr bool masked_pairs_return(node_list nodes) {
    for (node_id n{}; n < std::ssize(nodes); ++n)
        if (nodes[n].op == operation::mask && detail::mask_followed(nodes, n).returns()) return true;
    return false;
}

}  // namespace attune
