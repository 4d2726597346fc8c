// Sums and any over a bound index, extents, bits.
#include "by_hand.hpp"

using namespace attune;
using namespace attune::testing;

namespace {

/// Three keys and two queries whose scores are 0: what is added to them shows in the output named `scores`.
given nothing() {
    given g;
    g.reals("q", {1, 1, 2, 1}, {0, 0}).reals("k", {1, 1, 3, 1}, {0, 0, 0});
    return g;
}
std::vector<double> added(given& g, writer& w, node_id bias) {
    w.output("scores", w.add(operation::add, kind::scores, {w.scores(), bias}));
    return g.of(w)["scores"].values;
}

}  // namespace

TEST_CASE("a sum of integers and one of reals") {
    given g = nothing();
    writer w;
    const auto n = w.bound("n");
    const auto squares =
        w.add(operation::sum, kind::integer,
              {n, w.integer(4), w.integer_of(operation::multiply, n, w.integer_of(operation::add, n, w.kv_idx()))});
    CHECK(added(g, w, w.add(operation::to_real, kind::real, {squares})) ==
          std::vector<double>{14, 20, 26, 14, 20, 26});  // sum of n^2 + n k for n < 4

    given table = nothing();
    writer x;
    const auto m = x.bound("m");
    const auto values = x.input("table", element_type::f32, {axis_kind::query, axis_kind::free});
    const auto row = x.add(operation::sum, kind::real, {m, x.extent(values, 1), x.load(values, {x.q_idx(), m})});
    table.reals("table", {2, 3}, {1, 2, 4, 8, 16, 32});
    CHECK(added(table, x, row) == std::vector<double>{7, 7, 7, 56, 56, 56});
}

TEST_CASE("a sum over nothing is 0, any over nothing false") {
    given g = nothing();
    writer w;
    const auto n = w.bound("n");
    const auto none = w.add(operation::sum, kind::real, {n, w.integer(0), w.real(5)});
    const auto any = w.add(operation::any, kind::condition, {n, w.integer(-3), w.condition_of(operation::equal, n, n)});
    CHECK(added(g, w, w.add(operation::where, kind::real, {any, w.real(1), none})) == std::vector<double>(6, 0.0));
}

TEST_CASE("any finds a list's entry: keys chosen per query") {
    given g = nothing();
    writer w;
    const auto n = w.bound("n");
    const auto chosen = w.input("chosen", element_type::i32, {axis_kind::query, axis_kind::free});
    const auto hit =
        w.add(operation::any, kind::condition,
              {n, w.extent(chosen, 1),
               w.condition_of(operation::equal, w.load(chosen, {w.q_idx(), n}, kind::integer), w.kv_idx())});
    g.integers("chosen", {2, 2}, {0, 2, 1, 1});
    w.output("scores", w.add(operation::mask, kind::scores, {w.scores(), hit}));
    CHECK(g.of(w)["scores"].values == std::vector<double>{0, -inf, 0, -inf, 0, -inf});
}

TEST_CASE("sums nest, and one index serves several") {
    given g = nothing();
    writer w;
    const auto n = w.bound("n"), m = w.bound("m");
    const auto inner =
        w.add(operation::sum, kind::integer, {m, w.integer(3), w.integer_of(operation::multiply, n, m)});  // 3 n
    const auto outer = w.add(operation::sum, kind::integer,
                             {n, w.integer(3), w.integer_of(operation::add, inner, n)});  // 4 (0 + 1 + 2)
    const auto again = w.add(operation::sum, kind::integer, {m, w.integer(5), m});        // 10
    const auto both = w.integer_of(operation::add, outer, again);
    CHECK(added(g, w, w.add(operation::to_real, kind::real, {both})) == std::vector<double>(6, 22.0));
}

TEST_CASE("a second contraction is a sum over its channels") {
    given g = nothing();
    writer w;
    const auto n = w.bound("n");
    const auto x = w.input("x", element_type::f32, {axis_kind::head, axis_kind::query, axis_kind::free}),
               y = w.input("y", element_type::f32, {axis_kind::key, axis_kind::free});
    const auto dot =
        w.add(operation::sum, kind::real,
              {n, w.extent(y, 1),
               w.real_of(operation::multiply, w.load(x, {w.h(), w.q_idx(), n}), w.load(y, {w.kv_idx(), n}))});
    g.reals("x", {1, 2, 2}, {1, 2, 3, 4}).reals("y", {3, 2}, {1, 0, 0, 1, 1, 1});
    CHECK(added(g, w, dot) == std::vector<double>{1, 2, 3, 3, 4, 7});
}

TEST_CASE("what is masked in a sum masks the sum") {
    given g = nothing();
    writer w;
    const auto n = w.bound("n");
    const auto table = w.input("table", element_type::f32, {axis_kind::key, axis_kind::free});
    g.reals("table", {3, 2}, {1, 2, 3, -std::numeric_limits<float>::infinity(), 5, 6});
    CHECK(added(g, w, w.add(operation::sum, kind::real, {n, w.integer(2), w.load(table, {w.kv_idx(), n})})) ==
          std::vector<double>{3, -inf, 11, 3, -inf, 11});
}

TEST_CASE("shifts keep the sign to the right, and take the bits of a packed mask") {
    given g = nothing();
    writer w;
    const auto packed = w.input("packed", element_type::u8, {axis_kind::query, axis_kind::free});
    const auto byte =
        w.load(packed, {w.q_idx(), w.integer_of(operation::divide, w.kv_idx(), w.integer(8))}, kind::integer);
    const auto bit = w.integer_of(
        operation::bit_and,
        w.integer_of(operation::shift_right, byte, w.integer_of(operation::remainder, w.kv_idx(), w.integer(8))),
        w.integer(1));
    g.bytes("packed", {2, 1}, {0b101, 0b110});
    w.output("scores", w.add(operation::mask, kind::scores,
                             {w.scores(), w.condition_of(operation::not_equal, bit, w.integer(0))}));
    CHECK(g.of(w)["scores"].values == std::vector<double>{0, -inf, 0, -inf, 0, 0});

    given h = nothing();
    writer x;
    const auto left = x.integer_of(operation::shift_left, x.integer(-3), x.kv_idx()),
               right = x.integer_of(operation::shift_right, x.integer(-3), x.kv_idx());
    CHECK(added(h, x, x.add(operation::to_real, kind::real, {x.integer_of(operation::subtract, left, right)})) ==
          std::vector<double>{0, -4, -11, 0, -4, -11});
}

TEST_CASE("how long an axis is that an input broadcasts along: as long as the call's") {
    given g = nothing();
    writer w;
    const auto one_row = w.input("one_row", element_type::f32, {axis_kind::query, axis_kind::key}),
               table = w.input("table", element_type::f32, {axis_kind::free});
    g.reals("one_row", {1, 3}, {0, 0, 0}).reals("table", {1}, {0});
    const auto lengths = w.integer_of(
        operation::add, w.integer_of(operation::multiply, w.extent(one_row, 0), w.integer(10)), w.extent(table, 0));
    CHECK(added(g, w, w.add(operation::to_real, kind::real, {lengths})) == std::vector<double>(6, 21.0));
}
