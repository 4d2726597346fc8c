// Statistics other than plain softmax, arithmetic of rows and outputs, and outputs of every kind.
#include "by_hand.hpp"

#include <cmath>

using namespace attune;
using namespace attune::testing;

namespace {

const float log3 = std::log(3.0f);

/// Scores of the first query are the keys 0, log 3, 0; of the second -0, -log 3, -0. Values 1, 2, 4.
given three_keys() {
    given g;
    g.reals("q", {1, 1, 2, 1}, {1, -1}).reals("k", {1, 1, 3, 1}, {0, log3, 0}).reals("v", {1, 1, 3, 1}, {1, 2, 4});
    return g;
}
/// Nothing is visible to query 0, key 0 alone to query 1.
node_id nearly_nothing(writer& w, node_id scores) {
    return w.add(operation::mask, kind::scores, {scores, w.condition_of(operation::less, w.kv_idx(), w.q_idx())});
}

}  // namespace

TEST_CASE("a sink joins the denominator only") {
    given g = three_keys();
    g.reals("sinks", {1}, {log3});
    writer w;
    const auto s = w.scores(), sink = w.load(w.input("sinks", element_type::f32, {axis_kind::head}), {w.h()});
    w.output("out", w.weigh(w.add(operation::softmax, kind::weights, {s, sink}), w.v_tensor()));
    w.output("lse", w.add(operation::log_sum_exp, kind::row, {s, sink}));
    const auto r = g.of(w);
    check_close(r["out"].values, {(1 + 3 * 2 + 4) / 8.0, (1 + 2 / 3.0 + 4) / (1 + 1 / 3.0 + 1 + 3)});
    check_close(r["lse"].values, {std::log(8.0), std::log(16.0 / 3)});
}

TEST_CASE("a sink alone: an empty row is 0, its log-sum-exp the sink; a sink of -infinity is none") {
    for (const double sink : {2.0, -inf}) {
        given g = three_keys();
        writer w;
        const auto s = nearly_nothing(w, w.scores()), x = w.real(sink);
        w.output("out", w.weigh(w.add(operation::softmax, kind::weights, {s, x}), w.v_tensor()));
        w.output("lse", w.add(operation::log_sum_exp, kind::row, {s, x}));
        const auto r = g.of(w);
        check_close(r["out"].values, {0, 1 / (1 + std::exp(sink))});
        check_close(r["lse"].values, {sink, std::log(1 + std::exp(sink))});
    }
}

TEST_CASE("a sink that is NaN is the log-sum-exp of an empty row, which is 0 nevertheless") {
    given g = three_keys();
    writer w;
    const auto s = nearly_nothing(w, w.scores()), x = w.real(std::nan(""));
    w.output("out", w.weigh(w.add(operation::softmax, kind::weights, {s, x}), w.v_tensor()));
    w.output("lse", w.add(operation::log_sum_exp, kind::row, {s, x}));
    const auto r = g.of(w);
    CHECK(r["out"].values[0] == 0);
    CHECK(std::isnan(r["out"].values[1]));
    CHECK(std::isnan(r["lse"].values[0]));
    CHECK(std::isnan(r["lse"].values[1]));
}

TEST_CASE("unnormalized scores are the weights, 0 where masked") {
    given g = three_keys();
    writer w;
    const auto weights = w.add(operation::unnormalized, kind::weights,
                               {w.causal(w.add(operation::add, kind::scores, {w.scores(), w.real(10)}))});
    w.output("out", w.weigh(weights, w.v_tensor()));
    w.output("sum", w.add(operation::row_sum, kind::row, {weights}));
    w.output("weights", weights);
    const auto r = g.of(w, {.keep_visible = true});
    check_close(r["out"].values, {10, 10 + 2 * (10 - std::log(3.0))});
    check_close(r["sum"].values, {10, 20 - std::log(3.0)});
    check_close(r["weights"].values, {10, 0, 0, 10, 10 - std::log(3.0), 0});
    CHECK(r.visible == std::vector<std::uint8_t>{1, 0, 0, 1, 1, 0});
}

