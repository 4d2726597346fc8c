// The meaning of the same words in attention systems, a test a row of the table and value, against loops. The names are
// the systems that mean it so.
#include "conventions_calls.hpp"

using namespace attune;
using namespace against_loops;

// --- causal alignment where there are not as many queries as keys

TEST_CASE("causal alignment, top-left: OpenVINO 13, PyTorch's is_causal") {
    check_mask<conventions::top_left>([](const shape&, std::int64_t i, std::int64_t j) { return i >= j; });
}
TEST_CASE("causal alignment, bottom-right: FlashAttention from 2.1 on, FlashInfer, MLX") {
    check_mask<conventions::last_meets_last>(
        [](const shape& s, std::int64_t i, std::int64_t j) { return i + s.keys - s.queries >= j; });
}
TEST_CASE(
    "causal alignment, bottom-right, of caches that are filled in part: the last query meets the last key in use") {
    for (const shape& each : {wide, decode, square})
        for (const std::int64_t in_use : {each.queries, each.keys - 3, std::int64_t{1}}) {
            shape s = each;
            s.batches = 1;
            INFO(s.text() << ", " << in_use << " keys in use");
            workload call = call_of<conventions::last_meets_last>(s);
            const results expected = loops(call, s, [&](auto, std::int64_t i, std::int64_t j, double product) {
                return j < in_use && i + in_use - s.queries >= j ? product / 4 : -inf;
            });
            call.set_lengths({static_cast<std::int32_t>(in_use)});
            run<conventions::last_meets_last>(call);
            check(call, expected);
        }
}
TEST_CASE("causal alignment behind a cache, by the length of the past: ONNX from 24 on") {
    for (int past : {0, 1, 60})
        check_mask<conventions::behind_the_past>(
            [past](const shape&, std::int64_t i, std::int64_t j) { return i + past >= j; }, {{"past", past}});
}

// --- windows: attune's window(left, right) counts both ends in; a side below 0 has no end

namespace {
using extent = std::int64_t;
}  // namespace

TEST_CASE("window, attention-gym's sliding window w: w + 1 keys, window(w, 0)") {
    const int w = 16;
    check_mask<conventions::window_top_left>([](const shape&, extent i, extent j) { return i - j >= 0 && i - j <= w; },
                                             {{"left", w}, {"right", 0}});
}
TEST_CASE("window, attention-gym's selected attention w: w keys, window(w - 1, 0)") {
    const int w = 16;
    check_mask<conventions::window_top_left>([](const shape&, extent i, extent j) { return j >= i - w + 1 && j <= i; },
                                             {{"left", w - 1}, {"right", 0}});
}
TEST_CASE("window, FlashAttention's (left, right): both inclusive, bottom-right, -1 without an end") {
    const auto seen = [](int left, int right) {
        return [left, right](const shape& s, extent i, extent j) {
            const extent at = i + s.keys - s.queries;
            return (left < 0 || j >= at - left) && (right < 0 || j <= at + right);
        };
    };
    for (const auto& [left, right] :
         {std::pair(16, 0), std::pair(16, 5), std::pair(0, 0), std::pair(-1, 3), std::pair(7, -1), std::pair(-1, -1),
          std::pair(-4, 0), std::pair(0, -200), std::pair(2147483647, 0), std::pair(5, 2147483646)})
        check_mask<conventions::window_bottom_right>(seen(left, right), {{"left", left}, {"right", right}});
    check_mask<conventions::without_limits>([](auto...) { return true; });
}
TEST_CASE("window, cuDNN's left bound: column q - left is out, window(left - 1, 0)") {
    const int left = 16;
    check_mask<conventions::window_top_left>([](const shape&, extent i, extent j) { return j > i - left && j <= i; },
                                             {{"left", left - 1}, {"right", 0}});
}
TEST_CASE("window, FlashInfer's window_left: inclusive, bottom-right and causal") {
    const int left = 16;
    check_mask<conventions::window_bottom_right>(
        [](const shape& s, extent i, extent j) {
            return j + left >= i + s.keys - s.queries && j <= i + s.keys - s.queries;
        },
        {{"left", left}, {"right", 0}});
}
TEST_CASE("window, ONNX 25: inclusive") {
    check_mask<conventions::window_top_left>([](const shape&, extent i, extent j) { return i - j <= 9 && j - i <= 4; },
                                             {{"left", 9}, {"right", 4}});
}
TEST_CASE(
    "window, xFormers' causal local attention of a size: distances from the size on are out, window(size - 1, 0)") {
    const int size = 16;
    check_mask<conventions::window_top_left>([](const shape&, extent i, extent j) { return i - j < size && j <= i; },
                                             {{"left", size - 1}, {"right", 0}});
}

