// Beside the golden files on a device: the entries of the catalogue that have none, against the reference evaluator.
#include "variants/without_file.hpp"
#include "../support/workload_values.hpp"

#include <attune/reference.hpp>
#include <attune/runtime/run.hpp>
#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>

using namespace attune;
using support::workload;

namespace {

template <const auto& Graph> void check() {
    const graph_ir graph = dsl::ir_of<Graph>;
    workload call(graph, {.batches = 2, .heads = 4, .key_heads = 2, .queries = 70, .keys = 90}, 7, {},
                  {{"byte", 12}, {"sequence", 6}, {"draft", 70}});
    for (const input_declaration& each : graph.inputs) {
        if (each.name == "from") call.draw("from", 0, 60);
        if (each.name == "to") call.draw("to", 40, 90);
        if (each.name == "packed") call.draw("packed", 0, 255);
        if (each.name == "key_scale") scale_by(call, "key_scale", 1);
    }
    const auto expected = call.expected();
    detail::call(detail::table_of<Graph>(), call.arguments(), {.target = ATTUNE_GOLDEN_TARGET});
    for (const output_declaration& output : graph.outputs) {
        INFO(graph.text << ": " << output.name);
        CHECK(call.largest_error(expected, output.name) < 2e-5);
    }
    CHECK(outputs_untouched(call, true));
}

}  // namespace

TEST_CASE("a device agrees with the reference where the catalogue has no golden file") {
    for (const kernel_list::entry& each : kernels<without_file::key_range>().entries)
        if (!each.missing.empty()) SKIP("no device for " ATTUNE_GOLDEN_TARGET " here: lacks " << each.missing);
    check<without_file::key_range>();
    check<without_file::packed_mask>();
    check<without_file::varlen>();
    check<without_file::slopes>();
    check<without_file::attention_received>();
    check<without_file::channel_scaled>();
    check<without_file::sigmoid_attention>();
    check<without_file::normalised_by_sum>();
    check<without_file::with_plus_one>();
    check<without_file::draft_tree>();
}