TEST_CASE("weights may be scaled or dropped after the softmax, which does not notice") {
    given g = three_keys();
    g.reals("keep", {3}, {2, 0, 10});
    writer w;
    const auto s = w.scores(), weights = w.softmax(s);
    const auto keep = w.load(w.input("keep", element_type::f32, {axis_kind::key}), {w.kv_idx()});
    const auto kept = w.add(operation::multiply, kind::weights, {weights, keep});
    w.output("out", w.weigh(kept, w.v_tensor()));
    w.output("lse", w.add(operation::log_sum_exp, kind::row, {s}));
    w.output("sum", w.add(operation::row_sum, kind::row, {kept}));
    w.output("weights", kept);
    const auto r = g.of(w, {.rows = {0}});
    check_close(r["out"].values, {(2 * 1 + 10 * 4) / 5.0});
    check_close(r["lse"].values, {std::log(5.0)});
    check_close(r["sum"].values, {12 / 5.0});
    check_close(r["weights"].values, {0.4, 0, 2});
}

TEST_CASE("a masked pair weighs 0 whatever multiplies or divides its weight") {
    given g = three_keys();
    const float infinity = std::numeric_limits<float>::infinity();
    g.reals("factor", {3}, {1, infinity, std::nanf("")});
    writer w;
    const auto factor = w.load(w.input("factor", element_type::f32, {axis_kind::key}), {w.kv_idx()});
    const auto weights =
        w.add(operation::multiply, kind::weights,
              {w.softmax(w.add(operation::mask, kind::scores,
                               {w.scores(), w.condition_of(operation::less, w.kv_idx(), w.integer(1))})),
               factor});
    w.output("weights", weights);
    w.output("halved", w.add(operation::divide, kind::weights, {weights, w.real(0.5)}));
    w.output("none", w.add(operation::where, kind::weights,
                           {w.condition_of(operation::less, w.kv_idx(), w.integer(0)), weights, w.real(0)}));
    const auto r = g.of(w);
    CHECK(r["weights"].values == std::vector<double>{1, 0, 0, 1, 0, 0});
    CHECK(r["halved"].values == std::vector<double>{2, 0, 0, 2, 0, 0});
    CHECK(r["none"].values == std::vector<double>(6, 0.0));
}

TEST_CASE("rows and outputs are numbers: normalising after the sum, gates, other bases") {
    given g = three_keys();
    g.reals("gate", {1, 1, 2, 1}, {10, 100});
    writer w;
    const auto s = w.scores(),
               weights = w.add(operation::unnormalized, kind::weights, {w.add(operation::exp, kind::scores, {s})});
    const auto sum = w.add(operation::row_sum, kind::row, {weights}), out = w.weigh(weights, w.v_tensor());
    const auto gate = w.input("gate", element_type::f32,
                              {axis_kind::batch, axis_kind::head, axis_kind::query, axis_kind::value_depth});
    const auto gated = w.add(operation::as_output, kind::output, {w.load(gate, {w.b(), w.h(), w.q_idx(), w.d_idx()})});
    w.output("mean", w.add(operation::divide, kind::output, {out, sum}));
    w.output("gated", w.add(operation::multiply, kind::output, {out, gated}));
    w.output("base_2", w.add(operation::divide, kind::row,
                             {w.add(operation::log_sum_exp, kind::row, {s}), w.real(std::log(2.0))}));
    w.output("top", w.add(operation::row_maximum, kind::row, {s}));
    w.output("larger", w.add(operation::where, kind::row,
                             {w.condition_of(operation::greater, sum, w.real(4)), sum,
                              w.add(operation::as_row, kind::row, {w.real(-1)})}));
    const auto r = g.of(w);
    check_close(r["mean"].values, {11 / 5.0, (1 + 2 / 3.0 + 4) * 3 / 7});
    check_close(r["gated"].values, {110, 100 * (1 + 2 / 3.0 + 4)});
    check_close(r["base_2"].values, {std::log2(5.0), std::log2(7 / 3.0)});
    check_close(r["top"].values, {std::log(3.0), 0});
    check_close(r["larger"].values, {5, -1});
}

TEST_CASE("the rows of an empty row: -infinity stays so through arithmetic, an output is 0 before it") {
    given g = three_keys();
    writer w;
    const auto s = nearly_nothing(w, w.scores()), lse = w.add(operation::log_sum_exp, kind::row, {s}),
               top = w.add(operation::row_maximum, kind::row, {s});
    const auto out = w.weigh(w.softmax(s), w.v_tensor());
    w.output("top", top);
    w.output("base_2", w.add(operation::divide, kind::row, {lse, w.real(0.5)}));
    w.output("difference", w.add(operation::subtract, kind::row, {lse, top}));
    w.output("nothing", w.add(operation::exp, kind::row, {w.add(operation::subtract, kind::row, {lse, top})}));
    w.output("times_0", w.add(operation::multiply, kind::row, {lse, w.real(0)}));
    w.output("plus_1", w.add(operation::add, kind::output, {out, w.real(1)}));
    w.output("sum", w.add(operation::row_sum, kind::row, {w.softmax(s)}));
    const auto r = g.of(w);
    CHECK(r["top"].values == std::vector<double>{-inf, 0});
    CHECK(r["base_2"].values == std::vector<double>{-inf, 0});
    CHECK(r["difference"].values == std::vector<double>{-inf, 0});
    CHECK(r["nothing"].values == std::vector<double>{0, 1});
    CHECK(r["times_0"].values == std::vector<double>{-inf, 0});
    CHECK(r["plus_1"].values == std::vector<double>{1, 2});
    CHECK(r["sum"].values == std::vector<double>{0, 1});
}