// --- cap and mask

TEST_CASE("cap before the mask: ONNX as corrected, Gemma 2. A masked key weighs nothing") {
    for (const shape& s : {square, wide, tall}) {
        workload call = call_of<conventions::capped_then_masked>(s, {{"cap", 1.5}});
        run<conventions::capped_then_masked>(call);
        check(call, loops(call, s, [](auto, extent i, extent j, double product) {
                  return i >= j ? 1.5 * std::tanh(product / 4 / 1.5) : -inf;
              }));
    }
}
TEST_CASE("cap after the mask: the text of ONNX 23. A masked key keeps the weight exp(-cap)") {
    for (const shape& s : {square, wide, tall}) {
        workload call = call_of<conventions::masked_then_capped>(s, {{"cap", 1.5}});
        run<conventions::masked_then_capped>(call);
        check(call, loops(call, s, [](auto, extent i, extent j, double product) {
                  return i >= j ? 1.5 * std::tanh(product / 4 / 1.5) : -1.5;
              }));
    }
}

TEST_CASE("a cap of 0 is none: FlashAttention, FlashInfer, llama.cpp") {
    for (const shape& s : {square, wide, tall}) {
        workload call = call_of<conventions::capped_then_masked>(s, {{"cap", 0}});
        run<conventions::capped_then_masked>(call);
        check(call,
              loops(call, s, [](auto, extent i, extent j, double product) { return i >= j ? product / 4 : -inf; }));
    }
}

// --- dropout

TEST_CASE("dropout with probability 1 gives 0, with 0 what there was: PyTorch") {
    const auto is_zero = [](float x) { return x == 0; };
    for (const shape& s : {square, wide, tall}) {
        workload all = call_of<conventions::dropped>(s, {{"p", 1}}),
                 none = call_of<conventions::dropped>(s, {{"p", 0}}), by_literal = call_of<conventions::all_dropped>(s);
        run<conventions::dropped>(all), run<conventions::dropped>(none), run<conventions::all_dropped>(by_literal);
        const results expected = loops(none, s, [&s](auto, extent i, extent j, double product) {
            return i + s.keys - s.queries >= j ? product / 4 : -inf;
        });
        check(none, expected);
        CHECK(against_loops::error(all["lse"].reals, expected.lse) < 5e-6);
        CHECK(std::ranges::all_of(all["out"].reals, is_zero));
        CHECK(std::ranges::all_of(by_literal["out"].reals, is_zero));
    }
    // The largest probability below 1 keeps what it says.
    workload nearly = call_of<conventions::dropped>(wide, {{"p", 1 - 0x1p-24}});
    run<conventions::dropped>(nearly);
    CHECK(std::ranges::all_of(nearly["out"].reals, [](float x) { return std::isfinite(x); }));
}

// --- rows that see nothing

TEST_CASE(
    "a fully masked row is zero, its log-sum-exp -infinity: ONNX, FlashAttention, OpenVINO, ggml, PyTorch's safe "
    "softmax") {
    workload call = call_of<conventions::last_meets_last>(tall);
    run<conventions::last_meets_last>(call);
    bool zero = true, nothing = true;
    for (std::size_t head = 0; head < 8; ++head)
        for (std::size_t i = 0; i < 150 - 37; ++i) {
            nothing = nothing && call["lse"].reals[head * 150 + i] == -std::numeric_limits<float>::infinity();
            for (std::size_t d = 0; d < 16; ++d) zero = zero && call["out"].reals[(head * 150 + i) * 16 + d] == 0.0f;
        }
    CHECK(zero);
    CHECK(nothing);
}

// --- log-sum-exp

