#include "shapes.hpp"

#include <thread>
#include <vector>

using namespace by_hand;
using attune::tensor;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

namespace {

/// softmax(q * t(k)) * v with outputs of every kind.
struct every_output : graph {
    every_output() {
        const node_id s = scores(q(), k()), w = softmax(s);
        output("out", attend(w, v()));
        output("lse", add(operation::log_sum_exp, kind::row, {s}));
        output("raw", s);
        output("weights", w);
        output("used", add(operation::sum_over_queries, kind::column, {w}));
        output("mean", add(operation::mean_over_heads, kind::head_mean, {w}));
    }
};

struct every_argument : memory {
    arguments all;
    explicit every_argument(std::int64_t b = 2, std::int64_t h = 4, std::int64_t q = 5, std::int64_t k = 7) {
        memory& m = *this;
        all = {view("q", m({b, h, q, 8})),       view("k", m({b, 2, k, 8})), view("v", m({b, 2, k, 4})),
               view("out", m({b, h, q, 4})),     view("lse", m({b, h, q})),  view("raw", m({b, h, q, k})),
               view("weights", m({b, h, q, k})), view("used", m({b, h, k})), view("mean", m({b, q, k}))};
    }
    arguments with(std::string_view name, tensor t) const {
        arguments changed = all;
        std::find_if(changed.begin(), changed.end(), [&](const auto& a) { return a.name == name; })->view = t;
        return changed;
    }
};

}  // namespace

TEST_CASE("every kind of output reaches the kernel in its own shape") {
    const every_output g;
    const every_argument given;
    REQUIRE(call(g, given.all) == "");
    const auto& b = seen.buffers;
    REQUIRE(b.size() == 3 + 1 + 6);
    CHECK(b[4].extents == ints{4, 5, 4, 2});
    CHECK(b[4].strides == ints{1, 4, 20, 80});
    CHECK(b[5].extents == ints{4, 5, 4, 2});  // a row: repeated along the value depth
    CHECK(b[5].strides == ints{0, 1, 5, 20});
    CHECK(b[6].extents == ints{7, 5, 4, 2});
    CHECK(b[7].extents == ints{7, 5, 4, 2});
    CHECK(b[8].extents == ints{7, 4, 2});
    CHECK(b[8].strides == ints{1, 7, 28});
    CHECK(b[9].extents == ints{7, 5, 2});
    CHECK(b[9].strides == ints{1, 7, 35});
}

TEST_CASE("outputs of every kind are refused by the names of their axes") {
    const every_output g;
    every_argument given;
    memory m;
    const auto refused = [&](std::string_view name, tensor t) {
        const std::string message = call(g, given.with(name, t));
        CHECK(seen.calls == 0);
        CHECK_THAT(message, ContainsSubstring("; try "));
        return message;
    };
    CHECK_THAT(refused("raw", m({2, 4, 5, 4})),
               StartsWith("attune: expected key extent 7 in raw, got raw: f32 (2, 4, 5, 4); try the shape (2, 4, 5, "
                          "7); what is written does not broadcast"));
    CHECK_THAT(refused("weights", m({2, 4, 5})),
               StartsWith("attune: expected weights with 4 axes (batch, head, query, key)"));
    CHECK_THAT(refused("used", m({2, 4, 5, 7})), StartsWith("attune: expected used with 3 axes (batch, head, key)"));
    CHECK_THAT(refused("used", m({2, 2, 7})), StartsWith("attune: expected head extent 4 in used"));
    CHECK_THAT(refused("mean", m({2, 4, 7})), StartsWith("attune: expected query extent 5 in mean"));
    CHECK_THAT(refused("mean", m({2, 5, 7}, {70, 14, 2})),
               StartsWith("attune: expected a stride of 1 along key of mean"));
    CHECK_THAT(refused("used", m({2, 4, 7}, {28, 0, 1})),
               StartsWith("attune: expected elements of used at distinct addresses"));
    CHECK_THAT(refused("lse", m({2, 4, 6})), StartsWith("attune: expected query extent 5 in lse"));
    std::vector<attune::bfloat16> halves(280);
    CHECK_THAT(refused("weights", tensor(halves.data(), {2, 4, 5, 7})),
               StartsWith("attune: expected f32 elements in weights"));
    CHECK_THAT(refused("used", given.all[0].view.rank() == 4
                                   ? tensor(static_cast<float*>(given.all[0].view.mutable_data()), {2, 4, 7})
                                   : tensor()),
               StartsWith("attune: expected used apart from q"));
    CHECK(call(g, given.with("lse", m({2, 4, 5}, {40, 10, 2}))) == "");  // a row may be a column of a table
}

TEST_CASE("sums over no query are 0") {
    const every_output g;
    every_argument given(2, 4, 0, 7);
    CHECK(call(g, given.all) == "");
    CHECK(seen.calls == 0);
    const auto* const used = static_cast<const float*>(given.all[7].view.data());
    CHECK(std::all_of(used, used + 2 * 4 * 7, [](float x) { return x == 0; }));
}

