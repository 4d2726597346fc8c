// A prepared call with other tensors and numbers: it takes what it may, refuses the rest in one sentence, and remembers
// nothing.
#include "allocations.hpp"
#include "index_call.hpp"
#include "packed_call.hpp"

#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <thread>

using attune::tensor;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using arguments = std::vector<attune::detail::named_argument>;
using by_hand::number, by_hand::view;

namespace {

/// The sentence with which a prepared call is refused; empty if it is not refused.
std::string refusal_of(const attune::detail::prepared& what, const arguments& others) {
    try {
        attune::detail::call(what, others);
    } catch (const attune::error& e) {
        return e.what();
    }
    return "";
}

/// Another layer: as long, with other numbers in it.
fake::call another() {
    fake::call c;
    for (float& each : c.q) each *= -0.5f;
    for (float& each : c.k) each += 0.25f;
    for (float& each : c.v) each += 1;
    for (float& each : c.bias) each = -each;
    c.table[0] = 3;
    return c;
}

}  // namespace

TEST_CASE("a prepared call takes other tensors and numbers, and remembers none") {
    fake::call c, other = another();
    using namespace fake;
    const auto call =
        attune::prepare<variant>(q = c.Q(), k = c.K(), v = c.V(), fake::slopes = c.S(), bias = c.B(), is_global = c.G(),
                                 fake::table = c.T(), w = 1, gain = 7.25, out = c.O(), lse = c.L());
    call(gain = 0.5, v = other.V(), q = other.Q(), lse = other.L(), out = other.O(), k = other.K(), bias = other.B(),
         fake::table = other.T());
    other.expect_right_results();
    CHECK(c.untouched());
    call(gain = 0.5f);
    c.expect_right_results();
    const auto kept = c.out;
    call(gain = 0.5, w = 5);
    CHECK(c.out != kept);
    call(gain = 0.5);
    CHECK(c.out == kept);
    call();
    CHECK(c.out != kept);
}

TEST_CASE("lengths and tables that stand for others are checked as those") {
    fake::call c;
    c.lengths = {7, 3};
    auto all = c.arguments();
    all.push_back(view("kv_lengths", {c.lengths.data(), {2}}));
    const auto call = attune::detail::prepare(fake::kernels(), all, {.threads = 1});
    std::vector<std::int32_t> lengths{4, 8};
    CHECK_THAT(refusal_of(*call, {view("kv_lengths", {lengths.data(), {2}})}),
               ContainsSubstring("got 8 for batch element 1"));
    CHECK(c.untouched());
    lengths[1] = 6;
    CHECK(refusal_of(*call, {view("kv_lengths", {lengths.data(), {2}})}) == "");
    c.lengths = lengths;
    c.expect_right_results();

    std::vector<float> plenty(4096);
    std::vector<std::int32_t> table(index_calls::batches * 7, 2), other(table);
    index_calls::call paged;
    paged.reals("pool", {3, index_calls::key_heads, index_calls::depth});
    paged.add("slot_of", {table.data(), {index_calls::batches, 7}});
    paged.values(7);
    const attune::kernel only = index_calls::call::kernel_of();
    const attune::kernel_table gathered = index_calls::call::table_of(attune::dsl::ir_of<formulas::gathered>, only);
    const auto of_pool = attune::detail::prepare(gathered, paged.given, paged.how);
    other[9] = 3;
    CHECK_THAT(
        refusal_of(*of_pool, {view("slot_of", {other.data(), {index_calls::batches, 7}})}),
        StartsWith("attune: expected slot_of from 0 to 2, an index along place of pool, got 3 at (batch 1, key 2)"));
    CHECK(refusal_of(*of_pool, {}) == "");
}

TEST_CASE("what a prepared call cannot take is refused in one sentence, before anything runs") {
    fake::call c, other = another();
    const auto call = attune::detail::prepare(fake::kernels(), c.arguments(), {.threads = 1});
    const auto* const constant = static_cast<const float*>(other.out.data());
    const float* const none = nullptr;
    const auto* const askew = reinterpret_cast<const float*>(reinterpret_cast<const char*>(other.k.data()) + 1);
    std::vector<std::uint16_t> narrow(other.k.size());
    std::vector<float> shared(other.bias.size());
    const struct {
        arguments others;
        const char* said;
    } wrong[] = {
        {{view("k", {other.k.data(), {2, 2, 6, 8}})},
         "expected a tensor like the one that the call was prepared with, k: f32 (2, 2, 7, 8) with strides (112, 56, "
         "8, 1), got k: f32 (2, 2, 6, 8)"},
        {{view("k", {other.k.data(), {2, 2, 7, 8}, {112, 8, 16, 1}})},
         "got k: f32 (2, 2, 7, 8) with strides (112, 8, 16, 1)"},
        {{view("k", {other.k.data(), {2, 2, 56}})}, "got k: f32 (2, 2, 56)"},
        {{view("k", {attune::element_type::bf16, narrow.data(), std::array<std::int64_t, 4>{2, 2, 7, 8}})},
         "got k: bf16 (2, 2, 7, 8)"},
        {{view("k", {askew, {2, 2, 7, 8}})}, "expected k at an address that is a multiple of 4"},
        {{view("k", {none, {2, 2, 7, 8}})}, "expected a pointer to the elements of k, got null"},
        {{view("k", other.K().in(attune::memory::cuda))}, "expected k in the memory that the call was prepared with"},
        {{view("out", {constant, {2, 4, 5, 4}})}, "expected a tensor that may be written for out"},
        {{view("out", c.Q())}, "expected a tensor like the one"},
        {{view("lse", {other.out.data(), {2, 4, 5}}), view("out", other.O())}, "expected lse apart from out"},
        {{view("bias", {shared.data(), {2, 4, 5, 7}}), view("lse", {shared.data(), {2, 4, 5}})},
         "expected lse apart from bias"},
        {{view("w", other.K())}, "expected a number for w"},
        {{number("k", 1)}, "expected a tensor for k"},
        {{number("w", std::int64_t{1} << 40)}, "expected an integer of 32 bits for w"},
        {{{.name = "w", .is = attune::detail::named_argument::form::real, .real = 0.5}}, "expected an integer for w"},
        {{view("k", other.K()), view("k", other.K())}, "expected k once, got it twice"},
        {{view("keys", other.K())},
         "expected one of the arguments that the call was prepared with, q, k, v, slopes, bias, is_global, table, w, "
         "gain, out, lse, got keys; try preparing the call with keys"},
        {{view("kv_lengths", other.T())}, "got kv_lengths; try preparing the call with kv_lengths"},
    };
    fake::reset();
    for (const auto& [others, said] : wrong) CHECK_THAT(refusal_of(*call, others), ContainsSubstring(said));
    CHECK(fake::seen.calls == 0);
    CHECK(c.untouched());
    CHECK(refusal_of(*call, {view("k", {static_cast<const float*>(other.k.data()), {2, 2, 7, 8}})}) == "");
    CHECK(fake::seen.calls == 1);
}

