#include "kernel/kernel_list.hpp"
#include "plans/kernel_plan.hpp"
#include "variants.hpp"

#include <attune/dsl/recurrent.hpp>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <vector>

using namespace attune;
using namespace attune::generators;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
namespace g = golden_gradients;

namespace {

/// Asks for the kernels of a gradient.
std::size_t kernels(const graph_ir& graph, const char* target = "x86-64-v3", const char* dtype = "f32") {
    const std::vector<variant> variants{{"my::gradient", graph}};
    build_request build;
    build.shapes = {"prefill"}, build.dtypes = {dtype}, build.depths = {"32"}, build.targets = {target};
    return kernels_of(variants, build).size();
}

template <const auto& Graph> void refuses(const char* sentence) {
    CHECK_THROWS_MATCHES(kernels(dsl::ir_of<Graph>), std::runtime_error, MessageMatches(ContainsSubstring(sentence)));
}

}  // namespace

namespace {

using namespace attune::dsl;
inline constexpr auto u = bound_index<"u">;
inline constexpr auto tokens_in = input<"tokens_in", f32>(batch, query, axis<"width">);
inline constexpr auto weight = input<"weight", f32>(head, axis<"width">, depth);
inline constexpr auto projected =
    g::attention(queries(sum(u, extent<2>(tokens_in), tokens_in(b, q_idx, u) * weight(h, u, d_idx))) * t(k));
inline constexpr auto projected_gradient = gradient(projected);
inline constexpr auto bent =
    g::attention(queries(tanh(sum(u, extent<2>(tokens_in), tokens_in(b, q_idx, u) * weight(h, u, d_idx)))) * t(k));
inline constexpr auto bent_gradient = gradient(bent);
inline constexpr auto normed = g::attention(
    queries(rms_norm(
        channels(q_idx, [](auto d) { return sum(u, extent<2>(tokens_in), tokens_in(b, q_idx, u) * weight(h, u, d)); }),
        input<"gain", f32>(depth), 1e-6)) *
    t(k));
inline constexpr auto normed_gradient = gradient(normed);
inline constexpr auto mixed_in = bound_index<"m">;
inline constexpr auto mixing = input<"mixing", f32>(axis<"mixed">);
constexpr auto projected_at(auto d) { return sum(u, extent<2>(tokens_in), tokens_in(b, q_idx, u) * weight(h, u, d)); }
inline constexpr auto gated = g::attention(
    queries(projected_at(d_idx) * sum(mixed_in, extent<0>(mixing), projected_at(mixed_in) * mixing(mixed_in))) * t(k));
inline constexpr auto gated_gradient = gradient(gated);

}  // namespace

TEST_CASE("what has no kernel for its gradient yet is refused when kernels are asked for") {
    CHECK(kernels(dsl::ir_of<g::alibi_gradient>) == 1);
    CHECK(kernels(dsl::ir_of<g::mla_rope_gradient>) == 1);
    CHECK(kernels(dsl::ir_of<projected_gradient>) == 1);
    CHECK(kernels(dsl::ir_of<bent_gradient>) == 1);
    CHECK(kernels(dsl::ir_of<normed_gradient>) == 1);
    refuses<gated_gradient>(
        "yet: it is of a sum over projected queries, keys or values that counts something other than their channels; "
        "compute them before the call");
}

namespace {

inline constexpr auto k_of_row = input<"k_of_row", f32>(batch, head, query, depth);
inline constexpr auto v_of_row = input<"v_of_row", f32>(batch, head, query, value_depth);
inline constexpr auto kept_states = recurrence([](auto S) { return S + t(k_of_row) * v_of_row; });
inline constexpr auto recurring = q * kept_states;
inline constexpr auto recurring_gradient = gradient(recurring);

}  // namespace

