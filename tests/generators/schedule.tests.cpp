// A schedule as data: its JSON form, and what is refused.
#include <attune/dsl.hpp>
#include "codegen/object.hpp"
#include "kernel/cpu_schedule.hpp"
#include "kernel/kernel_list.hpp"
#include "kernel/tensor_schedule.hpp"
#include "plans/kernel_plan.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <stdexcept>
#include <string>

using namespace attune::generators;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {
const level& v3 = level_named("x86-64-v3");
const level& cuda = level_named("cuda");
const cpu_prefill some = default_cpu_prefill(v3, {64, 64}, masking::none);
const cpu_decode few = default_cpu_decode(v3, masking::none);
constexpr gpu_prefill some_gpu{
    .query_block = 64, .key_block = 32, .query_tile = 4, .depth_unroll = 4, .key_tile = 4, .chunk = 4};
constexpr gpu_decode few_gpu{.query_block = 16,
                             .key_block = 64,
                             .query_tile = 8,
                             .depth_unroll = 4,
                             .key_tile = 4,
                             .value_tile = 8,
                             .chunk = 2,
                             .key_splits = 128};
constexpr gpu_tensor_prefill by_tensor_cores{.warps = 4, .tiles = 2, .key_block = 64};
constexpr cpu_gradient backward{
    .lanes = 8, .block = 48, .query_tile = 24, .key_tile = 4, .depth_unroll = 4, .sum_rows = 6, .sum_channels = 16};
constexpr gpu_gradient backward_gpu{
    .query_block = 32, .key_block = 64, .query_tile = 4, .depth_unroll = 4, .key_tile = 4};

std::string changed(const schedule& s, const std::string& from, const std::string& to) {
    std::string text = to_json(s);
    REQUIRE(text.find(from) != text.npos);
    return text.replace(text.find(from), from.size(), to);
}
void refuses(const std::string& text, const std::string& sentence, const level& target = v3) {
    CAPTURE(text);
    CHECK_THROWS_MATCHES(schedule_from_json(text, target), std::runtime_error,
                         MessageMatches(ContainsSubstring(sentence)));
}

template <class Cut> void breaks(Cut s, int Cut::* field, int value, const std::string& sentence) {
    s.*field = value;
    CAPTURE(sentence);
    CHECK_THROWS_MATCHES(check(s, {64, 64}), std::runtime_error, MessageMatches(ContainsSubstring(sentence)));
}
}  // namespace

TEST_CASE("a schedule comes back from its JSON, which has its own fields and no others") {
    CHECK(schedule_from_json(to_json(some), v3) == schedule(some));
    CHECK(schedule_from_json(to_json(few), v3) == schedule(few));
    CHECK(schedule_from_json(to_json(some_gpu), cuda) == schedule(some_gpu));
    CHECK(schedule_from_json(to_json(few_gpu), cuda) == schedule(few_gpu));
    CHECK(schedule_from_json(to_json(by_tensor_cores), cuda) == schedule(by_tensor_cores));
    CHECK(
        to_json(some_gpu) ==
        R"({"shapes":"prefill","query_block":64,"key_block":32,"query_tile":4,"depth_unroll":4,"key_tile":4,"chunk":4})");
    CHECK(to_json(few).find("chunk") == std::string::npos);
    CHECK(schedule_from_json(changed(some, "\"value_chunk\"", "\"chunk\""), v3) == schedule(some));
    refuses(changed(some, "\"pairing\"", "\"chunk\":8,\"pairing\""), "got \"chunk\"; try without it");
    CHECK(to_json(few_gpu).find("lanes") == std::string::npos);
    CHECK(schedule_from_json(to_json(backward), v3) == schedule(backward));
    CHECK(
        to_json(backward) ==
        R"({"shapes":"gradient","lanes":8,"block":48,"query_tile":24,"key_tile":4,"depth_unroll":4,"sum_rows":6,"sum_channels":16,"pairing":1})");
    refuses(to_json(backward), "expected a schedule with the field \"query_block\", got none", cuda);
    CHECK(schedule_from_json(to_json(backward_gpu), cuda) == schedule(backward_gpu));
    refuses(changed(some, "\"prefill\"", "\"recurrence\""),
            "expected a schedule's \"shapes\" to be \"prefill\", \"decode\" or \"gradient\" on a GPU", cuda);
    refuses(changed(backward, "\"block\":48", "\"key_block\":48"),
            "expected a schedule with the field \"block\", got none; its fields are shapes, lanes, block, query_tile");
    refuses(changed(backward, "\"block\":48", "\"block\":48,\"key_block\":96"), "got \"key_block\"; try without it");
    refuses(to_json(some_gpu), "expected a schedule with the field \"lanes\", got none");
    refuses(to_json(few), "expected a schedule with the field \"chunk\", got none", cuda);
}

