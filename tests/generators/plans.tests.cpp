// The decisions of kernels, each of another path: a review sees a changed decision as a change of plans.txt.
#include "planned_formulas.hpp"

#include "inspect/plan_text.hpp"
#include "plans/kernel_plan.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <deque>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

using namespace attune;
using namespace attune::generators;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

/// One graph under the requests of several builds.
struct planned_graph {
    variant of;
    std::vector<build_request> builds;
};

build_request build(const std::string& level, const std::string& shapes = "prefill", const std::string& types = "f32",
                    const std::string& depths = "64", bool finite = false) {
    return {.targets = {level}, .dtypes = {types}, .depths = {depths}, .shapes = {shapes}, .finite = finite};
}

const std::string v2 = "x86-64-v2", v3 = "x86-64-v3", v4 = "x86-64-v4", v4_bf16 = "x86-64-v4-bf16",
                  amx = "x86-64-v4-amx";

std::deque<planned_graph> attention_graphs() {
    using namespace under_test;
    return {
        {{"plain", dsl::ir_of<plain>},
         {build(v3), build(v4), build(v2), build("aarch64"), build(v4, "prefill", "f32", "128"),
          build(v4, "prefill", "f32", "64x32"), build(v4, "prefill", "bf16"), build(v4_bf16, "prefill", "bf16"),
          build(amx, "prefill", "bf16", "64"), build(v3, "prefill", "f32", "64", true), build(v3, "decode"),
          build(v4, "decode", "bf16", "128"), build(v4, "decode", "f32", "64", true), build("cuda"),
          build("cuda", "decode"), build("opencl", "prefill", "f16"), build("opencl", "decode"), build("vulkan"),
          build("cuda", "prefill", "bf16", "64", true)}},
        {{"causal_mask", dsl::ir_of<causal_mask>},
         {build(v4), build(v4, "decode"), build("cuda", "prefill", "bf16"), build("cuda", "decode", "bf16")}},
        {{"sliding", dsl::ir_of<sliding>}, {build(v4), build(v4, "decode")}},
        {{"alibi", dsl::ir_of<alibi>}, {build(v4), build(v4, "decode"), build("cuda")}},
        {{"documents", dsl::ir_of<documents>}, {build(v4)}},
        {{"relative", dsl::ir_of<relative>}, {build(v4)}},
        {{"dense_bias", dsl::ir_of<dense_bias>}, {build(v4), build("cuda")}},
        {{"with_sink", dsl::ir_of<with_sink>}, {build(v4)}},
        {{"relu_normalised", dsl::ir_of<relu_normalised>}, {build(v4), build(v4, "decode")}},
        {{"energies_only", dsl::ir_of<energies_only>}, {build(v4)}},
        {{"dropped", dsl::ir_of<dropped>}, {build(v4)}},
        {{"merged", dsl::ir_of<merged>}, {build(v4)}},
        {{"rotary", dsl::ir_of<rotary>}, {build(v4), build(v4, "decode")}},
        {{"two_products", dsl::ir_of<two_products>}, {build(v4)}},
        {{"all_pairs", dsl::ir_of<all_pairs>}, {build(v4), build("opencl")}},
        {{"only_scores", dsl::ir_of<only_scores>}, {build(v4)}},
        {{"differential", dsl::ir_of<differential>}, {build(v4)}},
        {{"shared_and_own", dsl::ir_of<cores::shared_and_own>}, {build(v4, "decode")}},
    };
}

std::deque<planned_graph> other_graphs() {
    using namespace golden_gradients;
    return {
        {{"of_codes", dsl::ir_of<planned::of_codes>}, {build(v3, "decode"), build(v4)}},
        {{"one_digit", dsl::ir_of<planned::one_digit>},
         {build(v3, "decode"), build(v4_bf16, "decode"), build(v3), build(v4_bf16), build(amx),
          build("cuda", "prefill", "bf16")}},
        {{"two_digits", dsl::ir_of<planned::two_digits>}, {build(v4, "decode"), build(v4_bf16)}},
        {{"latents", dsl::ir_of<planned::latents>}, {build(v4, "decode")}},
        {{"pages", dsl::ir_of<planned::pages>}, {build(v4, "decode")}},
        {{"chosen", dsl::ir_of<planned::chosen>}, {build(v4), build(v4, "decode")}},
        {{"chosen_keys", dsl::ir_of<planned::chosen_keys>}, {build(v4, "decode")}},
        {{"stored", dsl::ir_of<planned::stored>}, {build(v4)}},
        {{"gated_delta", dsl::ir_of<planned::gated_delta>}, {build(v4)}},
        {{"channels_forget", dsl::ir_of<planned::channels_forget>}, {build(v3)}},
        {{"layer", dsl::ir_of<gradients_of_layers::whole>}, {build(v4)}},
        {{"causal_gradient", dsl::ir_of<causal_gradient>},
         {build(v3), build(v4), build(v4_bf16, "prefill", "bf16"), build("cuda")}},
        {{"alibi_gradient", dsl::ir_of<alibi_gradient>}, {build(v4)}},
        {{"bias_heads_gradient", dsl::ir_of<bias_heads_gradient>}, {build(v4)}},
        {{"layer_gradient", dsl::ir_of<gradients_of_layers::layer_gradient>}, {build(v4)}},
    };
}

std::string text_of_all(const std::deque<planned_graph>& graphs, int& kernels) {
    std::string text;
    for (const planned_graph& each : graphs)
        for (const build_request& build : each.builds)
            for (const listed_kernel& kernel : kernels_of({&each.of, 1}, build))
                text += plan_text(kernel) + "\n", ++kernels;
    return text;
}

}  // namespace