TEST_CASE("gradients of recurrences are made on CPUs, of whole sequences") {
    const graph_ir graph = dsl::ir_of<recurring_gradient>;
    CHECK(kernels(graph) == 1);
    CHECK_THROWS_MATCHES(kernels(graph, "cuda"), std::runtime_error,
                         MessageMatches(ContainsSubstring("a recurrence has no kernel on a GPU yet")));
    const std::vector<variant> variants{{"my::gradient", graph}};
    build_request build;
    build.shapes = {"decode"}, build.dtypes = {"f32"}, build.depths = {"32"}, build.targets = {"x86-64-v3"};
    CHECK_THROWS_MATCHES(
        kernels_of(variants, build), std::runtime_error,
        MessageMatches(ContainsSubstring("gradients are summed over the queries; try SHAPES prefill")));
    build.shapes = {"prefill", "decode"};
    CHECK(kernels_of(variants, build).size() == 1);
}

namespace {

kernel_request first_request(const graph_ir& graph, const char* target, const char* dtype = "f32") {
    const std::vector<variant> variants{{"my::gradient", graph}};
    return kernels_of(variants, {.targets = {target}, .dtypes = {dtype}, .depths = {"32"}, .shapes = {"prefill"}})
        .at(0)
        .request;
}

void refuses_on(const char* target, const graph_ir& graph, const char* sentence, const char* dtype = "f32") {
    CHECK_THROWS_MATCHES(plan_kernel(first_request(graph, target, dtype)), std::runtime_error,
                         MessageMatches(ContainsSubstring(sentence)));
}

}  // namespace

TEST_CASE("gradients are made on CPUs and on CUDA, there without tables and projections") {
    CHECK(kernels(dsl::ir_of<g::causal_gradient>, "x86-64-v4", "bf16") == 1);
    CHECK(kernels(dsl::ir_of<g::causal_gradient>, "cuda") == 1);
    CHECK_NOTHROW(plan_kernel(first_request(dsl::ir_of<g::bias_heads_gradient>, "cuda")));
    refuses_on("opencl", dsl::ir_of<g::causal_gradient>,
               "gradients have no kernel for OpenCL yet; try TARGETS of CPUs or cuda");
    refuses_on("vulkan", dsl::ir_of<g::causal_gradient>,
               "gradients have no kernel for Vulkan yet; try TARGETS of CPUs or cuda");
    refuses_on(
        "cuda", dsl::ir_of<g::relative_table_gradient>,
        "the gradient \"dtable\", whose place is computed from a query and a key, has no kernel on a GPU yet; leave "
        "it out of wrt(...), or try TARGETS of CPUs");
    refuses_on("cuda", dsl::ir_of<g::mla_rope_gradient>,
               "which multiplies channels other than those of q, k and v, has no kernel on a GPU yet");
    refuses_on("cuda", dsl::ir_of<projected_gradient>, "has no kernel on a GPU yet");
    refuses_on("cuda", dsl::ir_of<g::causal_gradient>, "a gradient of bf16 or f16 has no kernel on a GPU yet", "bf16");
}

TEST_CASE("a gradient has a schedule of its own, whose blocks are as long of queries as of keys") {
    const std::vector<variant> variants{{"my::gradient", dsl::ir_of<g::causal_gradient>}};
    kernel_request request =
        kernels_of(variants, {.targets = {"x86-64-v3"}, .depths = {"32"}, .shapes = {"prefill"}}).at(0).request;
    cpu_gradient longer = std::get<cpu_gradient>(request.schedule);
    longer.block *= 2;
    request.schedule = longer;
    CHECK_NOTHROW(check(request));
    CHECK(request.blocks().query_block == 96);
    CHECK(request.blocks().key_block == 96);
    const std::string said = to_json(longer);
    CHECK_THROWS_MATCHES(schedule_from_json(said.substr(0, said.size() - 1) + R"(,"key_block":48})", *request.target),
                         std::runtime_error, MessageMatches(ContainsSubstring("got \"key_block\"; try without it")));
}