TEST_CASE("a schedule is read that says what those of all targets and shapes did, up to version 0.1") {
    const auto old = [](const char* shapes, int lanes, int chunk, int value_tile, int splits, int pairing) {
        return R"({"shapes":")" + std::string(shapes) + R"(","lanes":)" + std::to_string(lanes) +
               R"(,"query_block":64,"key_block":64,"query_tile":8,"depth_unroll":4,"key_tile":4,"value_tile":)" +
               std::to_string(value_tile) + R"(,"chunk":)" + std::to_string(chunk) + R"(,"key_splits":)" +
               std::to_string(splits) + R"(,"pairing":)" + std::to_string(pairing) + "}";
    };
    CHECK(schedule_from_json(old("prefill", 8, 8, 4, 1, 2), v3) == schedule(cpu_prefill{8, 64, 64, 8, 4, 4, 4, 8, 2}));
    CHECK(schedule_from_json(old("decode", 8, 1, 4, 16, 1), v3) == schedule(cpu_decode{8, 64, 64, 8, 4, 4, 4, 16}));
    CHECK(schedule_from_json(old("prefill", 1, 8, 3, 1, 1), cuda) == schedule(gpu_prefill{64, 64, 8, 4, 4, 8}));
    CHECK(schedule_from_json(old("decode", 1, 2, 4, 64, 1), cuda) == schedule(gpu_decode{64, 64, 8, 4, 4, 4, 2, 64}));
    // Fields of another type are not dropped unread.
    refuses(old("prefill", 8, 8, 4, 2, 1), "expected a schedule's key_splits to be 1 in prefill, got 2; try 1");
    refuses(old("decode", 8, 8, 4, 16, 1), "expected a schedule's chunk to be 1 in decode, got 8; try 1");
    refuses(old("decode", 8, 1, 4, 16, 2), "expected a schedule's pairing to be 1 in decode, got 2; try 1");
    refuses(old("prefill", 8, 8, 4, 1, 1), "expected a schedule's lanes to be 1 on a GPU, got 8; try 1", cuda);
    refuses(old("prefill", 1, 8, 4, 1, 2), "expected a schedule's pairing to be 1 on a GPU, got 2; try 1", cuda);
    refuses(old("prefill", 1, 8, 4, 8, 1), "expected a schedule's key_splits to be 1 in prefill, got 8; try 1", cuda);
    refuses(old("decode", 8, 2, 4, 8, 1), "expected a schedule's lanes to be 1 on a GPU, got 8; try 1", cuda);
    refuses(old("prefill", 1, 8, 4, 1, 1), "expected a schedule's lanes to be those of a level, 4, 8 or 16, got 1");
}

TEST_CASE("a schedule that is not one is refused, and the sentence names the field") {
    refuses("{", "expected a schedule as a JSON object with the fields shapes, lanes");
    refuses("[]", "expected a schedule as a JSON object with the fields shapes, lanes");
    refuses("{}", "expected a schedule with the field \"shapes\", got none");
    refuses(changed(some, "\"prefill\"", "\"sideways\""),
            "expected a schedule's \"shapes\" to be prefill, decode, gradient or recurrence, got \"sideways\"");
    refuses(
        changed(some, "\"prefill\"", "1"),
        "expected a schedule's \"shapes\" to be text, \"prefill\", \"decode\", \"gradient\" or \"recurrence\", got 1");
    refuses(changed(some, "\"lanes\":8", "\"lanes\":\"8\""),
            "expected a schedule's \"lanes\" to be an integer of 32 bits, got \"8\"");
    refuses(changed(some, "\"lanes\":8", "\"lanes\":4294967304"),
            "expected a schedule's \"lanes\" to be an integer of 32 bits, got 4294967304");
    refuses(changed(some, "\"lanes\":8", "\"lanes\":8,\"colour\":1"), "got \"colour\"; try without it");
    refuses(changed(some, "\"key_block\":128", "\"key_block\":100000"),
            "expected a schedule's key_block to be 4096 at most, got 100000; try 4096");
}

