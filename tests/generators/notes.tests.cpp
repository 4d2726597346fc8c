// The sentences about a graph, from the generators and, through the kernel table, from the runtime.
#include "inspect/notes.hpp"
#include "../reference/ir_by_hand.hpp"
#include "base/about.hpp"
#include "inspect/explain.hpp"
#include "inspect/explain_semantics.hpp"
#include "inspect/halide_error.hpp"
#include "kernel/kernel_list.hpp"

#include <attune/dsl.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <stdexcept>
#include <string>
#include <vector>

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
inline constexpr auto bounded = softmax(tanh(where(q_idx >= kv_idx, q* t(k), -inf))) * v;
inline constexpr auto in_a_document =
    softmax(mask(q * t(k), any(nth, extent<0>(ends), q_idx < ends(nth) && kv_idx < ends(nth)))) * v;
inline constexpr auto top_left = log_sum_exp(mask(q * t(k), q_idx >= kv_idx));
inline constexpr auto bottom_right = log_sum_exp(mask(q * t(k), q_idx + (key_length - query_length) >= kv_idx));
inline constexpr auto k_new = input<"k_new", f32>(batch, key_head, query, depth);
inline constexpr auto stored = store(k(b, h, new_kv_idx, d_idx), k_new(b, h, q_idx, d_idx));
inline constexpr auto step_top_left = outputs(stored, out = softmax(mask(q * t(k), causal)) * v);
inline constexpr auto step_bottom_right = outputs(stored, out = softmax(mask(q * t(k), causal_bottom_right)) * v);
inline constexpr auto sunk = log_sum_exp(q * t(k), 0.0);
inline constexpr auto codes = input<"codes", i8>(batch, key_head, key, depth);
inline constexpr auto scales = input<"scales", f32>(batch, key_head, key);
inline constexpr auto of_codes = keys(codes(b, h, kv_idx, d_idx) * scales(b, h, kv_idx));
inline constexpr auto by_integers = softmax(queries(quantized<i8>(q)) * t(of_codes) * rsqrt(depth)) * v;
inline constexpr auto by_reals = softmax(q * t(of_codes) * rsqrt(depth)) * v;
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
    CHECK(notes_of(ir_of<formulas::bounded>).conditions.empty());  // tanh(-inf) is a score
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

TEST_CASE("queries over a cache that are aligned with its first keys are a notice of the build") {
    using attune::dsl::ir_of;
    using attune::generators::alignment_to_look_at;
    const std::vector<std::string> both{"prefill", "decode"}, decode{"decode"};
    CHECK_THAT(alignment_to_look_at(ir_of<formulas::step_top_left>, both),
               ContainsSubstring("try causal_bottom_right"));
    CHECK(alignment_to_look_at(ir_of<formulas::step_bottom_right>, both).empty());
    CHECK_THAT(alignment_to_look_at(ir_of<formulas::top_left>, decode), ContainsSubstring("try causal_bottom_right"));
    CHECK(alignment_to_look_at(ir_of<formulas::top_left>, both).empty());  // whole sequences, as in training
}

TEST_CASE("a decode of integers without a level that has instructions for them is a notice of the build") {
    using attune::dsl::ir_of;
    using namespace attune::generators;
    const auto said = [](const attune::graph_ir& graph, std::vector<std::string> targets, const char* shapes) {
        const variant of{"test::graph", graph};
        const auto kernels = kernels_of(
            {&of, 1}, {.targets = std::move(targets), .dtypes = {"f32"}, .depths = {"64"}, .shapes = {shapes}});
        return missing_level_of(kernels, of);
    };
    CHECK_THAT(said(ir_of<formulas::by_integers>, {"x86-64-v4"}, "decode"),
               ContainsSubstring("decode multiplies integers") && ContainsSubstring("try these levels among TARGETS"));
    CHECK(said(ir_of<formulas::by_integers>, {"x86-64-v4", "x86-64-v4-bf16"}, "decode").empty());  // without any bf16
    CHECK(said(ir_of<formulas::by_integers>, {"x86-64-v4"}, "prefill").empty());
    CHECK(said(ir_of<formulas::by_reals>, {"x86-64-v4"}, "decode").empty());
}

