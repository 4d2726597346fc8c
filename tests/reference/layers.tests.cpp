// Tokens, and attention that reads what an attention before it made.
#include "by_hand.hpp"

using namespace attune;
using namespace attune::testing;

namespace {

/// x (batch, position, 2) times w (out, 2), transposed, at `position` and `channel`.
node_id linear(writer& w, node_id x, node_id position, std::string_view name) {
    const auto n = w.bound("in"), weights = w.input(name, element_type::f32, {axis_kind::free, axis_kind::free});
    return w.add(operation::sum, kind::real,
                 {n, w.extent(weights, 1),
                  w.real_of(operation::multiply, w.load(x, {w.b(), position, n}), w.load(weights, {w.d_idx(), n}))});
}

}  // namespace

TEST_CASE("tokens: a projection of positions, of its own width, rows chosen or all") {
    writer w;
    const auto x = w.input("x", element_type::f32, {axis_kind::batch, axis_kind::query, axis_kind::free});
    w.output("y", w.add(operation::tokens, kind::tokens,
                        {linear(w, x, w.q_idx(), "w"),
                         w.extent(w.input("w", element_type::f32, {axis_kind::free, axis_kind::free}), 0)}));
    given g;
    g.reals("x", {1, 2, 2}, {1, 2, 3, 4}).reals("w", {3, 2}, {1, 0, 0, 1, 1, 1});
    const auto all = g.of(w), last = g.of(w, {.rows = {1}});
    CHECK(all["y"].shape == std::vector<std::int64_t>{1, 2, 3});
    CHECK(all["y"].values == std::vector<double>{1, 2, 3, 3, 4, 7});
    CHECK(last["y"].shape == std::vector<std::int64_t>{1, 1, 3});
    CHECK(last["y"].values == std::vector<double>{3, 4, 7});
}

TEST_CASE("heads that a computed tensor states, and an output read by tokens: heads split and merged") {
    // One key each: attention hands its values through. Two heads of depth 1 out of two channels, merged the other way
    // around.
    writer w;
    const auto x = w.input("x", element_type::f32, {axis_kind::batch, axis_kind::position, axis_kind::free});
    const auto length = w.extent(x, 1), heads = w.integer(2);
    const auto at = [&](auto position) {
        return w.load(x, {w.b(), position, w.integer_of(operation::add, w.h(), w.d_idx())});
    };
    const auto own = w.add(operation::mask, kind::scores,
                           {w.product(w.add(operation::queries, kind::tensor, {at(w.q_idx()), length, heads}),
                                      w.add(operation::keys, kind::tensor, {at(w.kv_idx()), length, heads})),
                            w.condition_of(operation::equal, w.q_idx(), w.kv_idx())});
    const auto attended =
        w.weigh(w.softmax(own), w.add(operation::values, kind::tensor, {at(w.kv_idx()), length, heads}));
    const auto swapped =
        w.load(attended, {w.b(), w.integer_of(operation::subtract, w.integer(1), w.d_idx()), w.q_idx(), w.integer(0)});
    const auto merged = w.add(operation::tokens, kind::tokens, {swapped, w.integer(2)});
    w.output("y", merged);
    // And once more over those tokens: every position of every head is the mean of its channel over the positions.
    const auto again = [&](auto position) {
        return w.load(merged, {w.b(), position, w.integer_of(operation::add, w.h(), w.d_idx())});
    };
    const auto zero = w.real_of(operation::multiply, again(w.q_idx()), w.real(0));
    const auto scores = w.product(w.add(operation::queries, kind::tensor, {zero, length, heads}),
                                  w.add(operation::keys, kind::tensor, {again(w.kv_idx()), length, heads}));
    w.output("out",
             w.weigh(w.softmax(scores), w.add(operation::values, kind::tensor, {again(w.kv_idx()), length, heads})));
    given g;
    g.reals("x", {1, 3, 2}, {1, 10, 2, 20, 6, 60});
    const auto r = g.of(w, {.depth = 1, .value_depth = 1});
    CHECK(r["y"].shape == std::vector<std::int64_t>{1, 3, 2});
    CHECK(r["y"].values == std::vector<double>{10, 1, 20, 2, 60, 6});
    CHECK(r["out"].shape == std::vector<std::int64_t>{1, 2, 3, 1});
    check_close(r["out"].values, {30, 30, 30, 3, 3, 3});
}