TEST_CASE("a schedule that breaks a rule is refused, and the sentence names the rule and a number that keeps it") {
    breaks(some, &cpu_prefill::lanes, 0, "expected a schedule's lanes to be 1 or more, got 0; try 1");
    breaks(some, &cpu_prefill::query_tile, 25,
           "expected a schedule's query_tile to be a multiple of lanes, 8, got 25; try 24");
    breaks(some, &cpu_prefill::query_block, 25,
           "expected a schedule's query_block to be a multiple of query_tile, 24, got 25; try 24");
    breaks(some, &cpu_prefill::query_block, 8,
           "expected a schedule's query_block to be a multiple of query_tile, 24, got 8; try 24");
    breaks(some, &cpu_prefill::key_block, 255,
           "expected a schedule's key_block to be a multiple of key_tile, 4, got 255; try 252");
    breaks(some, &cpu_prefill::depth_unroll, 6,
           "expected a schedule's depth_unroll to be a divisor of the depth, 64, got 6; try 2");
    breaks(some, &cpu_prefill::chunk, 15,
           "expected a schedule's value_chunk to be a multiple of value_tile, 4, got 15; try 12");
    CHECK_NOTHROW(check(few, {64, 64}));
    breaks(few, &cpu_decode::key_tile, 6,
           "expected a schedule's key_tile to be a divisor of lanes, 8, in decode, got 6; try 2");
    breaks(few, &cpu_decode::key_block, 100,
           "expected a schedule's key_block to be a multiple of lanes, 8, in decode, got 100; try 96");
    breaks(some_gpu, &gpu_prefill::depth_unroll, 6,
           "expected a schedule's depth_unroll to be a divisor of the depth, 64, got 6; try 2");
    CHECK_NOTHROW(check(few_gpu, {64, 64}));
    breaks(few_gpu, &gpu_decode::key_block, 100,
           "key_block to be a multiple of the threads that share a key, 8, in decode, got 100; try 96");
}

TEST_CASE("a gradient's schedule that breaks a rule or is beyond a limit is refused by a sentence") {
    CHECK_NOTHROW(check(backward, {64, 64}));
    breaks(backward, &cpu_gradient::lanes, 7, "lanes to be those of a level, 4, 8 or 16, got 7; try 4");
    breaks(backward, &cpu_gradient::lanes, 64, "lanes to be 16 at most, got 64; try 16");
    breaks(backward, &cpu_gradient::query_tile, 20, "query_tile to be a multiple of lanes, 8, got 20; try 16");
    breaks(backward, &cpu_gradient::block, 64, "block to be a multiple of query_tile, 24, got 64; try 48");
    breaks(backward, &cpu_gradient::key_tile, 5, "block to be a multiple of key_tile, 5, got 48; try 45");
    breaks(backward, &cpu_gradient::depth_unroll, 6, "depth_unroll to be a divisor of the depth, 64, got 6; try 2");
    breaks(backward, &cpu_gradient::sum_rows, 5, "sum_rows to be a divisor of block, 48, got 5; try 1");
    breaks(backward, &cpu_gradient::sum_channels, 20, "sum_channels to be a multiple of lanes, 8, got 20; try 16");
    breaks(backward, &cpu_gradient::sum_channels, 24,
           "sum_channels to be a divisor of the channels of a sum, 64, got 24; try 8");
    breaks(backward, &cpu_gradient::block, 1025, "block to be 1024 at most, got 1025; try 1024");
    breaks(backward, &cpu_gradient::query_tile, 257, "query_tile to be 256 at most, got 257; try 256");
    breaks(backward, &cpu_gradient::key_tile, 65, "key_tile to be 64 at most, got 65; try 64");
    breaks(backward, &cpu_gradient::depth_unroll, 65, "depth_unroll to be 64 at most, got 65; try 64");
    breaks(backward, &cpu_gradient::sum_rows, 257, "sum_rows to be 256 at most, got 257; try 256");
    breaks(backward, &cpu_gradient::sum_channels, 4097, "sum_channels to be 4096 at most, got 4097; try 4096");
    cpu_gradient written_out = backward;
    written_out.block = 768, written_out.depth_unroll = 64;
    breaks(written_out, &cpu_gradient::key_tile, 6,
           "key_tile to be 5 at most beside its query_tile and depth_unroll, got 6; try 5");
    written_out.depth_unroll = 4, written_out.sum_channels = 64;
    breaks(written_out, &cpu_gradient::sum_rows, 256, "sum_rows to be 128 at most beside its sum_channels, got 256");
    // A row of sums is as wide as the wider of both depths, in whole vectors.
    CHECK(width_of_sums(8, {20, 3}) == 24);
    CHECK(width_of_sums(8, {20, 33}) == 40);
}

