#pragma once
#include <attune/ir/operations.hpp>

#include <array>

namespace attune::dsl::detail {

/// The axes over which a cotangent is summed in addition to (b, h, q_idx), where it reaches a tensor.
struct cotangent_domain {
    static constexpr int max_each = 3;

    bool keys{};
    operation channels{operation::b};  ///< depth, value_depth or tokens: what d_idx counts; b: nothing
    node_id width{no_node};            ///< of tokens: how many channels
    bool states{};                     ///< of an initial state: over value_idx, too, and over no q_idx
    int each_count{};
    std::array<node_id, max_each> index{}, extent{};
    constexpr bool operator==(const cotangent_domain&) const = default;

    static constexpr cotangent_domain pairs(operation channels = operation::b) {
        cotangent_domain all{};
        all.keys = true, all.channels = channels;
        return all;
    }
};

/// Whether an input may have a gradient.
constexpr bool is_real_tensor(const input_declaration& d) {
    return !d.is_scalar && (d.element == element_type::any || d.element == element_type::f32 ||
                            d.element == element_type::bf16 || d.element == element_type::f16);
}

/// What reaches a node.
struct reaching_cotangent {
    node_id node{}, expression{};
    cotangent_domain over{};
};

}  // namespace attune::dsl::detail
