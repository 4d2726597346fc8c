// The recurrences that generators refuse.
#include <attune/dsl.hpp>
#include <attune/dsl/recurrent.hpp>
#include "analysis/graph_facts.hpp"
#include "kernel/cpu_schedule.hpp"
#include "kernel/kernel_list.hpp"
#include "lower.hpp"
#include "plans/kernel_plan.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <stdexcept>

using namespace attune::generators;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using Catch::Matchers::StartsWith;

namespace recurring {
using namespace attune::dsl;
inline constexpr auto rows = input<"rows", f32>(batch, head, query, depth);
inline constexpr auto values_of_tokens = input<"values_of_tokens", f32>(batch, head, query, value_depth);
inline constexpr auto states = recurrence([](auto S) { return S + t(rows) * values_of_tokens; });
inline constexpr auto fading = recurrence([](auto S) { return 0.5 * S + t(rows) * values_of_tokens; });
inline constexpr auto linear = rows * states;
inline constexpr auto both = rows * states + rows * fading;
inline constexpr auto state_first = outputs(output<"state_out"> = last(states), out = linear);
inline constexpr auto state_twice =
    outputs(out = linear, output<"state_out"> = last(states), output<"state_again"> = last(states));
inline constexpr auto every_state = outputs(out = rows * states, output<"states"> = states);
inline constexpr auto channel = bound_index<"channel">;
inline constexpr auto normed =
    linear * as_output(rsqrt(sum(channel, value_depth, linear(b, h, q_idx, channel) * linear(b, h, q_idx, channel))));
inline constexpr auto cache = input<"cache", f32>(batch, head, query, depth);
inline constexpr auto storing = outputs(store(cache(b, 0, q_idx, d_idx), 0.5), out = linear);
inline constexpr auto mixed = input<"mixed", f32>(batch, query, axis<"channel">);
inline constexpr auto newest_tokens =
    outputs(out = tokens(mixed(b, q_idx, d_idx), extent<2>(mixed)), output<"kept"> = newest(mixed, 3));
}  // namespace recurring

namespace {

template <class F> void refuses(const char* sentence, F call) {
    CHECK_THROWS_MATCHES(call(), std::runtime_error, MessageMatches(ContainsSubstring(sentence)));
}

std::vector<listed_kernel> kernels(const variant& of, const char* target, const char* type,
                                   std::vector<std::string> shapes = {"prefill", "decode"}) {
    build_request build;
    build.targets = {target}, build.dtypes = {type}, build.depths = {"16"}, build.shapes = std::move(shapes);
    return kernels_of({&of, 1}, build);
}

kernel_request request_of(const attune::graph_ir& graph) {
    const level& isa = level_named("x86-64-v3");
    kernel_request request{facts_of(graph), element_types_from("f32"), {16, 16}, &isa, {}, false};
    request.schedule = default_cpu_recurrence(isa, 16);
    return request;
}

}  // namespace

TEST_CASE("recurrences have kernels on CPUs, of all types of rows", "[recurrence]") {
    const variant linear{"recurring::linear", attune::dsl::ir_of<recurring::linear>};
    CHECK(kernels(linear, "x86-64-v3", "f32").size() == 3);  // of 16 tokens, of 4, of one
    CHECK(kernels(linear, "x86-64-v3", "f32", {"prefill"}).size() == 1);
    CHECK(kernels(linear, "x86-64-v3", "f32", {"decode"}).size() == 2);
    refuses("expected prefill or decode in SHAPES", [&] { kernels(linear, "x86-64-v3", "f32", {"decode:other"}); });
    CHECK(kernels(linear, "x86-64-v3", "bf16").size() == 3);
    CHECK(kernels(linear, "x86-64-v4-bf16", "f16").size() == 3);
    refuses("a recurrence has no kernel on a GPU yet", [&] { kernels(linear, "cuda", "f32"); });
}

TEST_CASE("a kernel is of one recurrence, its outputs and its last state", "[recurrence]") {
    refuses("two recurrences in one graph have no kernel yet",
            [] { lower(request_of(attune::dsl::ir_of<recurring::both>)); });
    refuses("a recurrence's kernel makes outputs and the last state",
            [] { lower(request_of(attune::dsl::ir_of<recurring::every_state>)); });
    refuses("two outputs of one last state have no kernel yet; name it once",
            [] { lower(request_of(attune::dsl::ir_of<recurring::state_twice>)); });
    refuses("an element of what a recurrence gives", [] { lower(request_of(attune::dsl::ir_of<recurring::normed>)); });
    refuses("a recurrence in a graph that stores", [] { lower(request_of(attune::dsl::ir_of<recurring::storing>)); });
    refuses("tokens of a length of their own", [] { facts_of(attune::dsl::ir_of<recurring::newest_tokens>); });
}

TEST_CASE("the state is the last value of a recurrence's kernel, wherever the graph names it", "[recurrence]") {
    const kernel_request request = request_of(attune::dsl::ir_of<recurring::state_first>);
    CHECK(plan_kernel(request).places() == std::vector<int>{1, 0});
    const std::vector<Halide::Func> values = lower(request).attention.outputs();
    REQUIRE(values.size() == 2);
    CHECK_THAT(values[0].name(), StartsWith("output_out"));
    CHECK_THAT(values[1].name(), StartsWith("state_after"));
}

TEST_CASE("outputs have the call's type, and a state is of f32", "[recurrence]") {
    kernel_request request = request_of(attune::dsl::ir_of<recurring::state_first>);
    request.types = element_types_from("f16");
    const std::vector<Halide::Func> values = lower(request).attention.outputs();
    REQUIRE(values.size() == 2);
    CHECK(values[0].type() == Halide::Float(16));
    CHECK(values[1].type() == Halide::Float(32));
}

TEST_CASE("rows of the next chunk are asked for, by each row that a tensor's channels make", "[recurrence]") {
    kernel_request request = request_of(attune::dsl::ir_of<recurring::linear>);
    CHECK(std::get<chunk_plan>(plan_kernel(request).body).fetched.size() == 2);  // `rows` are keys, and read states
    request.schedule = default_cpu_recurrence(*request.target, 1);
    CHECK(std::get<chunk_plan>(plan_kernel(request).body).fetched.empty());
}

TEST_CASE("schedules of attention are none of a recurrence", "[recurrence]") {
    refuses("expected a schedule for a recurrence", [] {
        kernel_request request = request_of(attune::dsl::ir_of<recurring::linear>);
        request.schedule = default_cpu_decode(*request.target, masking::none);
        lower(request);
    });
}
