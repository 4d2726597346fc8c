#pragma once
#include <attune/ir/graph_ir.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace attune::testing {

/// A graph that owns its list, so that it can be drawn and changed while a program runs. Names are literals.
struct drawn_graph {
    using node_id = std::int16_t;

    std::vector<instruction> nodes;
    std::vector<input_declaration> inputs;
    std::vector<output_declaration> outputs;
    std::vector<std::string_view> indices;
    std::uint64_t fingerprint = 1;

    graph_ir view() const { return {nodes, inputs, outputs, "random", fingerprint, indices}; }

    /// A graph has no node, input or index that no output needs.
    void forget_unused();
    /// Empty, or what no operator of the language would let pass.
    std::string fault() const;
    /// A line a node.
    std::string text() const;
    /// A header with the graph as `fuzzed::<name>`, to be compiled.
    std::string header(std::string_view name) const;
};

}  // namespace attune::testing
