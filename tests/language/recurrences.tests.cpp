// What is known of a recurrence when a program is compiled: its normal form, and which heads have states.
#include <attune/dsl.hpp>
#include <attune/dsl/recurrent.hpp>

#include <catch2/catch_test_macros.hpp>

namespace steps {
using namespace attune::dsl;

inline constexpr auto q_row = input<"q_row", f32>(batch, head, query, depth);
inline constexpr auto k_row = input<"k_row", f32>(batch, key_head, query, depth);
inline constexpr auto v_row = input<"v_row", f32>(batch, key_head, query, value_depth);
inline constexpr auto a_row = input<"a_row", f32>(batch, key_head, query, depth);
inline constexpr auto beta_in = input<"beta_in", f32>(batch, key_head, query);
inline constexpr auto beta = beta_in(b, h, q_idx);
inline constexpr auto slopes = input<"slopes", f32>(head);

template <class F> constexpr auto read(F step) { return q_row * recurrence(step); }

// The delta rule, in three spellings.
inline constexpr auto delta = read([](auto S) { return S + t(k_row) * (beta * (v_row - k_row * S)); });
inline constexpr auto delta_apart =
    read([](auto S) { return S - t(k_row) * (beta * (k_row * S)) + t(k_row) * (beta * v_row(b, h, q_idx, d_idx)); });
inline constexpr auto delta_scaled = read([](auto S) { return beta * (t(k_row) * (v_row - k_row * S)) + S; });

// Decays, and what is read before them or after.
inline constexpr auto gated = read([](auto S) {
    const auto kept = exp(-beta) * S;
    return kept + t(k_row) * (v_row - k_row * kept);
});
inline constexpr auto read_before =
    read([](auto S) { return exp(-beta) * S + t(k_row) * v_row - t(k_row) * (k_row * S); });
inline constexpr auto second_pair =
    read([](auto S) { return exp(-beta) * S + t(k_row) * v_row + t(a_row) * (beta * (a_row * S)); });
inline constexpr auto of_each_head = read([](auto S) { return exp(-slopes(h)) * S + t(k_row) * v_row; });
inline constexpr auto first_of_key_heads = input<"first_of_key_heads", f32>(batch, key_head, depth, value_depth);
inline constexpr auto shared_from_key_heads =
    q_row * recurrence(first_of_key_heads, [](auto S) { return exp(-beta) * S + t(k_row) * v_row; });
inline constexpr auto apart_from_key_heads =
    q_row * recurrence(first_of_key_heads, [](auto S) { return exp(-slopes(h)) * S + t(k_row) * v_row; });
inline constexpr auto first_of_heads = input<"first_of_heads", f32>(batch, head, depth, value_depth);
inline constexpr auto apart_from_heads =
    q_row * recurrence(first_of_heads, [](auto S) { return exp(-slopes(h)) * S + t(k_row) * v_row; });
inline constexpr auto halves = read([](auto S) { return S - 0.5 * S + t(k_row) * v_row; });
}  // namespace steps

namespace {

template <const auto& Graph> attune::recurrence_arguments form_of() {
    return attune::form_of_recurrence(attune::dsl::ir_of<Graph>.nodes);
}
template <const auto& Graph> const attune::instruction& node(attune::node_id at) {
    return attune::dsl::ir_of<Graph>.nodes[at];
}
template <const auto& Graph> bool has_states_of_key_heads() {
    const auto& graph = attune::dsl::ir_of<Graph>;
    return attune::has_states_of_key_heads(graph, attune::recurrence_of(graph.nodes));
}
template <const auto& Graph> bool is_a_state_as_passed() {
    const auto& graph = attune::dsl::ir_of<Graph>;
    return attune::is_a_state_as_passed(graph, attune::recurrence_of(graph.nodes));
}

}  // namespace

TEST_CASE("a step is one graph however it is written", "[language]") {
    CHECK(attune::dsl::fingerprint<steps::delta> == attune::dsl::fingerprint<steps::delta_apart>);
    CHECK(attune::dsl::fingerprint<steps::delta> == attune::dsl::fingerprint<steps::delta_scaled>);
    CHECK(attune::dsl::fingerprint<steps::gated> != attune::dsl::fingerprint<steps::read_before>);
}

TEST_CASE("a read of the decayed state is the erasure, any other the second pair", "[language]") {
    const auto gated = form_of<steps::gated>(), before = form_of<steps::read_before>(),
               second = form_of<steps::second_pair>();
    CHECK(attune::is_constant(node<steps::gated>(gated.erase), 1));
    CHECK_FALSE(gated.has_second_pair());
    CHECK(attune::is_constant(node<steps::read_before>(before.erase), 0));
    CHECK(before.has_second_pair());
    CHECK(before.second_key == before.key);
    CHECK(second.has_second_pair());
    CHECK(second.second_key != second.key);
}

TEST_CASE("scales of a state are added up", "[language]") {
    CHECK(node<steps::halves>(form_of<steps::halves>().decay).op == attune::operation::subtract);
}

TEST_CASE("states are of key heads where the step reads such alone", "[language]") {
    CHECK(has_states_of_key_heads<steps::delta>());
    CHECK_FALSE(has_states_of_key_heads<steps::of_each_head>());
}

TEST_CASE("a first state of key heads lies as it is read where the states are of key heads, too", "[language]") {
    CHECK(is_a_state_as_passed<steps::shared_from_key_heads>());
    CHECK(is_a_state_as_passed<steps::apart_from_heads>());
    CHECK_FALSE(is_a_state_as_passed<steps::apart_from_key_heads>());
    CHECK_FALSE(is_a_state_as_passed<steps::delta>());
}