TEST_CASE("plans are those that were reviewed", "[plans]") {
    int kernels = 0;
    const std::string now = text_of_all(attention_graphs(), kernels) + text_of_all(other_graphs(), kernels);
    std::ostringstream reviewed;
    reviewed << std::ifstream(PLANS_REVIEWED).rdbuf();
    if (reviewed.str() != now) std::ofstream(PLANS_NOW) << now;
    INFO("what is decided now stands in " PLANS_NOW "; if a change of it is meant, copy it over " PLANS_REVIEWED);
    CHECK(reviewed.str() == now);
    CHECK(kernels > 50);
}

TEST_CASE("the page about plans shows one of them as it is", "[plans]") {
    const variant of{"alibi", dsl::ir_of<under_test::alibi>};
    std::ostringstream page;
    page << std::ifstream(PLANS_PAGE).rdbuf();
    CHECK_THAT(page.str(), ContainsSubstring(plan_text(kernels_of({&of, 1}, build(v4)).front())));
}

TEST_CASE("what no kernel is made of is refused by the plan, in one sentence each", "[plans]") {
    using namespace under_test;
    const auto refuses = [](const graph_ir& graph, const build_request& build, const schedule& cut,
                            const std::string& sentence) {
        const variant of{"my::graph", graph};
        kernel_request request{.facts = facts_of(graph),
                               .types = element_types_from(build.dtypes.front()),
                               .depths = depth_pair_from(build.depths.front()),
                               .target = &level_named(build.targets.front()),
                               .schedule = cut};
        CAPTURE(sentence);
        CHECK_THROWS_MATCHES(plan_kernel(request), std::runtime_error, MessageMatches(ContainsSubstring(sentence)));
    };
    const auto usual = [](const graph_ir& graph, const build_request& build) {
        const variant of{"my::graph", graph};
        return kernels_of({&of, 1}, build).front().request.schedule;
    };
    const schedule in_v4 = usual(dsl::ir_of<plain>, build(v4)), few = usual(dsl::ir_of<plain>, build(v4, "decode")),
                   on_cuda = usual(dsl::ir_of<plain>, build("cuda")),
                   on_vulkan = usual(dsl::ir_of<plain>, build("vulkan"));
    schedule paired = in_v4;
    std::get<cpu_prefill>(paired).pairing = 2;
    refuses(dsl::ir_of<plain>, build(v4), paired, "a pairing of 2 needs q, k and v of bf16");
    std::get<cpu_prefill>(paired).pairing = 4;
    refuses(dsl::ir_of<plain>, build(amx), paired, "a pairing of 4 needs queries and keys, or weights and values");
    refuses(dsl::ir_of<plain>, build(v4), on_cuda, "expected a schedule for a CPU");
    refuses(dsl::ir_of<golden_gradients::causal_gradient>, build(v4), in_v4, "expected a schedule for a gradient");
    refuses(dsl::ir_of<differential>, build("vulkan"), on_vulkan, "more than one softmax has no kernel for Vulkan yet");
    refuses(dsl::ir_of<planned::stored>, build("vulkan"), on_vulkan,
            "a graph that stores has no kernel for Vulkan yet");
    refuses(dsl::ir_of<planned::chosen>, build("cuda"), on_cuda, "what is precomputed has no kernel on a GPU yet");
    refuses(dsl::ir_of<two_products>, build(v4), few, "no kernel for decode: an output has an axis of keys");
    std::get<cpu_prefill>(paired).pairing = 3;
    refuses(dsl::ir_of<plain>, build(v4), paired, "pairing to be 1, 2, 4, 32 or 64, got 3");
}

TEST_CASE("cores that read rows in common share their tasks, and others do not", "[plans]") {
    const auto tasks = [](const graph_ir& graph) {
        const variant of{"my::graph", graph};
        const kernel_plan plan = plan_kernel(kernels_of({&of, 1}, build(v4, "decode")).front().request);
        return std::get<decode_plan>(plan.body).tasks;
    };
    CHECK(tasks(dsl::ir_of<cores::first_and_recent>) == std::vector{0, 0});
    CHECK(tasks(dsl::ir_of<planned::apart>) == std::vector{0, 1});
}

TEST_CASE("few queries have a kernel by tensor cores where they may, and the other one says what is left to it",
          "[plans]") {
    const variant of{"my::plain", dsl::ir_of<under_test::plain>};
    const std::vector<listed_kernel> halves = kernels_of({&of, 1}, build("cuda", "decode", "bf16")),
                                     reals = kernels_of({&of, 1}, build("cuda", "decode"));
    REQUIRE(halves.size() == 2);
    gpu_tensor_decode cut{.query_block = 16, .warps = 1, .key_block = 64, .key_splits = 128};
    CHECK(halves[0].request.schedule == schedule(cut));
    CHECK(schedule_from_json(to_json(cut), level_named("cuda")) == schedule(cut));
    CHECK(halves[0].symbol.find("_tensor_decode_") != std::string::npos);
    CHECK_THAT(halves[1].schedule_from, ContainsSubstring("of calls whose rows do not begin at multiples of 16 bytes"));
    REQUIRE(reals.size() == 1);
    CHECK_THAT(reals[0].schedule_from, ContainsSubstring("without tensor cores, as q, k and v are not all bf16"));
    cut.key_block = 24;
    CHECK_THROWS_MATCHES(check(schedule(cut), depth_pair{64, 64}), std::runtime_error,
                         MessageMatches(ContainsSubstring("key_block to be a multiple of the keys of two tiles")));
}
