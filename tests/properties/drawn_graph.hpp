#pragma once
#include <attune/ir/builder.hpp>
#include <attune/ir/graph_ir.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace attune::testing {

/// A name that lives as long as the program.
std::string_view lasting(const std::string& name);

/// A graph that owns its list, so that it can be drawn and changed while a program runs. Names are literals.
struct drawn_graph {
    std::vector<instruction> nodes;
    std::vector<input_declaration> inputs;
    std::vector<output_declaration> outputs;
    std::vector<std::string_view> indices;
    std::vector<store_declaration> stores;
    std::uint64_t fingerprint = 1;

    /// What a pass over the list made of a graph with that fingerprint.
    static drawn_graph made_of(const dsl::detail::ir_builder& list, std::uint64_t fingerprint);

    graph_ir view() const { return {nodes, inputs, outputs, "random", fingerprint, indices, stores}; }

    /// A graph has no node, input or index that no output and no store needs.
    void forget_unused();
    /// Leaves of several attention cores what the first one weighs, for gradients and shards.
    void keep_one_core();
    bool precomputes() const;
    /// Empty, or what no operator of the language would let pass.
    std::string fault() const;
    /// For the language's passes, with the names that gradients and shards take.
    dsl::detail::ir_builder list() const;
    /// A line a node.
    std::string text() const;
    /// A header with the graph as `fuzzed::<name>`, to be compiled; `made`: what of it, as the language writes it, such
    /// as "gradient(all)".
    std::string header(std::string_view name, std::string_view made = "all") const;
    /// The name of this input's node in a header.
    std::string node_of_input(std::string_view input) const;
};

}  // namespace attune::testing