namespace {
using namespace attune::dsl;
inline constexpr auto width = scalar<"width", i32>;
inline constexpr auto widths = input<"widths", i32>(head);
inline constexpr auto weights = [](auto seen) { return softmax(mask(q * t(k) * rsqrt(depth), seen)) * v; };
inline constexpr auto plain = softmax(q * t(k) * rsqrt(depth)) * v;
inline constexpr auto with_sum = outputs(out = plain, lse = log_sum_exp(q * t(k) * rsqrt(depth)));
inline constexpr auto plain_gradient = gradient(with_sum);
inline constexpr auto triangle = weights(causal);
inline constexpr auto pages = input<"pages", bf16>(axis<"page">, key_head, axis<"token">, depth);
inline constexpr auto page_of = input<"page_of", i32>(depth);
inline constexpr auto in_pages = [](auto page) {
    return softmax(q * t(keys(pages(page, h, kv_idx % 16, d_idx), key_length))) * v;
};
inline constexpr auto paged = in_pages(kv_idx / 16);
inline constexpr auto scattered = in_pages(page_of(d_idx));  // channels lie in pages of their own
inline constexpr auto of_f32 = input<"of_f32", f32>(batch, key_head, key, depth);
inline constexpr auto scaled = softmax(q * t(keys(of_f32(b, h, kv_idx, d_idx) * 0.5))) * v;
inline constexpr auto n = bound_index<"n">;
inline constexpr auto normed =
    softmax(queries(q(b, h, q_idx, d_idx) * rsqrt(sum(n, depth, q(b, h, q_idx, n) * q(b, h, q_idx, n)))) * t(k)) * v;
inline constexpr auto near = weights(causal && window(1024, 0));
inline constexpr auto far = weights(causal && window(1025, 0));
inline constexpr auto told = weights(window(width, width));
inline constexpr auto told_by_head = weights(causal && kv_idx + widths(h) > q_idx);
inline constexpr auto at_the_end = weights(bottom_right(window(99, 0)));
inline constexpr auto ahead = weights(kv_idx - q_idx <= width);
inline constexpr auto with_sinks = weights(causal && (window(99, 0) || kv_idx < 4));
inline constexpr auto of_cache = weights(kv_idx - q_idx <= kv_lengths(b) - query_length);
}  // namespace

TEST_CASE("a window is seen however it is spelt: short ones and those whose width the call tells, not long ones") {
    CHECK(facts_of(ir_of<plain>)->hides == masking::none);
    CHECK(facts_of(ir_of<triangle>)->hides == masking::some);
    CHECK(facts_of(ir_of<near>)->hides == masking::window);
    CHECK(facts_of(ir_of<far>)->hides == masking::some);
    CHECK(facts_of(ir_of<told>)->hides == masking::window);
    CHECK(facts_of(ir_of<told_by_head>)->hides == masking::window);
    CHECK(facts_of(ir_of<at_the_end>)->hides == masking::window);
    CHECK(facts_of(ir_of<ahead>)->hides == masking::some);
    CHECK(facts_of(ir_of<with_sinks>)->hides == masking::some);
    CHECK(facts_of(ir_of<of_cache>)->hides == masking::some);
}

