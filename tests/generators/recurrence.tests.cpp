// What generators say of recurrences, which have no kernel.
#include <attune/dsl.hpp>
#include <attune/dsl/recurrent.hpp>
#include "analysis/graph_facts.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <stdexcept>

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace recurring {
using namespace attune::dsl;
inline constexpr auto rows = input<"rows", f32>(batch, head, query, depth);
inline constexpr auto values_of_tokens = input<"values_of_tokens", f32>(batch, head, query, value_depth);
inline constexpr auto linear = rows * recurrence([](auto S) { return S + t(rows) * values_of_tokens; });
inline constexpr auto mixed = input<"mixed", f32>(batch, query, axis<"channel">);
inline constexpr auto newest_tokens =
    outputs(out = tokens(mixed(b, q_idx, d_idx), extent<2>(mixed)), output<"kept"> = newest(mixed, 3));
}  // namespace recurring

TEST_CASE("a recurrence has no kernel yet, and generators say so", "[recurrence]") {
    CHECK_THROWS_MATCHES(attune::generators::facts_of(attune::dsl::ir_of<recurring::linear>), std::runtime_error,
                         MessageMatches(ContainsSubstring("a recurrence has no kernel yet")));
}

TEST_CASE("tokens of a length of their own have no kernel yet", "[recurrence]") {
    CHECK_THROWS_MATCHES(attune::generators::facts_of(attune::dsl::ir_of<recurring::newest_tokens>), std::runtime_error,
                         MessageMatches(ContainsSubstring("tokens of a length of their own")));
}
