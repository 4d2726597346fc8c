// A schedule as data: its JSON form, and what is refused.
#include <attune/dsl.hpp>
#include "codegen/object.hpp"
#include "kernel/kernel_list.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <stdexcept>
#include <string>

using namespace attune::generators;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {
const schedule some = default_schedule(level_named("x86-64-v3"), 64, 64, masking::none);

std::string changed(const std::string& from, const std::string& to) {
    std::string text = to_json(some);
    return text.replace(text.find(from), from.size(), to);
}
void refuses(const std::string& text, const std::string& sentence) {
    CHECK_THROWS_MATCHES(schedule_from_json(text), std::runtime_error, MessageMatches(ContainsSubstring(sentence)));
}
}  // namespace

TEST_CASE("a schedule comes back from its JSON") { CHECK(schedule_from_json(to_json(some)) == some); }

TEST_CASE("a schedule that is not one is refused, and the sentence names the field") {
    refuses("{", "expected a schedule as a JSON object with the fields shapes, lanes");
    refuses("[]", "expected a schedule as a JSON object with the fields shapes, lanes");
    refuses("{}", "expected a schedule with the field \"shapes\", got none");
    refuses(changed("\"prefill\"", "\"sideways\""), "expected a class of shapes, prefill or decode, got \"sideways\"");
    refuses(changed("\"prefill\"", "1"),
            "expected a schedule's \"shapes\" to be text, \"prefill\" or \"decode\", got 1");
    refuses(changed("\"lanes\":8", "\"lanes\":\"8\""),
            "expected a schedule's \"lanes\" to be an integer of 32 bits, got \"8\"");
    refuses(changed("\"lanes\":8", "\"lanes\":4294967304"),
            "expected a schedule's \"lanes\" to be an integer of 32 bits, got 4294967304");
    refuses(changed("\"lanes\":8", "\"lanes\":8,\"colour\":1"), "got \"colour\"; try without it");
}

TEST_CASE("a schedule that breaks a rule is refused, and the sentence names the rule and a number that keeps it") {
    const auto breaks = [](schedule s, int schedule::* field, int value, const std::string& sentence) {
        s.*field = value;
        CHECK_THROWS_MATCHES(check(s, 64), std::runtime_error, MessageMatches(ContainsSubstring(sentence)));
    };
    breaks(some, &schedule::lanes, 0, "expected a schedule's lanes to be 1 or more, got 0; try 1");
    breaks(some, &schedule::query_tile, 25,
           "expected a schedule's query_tile to be a multiple of lanes, 8, got 25; try 24");
    breaks(some, &schedule::query_block, 25,
           "expected a schedule's query_block to be a multiple of query_tile, 24, got 25; try 24");
    breaks(some, &schedule::key_splits, 2, "expected a schedule's key_splits to be 1 in prefill, got 2; try 1");
    breaks(some, &schedule::key_block, 255,
           "expected a schedule's key_block to be a multiple of key_tile, 4, got 255; try 252");
    breaks(some, &schedule::depth_unroll, 6,
           "expected a schedule's depth_unroll to be a divisor of the depth, 64, got 6; try 2");
    const schedule few = decode_schedule(level_named("x86-64-v3"), masking::none);
    CHECK_NOTHROW(check(few, 64));
    breaks(few, &schedule::chunk, 8, "expected a schedule's chunk to be 1 in decode, got 8; try 1");
    breaks(few, &schedule::pairing, 2, "expected a schedule's pairing to be 1 in decode, got 2; try 1");
    breaks(few, &schedule::key_tile, 6,
           "expected a schedule's key_tile to be a divisor of lanes, 8, in decode, got 6; try 2");
    breaks(few, &schedule::key_block, 100,
           "expected a schedule's key_block to be a multiple of lanes, 8, in decode, got 100; try 96");
}

namespace {
using namespace attune::dsl;
inline constexpr auto width = scalar<"width", i32>;
inline constexpr auto widths = input<"widths", i32>(head);
inline constexpr auto weights = [](auto seen) { return softmax(mask(q * t(k) * rsqrt(depth), seen)) * v; };
inline constexpr auto plain = softmax(q * t(k) * rsqrt(depth)) * v;
inline constexpr auto triangle = weights(causal);
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
    CHECK(masking_of(ir_of<plain>) == masking::none);
    CHECK(masking_of(ir_of<triangle>) == masking::some);
    CHECK(masking_of(ir_of<near>) == masking::window);
    CHECK(masking_of(ir_of<far>) == masking::some);
    CHECK(masking_of(ir_of<told>) == masking::window);
    CHECK(masking_of(ir_of<told_by_head>) == masking::window);
    CHECK(masking_of(ir_of<at_the_end>) == masking::window);
    CHECK(masking_of(ir_of<ahead>) == masking::some);
    CHECK(masking_of(ir_of<with_sinks>) == masking::some);
    CHECK(masking_of(ir_of<of_cache>) == masking::some);
}