namespace {
template <class Cut> void breaks_common_limits(const Cut& s) {
    breaks(s, &Cut::query_block, 4097, "query_block to be 4096 at most, got 4097; try 4096");
    breaks(s, &Cut::key_block, 100000, "key_block to be 4096 at most, got 100000; try 4096");
    breaks(s, &Cut::query_tile, 257, "query_tile to be 256 at most, got 257; try 256");
    breaks(s, &Cut::depth_unroll, 65, "depth_unroll to be 64 at most, got 65; try 64");
    breaks(s, &Cut::key_tile, 65, "key_tile to be 64 at most, got 65; try 64");
    if constexpr (requires { &Cut::lanes; }) {
        breaks(s, &Cut::lanes, 64, "lanes to be 16 at most, got 64; try 16");
        breaks(s, &Cut::lanes, 7, "lanes to be those of a level, 4, 8 or 16, got 7; try 4");
    }
    if constexpr (requires { &Cut::value_tile; })
        breaks(s, &Cut::value_tile, 257, "value_tile to be 256 at most, got 257; try 256");
    if constexpr (requires { &Cut::chunk; })
        breaks(s, &Cut::chunk, 4097, "chunk to be 4096 at most, got 4097; try 4096");
    if constexpr (requires { &Cut::key_splits; })
        breaks(s, &Cut::key_splits, 1000000, "key_splits to be 1024 at most, got 1000000; try 1024");
    if constexpr (std::is_same_v<Cut, cpu_gradient>)
        breaks(s, &Cut::pairing, 3, "pairing to be 2 at most, got 3; try 2");
    if constexpr (std::is_same_v<Cut, cpu_prefill>) {
        breaks(s, &Cut::pairing, 65, "pairing to be 64 at most, got 65; try 64");
        breaks(s, &Cut::pairing, 3, "pairing to be 1, 2, 4, 32 or 64, got 3; try 1");
    }
}
}  // namespace

TEST_CASE("a schedule beyond a limit is refused, and the sentence names the limit") {
    CHECK_NOTHROW(check(some_gpu, {64, 64}));
    breaks_common_limits(some), breaks_common_limits(few), breaks_common_limits(some_gpu),
        breaks_common_limits(few_gpu);
    cpu_prefill written_out = some;
    written_out.depth_unroll = 64, written_out.key_block = 64;
    breaks(written_out, &cpu_prefill::key_tile, 8,
           "key_tile to be 5 at most beside its query_tile and depth_unroll, got 8; try 5");
    written_out.query_tile = written_out.query_block = 256, written_out.depth_unroll = 1, written_out.chunk = 64;
    breaks(written_out, &cpu_prefill::value_tile, 64,
           "value_tile to be 32 at most beside its query_tile, got 64; try 32");
    breaks(some_gpu, &gpu_prefill::key_block, 512,
           "key_block to be 256 at most beside its key_tile, query_block and query_tile, got 512; try 256");
    breaks(some_gpu, &gpu_prefill::chunk, 512, "chunk to be 256 at most beside its query_tile, got 512; try 256");
    breaks(few_gpu, &gpu_decode::key_block, 1024, "key_block to be 512 at most beside its key_tile, got 1024; try 512");
}

TEST_CASE("tensor cores are for depths and blocks of whole tiles, and for formulas that they can make") {
    CHECK_NOTHROW(check(by_tensor_cores, {64, 64}));
    breaks(by_tensor_cores, &gpu_tensor_prefill::key_block, 24,
           "key_block to be a multiple of the keys of two tiles, 16, got 24; try 16");
    breaks(by_tensor_cores, &gpu_tensor_prefill::key_block, 160,
           "key_block to be 128 at most beside its tiles and the value depth, got 160; try 128");
    breaks(by_tensor_cores, &gpu_tensor_prefill::tiles, 5, "tiles to be 4 at most, got 5; try 4");
    breaks(by_tensor_cores, &gpu_tensor_prefill::warps, 0, "warps to be 1 or more, got 0; try 1");
    for (const depth_pair depths : {depth_pair{72, 64}, depth_pair{64, 8}, depth_pair{512, 64}})
        CHECK_THROWS_WITH(check(by_tensor_cores, depths),
                          ContainsSubstring("expected depths that are multiples of 16 up to 256"));
    kernel_request request{facts_of(ir_of<plain>), element_types_from("bf16"), {64, 64}, &cuda, by_tensor_cores, true};
    CHECK_NOTHROW(check(request));
    CHECK(blocks_of(default_gpu_tensor_prefill(request)).query_block == 128);
    const auto refused = [&](const std::string& why) {
        CHECK_THROWS_WITH(check(request), ContainsSubstring("no kernel for tensor cores: " + why));
    };
    request.finite = false;
    CHECK_NOTHROW(check(request));
    CHECK(marks_tasks(request));  // keys behind the last one have weight 0, too
    request.facts = facts_of(ir_of<triangle>);
    CHECK_NOTHROW(check(request));
    CHECK(marks_tasks(request));
    request.finite = true;
    CHECK_FALSE(marks_tasks(request));
    request.facts = facts_of(ir_of<paged>);
    CHECK_NOTHROW(check(request));
    request.facts = facts_of(ir_of<scattered>);
    CHECK_NOTHROW(check(request));  // computed as they are read
    request.facts = facts_of(ir_of<normed>), refused("queries, keys or values are computed by sums");
    request.facts = facts_of(ir_of<scaled>), refused("queries, keys or values are computed from rows of f32");
    request.facts = facts_of(ir_of<triangle>);
    request.types = element_types_from("f32"), refused("q, k and v are not all bf16");
    request.tf32_products = 3;
    CHECK_NOTHROW(check(request));
    request.facts = facts_of(ir_of<scaled>);
    CHECK_NOTHROW(check(request));  // computed in f32, and multiplied so
    request.schedule = gpu_tensor_decode{.query_block = 16, .warps = 1, .key_block = 64, .key_splits = 128};
    refused("calls of few queries multiply f32 without them");
    request.schedule = by_tensor_cores, request.facts = facts_of(ir_of<triangle>), request.tf32_products = 0;
    request.types = element_types_from("bf16"), request.depths = {72, 64}, refused("the depths, 72x64, are not");
}

