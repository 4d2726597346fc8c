// Every build runs a few of the golden graphs on a device: no operation of the language may be missing there.
#include "../gpu/decode.hpp"
#include "golden.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <set>
#include <vector>

using namespace attune;
using namespace attune::testing;

namespace {

struct parts {
    std::set<operation> operations;
    std::set<kind> kinds;
    std::set<axis_kind> axes;

    void add(const graph_ir& graph) {
        for (const instruction& node : graph.nodes) operations.insert(node.op), kinds.insert(node.kind);
        for (const input_declaration& input : graph.inputs)
            for (std::size_t axis = 0; axis < input.rank; ++axis) axes.insert(input.axes[axis].kind);
    }
    void add(const std::vector<recipe>& recipes) {
        for (const recipe& how : recipes)
            for (const step& s : how.steps)
                if (const auto* graph = std::get_if<graph_step>(&s)) add(graph->graph);
    }
};

std::vector<std::uint64_t> graphs_of(const recipe& how) {
    std::vector<std::uint64_t> found;
    for (const step& s : how.steps)
        if (const auto* graph = std::get_if<graph_step>(&s)) found.push_back(graph->graph.fingerprint);
    return found;
}

}  // namespace

TEST_CASE(
    "the golden graphs that every build runs on a device have with those of tests/gpu/opencl every operation, kind and "
    "axis of all golden graphs",
    "[harness]") {
    const std::vector<recipe> some = every_operation_cases();
    parts all, there;
    all.add(all_recipes());
    there.add(some);
    there.add(dsl::ir_of<decode::last>);
    there.add(dsl::ir_of<decode::ends>);
    CHECK(all.operations.size() > 50);
    for (const operation each : all.operations) {
        INFO("operation " << static_cast<int>(each));
        CHECK(there.operations.contains(each));
    }
    CHECK(there.kinds == all.kinds);
    CHECK(there.axes == all.axes);
    for (const recipe& how : some) {
        INFO(how.stem);
        const auto same = std::ranges::find(all_recipes(), how.stem, &recipe::stem);
        REQUIRE(same != all_recipes().end());
        CHECK(graphs_of(how) == graphs_of(*same));
    }
}