TEST_CASE(
    "what only the blocks of a graph show is said with the graph's name, in the registry and in what is explained") {
    using namespace attune;
    testing::ir_builder by_hand;  // the language refuses it: nothing says how many keys there are
    const auto q =
        by_hand.input("q", element_type::any, {axis_kind::batch, axis_kind::head, axis_kind::query, axis_kind::depth});
    const auto pool = by_hand.input("pool", element_type::f32, {axis_kind::free, axis_kind::depth});
    const auto row = by_hand.add(operation::load, kind::real,
                                 {pool, by_hand.index(operation::kv_idx), by_hand.index(operation::d_idx)});
    const auto keys = by_hand.add(operation::keys, kind::tensor, {row});
    const auto scores = by_hand.add(operation::contract, kind::scores,
                                    {q, by_hand.add(operation::transpose, kind::transposed, {keys})});
    by_hand.output("lse", by_hand.add(operation::log_sum_exp, kind::row, {scores}));
    const generators::variant of{"test::graph", by_hand.view()};
    const auto kernels = generators::kernels_of({&of, 1}, {.targets = {"x86-64-v3"}, .depths = {"64"}});
    const auto sentence = Catch::Matchers::Message(
        "test::graph: no input has an axis that says how many keys there are; state it: keys(formula, length)");
    CHECK_THROWS_MATCHES(generators::notes_of({&of, 1}, kernels), std::runtime_error, sentence);
    CHECK_THROWS_MATCHES(generators::explain_json({&of, 1}, kernels, {}), std::runtime_error, sentence);
    CHECK_THROWS_MATCHES(generators::explain_text({&of, 1}, kernels, {}), std::runtime_error, sentence);
}

// Graphs that the language refuses before a generator sees them: a generator does not count on that.
TEST_CASE("gradients that no score has a part in are refused, whoever wrote the graph") {
    using namespace attune;
    testing::ir_builder by_hand;
    by_hand.input("bias", element_type::f32, {axis_kind::value_depth});
    by_hand.output("d_bias",
                   by_hand.add(operation::deposit, kind::gradient, {by_hand.real(1), by_hand.index(operation::d_idx)}));
    graph_ir graph = by_hand.view();
    std::vector<instruction> nodes(graph.nodes.begin(), graph.nodes.end());
    nodes.back().input = 0;
    graph.nodes = nodes;
    CHECK_THROWS_MATCHES(
        notes_of(graph), std::runtime_error,
        Catch::Matchers::Message("test::graph: attune makes no kernel for gradients that no score has a part in yet"));
}

TEST_CASE("an output that is read at another query is refused, whoever wrote the graph") {
    using namespace attune;
    const auto read_at = [](bool another) {
        testing::ir_builder by_hand;
        const auto attended = by_hand.attend(by_hand.scores());
        auto query = by_hand.index(operation::q_idx);
        if (another) query = by_hand.add(operation::subtract, kind::integer, {query, by_hand.integer(1)});
        const auto read = by_hand.add(
            operation::load, kind::real,
            {attended, by_hand.index(operation::b), by_hand.integer(0), query, by_hand.index(operation::d_idx)});
        by_hand.output("out",
                       by_hand.add(operation::tokens, kind::tokens, {read, by_hand.index(operation::value_depth)}));
        notes_of(by_hand.view());
    };
    CHECK_NOTHROW(read_at(false));
    CHECK_THROWS_MATCHES(read_at(true), std::runtime_error,
                         Catch::Matchers::Message("test::graph: an output is read at another query than q_idx; a "
                                                  "layer keeps the positions of its queries"));
}

TEST_CASE("what cannot be is said with the graph's name, too, and an error that is none of Halide's is thrown on") {
    using attune::generators::about;
    CHECK_THROWS_MATCHES(about("test::graph", []() -> int { throw std::logic_error("no sum"); }), std::logic_error,
                         Catch::Matchers::Message("test::graph: no sum"));
    const auto handled = [] {
        try {
            throw std::runtime_error("another");
        } catch (...) {
            return attune::generators::said_by_halide();
        }
    };
    CHECK_THROWS_MATCHES(handled(), std::runtime_error, Catch::Matchers::Message("another"));
}
