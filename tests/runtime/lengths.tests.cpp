#include "shapes.hpp"

#include <limits>

using namespace by_hand;
using attune::tensor;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

namespace {

/// keys(..., extent<2>(local) + extent<2>(sparse) + more) with values of a tensor as long as that.
struct concatenated : graph {
    node_id local, sparse, length;
    explicit concatenated(bool values_too = false) {
        using enum axis_kind;
        local = input("local", f32, {batch, key_head, axis_kind::free, axis_kind::depth});
        sparse = input("sparse", f32, {batch, key_head, axis_kind::free, axis_kind::depth});
        const node_id more = scalar("more", i32);
        const node_id a = add(operation::extent, kind::integer, {local}, 2),
                      b = add(operation::extent, kind::integer, {sparse}, 2);
        length = add(operation::add, kind::integer, {add(operation::add, kind::integer, {a, b}), more});
        const node_id real =
            add(operation::where, kind::real,
                {add(operation::load, kind::real, {local}), add(operation::load, kind::real, {sparse})});
        const node_id s = scores(q(), add(operation::keys, kind::tensor, {real, length}));
        bias = input("bias", f32, {head, query, key});
        const node_id from = values_too ? add(operation::values, kind::tensor, {real, length}) : v();
        output("out",
               attend(softmax(add(operation::add, kind::scores, {s, add(operation::load, kind::real, {bias})})), from));
        output("raw", s);
    }
    node_id bias;
    struct given : memory {
        arguments all;
        explicit given(std::int64_t more = 0, std::int64_t keys = 12) {
            memory& m = *this;
            all = {view("local", m({2, 1, 4, 8})), view("sparse", m({2, 2, 8, 8})), number("more", more),
                   view("q", m({2, 4, 5, 8})),     view("bias", m({4, 5, keys})),   view("v", m({2, 2, keys, 4})),
                   view("out", m({2, 4, 5, 4})),   view("raw", m({2, 4, 5, keys}))};
        }
    };
};

}  // namespace

TEST_CASE("a length that computed keys state is the call's") {
    const concatenated g;
    concatenated::given c;
    REQUIRE(call(g, c.all) == "");
    CHECK(seen.buffers[0].extents == ints{8, 4, 2, 2});  // one key head broadcasts, the length is local's own
    CHECK(seen.buffers[0].strides == ints{1, 8, 0, 32});
    CHECK(seen.buffers[1].extents == ints{8, 8, 2, 2});
    CHECK(seen.buffers[4].extents == ints{12, 5, 4});

    concatenated::given longer(3, 15);
    CHECK(call(g, longer.all) == "");
    CHECK_THAT(call(g, concatenated::given(-13, 12).all),
               StartsWith("attune: expected a length from 0 to 2147483647 in keys(...), got -1; try "));
    CHECK_THAT(
        call(g, concatenated::given(1, 12).all),
        StartsWith("attune: expected key extent 12 in keys(...), as in v, got 13; try one length for all queries"));
    CHECK_THAT(call(g, concatenated::given(-1, 12).all),
               StartsWith("attune: expected key extent 12 in keys(...), as in v, got 11; try one length"));
    CHECK_THAT(call(g, concatenated::given(2147483647).all),
               StartsWith("attune: expected numbers of 32 bits in the length of keys(...), got 2147483659"));

    // Everything else agrees with it: biases, outputs, kv_lengths.
    const concatenated formed(true);
    concatenated::given f;
    f.all.erase(f.all.begin() + 5);
    REQUIRE(call(formed, f.all, {{8, 8}, {8, 4}}) == "");
    std::vector<std::int32_t> lengths{12, 13};
    f.all.push_back(view("kv_lengths", tensor(lengths.data(), {2})));
    CHECK_THAT(call(formed, f.all),
               StartsWith("attune: expected kv_lengths from 0 to 12, the key_length, got 13 for batch element 1"));
    f.all.pop_back();
    f.all[4] = view("bias", f({4, 5, 11}));
    CHECK_THAT(call(formed, f.all),
               StartsWith("attune: expected key extent 12 or 1 in bias, as in keys(...), got bias: f32 (4, 5, 11)"));
    f.all[4] = view("bias", f({4, 5, 1}));
    f.all[6] = view("raw", f({2, 4, 5, 11}));
    CHECK_THAT(call(formed, f.all), StartsWith("attune: expected key extent 12 in raw"));
}