TEST_CASE("a schedule beyond a limit is refused, and the sentence names the limit") {
    const auto beyond = [](schedule s, int schedule::* field, int value, const std::string& sentence) {
        s.*field = value;
        CHECK_THROWS_MATCHES(check(s, 64), std::runtime_error, MessageMatches(ContainsSubstring(sentence)));
    };
    const schedule few = decode_schedule(level_named("x86-64-v3"), masking::none);
    schedule gpu = some;
    gpu.lanes = 1, gpu.query_block = 64, gpu.query_tile = 4, gpu.key_block = 32, gpu.key_tile = 4;
    CHECK_NOTHROW(check(gpu, 64));
    for (const schedule& s : {some, few, gpu}) {
        beyond(s, &schedule::lanes, 64, "lanes to be 16 at most, got 64; try 16");
        beyond(s, &schedule::lanes, 7, "lanes to be those of a level, 4, 8 or 16, or 1 on a GPU, got 7; try 4");
        beyond(s, &schedule::query_block, 4097, "query_block to be 4096 at most, got 4097; try 4096");
        beyond(s, &schedule::key_block, 100000, "key_block to be 4096 at most, got 100000; try 4096");
        beyond(s, &schedule::query_tile, 257, "query_tile to be 256 at most, got 257; try 256");
        beyond(s, &schedule::depth_unroll, 65, "depth_unroll to be 64 at most, got 65; try 64");
        beyond(s, &schedule::key_tile, 65, "key_tile to be 64 at most, got 65; try 64");
        beyond(s, &schedule::value_tile, 257, "value_tile to be 256 at most, got 257; try 256");
        beyond(s, &schedule::chunk, 4097, "chunk to be 4096 at most, got 4097; try 4096");
        beyond(s, &schedule::key_splits, 1000000, "key_splits to be 1024 at most, got 1000000; try 1024");
        beyond(s, &schedule::pairing, 3, "pairing to be 2 at most, got 3; try 2");
    }
    schedule written_out = some;
    written_out.depth_unroll = 64, written_out.key_block = 64;
    beyond(written_out, &schedule::key_tile, 8,
           "key_tile to be 5 at most beside its query_tile and depth_unroll, got 8; try 5");
    written_out.query_tile = written_out.query_block = 256, written_out.depth_unroll = 1, written_out.chunk = 64;
    beyond(written_out, &schedule::value_tile, 64, "value_tile to be 32 at most beside its query_tile, got 64; try 32");
    beyond(gpu, &schedule::key_block, 512,
           "key_block to be 256 at most beside its key_tile, query_block and query_tile, got 512; try 256");
    gpu.shapes = attune::shape_class::decode;
    beyond(gpu, &schedule::key_block, 1024, "key_block to be 512 at most beside its key_tile, got 1024; try 512");
    CHECK_THROWS_WITH(check(some, level_named("cuda"), 64),
                      "expected a schedule's lanes to be 1 on a GPU, got 8; try 1");
}

namespace {
inline constexpr auto other_v = input<"other_v", f32>(batch, key_head, key, value_depth);
inline constexpr auto weighed_twice =
    outputs(out = softmax(q * t(k)) * v, output<"other"> = softmax(q * t(k)) * other_v);
inline constexpr auto with_row = outputs(out = softmax(q * t(k)) * v, output<"weights"> = softmax(q * t(k)));
}  // namespace

TEST_CASE("the version of Halide, which is part of what an object depends on, is known") {
    CHECK_THAT(halide_version(), Catch::Matchers::Matches("[0-9]+[.][0-9]+[.][0-9]+"));
}

TEST_CASE("a graph that is not one kernel is refused by its name, for whatever it is asked") {
    const variant all[] = {
        {"my::plain", ir_of<plain>}, {"my::weighed_twice", ir_of<weighed_twice>}, {"my::with_row", ir_of<with_row>}};
    const auto refuses = [&](std::size_t which, const build_request& build, const std::string& sentence) {
        const variant two[] = {all[0], all[which]};
        CHECK_THROWS_MATCHES(kernels_of(two, build), std::runtime_error, MessageMatches(ContainsSubstring(sentence)));
    };
    for (const char* target : {"x86-64-v3", "cuda"})
        refuses(1, {.targets = {target}}, "my::weighed_twice: the outputs weigh two different tensors");
    refuses(2, {.targets = {"x86-64-v3"}, .shapes = {"decode"}}, "my::with_row: no kernel for decode: ");
    refuses(2, {.targets = {"x86-64-v3"}, .shapes = {"prefill:my::plain"}},
            "my::with_row: expected prefill or decode in SHAPES");
    refuses(1, {.targets = {"x86-64-v3"}, .dtypes = {"f31"}}, "expected an element type among");
}

TEST_CASE("every level and depth has a valid default, whose scratch does not depend on lengths") {
    const variant each{"plain", ir_of<plain>};
    for (const level& isa : levels())
        for (const std::string depth :
             {"1", "2", "3", "4", "32", "64", "72", "80", "96", "112", "128", "256", "512", "1000", "4096", "64x4096"})
            for (const listed_kernel& k : kernels_of({&each, 1}, {.targets = {std::string(isa.name)},
                                                                  .dtypes = {"f32", "bf16"},
                                                                  .depths = {depth},
                                                                  .shapes = {"prefill", "decode"}})) {
                INFO(k.symbol);
                CHECK_NOTHROW(check(k.request.schedule, isa, k.request.depths.depth));
                CHECK(scratch_bytes(k.request.schedule, k.request.depths.depth, k.request.depths.value_depth) > 0);
            }
}
