#pragma once
#include <attune/ir/graph_ir.hpp>
#include "kernel/schedule.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

/// The generators' decisions about blocks, and the truth: both compiled in process from a graph, without a kernel.
namespace attune::testing {

/// The inputs of a graph: tensors as i32, whatever their type, outermost axis first; scalars by name.
struct lab_inputs {
    struct table {
        std::vector<int> extents;
        std::vector<double> values;
    };
    std::map<std::string, table> tables;
    std::map<std::string, double> numbers;
    int batches = 1, heads = 1, queries = 1, keys = 1;
};

/// How blocks were decided, all batch elements and heads together.
struct lab_count {
    std::int64_t blocks{}, ideal{}, visited{}, whole{}, must{};
    std::int64_t wrongly_skipped{}, wrongly_unmasked{};
    /// A block: what was decided, and whether none, some or all (0, 1, 2) of its pairs are visible.
    void add(int decision, int seen);
    double excess() const { return static_cast<double>(visited) / static_cast<double>(ideal < 1 ? 1 : ideal); }
};

/// One byte a block, (key block, query block, head, batch), innermost first: 0 skipped, 1 visited, 2 without mask.
std::vector<std::uint8_t> decide_blocks(const graph_ir& graph, const generators::schedule& cut,
                                        const lab_inputs& inputs);

/// Every pair of the graph's first scores, looked at, against the decision about its block.
lab_count count_blocks(const graph_ir& graph, const generators::schedule& cut, const lab_inputs& inputs);

/// The schedule of the default kernel for a depth of 64 at x86-64-v3.
generators::schedule usual_schedule(const graph_ir& graph);

}  // namespace attune::testing
