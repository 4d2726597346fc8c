// Graphs with several attention cores, compiled in process for every level that runs here, beside the reference.
#include "../support/workload_values.hpp"
#include "cores_formulas.hpp"
#include "inspect/draw.hpp"
#include "kernel/kernel_list.hpp"
#include "lower.hpp"
#include "plans/kernel_plan.hpp"
#include "tested_levels.hpp"
#include "tuner/jit_kernel.hpp"

#include <attune/dsl.hpp>
#include <attune/runtime/cpu.hpp>
#include <attune/runtime/detail/call.hpp>
#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>

using namespace attune;
using support::workload;

namespace {
using namespace attune::dsl;

using cores::gate, cores::k2, cores::lambda, cores::other_scores, cores::q2, cores::scores, cores::v2;
inline constexpr auto sinks = input<"sinks", f32>(head);

inline constexpr auto global = mask(scores, causal);
inline constexpr auto local = mask(scores, causal&& kv_idx > q_idx - 16);
inline constexpr auto behind = mask(scores, causal&& kv_idx <= q_idx - 16);

/// Ye et al. 2024: what two softmaxes have in common is noise.
inline constexpr auto differential = softmax(global) * v - lambda(h) * (softmax(mask(other_scores, causal)) * v);
/// Branches of one formula each, as in NSA (Yuan et al. 2025): g local + (1 - g) global.
inline constexpr auto gated =
    gate(b, h, q_idx) * (softmax(local) * v) + (1.0 - gate(b, h, q_idx)) * (softmax(global) * v);
inline constexpr auto two_values =
    outputs(out = softmax(global) * v, output<"other"> = softmax(global) * v2, lse = log_sum_exp(global));
inline constexpr auto merged =
    merge(state(softmax(local) * v, log_sum_exp(local)), state(softmax(behind) * v, log_sum_exp(behind))).out;
inline constexpr auto apart = outputs(out = softmax(mask(scores, kv_idx <= q_idx + 30)) * v,
                                      output<"far"> = softmax(mask(scores, kv_idx > 20)) * v);
inline constexpr auto relu = unnormalized(max(scores, 0.0));
inline constexpr auto of_everything = outputs(
    out = softmax(global, sinks(h)) * v + relu * v2 / max(row_sum(relu), 1e-3), output<"near"> = softmax(local) * v2,
    lse = log_sum_exp(global), output<"sum"> = row_sum(where(kv_idx % 3 == 0, softmax(local), 0)),
    output<"top"> = row_maximum(other_scores));

/// NSA (Yuan et al. 2025): its compressed, selected and sliding branches, gated. Blocks have 16 keys.
inline constexpr auto gates = input<"gates", f32>(batch, head, query, axis<"branch">);
inline constexpr auto compressed_k = input<"compressed_k", f32>(batch, key_head, axis<"block">, depth);
inline constexpr auto compressed_v = input<"compressed_v", f32>(batch, key_head, axis<"block">, value_depth);
inline constexpr auto selected = input<"selected", boolean>(batch, key_head, query, axis<"block">);
inline constexpr auto block = min(kv_idx, extent<2>(compressed_k) - 1);
inline constexpr auto compressed = mask(q * t(keys(compressed_k(b, h, block, d_idx))) * rsqrt(depth),
                                        kv_idx < extent<2>(compressed_k) && 16 * kv_idx + 15 <= q_idx);
inline constexpr auto nsa =
    gates(b, h, q_idx, 0) * (softmax(compressed) * values(compressed_v(b, h, block, d_idx))) +
    gates(b, h, q_idx, 1) * (softmax(mask(scores, causal&& selected(b, h, q_idx, kv_idx / 16))) * v) +
    gates(b, h, q_idx, 2) * (softmax(local) * v);
/// A decoder block's attention to its own tokens and to the encoder's.
inline constexpr auto encoder_k = input<"encoder_k", f32>(batch, key_head, axis<"token">, depth);
inline constexpr auto encoder_v = input<"encoder_v", f32>(batch, key_head, axis<"token">, value_depth);
inline constexpr auto token = min(kv_idx, extent<2>(encoder_k) - 1);
inline constexpr auto cross =
    mask(q2 * t(keys(encoder_k(b, h, token, d_idx))) * rsqrt(depth), kv_idx < extent<2>(encoder_k));
inline constexpr auto self_and_cross =
    outputs(out = softmax(global) * v, output<"crossed"> = softmax(cross) * values(encoder_v(b, h, token, d_idx)));

struct graph {
    const char* name;
    graph_ir ir;
};
const std::array graphs{graph{"differential", ir_of<differential>}, graph{"gated", ir_of<gated>},
                        graph{"two_values", ir_of<two_values>}, graph{"merged", ir_of<merged>},
                        graph{"of_everything", ir_of<of_everything>}};

generators::kernel_request request_of(const generators::variant& v, std::string_view level, const char* types) {
    return generators::kernels_of(
               {&v, 1}, {.targets = {std::string(level)}, .dtypes = {types}, .depths = {"32"}, .shapes = {"prefill"}})
        .front()
        .request;
}

/// A kernel for prefill or decode beside the reference.
class compared {
public:
    compared(const graph& of, std::string_view level, element_type type, const char* shape = "prefill")
        : of_(of),
          type_(type),
          variant_{of.name, of.ir},
          kernel_(generators::kernels_of({&variant_, 1}, {.targets = {std::string(level)},
                                                          .dtypes = {std::string(name_of(type))},
                                                          .depths = {"32"},
                                                          .shapes = {shape}})
                      .front()) {}

