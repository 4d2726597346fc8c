// What is said of a graph, by the generators and through the kernel table by the runtime.
#include "inspect/notes.hpp"

#include <attune/dsl.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using Catch::Matchers::ContainsSubstring;

namespace {

namespace formulas {
using namespace attune::dsl;
inline constexpr auto visible = input<"visible", boolean>(query, key);
inline constexpr auto doc = input<"doc", i32>(position);
inline constexpr auto ends = input<"ends", i32>(axis<"document">);
inline constexpr auto nth = bound_index<"nth">;
inline constexpr auto conditions = softmax(
    where(q * t(k) > 0, -inf, mask(q* t(k), visible(q_idx, kv_idx) && q_idx % 2 == 0 && q_idx - kv_idx < 9 && h < 3)));
inline constexpr auto all_conditions = conditions * v;
inline constexpr auto in_a_document =
    softmax(mask(q * t(k), any(nth, extent<0>(ends), q_idx < ends(nth) && kv_idx < ends(nth)))) * v;
inline constexpr auto top_left = log_sum_exp(mask(q * t(k), q_idx >= kv_idx));
inline constexpr auto bottom_right = log_sum_exp(mask(q * t(k), q_idx + (key_length - query_length) >= kv_idx));
inline constexpr auto sunk = log_sum_exp(q * t(k), 0.0);
inline constexpr auto plain_weights = unnormalized(q * t(k)) * v;
}  // namespace formulas

attune::generators::variant_notes notes_of(const attune::graph_ir& graph) {
    const attune::generators::variant of{"test::graph", graph};
    const auto kernels = attune::generators::kernels_of({&of, 1}, {.targets = {"x86-64-v3"}, .depths = {"64"}});
    return attune::generators::notes_of({&of, 1}, kernels).at(0);
}

std::string conventions_of(const attune::graph_ir& graph) {
    std::string all;
    for (const std::string& each : notes_of(graph).conventions) all += each + "\n";
    return all;
}

}  // namespace

TEST_CASE("each part of a mask is named, with what it does for blocks") {
    using attune::dsl::ir_of;
    std::string said;
    for (const auto& [text, why] : notes_of(ir_of<formulas::all_conditions>).conditions)
        said += text + ": " + why.substr(0, why.find(':')) + "\n";
    CHECK(said ==
          "!(part_1 > 0.0): skips nothing\n"
          "visible(q_idx, kv_idx): skips nothing\n"
          "q_idx % 2 == 0: skips\n"
          "q_idx - kv_idx < 9: skips\n"
          "h < 3: skips\n");
    const auto in_a_document = notes_of(ir_of<formulas::in_a_document>).conditions;
    REQUIRE(in_a_document.size() == 1);
    CHECK_THAT(in_a_document[0].second, ContainsSubstring("skips: "));  // any(...) over two tables
}

TEST_CASE("the conventions of a graph are said") {
    using attune::dsl::ir_of;
    CHECK_THAT(conventions_of(ir_of<formulas::top_left>), ContainsSubstring("alignment: top-left") &&
                                                              ContainsSubstring("log-sum-exp -infinity") &&
                                                              ContainsSubstring("natural logarithm"));
    CHECK_THAT(conventions_of(ir_of<formulas::bottom_right>), ContainsSubstring("alignment: bottom-right"));
    CHECK_THAT(conventions_of(ir_of<formulas::sunk>), ContainsSubstring("log-sum-exp the sink"));
    CHECK_THAT(conventions_of(ir_of<formulas::plain_weights>), ContainsSubstring("weights: the scores themselves"));
}