TEST_CASE("states merge: a graph without q, k and v") {
    // (out_a e^(lse_a - m) + out_b e^(lse_b - m)) / (e^(lse_a - m) + e^(lse_b - m)), 0 where both are empty
    writer w;
    const auto rows = {axis_kind::batch, axis_kind::head, axis_kind::query};
    const auto lse_a = w.load(w.input("lse_a", element_type::f32, rows), {w.b(), w.h(), w.q_idx()}),
               lse_b = w.load(w.input("lse_b", element_type::f32, rows), {w.b(), w.h(), w.q_idx()});
    const auto channels = {axis_kind::batch, axis_kind::head, axis_kind::query, axis_kind::value_depth};
    const auto out_a = w.load(w.input("out_a", element_type::f32, channels), {w.b(), w.h(), w.q_idx(), w.d_idx()});
    const auto out_b = w.load(w.input("out_b", element_type::f32, channels), {w.b(), w.h(), w.q_idx(), w.d_idx()});
    const auto top = w.add(operation::maximum, kind::row, {w.add(operation::as_row, kind::row, {lse_a}), lse_b});
    const auto part = [&](auto lse) {
        return w.add(operation::exp, kind::row, {w.add(operation::subtract, kind::row, {lse, top})});
    };
    const auto a = part(lse_a), b = part(lse_b), sum = w.add(operation::add, kind::row, {a, b});
    const auto both =
        w.add(operation::add, kind::output,
              {w.add(operation::multiply, kind::output, {w.add(operation::as_output, kind::output, {out_a}), a}),
               w.add(operation::multiply, kind::output, {w.add(operation::as_output, kind::output, {out_b}), b})});
    w.output("out",
             w.add(operation::divide, kind::output, {both, w.add(operation::maximum, kind::row, {sum, w.real(1)})}));
    w.output("lse", w.add(operation::add, kind::row, {top, w.add(operation::log, kind::row, {sum})}));
    const float none = -std::numeric_limits<float>::infinity();
    given g;
    g.reals("lse_a", {1, 1, 4}, {0, none, 2, none}).reals("lse_b", {1, 1, 4}, {log3, 5, none, none});
    g.reals("out_a", {1, 1, 4, 2}, {4, 40, 0, 0, 7, 70, 0, 0}).reals("out_b", {1, 1, 4, 2}, {8, 80, 6, 60, 0, 0, 0, 0});
    const auto r = g.of(w);
    CHECK(r["out"].shape == std::vector<std::int64_t>{1, 1, 4, 2});
    check_close(r["out"].values, {7, 70, 6, 60, 7, 70, 0, 0});
    check_close(r["lse"].values, {std::log(4.0), 5, 2, -inf});
}

namespace {

/// Two batch elements, two heads, two queries, three keys; the second element has one key in use. All scores are 0.
struct every_kind {
    writer w;
    given g;
    explicit every_kind(std::int64_t keys = 3) {
        const auto count = static_cast<std::size_t>(keys);
        g.reals("q", {2, 2, 2, 1}, std::vector<float>(8, 0.0f))
            .reals("k", {2, 1, keys, 1}, std::vector<float>(2 * count, 0.0f));
        g.reals("v", {2, 1, keys, 2}, std::vector<float>(4 * count, 5.0f)).integers("kv_lengths", {2}, {3, 1});
        const auto raw = w.scores(), s = w.causal(raw), weights = w.softmax(s);
        w.output("raw", raw);
        w.output("scores", s);
        w.output("weights", weights);
        w.output("by_key", w.add(operation::sum_over_queries, kind::column, {weights}));
        w.output("by_head", w.add(operation::mean_over_heads, kind::head_mean, {weights}));
        w.output("lse", w.add(operation::log_sum_exp, kind::row, {s}));
        w.output("out", w.weigh(weights, w.v_tensor()));
    }
};

}  // namespace

