#pragma once
#include "call/shape/shape.hpp"

#include <attune/ir/builder.hpp>
#include <attune/ir/integer_interval.hpp>
#include <attune/ir/operations.hpp>

#include <array>
#include <cstddef>
#include <limits>
#include <span>

#pragma GCC visibility push(hidden)
/// A graph's integers and conditions, computed as kernels compute them: their variation, their ranges, their values for
/// a run of positions.
namespace attune::detail {

/// The variables of a number, a bit each; those from `of_bound` on are bound indices.
using variation_bits = std::uint32_t;
enum : variation_bits {
    of_batch = variable::batch,
    of_head = variable::head,
    of_query = variable::query,
    of_key = variable::key,
    of_channel = variable::channel,
    of_tensor = 32,   ///< with the elements of a tensor of the call
    not_before = 64,  ///< with numbers that only the kernel knows: scores, rows, outputs, random numbers
    of_sum = 128,     ///< sums over numbers of positions, which take long to compute
    of_bound = 256,
};
inline constexpr int max_bound_indices = dsl::detail::max_indices;
/// The value channel of an initial state, counted like one more bound index.
inline constexpr variation_bits of_value_channel = variation_bits{of_bound} << max_bound_indices;
constexpr variation_bits of_bound_index(std::int64_t index) { return of_bound << index; }

/// The numbers of a call whose shape is known.
struct call_numbers {
    const graph_ir& graph;
    const call_shape& shape;
    const matched_arguments& given;

    const instruction& node(node_id at) const { return node_of(graph, at); }
    std::int64_t keys_in_use(std::int64_t batch) const;
    std::int64_t key_head(std::int64_t head) const;
    /// A number of the whole call, such as an extent.
    std::int64_t number(node_id node) const { return number_of_call(shape, graph, given, node); }
    /// The input that a load reads, or to whose gradient a deposit adds; -1 if the kernel makes it. Everything below
    /// about loads holds for deposits, too.
    int input_of(const instruction& load) const;
    /// The tensor that a load reads; null if the kernel makes it.
    const named_argument* read_by(const instruction& load) const;
    axis_kind along(const instruction& load, std::size_t axis) const;
    /// The length of an axis of the tensor that a load reads, including keys beyond those in use.
    std::int64_t places(const instruction& load, std::size_t axis) const;
    /// Whether the keys in use end a load along an axis.
    bool ends_with_keys(const instruction& load, std::size_t axis) const;
};

/// By node.
void find_variations(const graph_ir& graph, node_span<variation_bits> to);

/// The integers of nodes for any contents of the tensors and lengths, as if they had any size: a call is refused where
/// an index leaves 32 bits.
void find_ranges(const call_numbers& call, node_span<integer_interval> to);

/// A position, one more for each bound index, and the value channel of an initial state.
struct number_place {
    std::array<std::int32_t, 5 + max_bound_indices + 1> at{};
    std::int32_t& operator[](variation_bits variable);
    std::int32_t operator[](variation_bits variable) const { return const_cast<number_place&>(*this)[variable]; }
};

/// Values of nodes for a run of positions that differ in one variable.
class number_run {
public:
    static constexpr int longest = 128;
    union number {
        std::int32_t integer;
        float real;
    };
    struct values {
        number* at;
        int step;     ///< 0 if all are equal
        bool counts;  ///< each is one more than the previous one
        const number& operator[](int i) const { return at[i * step]; }
    };

    static std::size_t bytes_for(std::size_t nodes, std::size_t ordered);
    /// `order`: the nodes that are computed, arguments before their users; bound indices that the last varies with are
    /// given with the position. `quotient`: a node kv_idx / n that positions run over in place of kv_idx; no_node:
    /// none.
    number_run(const call_numbers& call, node_span<variation_bits> varies, std::span<const node_id> order,
               node_id quotient, std::byte* memory);

    /// `count` positions from `first`, counting up one variable.
    void compute(const number_place& first, variation_bits counting, int count);
    const values& operator[](node_id node) const { return values_[node]; }

private:
    /// Room for as many numbers as differ.
    std::span<number> room(const values& to) const {
        return {to.at, to.step != 0 ? static_cast<std::size_t>(count_) : 1};
    }
    void compute(node_id node);
    void terminal(node_id node, values& to);
    template <axis_kind Axis> static void extent_along(number_run& run, node_id node, values& to);
    void load(const instruction& n, values& to);
    void reduce(node_id node, values& to);
    void pointwise(const instruction& n, values& to);
    static number from_bits(const instruction& n, std::int32_t bits);

    const call_numbers& call_;
    node_span<variation_bits> varies_;
    std::span<const node_id> order_;
    node_id quotient_;
    node_span<values> values_;
    number_place here_{};
    variation_bits counting_{}, bound_{};  // bound indices that have a value
    int count_{};
};

}  // namespace attune::detail
#pragma GCC visibility pop
