#pragma once
#include "formula_case.hpp"

#include <attune/reference.hpp>

#include <deque>
#include <span>
#include <string_view>
#include <vector>

namespace fuzz {

/// The inputs of a case's graph, with NaN beyond the keys in use. Outputs are among them, to be left alone.
attune::support::workload drawn_workload(const formula_case& it, const attune::generators::element_types& types);

/// Whether a gradient or a shard is refused for a table without an entry. What says how long the whole is need not be
/// read in it: other tensors or numbers tell, and it has nothing to read in an empty table where keys are.
bool wants_an_entry(std::string_view sentence, std::span<const attune::reference::argument> given);

/// A dense tensor and its memory.
struct formula_memory {
    formula_memory(std::string_view name, const std::vector<std::int64_t>& shape);
    void convert(attune::element_type to);  ///< from f32

    std::string_view name;
    attune::support::owned_tensor of;
};

/// The inputs of a call of a graph or its gradient, and what the reference makes of them.
class formula_inputs {
public:
    formula_inputs(const formula_case& of, const attune::testing::drawn_graph& compiled,
                   const attune::generators::element_types& types);
    formula_inputs(const formula_inputs&) = delete;

    std::vector<attune::detail::named_argument> arguments;  ///< of the kernel, but for its outputs
    std::vector<attune::reference::results> expected;       ///< of each part

    /// Sequences of packed queries, which the reference takes one by one; else 1.
    std::size_t parts() const { return it_.cu_seqlens_q.empty() ? 1 : it_.cu_seqlens_q.size() - 1; }
    attune::tensor part_of(const attune::tensor& t, std::span<const attune::axis_kind> axes, std::size_t part) const;
    std::vector<attune::axis_kind> axes_of_argument(std::string_view name) const;
    std::vector<attune::reference::argument> for_reference(std::size_t part) const;
    attune::reference::results evaluate(std::vector<attune::reference::argument> given) const;

    /// The shape and the element type of an output in the call: f32, or the type to which it is rounded.
    std::vector<std::int64_t> shape_of(const attune::output_declaration& output) const;
    attune::element_type element_of_output(const attune::output_declaration& output) const;

private:
    void add(attune::detail::named_argument argument);
    void add_saved(const std::vector<attune::reference::results>& forward);
    void hide_nan(const std::vector<attune::reference::results>& seen);
    std::int64_t extent_of(attune::axis_kind axis, bool of_queries) const;

    const formula_case& it_;
    const attune::testing::drawn_graph& graph_;
    attune::generators::element_types types_;
    attune::support::workload drawn_;
    std::deque<formula_memory> saved_;  ///< rows of the forward pass and cotangents
};

}  // namespace fuzz
