// Refusals of calls with packed queries, with the number, before anything is written.
#include "index_call.hpp"
#include "packed_call.hpp"

#include <catch2/matchers/catch_matchers_string.hpp>

#include <limits>

using attune::axis_kind, attune::element_type, attune::kind, attune::operation;
using Catch::Matchers::ContainsSubstring, Catch::Matchers::StartsWith;
using namespace packed_queries;

namespace {

void check_refused(packed& call, std::string_view sentence) {
    CHECK_THAT(fake::refusal(call.all), StartsWith("attune: expected " + std::string(sentence)));
    CHECK(call.c.untouched());
}

namespace my {
using namespace attune::dsl;
inline constexpr auto rows = input<"rows", f32>(axis<"row">);
template <class... Axes> constexpr auto at_places_of(Axes... axes) {
    constexpr auto wide = input<"place", i64>(axes...);
    if constexpr (sizeof...(axes) == 1)
        return softmax(q * t(k) + rows(wide(q_idx))) * v;
    else
        return softmax(q * t(k) + rows(wide(b, q_idx))) * v;
}
inline constexpr auto of_queries = at_places_of(query);
inline constexpr auto of_sequences = at_places_of(batch, query);
}  // namespace my

/// What is said of four queries of three sequences, of which the last has two, at these places of five rows.
template <const auto& Graph> std::string said_of_places(std::vector<std::int64_t> place, tensor::extent_list shape) {
    std::vector<std::int32_t> where{0, 1, 2, 4};
    index_calls::call c;
    c.out.assign(4 * index_calls::heads * index_calls::value_depth, index_calls::untouched);
    c.given[0].view = {c.q.data(), {1, index_calls::heads, 4, index_calls::depth}};
    c.given[1].view = {c.out.data(), {1, index_calls::heads, 4, index_calls::value_depth}};
    c.keys(4), c.values(4), c.reals("rows", {5});
    c.add("place", {place.data(), shape});
    c.add("cu_seqlens_q", {where.data(), {4}});
    return c.made<Graph>();
}

}  // namespace

TEST_CASE("a refused element of a packed tensor has the caller's place, or that in its sequence where it says which") {
    const std::int64_t wide = std::int64_t{1} << 32;
    CHECK_THAT(said_of_places<my::of_queries>({0, 1, 2, 5}, {4}), ContainsSubstring("got 5 at (query 3);"));
    CHECK_THAT(said_of_places<my::of_queries>({0, 1, 2, wide}, {4}), ContainsSubstring("got 4294967296 at (query 3);"));
    CHECK_THAT(said_of_places<my::of_sequences>({0, 1, 2, 5}, {1, 4}),
               ContainsSubstring("got 5 at (batch 2, query 1);"));
    CHECK_THAT(said_of_places<my::of_sequences>({0, 1, 2, wide}, {1, 4}),
               ContainsSubstring("got 4294967296 at (batch 2, query 1);"));
}

TEST_CASE("what does not fit cu_seqlens_q is refused, with the number") {
    packed call;
    fake::call& c = call.c;
    SECTION("queries") {
        call.set("q", {c.q.data(), {1, c.heads, 7, c.depth}});
        check_refused(call, "query extent 8 in q, where cu_seqlens_q ends, got q: f32 (1, 4, 7, 8)");
    }
    SECTION("queries of a batch") {
        call.set("q", {c.q.data(), {5, c.heads, 8, c.depth}});
        check_refused(call, "batch extent 1 in q, whose queries cu_seqlens_q gives to the sequences");
    }
    SECTION("another packed input") {
        call.set("bias", {c.bias.data(), {1, c.heads, 2, c.keys}});
        check_refused(call, "query extent 8 in bias");
    }
    SECTION("outputs") {
        call.set("out", {c.out.data(), {1, c.heads, 1, c.value_depth}});
        check_refused(call, "query extent 8 in out");
    }
    SECTION("caches") {
        call.set("k", {c.k.data(), {4, c.key_heads, c.keys, c.depth}});
        check_refused(call, "batch extent 5 or 1 in k, as there are sequences in cu_seqlens_q");
    }
    SECTION("but one cache and one length for all sequences do") {
        call.set("k", {c.k.data(), {1, c.key_heads, c.keys, c.depth}});
        call.set("kv_lengths", {c.lengths.data(), {1}});
        CHECK(fake::refusal(call.all).empty());
    }
    SECTION("lengths") {
        call.set("kv_lengths", {c.lengths.data(), {4}});
        check_refused(call, "batch extent 5 or 1 in kv_lengths");
    }
    SECTION("a length beyond the keys, which is counted as the caller does") {
        c.lengths[4] = 8;
        check_refused(call, "kv_lengths from 0 to 7, the key_length, got 8 for batch element 4");
    }
    SECTION("ranks") {
        call.set("q", {c.q.data(), {c.heads, 8, c.depth}});
        check_refused(call, "q with 4 axes");
    }
    SECTION("null") {
        call.set("k", {static_cast<float*>(nullptr), {5, c.key_heads, c.keys, c.depth}});
        check_refused(call, "a pointer to the elements of k");
    }
    SECTION("of outputs and lengths, too, the caller's own and not a sequence's part") {
        call.set("out", {static_cast<float*>(nullptr), {1, c.heads, 8, c.value_depth}});
        check_refused(call, "a pointer to the elements of out, got null for out: f32 (1, 4, 8, 4)");
        call.set("out", {c.out.data(), {1, c.heads, 8, c.value_depth}});
        call.set("kv_lengths", {c.lengths.data(), {5, 1}});
        check_refused(call, "kv_lengths with 1 axis (batch), got 2 axes in kv_lengths: i32 (5, 1)");
    }
}