    void operator()(const support::shape& shape, std::vector<std::int32_t> in_use, double allowed) const {
        workload call(of_.ir, shape, 7);
        if (!in_use.empty()) call.set_lengths(std::move(in_use));
        check(call, shape, allowed);
    }

    void check(workload& call, const support::shape& shape, double allowed) const {
        if (type_ != element_type::f32) convert(call);
        const auto expected = call.expected();
        for (const int threads : {1, 2}) {
            call.reset_outputs();
            attune::detail::call(kernel_.table(), call.arguments(), {.threads = threads});
            for (const output_declaration& output : of_.ir.outputs) {
                CAPTURE(of_.name, kernel_.table().kernels.front().target, name_of(type_), threads, output.name,
                        shape.text());
                CHECK(call.largest_error(expected, output.name) <= allowed);
            }
            CHECK(outputs_untouched(call, true));
        }
    }

private:
    void convert(workload& call) const {
        for (const input_declaration& input : of_.ir.inputs)
            if (input.element == element_type::any) call.convert(input.name, type_);
        for (const output_declaration& output : of_.ir.outputs)
            if (of_.ir.nodes[output.node].kind == kind::output) call.convert(output.name, type_);
    }

    const graph& of_;
    element_type type_;
    generators::variant variant_;
    generators::jit_kernel kernel_;
};

const generators::level& best_level() {
    return *std::ranges::find_if(generators::levels(),
                                 [](const auto& each) { return runs(each.name) && !each.is_for_bf16(); });
}
}  // namespace

TEST_CASE("several softmaxes in one call give what the reference gives", "[cores]") {
    for (const graph& of : graphs) {
        const compared call(of, best_level().name, element_type::f32);
        for (const support::shape& shape :
             {support::shape{.batches = 2, .heads = 4, .key_heads = 2, .queries = 77, .keys = 139},
              support::shape{.heads = 2, .key_heads = 1, .queries = 200, .keys = 200, .gaps = true},
              support::shape{.heads = 1, .key_heads = 1, .queries = 1, .keys = 1}})
            call(shape, {}, 2e-5);
        call({.batches = 3, .heads = 2, .key_heads = 2, .queries = 30, .keys = 90}, {90, 0, 7}, 2e-5);
    }
}

TEST_CASE("several softmaxes of bf16 agree with the reference", "[cores]") {
    const support::shape shape{.batches = 2, .heads = 4, .key_heads = 2, .queries = 60, .keys = 110};
    compared(graphs.back(), best_level().name, element_type::bf16)(shape, {}, 0.02);
}

TEST_CASE("decode makes several softmaxes in one call, over all keys, few of them and none", "[cores]") {
    for (const graph& of : graphs) {
        const compared call(of, best_level().name, element_type::f32, "decode");
        call({.batches = 2, .heads = 4, .key_heads = 2, .queries = 1, .keys = 139}, {}, 2e-5);
        call({.heads = 8, .key_heads = 1, .queries = 3, .keys = 700, .gaps = true}, {}, 2e-5);
        call({.batches = 3, .heads = 2, .key_heads = 2, .queries = 2, .keys = 90}, {90, 0, 7}, 2e-5);
    }
    compared(graphs.back(), best_level().name, element_type::bf16, "decode")(
        {.batches = 2, .heads = 4, .key_heads = 2, .queries = 2, .keys = 300}, {}, 0.02);
}