TEST_CASE("a number that says a place is checked as by a call of its own, and kept for that call alone") {
    index_calls::call c;
    c.keys(7), c.values(7);
    c.reals("rows", {3});
    c.given.push_back(number("at", 0));
    const attune::kernel only = index_calls::call::kernel_of();
    const attune::kernel_table table = index_calls::call::table_of(attune::dsl::ir_of<formulas::at_a_number>, only);
    const auto call = attune::detail::prepare(table, c.given, c.how);
    CHECK_THAT(refusal_of(*call, {number("at", 3)}), StartsWith("attune: expected at from 0 to 2"));
    CHECK_THAT(refusal_of(*call, {number("at", -1)}), ContainsSubstring("got -1"));
    CHECK(refusal_of(*call, {number("at", 2)}) == "");
    CHECK(refusal_of(*call, {}) == "");
}

TEST_CASE("a prepared call with cu_seqlens_q takes other lengths, and as many queries as they say") {
    packed_queries::packed c({0, 1, 2, 2, 7, 8}), other({0, 3, 4, 4, 5, 9});
    const auto call = attune::detail::prepare(fake::kernels(), c.all, {.threads = 2});
    CHECK(refusal_of(*call, other.all) == "");
    other.expect_right_results();
    CHECK(c.c.untouched());
    CHECK(refusal_of(*call, {other.argument("cu_seqlens_q")}) ==
          "attune: expected query extent 9 in q, where cu_seqlens_q ends, got q: f32 (1, 4, 8, 8); try the queries of "
          "all "
          "sequences one after another");
    attune::detail::call(*call);
    c.expect_right_results();
}

TEST_CASE("a prepared call with others in place of some takes nothing from the system") {
    if (!allocations::are_counted) SKIP("the sanitizer has an allocator of its own");
    fake::call c, other = another();
    const auto call = attune::detail::prepare(fake::kernels(), c.arguments(), {.threads = 1});
    const arguments others{view("k", other.K()), view("v", other.V()), view("out", other.O()), number("w", 1)};
    attune::detail::call(*call, others);
    index_calls::call numbered;
    numbered.keys(7), numbered.values(7);
    numbered.reals("rows", {3});
    numbered.given.push_back(number("at", 0));
    const attune::kernel only = index_calls::call::kernel_of();
    const attune::kernel_table table = index_calls::call::table_of(attune::dsl::ir_of<formulas::at_a_number>, only);
    const auto at_a_place = attune::detail::prepare(table, numbered.given, numbered.how);
    const arguments place{number("at", 1)};
    attune::detail::call(*at_a_place, place);
    packed_queries::packed packed({0, 1, 2, 2, 7, 8}), next({0, 2, 3, 3, 5, 8});
    const auto of_packed = attune::detail::prepare(fake::kernels(), packed.all, {.threads = 1});
    attune::detail::call(*of_packed, next.all);
    const allocations::counted count;
    attune::detail::call(*call, others);
    attune::detail::call(*at_a_place, place);
    CHECK(allocations::taken == 0);
    attune::detail::call(*of_packed, next.all);  // bound anew
    attune::detail::call(*of_packed);            // as prepared
    packed.where = {0, 4, 4, 5, 6, 8};
    attune::detail::call(*of_packed);  // with other contents
    CHECK(allocations::taken == 0);
    CHECK(allocations::given_back == 0);
}

TEST_CASE("several threads pass tensors of their own to one prepared call") {
    fake::call c;
    const auto call = attune::detail::prepare(fake::kernels(), c.arguments(), {.threads = 2});
    std::vector<fake::call> own(4, another());
    std::vector<std::thread> callers;
    for (fake::call& each : own)
        callers.emplace_back([&] {
            const arguments others{view("q", each.Q()),    view("k", each.K()),     view("v", each.V()),
                                   view("bias", each.B()), view("table", each.T()), view("out", each.O()),
                                   view("lse", each.L())};
            for (int round = 0; round < 20; ++round) attune::detail::call(*call, others);
        });
    for (auto& caller : callers) caller.join();
    for (const fake::call& each : own) each.expect_right_results();
    CHECK(c.untouched());
}