TEST_CASE("a graph without q, k and v takes its numbers from what it reads") {
    // merge: two outputs and their log-sum-exps
    graph g;
    using enum axis_kind;
    const auto out_a = g.input("out_a", f32, {batch, head, query, axis_kind::value_depth}),
               lse_a = g.input("lse_a", f32, {batch, head, query});
    g.input("scale", f32, {head});
    const auto real = g.add(operation::load, kind::real, {out_a});
    g.output("out", g.add(operation::as_output, kind::output, {real}));
    g.output("lse", g.add(operation::as_row, kind::row, {lse_a}));
    memory m;
    arguments given{view("out_a", m({2, 4, 5, 16})), view("lse_a", m({2, 1, 5})), view("scale", m({1})),
                    view("out", m({2, 4, 5, 16})), view("lse", m({2, 4, 5}))};
    REQUIRE(call(g, given, {{8, 4}, {8, 16}}) == "");
    CHECK(seen.buffers[0].extents == ints{16, 5, 4, 2});
    CHECK(seen.buffers[1].extents == ints{5, 4, 2});  // broadcasts over the heads
    CHECK(seen.buffers[1].strides == ints{1, 0, 5});
    CHECK(seen.buffers[2].extents == ints{4});
    CHECK(seen.buffers[3].extents == ints{2});  // kv_lengths
    CHECK(seen.buffers[5].extents == ints{16, 5, 4, 2});

    given[3] = view("out", m({2, 4, 5, 4}));
    CHECK_THAT(call(g, given, {{8, 4}, {8, 16}}), StartsWith("attune: expected value_depth extent 16 in out"));
    given[3] = view("out", m({2, 4, 6, 16}));
    CHECK_THAT(call(g, given, {{8, 4}, {8, 16}}), StartsWith("attune: expected query extent 5 in out"));
    given[0] = view("out_a", m({2, 4, 5, 12})), given[3] = view("out", m({2, 4, 5, 12}));
    CHECK_THAT(call(g, given, {{8, 4}, {8, 16}}),
               StartsWith("attune: expected depths (depth x value depth) that by::hand was compiled for (8x4; 8x16), "
                          "got a value depth of 12"));
}

TEST_CASE("what no input tells is read off the outputs, or is the kernel's") {
    // Queries and keys made of tables, values of v.
    graph g;
    using enum axis_kind;
    const auto angles = g.input("angles", f32, {axis_kind::position, axis_kind::depth});
    const auto real = g.add(operation::load, kind::real, {angles});
    const auto queries = g.add(operation::queries, kind::tensor, {real}),
               keys = g.add(operation::keys, kind::tensor, {real});
    g.output("out", g.attend(g.softmax(g.scores(queries, keys)), g.v()));
    memory m;
    arguments given{view("angles", m({9, 8})), view("v", m({2, 2, 7, 4})), view("out", m({2, 2, 5, 4}))};
    REQUIRE(call(g, given) == "");
    CHECK(seen.buffers[0].extents == ints{8, 9});
    CHECK(seen.buffers[3].extents == ints{4, 5, 2, 2});
    given[2] = view("out", m({2, 4, 5, 4}));
    CHECK_THAT(call(g, given),
               StartsWith("attune: expected head extent 2 in out"));  // v tells: as many heads as key heads
    given[2] = view("out", m({2, 2, 10, 4}));
    CHECK_THAT(call(g, given), ContainsSubstring("along position of angles"));

    // A depth that only broadcasts does not choose among kernels; where it matters that is said.
    given[2] = view("out", m({2, 2, 5, 4})), given[0] = view("angles", m({9, 1}));
    REQUIRE(call(g, given) == "");
    CHECK(seen.buffers[0].extents == ints{8, 9});
    CHECK_THAT(call(g, given, {{8, 4}, {16, 4}}),
               StartsWith("attune: expected a tensor of the call that has the depth, or kernels of one depth, got "
                          "depths (depth x value depth) 8x4; 16x4"));
}

TEST_CASE("heads that no input has are those that a computed tensor states, or the outputs'") {
    graph g;
    using enum axis_kind;
    const node_id x = g.input("x", f32, {batch, position, axis_kind::free}), heads = g.scalar("n", i32);
    const node_id real = g.add(operation::load, kind::real, {x}),
                  length = g.add(operation::extent, kind::integer, {x}, 1);
    const node_id queries = g.add(operation::queries, kind::tensor, {real, length, heads}),
                  keys = g.add(operation::keys, kind::tensor, {real, length, heads});
    g.output("lse", g.add(operation::log_sum_exp, kind::row, {g.scores(queries, keys)}));
    memory m;
    const auto with = [&](std::int64_t n, std::int64_t rows) {
        return call(g, {view("x", m({2, 9, 32})), number("n", n), view("lse", m({2, rows, 9}))});
    };
    CHECK(with(4, 4) == "");
    CHECK_THAT(with(4, 3), StartsWith("attune: expected head extent 4 in lse, got lse: f32 (2, 3, 9)"));
    CHECK_THAT(with(-1, 3),
               StartsWith("attune: expected a number of heads from 0 to 2147483647 in queries(...), got -1"));
    g.nodes[queries].argument_count = g.nodes[keys].argument_count = 2;
    CHECK(with(0, 3) == "");  // nothing states them: the output does
}