TEST_CASE("log-sum-exp, natural: FlashAttention, FlexAttention's interface") {
    workload call = call_of<conventions::plain>(wide);
    run<conventions::plain>(call);
    check(call, loops(call, wide, [](auto, auto, auto, double product) { return product / 4; }));
}
TEST_CASE(
    "log-sum-exp, base 2: FlexAttention inside, FlashInfer's kernels. lse / log 2, -infinity where nothing is seen") {
    for (const shape& s : {wide, tall}) {
        workload call = call_of<conventions::base_2>(s);
        run<conventions::base_2>(call);
        results expected = loops(call, s, [&s](auto, extent i, extent j, double product) {
            return i + s.keys - s.queries >= j ? product / 4 : -inf;
        });
        for (double& x : expected.lse) x /= std::log(2.0);
        check(call, expected);
    }
}
TEST_CASE("log-sum-exp as (batch, head, query), and as (batch, query, head) by strides") {
    workload call = call_of<conventions::plain>(wide);
    run<conventions::plain>(call);
    const auto usual = call["lse"].reals;
    std::vector<float> other(usual.size());
    call["lse"].view = tensor(other.data(), {2, 4, 37}, {4 * 37, 1, 4});
    run<conventions::plain>(call);
    bool same = true;
    for (std::size_t b = 0; b < 2; ++b)
        for (std::size_t h = 0; h < 4; ++h)
            for (std::size_t i = 0; i < 37; ++i)
                same = same && usual[(b * 4 + h) * 37 + i] == other[(b * 37 + i) * 4 + h];
    CHECK(same);
}

// --- distances of ALiBi

TEST_CASE("ALiBi, FlashAttention: -slope |i + keys - queries - j|") {
    for (const shape& s : {square, wide, tall, decode}) {
        workload call = call_of<conventions::alibi_absolute>(s);
        call.put("slopes", slopes_of(4));
        run<conventions::alibi_absolute>(call);
        const auto slopes = slopes_of(4);
        check(call, loops(call, s, [&](extent h, extent i, extent j, double product) {
                  return product / 4 - slopes[static_cast<std::size_t>(h)] *
                                           std::abs(static_cast<double>(i + s.keys - s.queries - j));
              }));
    }
}
TEST_CASE("ALiBi, FlashInfer: slope (j - i)") {
    for (const shape& s : {square, wide, tall}) {
        workload call = call_of<conventions::alibi_signed>(s);
        call.put("slopes", std::vector{0.05f, 0.02f, 0.01f, 0.005f});
        run<conventions::alibi_signed>(call);
        const auto slopes = call["slopes"].reals;
        check(call, loops(call, s, [&](extent h, extent i, extent j, double product) {
                  return product / 4 +
                         static_cast<double>(slopes[static_cast<std::size_t>(h)]) * static_cast<double>(j - i);
              }));
    }
}
TEST_CASE("ALiBi, attention-gym: slope 2^(-8 (h + 1) / heads), (j - i)") {
    workload call = call_of<conventions::alibi_power_of_two>(tall);
    run<conventions::alibi_power_of_two>(call);
    check(call, loops(call, tall, [](extent h, extent i, extent j, double product) {
              return product / 4 + std::exp2(-2.0 * static_cast<double>(h + 1)) * static_cast<double>(j - i);
          }));
}
TEST_CASE("ALiBi, heads that are no power of two: the paper's slopes, passed") {
    const shape six{
        .batches = 1, .heads = 6, .key_heads = 2, .queries = 90, .keys = 90, .depth = 16, .value_depth = 16};
    const auto slopes = slopes_of(6);
    CHECK(slopes == std::vector<float>{0.25f, 0.0625f, 0.015625f, 0.00390625f, 0.5f, 0.125f});
    workload call = call_of<conventions::alibi_absolute>(six);
    call.put("slopes", slopes);
    run<conventions::alibi_absolute>(call);
    check(call, loops(call, six, [&](extent h, extent i, extent j, double product) {
              return product / 4 - slopes[static_cast<std::size_t>(h)] * std::abs(static_cast<double>(i - j));
          }));
}
TEST_CASE("ALiBi, ggml: slope times the mask's value, whose -infinity masks") {
    workload call = call_of<conventions::alibi_by_mask>(square);
    call.put("slopes", slopes_of(4));
    for (std::size_t i = 0; i < 90; ++i)
        for (std::size_t j = 0; j < 90; ++j)
            call["mask_value"].reals[i * 90 + j] =
                j > i ? -std::numeric_limits<float>::infinity() : -static_cast<float>(i - j);
    run<conventions::alibi_by_mask>(call);
    const auto slopes = slopes_of(4);
    check(call, loops(call, square, [&](extent h, extent i, extent j, double product) {
              return j > i ? -inf : product / 4 - slopes[static_cast<std::size_t>(h)] * static_cast<double>(i - j);
          }));
}

// --- sinks