TEST_CASE("branches over keys of their own are one call: compressed blocks, an encoder's tokens", "[cores]") {
    for (const graph& of : {graph{"nsa", ir_of<nsa>}, graph{"self_and_cross", ir_of<self_and_cross>}})
        for (const char* const kind : {"prefill", "decode"}) {
            const compared kernel(of, best_level().name, element_type::f32, kind);
            for (support::shape shape :
                 {support::shape{.batches = 2, .heads = 4, .key_heads = 2, .queries = 77, .keys = 139},
                  support::shape{.heads = 2, .key_heads = 1, .queries = 200, .keys = 200, .gaps = true}}) {
                if (kind[0] == 'd') shape.queries = 3;
                workload call(of.ir, shape, 7, {}, {{"block", 17}, {"token", 40}});
                kernel.check(call, shape, 2e-5);
            }
        }
}

TEST_CASE("a NaN reaches the rows of each softmax that sees it, and of no other, at every level", "[cores][nan]") {
    const graph near_and_far{"apart", ir_of<apart>};
    for (const generators::level& level : testing::tested_levels())
        for (const char* const kind : {"prefill", "decode"}) {
            if (level.is_gpu || !runs(level.name) || level.is_for_bf16()) continue;
            const compared kernel(near_and_far, level.name, element_type::f32, kind);
            const support::shape shape{.heads = 2, .key_heads = 1, .queries = kind[0] == 'p' ? 70 : 3, .keys = 70};
            for (const char* const input : {"k", "v"})
                for (const std::size_t key : {0, 2, 25, 69}) {
                    workload call(near_and_far.ir, shape, 7);
                    call[input].reals[key * static_cast<std::size_t>(shape.depth) + 9] = std::nanf("");
                    INFO(input << " of key " << key);
                    kernel.check(call, shape, 2e-5);
                }
        }
}

TEST_CASE("the flops, the scratch and the blocks of several softmaxes are those of all", "[cores]") {
    const generators::variant both{"both", ir_of<gated>};
    const auto request = request_of(both, "x86-64-v3", "f32");
    CHECK(request.core().others.size() == 1);
    CHECK(generators::plan_kernel(request).bytes.of_thread >
          generators::plain_scratch_bytes(request.schedule, request.depths) * 2);
}

TEST_CASE("a picture shows the pairs that any of several softmaxes sees, and the blocks that a kernel visits",
          "[cores]") {
    const generators::variant both{"my::apart", ir_of<apart>};
    const auto request = request_of(both, best_level().name, "f32");
    generators::draw_request asked;
    asked.queries = 100, asked.keys = 400, asked.heads = asked.key_heads = 2, asked.depth = asked.value_depth = 32;
    const auto drawn = generators::picture_of(both, request, asked, {});
    REQUIRE((drawn.queries == 100 && drawn.keys == 400));
    const auto [query_block, key_block] = drawn.cut;
    // Nothing, some or all of a block's pairs are seen by one, by the other.
    std::vector<std::array<bool, 4>> blocks(drawn.blocks.size(), {false, true, false, true});
    bool same = true;
    for (int query = 0; query < drawn.queries; ++query)
        for (int key = 0; key < drawn.keys; ++key) {
            const bool one = key <= query + 30, other = key > 20;
            same = same && (drawn.visible[static_cast<std::size_t>(query * drawn.keys + key)] != 0) == (one || other);
            auto& block = blocks[static_cast<std::size_t>(query / query_block * drawn.key_blocks() + key / key_block)];
            block[0] = block[0] || one, block[1] = block[1] && one, block[2] = block[2] || other,
            block[3] = block[3] && other;
        }
    CHECK(same);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
        const auto [any_of_one, all_of_one, any_of_other, all_of_other] = blocks[i];
        CAPTURE(i);
        CHECK((drawn.blocks[i] != 0) == (any_of_one || any_of_other));
        if (drawn.blocks[i] == 2) CHECK(((all_of_one || !any_of_one) && (all_of_other || !any_of_other)));
    }
    CHECK(std::ranges::count(drawn.blocks, 2) > 0);
    CHECK(generators::svg_of(drawn, {}).starts_with("<svg"));
    CHECK(generators::json_of(drawn).find("\"blocks\"") != std::string::npos);
}

TEST_CASE("Vulkan refuses several softmaxes in one sentence", "[cores]") {
    using Catch::Matchers::ContainsSubstring;
    using Catch::Matchers::MessageMatches;
    const generators::variant both{"my::both", ir_of<gated>};
    const auto planned = generators::kernels_of(
        {&both, 1}, {.targets = {"vulkan"}, .dtypes = {"f32"}, .depths = {"32"}, .shapes = {"prefill"}});
    CHECK_THROWS_MATCHES(
        generators::lower(planned.front().request), std::runtime_error,
        MessageMatches(ContainsSubstring(
            "more than one softmax has no kernel for Vulkan yet; try TARGETS of CPUs, opencl or cuda")));
}
