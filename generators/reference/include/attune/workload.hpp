#pragma once
#include <attune/reference/evaluate.hpp>
#include <attune/runtime/detail/call.hpp>

#include <map>
#include <random>
#include <span>
#include <string>
#include <vector>

/// Random calls of any variant: tensors for everything that its graph declares, for kernels and for the reference
/// evaluator.
namespace attune::support {

struct shape {
    std::int64_t batches = 1, heads = 1, key_heads = 1, queries = 1, keys = 1, depth = 32, value_depth = 32;
    bool gaps =
        false;  ///< q, k, v and out stored (batch, length, head, depth) with unused room behind every row of every axis
    std::string text() const;
};

/// A tensor and the memory behind it. Room between rows holds NaN in inputs and a pattern in outputs.
struct owned_tensor {
    std::vector<float> reals;
    std::vector<std::uint16_t> halves;  ///< bf16 or f16
    std::vector<std::int32_t> integers;
    std::vector<std::int64_t> wide;
    std::vector<std::int16_t> narrow;
    std::vector<std::uint8_t> bytes;
    tensor view;
};

/// One call: inputs drawn from a fixed seed, outputs filled with a pattern.
///
/// f32 inputs are unit-normal; i32 inputs are documents (non-decreasing); boolean inputs are true one time in ten.
/// Scalars come from `numbers`, `scale` is 1 / sqrt(depth) unless given. Free axes are 17 long, or as long as one
/// position needs, unless `lengths` names them. i32 inputs that become indices stay inside the axis that they index.
class workload {
public:
    static constexpr std::int64_t usual_length = 17;
    workload(const graph_ir& graph, const shape& of, unsigned seed, std::map<std::string, double> numbers = {},
             std::map<std::string, std::int64_t> lengths = {});

    /// Gives an f32 input these elements, as many as it has.
    void put(std::string_view input, std::span<const float> elements);
    /// Draws the elements of an integer input from first .. last; in a u8 input, 0 .. 255 gives a mask of random bits.
    void draw(std::string_view input, int first, int last);
    /// Makes an f32 tensor one of bf16 or f16 with the same strides: elements rounded to nearest even; of an output,
    /// filled with the pattern.
    void convert(std::string_view name, element_type element);
    /// Passes kv_lengths; keys and values beyond become NaN. Before `convert`.
    void set_lengths(std::vector<std::int32_t> lengths);

    owned_tensor& operator[](std::string_view name) { return tensors_.at(std::string(name)); }
    const owned_tensor& operator[](std::string_view name) const { return tensors_.at(std::string(name)); }
    const tensor& view(std::string_view name) const { return tensors_.at(std::string(name)).view; }

    std::vector<detail::named_argument> arguments() const;  ///< inputs and outputs
    std::vector<reference::argument> reference_arguments() const;
    reference::results expected(bool keep_visible = false) const;  ///< the reference's results for the inputs
    double largest_error(const reference::results& expected, std::string_view output) const {
        return reference::largest_error(view(output), expected[output], expected.rows);
    }

    /// Fills the outputs with the pattern again.
    void reset_outputs();

    const graph_ir& graph() const { return graph_; }
    std::mt19937::result_type random() { return random_(); }  ///< the next number that elements are drawn from

private:
    owned_tensor& add(std::string_view name, element_type element, std::vector<std::int64_t> extents, bool gaps);
    void fill(std::string_view name);
    std::vector<std::int64_t> lengthen_axes();
    std::int64_t extent(const axis_declaration& axis) const;

    graph_ir graph_;
    shape shape_;
    std::mt19937 random_;
    std::map<std::string, double> numbers_;
    std::map<std::string, std::int64_t> lengths_;
    std::map<std::string, owned_tensor> tensors_;
};

/// Calls `visit(offset)` for every element of a tensor, in elements from its data.
template <class F> void for_each_offset(const tensor& t, F visit) {
    std::vector<std::int64_t> at(static_cast<std::size_t>(t.rank()), 0);
    for (int axis = 0; axis < t.rank(); ++axis)
        if (t.extent(axis) == 0) return;
    while (true) {
        std::int64_t offset = 0;
        for (int axis = 0; axis < t.rank(); ++axis) offset += at[static_cast<std::size_t>(axis)] * t.stride(axis);
        visit(offset);
        int axis = t.rank() - 1;
        while (axis >= 0 && ++at[static_cast<std::size_t>(axis)] == t.extent(axis))
            at[static_cast<std::size_t>(axis--)] = 0;
        if (axis < 0) return;
    }
}

/// The pattern of output memory before a call; no result equals it.
inline constexpr float pattern = -12345.678f;
inline constexpr std::uint16_t half_pattern = 0xc9e1;

}  // namespace attune::support