TEST_CASE("sink, a natural logit a head, in the denominator once") {
    for (const shape& s : {square, wide, tall}) {  // tall: rows whose log-sum-exp is the sink alone
        workload call = call_of<conventions::sunk>(s);
        run<conventions::sunk>(call);
        const auto sinks = call["sinks"].reals;
        check(call, loops(
                        call, s,
                        [&s](auto, extent i, extent j, double product) {
                            return i + s.keys - s.queries >= j ? product / 4 : -inf;
                        },
                        [&](extent h) { return std::optional<double>(sinks[static_cast<std::size_t>(h)]); }));
    }
}
TEST_CASE("sink, a logit of base 2, as FlashInfer holds it inside") {
    workload call = call_of<conventions::sunk_base_2>(wide);
    run<conventions::sunk_base_2>(call);
    const auto sinks = call["sinks"].reals;
    results expected = loops(
        call, wide, [](auto, auto, auto, double product) { return product / 4; },
        [&](extent h) { return std::optional(sinks[static_cast<std::size_t>(h)] * std::log(2.0)); });
    for (double& x : expected.lse) x /= std::log(2.0);
    check(call, expected);
}
TEST_CASE("sink, keys in chunks: it joins the first only, as in ggml") {
    workload whole = call_of<conventions::first_chunk>(wide);
    run<conventions::first_chunk>(whole);
    const auto chunk = [&](workload& call, std::int64_t from, std::int64_t to) {
        call.put("q", whole["q"].reals);
        for (const char* name : {"k", "v"})
            call[name].view =
                tensor(whole[name].reals.data() + from * 16, {2, 2, to - from, 16}, {2 * 150 * 16, 150 * 16, 16, 1});
    };
    workload first = call_of<conventions::first_chunk>(wide), second = call_of<conventions::next_chunk>(wide);
    first.put("sinks", whole["sinks"].reals);
    chunk(first, 0, 64), chunk(second, 64, 150);
    run<conventions::first_chunk>(first);
    second.put("out_a", first["out"].reals), second.put("lse_a", first["lse"].reals);
    run<conventions::next_chunk>(second);
    check(second, {{whole["out"].reals.begin(), whole["out"].reals.end()},
                   {whole["lse"].reals.begin(), whole["lse"].reals.end()}});
}

// --- no keys at all

TEST_CASE("no keys: zeros and a log-sum-exp of -infinity, or the sink: FlashAttention 4") {
    const shape nothing{
        .batches = 2, .heads = 4, .key_heads = 2, .queries = 37, .keys = 0, .depth = 16, .value_depth = 16};
    workload plain = call_of<conventions::plain>(nothing), sunk = call_of<conventions::first_chunk>(nothing);
    run<conventions::plain>(plain), run<conventions::first_chunk>(sunk);
    const auto zero = [](float x) { return x == 0.0f; };
    CHECK(std::ranges::all_of(plain["out"].reals, zero));
    CHECK(std::ranges::all_of(sunk["out"].reals, zero));
    CHECK(
        std::ranges::all_of(plain["lse"].reals, [](float x) { return x == -std::numeric_limits<float>::infinity(); }));
    double worst = 0;
    for (std::size_t i = 0; i < sunk["lse"].reals.size(); ++i)
        worst = std::max<double>(worst, std::abs(sunk["lse"].reals[i] - sunk["sinks"].reals[i / 37 % 4]));
    CHECK(worst < 1e-6);
}

// --- the scale

TEST_CASE("the scale on q k^T, and its root on both of them: ONNX") {
    for (const double scale : {0.25, 0.07}) {
        workload on_product = call_of<conventions::plain>(wide, {{"scale", scale}}),
                 on_both = call_of<conventions::scale_on_both>(wide, {{"scale", scale}});
        run<conventions::plain>(on_product), run<conventions::scale_on_both>(on_both);
        const auto expected = [&](workload& call) {
            return loops(call, wide, [scale](auto, auto, auto, double product) { return product * scale; });
        };
        check(on_product, expected(on_product));
        check(on_both, expected(on_both));
    }
}
TEST_CASE("the scale comes before the cap, everywhere") {
    workload call = call_of<conventions::scaled_then_capped>(wide, {{"cap", 2.0}, {"scale", 0.5}});
    run<conventions::scaled_then_capped>(call);
    check(call, loops(call, wide, [](auto, auto, auto, double product) { return 2 * std::tanh(product * 0.5 / 2); }));
}
