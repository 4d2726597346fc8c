// A schedule as data: its JSON form, and what is refused.
#include "kernel/schedule.hpp"
#include <attune/dsl.hpp>

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
    breaks(some, &schedule::lanes, 7, "expected a schedule's query_tile to be a multiple of lanes, 7, got 24; try 21");
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

TEST_CASE("every level and depth has a valid default, whose scratch does not depend on lengths") {
    for (const level& isa : levels())
        for (const int depth : {1, 2, 3, 4, 32, 64, 72, 80, 96, 112, 128, 256, 512}) {
            const schedule s = default_schedule(isa, depth, depth, masking::none);
            CHECK_NOTHROW(check(s, depth));
            CHECK(scratch_bytes(s, depth, depth) > 0);
        }
}