TEST_CASE("lengths that a call refuses are refused to who asks about it") {
    packed call;
    fake::call alone;
    call.c.lengths[4] = 8;
    const std::int32_t lengths[] = {7, 8};
    auto of_two = alone.arguments();
    of_two.push_back(by_hand::view("kv_lengths", {lengths, {2}}));
    const std::string sentence = "attune: expected kv_lengths from 0 to 7, the key_length, got 8 for batch element ";
    CHECK_THROWS_WITH(attune::detail::explain(fake::kernels(), call.all, {}), StartsWith(sentence + "4"));
    CHECK_THROWS_WITH(attune::detail::explain(fake::kernels(), of_two, {}), StartsWith(sentence + "1"));
    CHECK_THROWS_WITH(attune::detail::blocks(fake::kernels(), of_two, {}), StartsWith(sentence + "1"));
}

TEST_CASE("a gradient that sums over the batch is refused with cu_seqlens_q") {
    using namespace attune::dsl;
    static constexpr auto gain = input<"gain", f32>(head);
    static constexpr auto s = q * t(k) * gain(h);
    static constexpr auto forward = outputs(out = softmax(s) * v, lse = log_sum_exp(s));
    static constexpr auto of_queries = gradient(forward, wrt(q)), of_gain = gradient(forward, wrt(gain));
    std::vector<float> memory(4096);
    starts where{0, 1, 2};
    const auto refusal = [&](const attune::graph_ir& of, const char* name, tensor made) {
        by_hand::graph g;
        g.nodes.assign(of.nodes.begin(), of.nodes.end()), g.inputs.assign(of.inputs.begin(), of.inputs.end());
        g.outputs.assign(of.outputs.begin(), of.outputs.end());
        using by_hand::view;
        return by_hand::call(g, {view("q", {memory.data(), {1, 2, 2, 8}}), view("k", {memory.data(), {2, 2, 3, 8}}),
                                 view("v", {memory.data(), {2, 2, 3, 4}}), view("gain", {memory.data(), {2}}),
                                 view("out", {memory.data(), {1, 2, 2, 4}}), view("lse", {memory.data(), {1, 2, 2}}),
                                 view("dout", {memory.data(), {1, 2, 2, 4}}), view("cu_seqlens_q", {where.data(), {3}}),
                                 view(name, made)});
    };
    CHECK(refusal(attune::dsl::ir_of<of_queries>, "dq", {memory.data() + 2048, {1, 2, 2, 8}}) == "");
    CHECK_THAT(refusal(attune::dsl::ir_of<of_gain>, "dgain", {memory.data() + 2048, {2}}),
               ContainsSubstring("got dgain, which sums over the batch"));
}

TEST_CASE("a wrong cu_seqlens_q is refused") {
    packed call;
    SECTION("that does not begin with 0") {
        call.where[0] = 1;
        check_refused(call, "cu_seqlens_q from 0 on, each no less than the one before, got 1 at 0");
    }
    SECTION("that falls") {
        call.where[2] = 0;
        check_refused(call, "cu_seqlens_q from 0 on, each no less than the one before, got 0 at 2");
    }
    SECTION("below 0") {
        call.where[0] = -1;
        check_refused(call, "cu_seqlens_q from 0 on, each no less than the one before, got -1 at 0");
    }
    SECTION("beyond the queries") {
        call.where[5] = std::numeric_limits<std::int32_t>::max();
        check_refused(call, "query extent 2147483647 in q");
    }
    SECTION("of nothing") {
        call.set("cu_seqlens_q", {call.where.data(), {0}});
        check_refused(call, "at least one element in cu_seqlens_q");
    }
    SECTION("of floats") {
        call.set("cu_seqlens_q", {call.c.q.data(), {6}});
        check_refused(call, "i32 elements in cu_seqlens_q");
    }
    SECTION("of two axes") {
        call.set("cu_seqlens_q", {call.where.data(), {6, 1}});
        check_refused(call, "cu_seqlens_q with 1 axis");
    }
    SECTION("that is a number") {
        call.argument("cu_seqlens_q") = by_hand::number("cu_seqlens_q", 3);
        check_refused(call, "a tensor for cu_seqlens_q");
    }
    SECTION("of a GPU") {
        call.set("cu_seqlens_q", tensor(call.where.data(), {6}).in(attune::memory::cuda));
        check_refused(call, "cu_seqlens_q in host memory");
    }
    SECTION("beside a cache that is a buffer of OpenCL") {
        call.set("k", call.c.K().in(attune::memory::opencl));
        check_refused(call, "k in host memory or CUDA's, in a call with cu_seqlens_q");
    }
}