TEST_CASE("outputs of every kind: their shapes, masked scores -infinity, masked weights 0") {
    const every_kind x;
    const auto r = x.g.of(x.w);
    const double two = std::log(2.0);
    const auto repeated = [](std::vector<double> first, std::vector<double> second, int heads) {
        std::vector<double> all;
        for (const auto& one : {first, second})
            for (int h = 0; h < heads; ++h) all.insert(all.end(), one.begin(), one.end());
        return all;
    };
    CHECK(r["raw"].shape == std::vector<std::int64_t>{2, 2, 2, 3});
    CHECK(r["raw"].values == repeated({0, 0, 0, 0, 0, 0}, {0, -inf, -inf, 0, -inf, -inf}, 2));
    CHECK(r["scores"].values == repeated({0, -inf, -inf, 0, 0, -inf}, {0, -inf, -inf, 0, -inf, -inf}, 2));
    CHECK(r["weights"].values == repeated({1, 0, 0, 0.5, 0.5, 0}, {1, 0, 0, 1, 0, 0}, 2));
    CHECK(r["by_key"].shape == std::vector<std::int64_t>{2, 2, 3});
    CHECK(r["by_key"].values == repeated({1.5, 0.5, 0}, {2, 0, 0}, 2));
    CHECK(r["by_head"].shape == std::vector<std::int64_t>{2, 2, 3});
    CHECK(r["by_head"].values == repeated({1, 0, 0, 0.5, 0.5, 0}, {1, 0, 0, 1, 0, 0}, 1));
    check_close(r["lse"].values, repeated({0, two}, {0, 0}, 2));
    CHECK(r["out"].values == std::vector<double>(16, 5.0));
}

TEST_CASE("chosen rows: what sums over the queries still sums over all") {
    const every_kind x;
    const auto all = x.g.of(x.w), some = x.g.of(x.w, {.rows = {1}});
    CHECK(some["by_key"].values == all["by_key"].values);
    CHECK(some["by_head"].shape == std::vector<std::int64_t>{2, 1, 3});
    CHECK(some["by_head"].values == std::vector<double>{0.5, 0.5, 0, 1, 0, 0});
    CHECK(some["weights"].values == std::vector<double>{0.5, 0.5, 0, 0.5, 0.5, 0, 1, 0, 0, 1, 0, 0});
    const std::vector<float> whole(all["by_head"].values.begin(), all["by_head"].values.end()),
        sums(all["by_key"].values.begin(), all["by_key"].values.end());
    CHECK(reference::largest_error(tensor(whole.data(), {2, 2, 3}), some["by_head"], some.rows) == 0.0);
    CHECK(reference::largest_error(tensor(sums.data(), {2, 2, 3}), some["by_key"], some.rows) == 0.0);
}

TEST_CASE("no keys: every kind of output") {
    const every_kind x(0);
    const auto r = x.g.of(x.w);
    for (const char* empty : {"raw", "scores", "weights", "by_key", "by_head"}) CHECK(r[empty].values.empty());
    CHECK(r["lse"].values == std::vector<double>(8, -inf));
    CHECK(r["out"].values == std::vector<double>(16, 0.0));
}

TEST_CASE("the numbers of a call come from whatever has such an axis") {
    writer w;  // no q, k or v; heads are an input's, queries the output's
    const auto gain = w.load(w.input("gain", element_type::f32, {axis_kind::head}), {w.h()});
    w.output("row", w.add(operation::as_row, kind::row,
                          {w.real_of(operation::add, gain,
                                     w.add(operation::to_real, kind::real, {w.index(operation::query_length)}))}));
    given g;
    g.reals("gain", {2}, {10, 20}).reals("row", {1, 2, 3}, std::vector<float>(6));
    const auto r = g.of(w);
    CHECK(r["row"].shape == std::vector<std::int64_t>{1, 2, 3});
    CHECK(r["row"].values == std::vector<double>{13, 13, 13, 23, 23, 23});
}

TEST_CASE("tensors that have one key head say that there is one") {
    writer w;
    const auto per_group = w.load(w.input("per_group", element_type::f32, {axis_kind::key_head}), {w.h()});
    const auto key_heads = w.add(operation::to_real, kind::real, {w.index(operation::key_heads)});
    w.output("row", w.add(operation::as_row, kind::row, {w.real_of(operation::add, per_group, key_heads)}));
    given g;
    g.reals("per_group", {1}, {10}).reals("row", {1, 3, 1}, std::vector<float>(3));
    CHECK(g.of(w)["row"].values == std::vector<double>{11, 11, 11});
}
