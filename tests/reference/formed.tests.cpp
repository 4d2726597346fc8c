// Queries, keys and values that are computed by a formula, and q, k, v read at indices.
#include "by_hand.hpp"

#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>

using namespace attune;
using namespace attune::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

TEST_CASE("computed queries and keys are contracted as q and k would be") {
    given g;
    g.reals("q", {1, 1, 2, 2}, {1, 2, 3, 4}).reals("k", {1, 1, 2, 2}, {1, 10, 100, 1000}).reals("gain", {2}, {1, 2});
    writer w;
    const auto q = w.q_tensor(), k = w.k_tensor(), gain = w.input("gain", element_type::f32, {axis_kind::depth});
    const auto swapped =
        w.load(q, {w.b(), w.h(), w.q_idx(), w.integer_of(operation::bit_xor, w.d_idx(), w.integer(1))});
    const auto scaled =
        w.real_of(operation::multiply, w.load(k, {w.b(), w.h(), w.kv_idx(), w.d_idx()}), w.load(gain, {w.d_idx()}));
    w.output("scores", w.product(w.add(operation::queries, kind::tensor, {swapped}),
                                 w.add(operation::keys, kind::tensor, {scaled})));
    CHECK(g.of(w)["scores"].values ==
          std::vector<double>{2 + 20, 200 + 2000, 4 + 60, 400 + 6000});  // (2, 1) and (4, 3) by (1, 20) and (100, 2000)
}

TEST_CASE("a norm over the channels: the sum of a computed query") {
    given g;
    g.reals("q", {1, 1, 2, 2}, {3, 4, 0, 2}).reals("k", {1, 1, 1, 2}, {5, 10});
    writer w;
    const auto q = w.q_tensor(), n = w.bound("n"), x = w.load(q, {w.b(), w.h(), w.q_idx(), n});
    const auto squares =
        w.add(operation::sum, kind::real, {n, w.index(operation::depth), w.real_of(operation::multiply, x, x)});
    const auto unit = w.real_of(operation::divide, w.load(q, {w.b(), w.h(), w.q_idx(), w.d_idx()}),
                                w.add(operation::sqrt, kind::real, {squares}));
    w.output("scores", w.product(w.add(operation::queries, kind::tensor, {unit}), w.k_tensor()));
    check_close(g.of(w)["scores"].values, {11, 10});  // (0.6, 0.8) and (0, 1) by (5, 10)
}

TEST_CASE("keys of two tensors, one behind the other, with the length that the formula says") {
    given g;
    g.reals("q", {1, 2, 1, 1}, {1, 2}).reals("near", {1, 2, 1}, {1, 2}).reals("far", {1, 3, 1}, {10, 20, 30});
    writer w;
    const auto near = w.input("near", element_type::f32, {axis_kind::batch, axis_kind::free, axis_kind::depth});
    const auto far = w.input("far", element_type::f32, {axis_kind::batch, axis_kind::free, axis_kind::depth});
    const auto first = w.extent(near, 1), length = w.integer_of(operation::add, first, w.extent(far, 1));
    const auto both =
        w.add(operation::where, kind::real,
              {w.condition_of(operation::less, w.kv_idx(), first), w.load(near, {w.b(), w.kv_idx(), w.d_idx()}),
               w.load(far, {w.b(), w.integer_of(operation::subtract, w.kv_idx(), first), w.d_idx()})});
    const auto scores = w.product(w.q_tensor(), w.add(operation::keys, kind::tensor, {both, length}));
    w.output("scores", scores);
    w.output("count", w.add(operation::as_row, kind::row,
                            {w.add(operation::to_real, kind::real, {w.index(operation::key_length)})}));
    const auto r = g.of(w);
    CHECK(r["scores"].shape == std::vector<std::int64_t>{1, 2, 1, 5});
    CHECK(r["scores"].values == std::vector<double>{1, 2, 10, 20, 30, 2, 4, 20, 40, 60});
    CHECK(r["count"].values == std::vector<double>{5, 5});
}

TEST_CASE("values computed from the keys, fewer channels than they have") {
    given g;
    g.reals("q", {1, 1, 1, 2}, {0, 0}).reals("k", {1, 1, 2, 2}, {1, 2, 3, 4}).reals("out", {1, 1, 1, 1}, {0});
    writer w;
    const auto k = w.k_tensor();
    const auto doubled = w.real_of(operation::multiply, w.load(k, {w.b(), w.h(), w.kv_idx(), w.d_idx()}), w.real(2));
    w.output("out", w.weigh(w.softmax(w.product(w.q_tensor(), k)), w.add(operation::values, kind::tensor, {doubled})));
    const auto r = g.of(w);
    CHECK(r["out"].shape == std::vector<std::int64_t>{1, 1, 1, 1});
    CHECK(r["out"].values == std::vector<double>{4});  // the mean of 2 and 6
    given without_out;
    without_out.reals("q", {1, 1, 1, 2}, {0, 0}).reals("k", {1, 1, 2, 2}, {1, 2, 3, 4});
    CHECK(without_out.of(w, {.value_depth = 2})["out"].values == std::vector<double>{4, 6});
    CHECK_THROWS_MATCHES(without_out.of(w), std::invalid_argument,
                         MessageMatches(ContainsSubstring("how many channels the values have")));
}