TEST_CASE("an input that is read where a length is stated has its own length") {
    graph g;
    const node_id q = g.q(), k = g.k(), v = g.v();
    const node_id length =
        g.add(operation::divide, kind::integer, {g.add(operation::extent, kind::integer, {k}, 2), g.integer(2)});
    const node_id keys = g.add(operation::keys, kind::tensor, {g.add(operation::load, kind::real, {k}), length});
    const node_id values = g.add(operation::values, kind::tensor, {g.add(operation::load, kind::real, {v}), length});
    g.output("out", g.attend(g.softmax(g.scores(q, keys)), values));
    g.output("weights", g.softmax(g.scores(q, keys)));
    memory m;
    arguments given{view("q", m({2, 4, 5, 8})), view("k", m({2, 2, 15, 8})), view("v", m({2, 2, 30, 4})),
                    view("out", m({2, 4, 5, 4})), view("weights", m({2, 4, 5, 7}))};
    REQUIRE(call(g, given) == "");
    CHECK(seen.buffers[1].extents == ints{8, 15, 2, 2});
    CHECK(seen.buffers[2].extents == ints{4, 30, 2, 2});
}

namespace {

/// A length of queries, made of a scalar.
struct expression {
    std::function<node_id(graph&, node_id scalar)> make;
    std::int64_t scalar;
    std::string expected;  ///< the length, or how the refusal begins
};

std::function<node_id(graph&, node_id)> both(operation op, std::int64_t constant) {
    return [=](graph& g, node_id s) { return g.add(op, kind::integer, {s, g.integer(constant)}); };
}

void check(const expression& e) {
    graph g;
    const node_id s = g.scalar("n", i32),
                  table = g.input("table", f32, {axis_kind::head, axis_kind::free, axis_kind::depth});
    const node_id queries =
        g.add(operation::queries, kind::tensor, {g.add(operation::load, kind::real, {table}), e.make(g, s)});
    g.output("lse", g.add(operation::log_sum_exp, kind::row, {g.scores(queries, g.k())}));
    const bool refused = e.expected.starts_with("refused ");
    memory m;
    const std::int64_t rows = refused ? 1 : std::stoll(e.expected);
    const std::string message = call(g, {number("n", e.scalar), view("table", m({4, 3, 8})), view("k", m({2, 2, 7, 8})),
                                         view("lse", m({2, 4, rows}))});
    INFO(e.expected << " | " << message);
    if (refused) {
        CHECK_THAT(message, ContainsSubstring(e.expected.substr(8)));
        CHECK(seen.calls == 0);
    } else {
        CHECK(message == "");
    }
}

}  // namespace