TEST_CASE("tokens have a width that their formula states") {
    graph g;
    using enum axis_kind;
    const node_id w = g.input("w", f32, {axis_kind::free, axis_kind::free}),
                  x = g.input("x", f32, {batch, query, axis_kind::free});
    const node_id real = g.add(operation::load, kind::real, {x});
    g.output("y", g.add(operation::tokens, kind::tokens, {real, g.add(operation::extent, kind::integer, {w}, 0)}));
    memory m;
    arguments given{view("w", m({6, 32})), view("x", m({2, 5, 32})), view("y", m({2, 5, 6}))};
    REQUIRE(call(g, given) == "");
    CHECK(seen.buffers[3].extents == ints{6, 5, 2});
    given[2] = view("y", m({2, 5, 32}));
    CHECK_THAT(call(g, given),
               StartsWith("attune: expected channel extent 6 in y, got y: f32 (2, 5, 32); try the shape (2, 5, 6)"));
    given[2] = view("y", m({2, 6}));
    CHECK_THAT(call(g, given), StartsWith("attune: expected y with 3 axes (batch, query, channel)"));
}

TEST_CASE("an empty tensor is bound to an address that may be read") {
    graph g;
    using enum axis_kind;
    const node_id list = g.input("list", i32, {batch, axis_kind::free});
    const node_id length = g.add(operation::extent, kind::integer, {list}, 1);
    const node_id keys = g.add(
        operation::keys, kind::tensor,
        {g.add(operation::load, kind::real, {g.k()}), g.add(operation::add, kind::integer, {length, g.integer(3)})});
    g.output("lse", g.add(operation::log_sum_exp, kind::row, {g.scores(g.q(), keys)}));
    memory m;
    arguments given{view("list", tensor(static_cast<std::int32_t*>(nullptr), {2, 0})),
                    view("k", tensor(static_cast<float*>(nullptr), {2, 2, 0, 8})), view("q", m({2, 4, 5, 8})),
                    view("lse", m({2, 4, 5}))};
    REQUIRE(call(g, given) == "");
    for (const std::size_t i : {0, 1}) CHECK(seen.buffers[i].host != nullptr);
    CHECK(seen.buffers[0].extents == ints{0, 2});
    CHECK(seen.buffers[1].extents == ints{8, 0, 2, 2});
    CHECK(seen.buffers[1].strides == ints{1, 0, 0, 0});  // whatever is read lies within what is bound

    // A table that is read, but whose length nobody asks for, has entries, even if no key reads them.
    graph other;
    const node_id table = other.input("table", f32, {axis_kind::free});
    const node_id s = other.add(operation::add, kind::scores,
                                {other.scores(other.q(), other.k()), other.add(operation::load, kind::real, {table})});
    other.output("lse", other.add(operation::log_sum_exp, kind::row, {s}));
    for (const std::int64_t of_keys : {7, 0})
        CHECK_THAT(call(other, {view("table", m({0})), view("q", m({2, 4, 5, 8})), view("k", m({2, 2, of_keys, 8})),
                                view("lse", m({2, 4, 5}))}),
                   StartsWith("attune: expected at least one element along free of table"));
}

TEST_CASE("rows that a kernel keeps for itself are lent for the call") {
    every_output g;
    g.saved_rows = 2;
    const every_argument given;
    also = [](void** arguments) {  // the whole of them may be written
        for (int i = 0; i < 2; ++i) {
            auto& rows = *static_cast<halide_buffer_t*>(arguments[11 + i]);
            for (int at = 0; at < 2 * 4 * 5; ++at) reinterpret_cast<float*>(rows.host)[at] = static_cast<float>(i);
        }
    };
    REQUIRE(call(g, given.all) == "");
    also = nullptr;
    const auto first = seen.buffers[10], second = seen.buffers[11];
    for (const bound& rows : {first, second}) {
        CHECK(rows.extents == ints{4, 5, 4, 2});
        CHECK(rows.strides == ints{0, 1, 5, 20});
        CHECK(rows.type == halide_type_t(halide_type_float, 32, 1));
    }
    CHECK(static_cast<float*>(second.host) - static_cast<float*>(first.host) == 2 * 4 * 5);
    // Kept from one call to the next: on a thread of its own, where no other test has left memory of that size.
    std::vector<const void*> lent;
    std::thread([&] {
        for (int i = 0; i < 2; ++i)
            if (call(g, given.all).empty()) lent.push_back(seen.buffers[10].host);
    }).join();
    REQUIRE(lent.size() == 2);
    CHECK(lent[0] == lent[1]);
}