TEST_CASE("what is a GPU is the target's matter: a schedule for a CPU is refused there, and the other way round") {
    const element_types f32 = element_types_from("f32");
    CHECK_NOTHROW(check(kernel_request{facts_of(ir_of<plain>), f32, {64, 64}, &v3, some}));
    CHECK_NOTHROW(check(kernel_request{facts_of(ir_of<plain>), f32, {64, 64}, &cuda, some_gpu}));
    CHECK_THROWS_WITH(check(kernel_request{facts_of(ir_of<plain>), f32, {64, 64}, &cuda, some}),
                      ContainsSubstring("expected a schedule for a GPU, got {\"shapes\":\"prefill\",\"lanes\":8"));
    CHECK_THROWS_WITH(check(kernel_request{facts_of(ir_of<plain>), f32, {64, 64}, &v3, few_gpu}),
                      ContainsSubstring("expected a schedule for a CPU, got {\"shapes\":\"decode\""));
}

TEST_CASE("a schedule for a gradient is one for nothing else, and the other way round") {
    const element_types f32 = element_types_from("f32");
    const auto of_gradient = facts_of(ir_of<plain_gradient>), of_attention = facts_of(ir_of<plain>);
    CHECK_NOTHROW(check(kernel_request{of_gradient, f32, {64, 64}, &v3, backward}));
    CHECK_THROWS_WITH(check(kernel_request{of_gradient, f32, {64, 64}, &v3, some}),
                      ContainsSubstring("expected a schedule for a gradient, got {\"shapes\":\"prefill\""));
    CHECK_THROWS_WITH(check(kernel_request{of_attention, f32, {64, 64}, &v3, backward}),
                      ContainsSubstring("expected a schedule for attention, got {\"shapes\":\"gradient\""));
}

namespace {
inline constexpr auto with_row = outputs(out = softmax(q * t(k)) * v, output<"weights"> = softmax(q * t(k)));
}  // namespace

TEST_CASE("the version of Halide, which is part of what an object depends on, is known") {
    CHECK_THAT(halide_version(), Catch::Matchers::Matches("[0-9]+[.][0-9]+[.][0-9]+"));
}

TEST_CASE("a graph that is not one kernel is refused by its name, for whatever it is asked") {
    attune::graph_ir nothing = ir_of<plain>;
    nothing.outputs = {};
    const variant all[] = {{"my::plain", ir_of<plain>}, {"my::nothing", nothing}, {"my::with_row", ir_of<with_row>}};
    const auto refuses = [&](std::size_t which, const build_request& build, const std::string& sentence) {
        const variant two[] = {all[0], all[which]};
        CHECK_THROWS_MATCHES(kernels_of(two, build), std::runtime_error, MessageMatches(ContainsSubstring(sentence)));
    };
    for (const char* target : {"x86-64-v3", "cuda"})
        refuses(1, {.targets = {target}}, "my::nothing: expected a graph with an output, got none");
    refuses(2, {.targets = {"x86-64-v3"}, .shapes = {"decode"}}, "my::with_row: no kernel for decode: ");
    refuses(2, {.targets = {"x86-64-v3"}, .shapes = {"prefill:my::plain"}},
            "my::with_row: expected prefill or decode in SHAPES");
    refuses(1, {.targets = {"x86-64-v3"}, .dtypes = {"f31"}}, "expected an element type among");
}