TEST_CASE("lengths are computed as kernels compute them, and refused where they cannot be") {
    using enum operation;
    const expression cases[] = {
        {both(divide, 4), 27, "6"},
        {both(divide, -4), -27, "6"},
        {both(remainder, 4), -1, "3"},
        {both(remainder, -4), 1, "refused length from 0 to"},
        {both(divide, 0), 1, "refused divisor other than 0 in the length of queries(...), got 0"},
        {both(multiply, 1 << 20), 1 << 20,
         "refused numbers of 32 bits in the length of queries(...), got 1099511627776"},
        {both(minimum, 9), 100, "9"},
        {both(maximum, 9), -5, "9"},
        {both(subtract, 9), 100, "91"},
        {both(bit_and, 6), 13, "4"},
        {both(shift_left, 3), 5, "40"},
        {both(shift_left, 32), 5, "refused shifts by 0 to 31 bits"},
        {both(shift_right, 1), 5, "2"},
        {[](graph& g, node_id s) {
             return g.add(where, kind::integer,
                          {g.add(less, kind::condition, {s, g.integer(3)}), g.integer(11), g.integer(12)});
         },
         3, "12"},
        {[](graph& g, node_id s) { return g.add(add, kind::integer, {s, g.add(key_length, kind::integer)}); }, 3, "10"},
        {[](graph& g, node_id s) { return g.add(add, kind::integer, {s, g.add(depth, kind::integer)}); }, 3, "11"},
        {[](graph& g, node_id s) { return g.add(add, kind::integer, {s, g.add(heads, kind::integer)}); }, 3, "7"},
        {[](graph& g, node_id s) { return g.add(add, kind::integer, {s, g.add(query_length, kind::integer)}); }, 3,
         "refused length of queries(...) that other numbers say, got one that asks for itself"},
        {[](graph& g, node_id s) { return g.add(add, kind::integer, {s, g.add(q_idx, kind::integer)}); }, 3,
         "refused length of queries(...) made of constants"},
    };
    for (const expression& e : cases) check(e);
}

TEST_CASE("lengths are made of numbers of 32 bits, and of the call's own") {
    using enum operation;
    const auto at_most_nine = [](operation op, std::int64_t constant) {  // what is computed on the way counts
        return [=](graph& g, node_id s) {
            return g.add(maximum, kind::integer, {g.add(op, kind::integer, {s, g.integer(constant)}), g.integer(9)});
        };
    };
    const auto beyond_numbers = [](auto make) {
        return expression{[=](graph& g, node_id s) { return g.add(operation::add, kind::integer, {s, make(g)}); }, 3,
                          "refused length of queries(...) made of constants"};
    };
    const auto of_condition = [](graph& g, node_id is) {
        return g.add(where, kind::integer, {is, g.integer(1), g.integer(2)});
    };
    const expression cases[] = {
        beyond_numbers([](graph& g) { return g.add(load, kind::integer, {g.integer(0)}); }),
        beyond_numbers([](graph& g) { return g.add(to_integer, kind::integer, {g.add(constant, kind::real)}); }),
        beyond_numbers([](graph& g) { return g.add(sum, kind::integer, {g.integer(0), g.integer(1), g.integer(2)}); }),
        beyond_numbers([](graph& g) {
            const node_id formed = g.add(operation::keys, kind::tensor, {g.integer(0)});
            return g.add(extent, kind::integer, {formed}, 0);
        }),
        beyond_numbers([=](graph& g) { return of_condition(g, g.add(load, kind::condition, {g.integer(0)})); }),
        beyond_numbers([=](graph& g) {
            const node_id real = g.add(constant, kind::real);
            return of_condition(g, g.add(less, kind::condition, {real, real}));
        }),
        {both(shift_right, 32), 5, "refused shifts by 0 to 31 bits"},
        {both(shift_right, -1), 5, "refused shifts by 0 to 31 bits"},
        {both(shift_left, 0), 5, "5"},
        {both(shift_right, 31), 5, "0"},
        {at_most_nine(multiply, 1 << 16), -(1 << 15), "9"},
        {at_most_nine(subtract, std::numeric_limits<std::int32_t>::max()), -1, "9"},
        {at_most_nine(subtract, std::numeric_limits<std::int32_t>::max()), -2,
         "refused numbers of 32 bits in the length of queries(...), got -2147483649"},
        {[](graph& g, node_id s) {
             const node_id most = g.add(add, kind::integer, {s, g.integer(std::numeric_limits<std::int32_t>::max())});
             return g.add(minimum, kind::integer, {most, g.integer(9)});
         },
         0, "9"},
        {at_most_nine(add, std::numeric_limits<std::int32_t>::max()), 1,
         "refused numbers of 32 bits in the length of queries(...), got 2147483648"},
    };
    for (const expression& e : cases) check(e);
}
