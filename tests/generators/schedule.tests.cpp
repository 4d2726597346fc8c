// A schedule as data: its JSON form, and what is refused.
#include <attune/generators/schedule.hpp>

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
    refuses("{}", "lacks the field \"shapes\"");
    refuses(changed("\"prefill\"", "\"sideways\""), "expected a class of shapes, prefill or decode, got \"sideways\"");
    refuses(changed("\"prefill\"", "1"), "\"shapes\" is not a string");
    refuses(changed("\"lanes\":8", "\"lanes\":\"8\""), "\"lanes\" is not an integer");
    refuses(changed("\"lanes\":8", "\"lanes\":8,\"colour\":1"), "no field \"colour\"");
}

TEST_CASE("a schedule that breaks a rule is refused, and the sentence names the rule") {
    const auto breaks = [](int schedule::*field, int value, const std::string& sentence) {
        schedule s = some;
        s.*field = value;
        CHECK_THROWS_MATCHES(check(s, 64), std::runtime_error, MessageMatches(ContainsSubstring(sentence)));
    };
    breaks(&schedule::lanes, 0, "lanes >= 1");
    breaks(&schedule::lanes, 7, "multiple of lanes");
    breaks(&schedule::query_block, 25, "query_block to be a multiple of");
    breaks(&schedule::key_splits, 2, "key_splits to be 1 in prefill");
    breaks(&schedule::key_block, 255, "key_block to be a multiple of key_tile");
}

TEST_CASE("every level and depth has a valid default, whose scratch does not depend on lengths") {
    for (const level& isa : levels())
        for (const int depth : {1, 2, 3, 4, 32, 64, 72, 80, 96, 112, 128, 256, 512}) {
            const schedule s = default_schedule(isa, depth, depth, masking::none);
            CHECK_NOTHROW(check(s, depth));
            CHECK(scratch_bytes(s, depth, depth) > 0);
        }
}