TEST_CASE(
    "a computed tensor sees every query head: h on a key head axis is that head's key head, on a head axis itself") {
    given g;
    g.reals("q", {1, 4, 1, 1}, {1, 1, 1, 1})
        .reals("k", {1, 2, 1, 1}, {5, 7})
        .reals("gain", {4}, {1, 2, 3, 4})
        .reals("per_group", {2}, {100, 200});
    writer w;
    const auto k = w.k_tensor(), gain = w.input("gain", element_type::f32, {axis_kind::head}),
               per_group = w.input("per_group", element_type::f32, {axis_kind::key_head});
    const auto formed =
        w.real_of(operation::multiply, w.load(k, {w.b(), w.h(), w.kv_idx(), w.d_idx()}), w.load(gain, {w.h()}));
    const auto scores = w.product(w.q_tensor(), w.add(operation::keys, kind::tensor, {formed}));
    w.output("scores", w.add(operation::add, kind::scores, {scores, w.load(per_group, {w.h()})}));
    CHECK(g.of(w)["scores"].values == std::vector<double>{105, 110, 221, 228});
}

TEST_CASE("keys gathered by index, clamped to what there is, and only those in use") {
    given g;
    const float nan = std::nanf("");
    g.reals("q", {1, 1, 1, 1}, {1})
        .reals("pool", {3, 1}, {1, 2, nan})
        .integers("place", {1, 4}, {1, -5, 0, 2})
        .integers("kv_lengths", {1}, {3});
    writer w;
    const auto pool = w.input("pool", element_type::f32, {axis_kind::free, axis_kind::depth}),
               place = w.input("place", element_type::i32, {axis_kind::batch, axis_kind::key});
    const auto gathered = w.load(pool, {w.load(place, {w.b(), w.kv_idx()}, kind::integer), w.d_idx()});
    const auto scores = w.product(w.q_tensor(), w.add(operation::keys, kind::tensor, {gathered}));
    w.output("scores", scores);
    w.output("out", w.weigh(w.softmax(scores), w.add(operation::values, kind::tensor, {gathered})));
    const auto r = g.of(w, {.value_depth = 1});
    CHECK(r["scores"].values == std::vector<double>{2, 1, 1, -inf});
    check_close(r["out"].values, {(2 * std::exp(2.0) + 2 * std::exp(1.0)) / (std::exp(2.0) + 2 * std::exp(1.0))});
}

TEST_CASE("one formula may stand in queries, values and outputs at once") {
    given g;
    g.reals("q", {1, 1, 2, 2}, {1, 2, 3, 4}).reals("k", {1, 1, 1, 2}, {1, 1}).reals("gain", {2}, {1, 10});
    writer w;
    const auto q = w.q_tensor(), gain = w.load(w.input("gain", element_type::f32, {axis_kind::depth}), {w.d_idx()});
    const auto queries = w.add(operation::queries, kind::tensor,
                               {w.real_of(operation::multiply, w.load(q, {w.b(), w.h(), w.q_idx(), w.d_idx()}), gain)});
    const auto attended =
        w.weigh(w.softmax(w.product(queries, w.k_tensor())), w.add(operation::values, kind::tensor, {gain}));
    const auto gate = w.add(operation::as_output, kind::output, {gain});
    w.output("out",
             w.add(operation::add, kind::output, {gate, w.add(operation::multiply, kind::output, {gate, attended})}));
    CHECK(g.of(w, {.value_depth = 2})["out"].values == std::vector<double>{2, 110, 2, 110});
}

TEST_CASE("lengths of one axis must agree") {
    given g;
    g.reals("q", {1, 1, 1, 1}, {1}).reals("k", {1, 1, 4, 1}, {1, 2, 3, 4});
    writer w;
    const auto k = w.k_tensor(), x = w.load(k, {w.b(), w.h(), w.kv_idx(), w.d_idx()});
    const auto scores = w.product(w.q_tensor(), w.add(operation::keys, kind::tensor, {x, w.integer(2)}));
    w.output("out", w.weigh(w.softmax(scores), w.add(operation::values, kind::tensor, {x, w.integer(3)})));
    CHECK_THROWS_MATCHES(g.of(w, {.value_depth = 1}), std::invalid_argument,
                         MessageMatches(ContainsSubstring("two lengths for one axis: 2 and 3")));
}