TEST_CASE("outputs are apart from what other sequences read") {
    packed call({0, 1, 3});
    fake::call& c = call.c;
    // Stored (query, head, depth). The first sequence's output lies among the second one's queries.
    std::vector<float> both(4096);
    call.set("q", tensor(both.data(), {1, c.queries, c.heads, c.depth}).swapped(1, 2));
    call.set("out", tensor(both.data() + c.heads * c.depth + 8, {1, c.heads, c.queries, c.value_depth},
                           {1, c.value_depth, 1000, 1}));
    CHECK_THAT(fake::refusal(call.all), ContainsSubstring("out apart from q"));
    call.set("q", {c.q.data(), {1, c.heads, c.queries, c.depth}});
    call.set("out", tensor(both.data(), {1, c.heads, c.queries, c.value_depth}, {1, 2, 0, 1}));
    CHECK_THAT(fake::refusal(call.all), ContainsSubstring("elements of out at distinct addresses"));
}

TEST_CASE("cu_seqlens_q is apart from outputs") {
    packed call({0, 1, 2});
    std::vector<float> memory(64);
    call.set("out", {memory.data(), {1, 4, 2, 4}});
    auto* const inside = reinterpret_cast<std::int32_t*>(memory.data());
    inside[0] = 0, inside[1] = 1, inside[2] = 2;
    call.set("cu_seqlens_q", {inside, {3}});
    CHECK_THAT(fake::refusal(call.all), ContainsSubstring("out apart from cu_seqlens_q"));
}

TEST_CASE("questions about blocks have no calls with cu_seqlens_q") {
    packed call;
    CHECK_THROWS_WITH(attune::detail::blocks(fake::kernels(), call.all, {}),
                      StartsWith("attune: expected a call without cu_seqlens_q"));
    CHECK(call.c.untouched());
}

TEST_CASE("formulas that ask for more than a sequence has are refused with cu_seqlens_q") {
    using namespace by_hand;
    std::vector<float> memory(4096);
    starts where{0, 1, 2};
    const auto refusal = [&](graph g, std::string_view extra = {}) {
        const auto q = g.q(), k = g.k(), v = g.v();
        g.output("out", g.attend(g.softmax(g.scores(q, k)), v));
        arguments given{view("q", {memory.data(), {1, 2, 2, 8}}), view("k", {memory.data(), {2, 2, 3, 8}}),
                        view("v", {memory.data(), {2, 2, 3, 4}}), view("out", {memory.data() + 2048, {1, 2, 2, 4}}),
                        view("cu_seqlens_q", {where.data(), {3}})};
        if (!extra.empty()) given.push_back(view(extra, {memory.data(), {2}}));
        return by_hand::call(g, given);
    };
    graph g;
    CHECK(refusal(g) == "");
    SECTION("the size of the batch") {
        g.add(operation::batches, kind::integer);
        CHECK_THAT(refusal(g), ContainsSubstring("got the size of the batch in it"));
    }
    SECTION("the extent of a batch axis") {
        g.add(operation::extent, kind::integer, {g.input("x", element_type::f32, {axis_kind::batch})}, 0);
        CHECK_THAT(refusal(g, "x"), ContainsSubstring("got the size of the batch in it"));
    }
    SECTION("b as a number") {
        g.add(operation::add, kind::integer, {g.add(operation::b, kind::integer), g.integer(1)});
        CHECK_THAT(refusal(g), ContainsSubstring("got b as a number in it"));
    }
    SECTION("a batch axis read elsewhere") {
        g.add(operation::load, kind::real, {g.input("x", element_type::f32, {axis_kind::batch}), g.integer(0)});
        CHECK_THAT(refusal(g, "x"), ContainsSubstring("got a batch axis that is read elsewhere than at b"));
    }
    SECTION("b as the index of another axis") {
        g.add(operation::load, kind::real,
              {g.input("x", element_type::f32, {axis_kind::free}), g.add(operation::b, kind::integer)});
        CHECK_THAT(refusal(g, "x"), ContainsSubstring("got b as a number in it"));
    }
    SECTION("random numbers") {
        const auto seed = g.integer(1);
        g.add(operation::keep, kind::condition, {seed, seed, seed});
        CHECK_THAT(refusal(g), ContainsSubstring("got random numbers of each batch element in it"));
    }
    SECTION("queries with a length of their own") {
        g.add(operation::queries, kind::tensor, {g.integer(1), g.integer(2)});
        CHECK_THAT(refusal(g), ContainsSubstring("got queries(...) with a length of their own"));
    }
}
