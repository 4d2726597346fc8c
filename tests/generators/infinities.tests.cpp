// -infinity and NaN that a call passes or a formula makes, of every float type and at every place, and integers at the
// ends of i32: kernels for prefill and for decode against the reference, and against numbers computed by hand.
#include "kernel/kernel_list.hpp"
#include "tested_levels.hpp"
#include "tuner/jit_kernel.hpp"

#include <attune/catalogue/windows.hpp>
#include <attune/dsl.hpp>
#include <attune/ir/element.hpp>
#include <attune/reference.hpp>
#include <attune/runtime/detail/call.hpp>
#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

using namespace attune;
using support::workload;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity(), lowest = std::numeric_limits<float>::lowest();
const float not_a_number = std::nanf("");
constexpr std::int32_t most = std::numeric_limits<std::int32_t>::max(),
                       least = std::numeric_limits<std::int32_t>::min();

/// A formula's kernels for prefill and for decode, of the most demanding level that runs here.
struct both_kernels {
    explicit both_kernels(const graph_ir& graph, const char* depth = "16") : of{"my::variant", graph} {
        const std::string level(testing::tested_levels().front().name);
        for (const char* const shapes : {"prefill", "decode"})
            kernels.push_back(std::make_unique<generators::jit_kernel>(
                generators::kernels_of({&of, 1},
                                       {.targets = {level}, .dtypes = {"f32"}, .depths = {depth}, .shapes = {shapes}})
                    .front()));
    }
    /// Elements of all outputs that are not the reference's, of both kernels.
    std::size_t wrong(workload& call) const {
        const reference::results expected = call.expected();
        std::size_t found = 0;
        for (const auto& kernel : kernels) {
            run(call, *kernel);
            for (const output_declaration& output : of.graph.outputs) {
                const std::vector<double>& wanted = expected[output.name].values;
                std::size_t at = 0;
                support::for_each_offset(call.view(std::string(output.name).c_str()), [&](std::int64_t offset) {
                    found += !is_near(call[output.name].reals[static_cast<std::size_t>(offset)], wanted[at++]);
                });
            }
        }
        return found;
    }
    static void run(workload& call, const generators::jit_kernel& kernel) {
        call.reset_outputs();
        attune::detail::call(kernel.table(), call.arguments(), {.threads = 2});
    }
    static bool is_near(double is, double wanted) {
        if (std::isnan(wanted) || std::isnan(is)) return std::isnan(wanted) && std::isnan(is);
        return is == wanted || std::abs(is - wanted) <= 3e-5 * std::max(1.0, std::abs(wanted)) ||
               static_cast<float>(wanted) == static_cast<float>(is);
    }
    generators::variant of;
    std::vector<std::unique_ptr<generators::jit_kernel>> kernels;
};

/// Puts a number into an element, of whichever type.
void put(support::owned_tensor& t, std::size_t at, float x) {
    switch (t.view.type()) {
        case element_type::bf16: t.halves.at(at) = bfloat16(x).bits; break;
        case element_type::f16: t.halves.at(at) = float16(x).bits; break;
        case element_type::f8_e4m3: t.bytes.at(at) = float8_e4m3(x).bits; break;
        case element_type::f8_e5m2: t.bytes.at(at) = float8_e5m2(x).bits; break;
        default: t.reals.at(at) = x; break;
    }
}
void put_all(support::owned_tensor& t, const std::function<float(std::size_t)>& x) {
    const std::size_t count = t.reals.size() + t.halves.size() + t.bytes.size();
    for (std::size_t at = 0; at < count; ++at) put(t, at, x(at));
}

constexpr support::shape small{
    .batches = 2, .heads = 4, .key_heads = 2, .queries = 3, .keys = 70, .depth = 16, .value_depth = 16};

namespace formulas {
using namespace attune::dsl;

inline constexpr auto s = q * t(k) * rsqrt(depth);

template <element_type type> struct read_as {
    static constexpr auto pairs = input<"pairs", type>(batch, head, query, key);
    static constexpr auto keys = input<"keys", type>(batch, key);
    static constexpr auto queries = input<"queries", type>(batch, query);
    static constexpr auto heads = input<"heads", type>(head);
    static constexpr auto all = s + pairs(b, h, q_idx, kv_idx) + keys(b, kv_idx) + queries(b, q_idx) + heads(h);
    static constexpr auto added = outputs(out = softmax(all) * v, lse = log_sum_exp(all));
    static constexpr auto weighed = unnormalized(all) * v;
    static constexpr auto pair = pairs(b, h, q_idx, kv_idx);
    static constexpr auto seen = pair > -inf&& keys(b, kv_idx) != -inf && !(queries(b, q_idx) == -inf) &&
                                 (-inf < heads(h) || isnan(heads(h)));
    static constexpr auto known = !isinf(pair) && !isnan(keys(b, kv_idx)) && !(pair < keys(b, kv_idx));
    static constexpr auto compared =
        outputs(out = softmax(mask(s, seen&& known)) * v, lse = log_sum_exp(mask(s, seen&& known)));
    static constexpr auto other = input<"other", f32>(batch, head, query, value_depth);
    static constexpr auto other_lse = input<"other_lse", type>(batch, head, query);
    static constexpr auto merged =
        merge(state(softmax(s) * v, log_sum_exp(s)), state(other(b, h, q_idx, d_idx), other_lse(b, h, q_idx)));
    static constexpr auto joined = outputs(out = merged.out, lse = merged.lse);
};

/// A condition for each head: the first for heads 0 and 4, and so on.
template <class A, class B, class C, class D> constexpr auto by_head(A a, B c, C d, D e) {
    return where(h % 4 == 0, a, where(h % 4 == 1, c, where(h % 4 == 2, d, e)));
}
template <class C> constexpr auto seen_where(C condition) {
    return outputs(out = softmax(mask(s, condition)) * v, lse = log_sum_exp(mask(s, condition)));
}

inline constexpr auto kt = input<"kt", f32>(batch, key)(b, kv_idx);
inline constexpr auto qt = input<"qt", f32>(batch, query)(b, q_idx);
inline constexpr auto pt = input<"pt", f32>(batch, query, key)(b, q_idx, kv_idx);
inline constexpr auto x = scalar<"x", f32>;
inline constexpr auto nan_in_order = seen_where(by_head(kt <= qt, !(kt <= qt), kt < qt, !(kt > qt)));
inline constexpr auto nan_in_equality = seen_where(by_head(kt == qt, kt != qt, !(kt == qt), !isnan(kt) && kt >= qt));
inline constexpr auto nan_in_choices = seen_where(
    by_head(where(isnan(kt), 1e30, kt) <= qt, min(kt, qt) < 2.5, !(max(kt, qt) < 2.5), where(kt < qt, kt, qt) >= 1.0));
inline constexpr auto nan_in_arithmetic =
    seen_where(by_head(kt + qt <= 4.0, !(kt * qt < 6.0), abs(kt - qt) < 1.5, !(kt / qt >= 1.0)));
inline constexpr auto nan_in_functions = seen_where(
    by_head(floor(kt) <= floor(qt), !(exp(kt) < exp(qt)), tanh(kt) + qt > 2.0, !(sqrt(kt - 1.5) + qt > 2.5)));
inline constexpr auto nan_in_pairs = seen_where(by_head(pt > x, !(pt > x), pt <= 2.0, !(pt != 2.0)));
inline constexpr auto nan_of_a_number = seen_where(by_head(kt > x, !(kt > x), !(qt <= x), x == x || kt != x));

inline constexpr auto w = scalar<"w", i32>;
inline constexpr auto starts = input<"starts", i32>(batch, query)(b, q_idx);
inline constexpr auto ids = input<"ids", i32>(position);
inline constexpr auto ends_of_windows =
    seen_where(by_head(causal && kv_idx > q_idx - w, kv_idx <= q_idx + w, kv_idx - w<q_idx, kv_idx + w> q_idx));
inline constexpr auto ends_of_catalogue = seen_where(
    by_head(catalogue::last_keys(w), catalogue::window_back(w), kv_idx <= q_idx + (w - query_length), window(w, w)));
inline constexpr auto ends_of_products = seen_where(by_head(abs(q_idx - kv_idx) * w < 100, kv_idx* w + q_idx != 7,
                                                            (q_idx * 40503 + kv_idx) * 1640531527 % 5 != 2,
                                                            min(q_idx - w, 3) + 2 >= kv_idx || (-w) / 16 > kv_idx));
inline constexpr auto ends_of_tensors =
    seen_where(by_head(kv_idx - starts<20, starts + 5> kv_idx, ids(kv_idx) < ids(q_idx), kv_idx >= starts - w));
/// Of divisors of 0 nothing is left, and of a shift the last five bits count.
inline constexpr auto ends_of_shifts =
    seen_where(by_head((kv_idx + 1) / w == q_idx % 3 - 1 || (q_idx + kv_idx + 5) % w == 0, (kv_idx << w) % 7 < 3,
                       ((kv_idx - 100) >> w) + q_idx % 2 == 0, bit(kv_idx * 2654435 + q_idx, w)));
/// Documents of 100 tokens, whose places wrap around inside of one.
inline constexpr auto ends_of_documents =
    seen_where(q_idx / 100 == kv_idx / 100 && q_idx - (ids(q_idx / 100) + 248) >= kv_idx - (ids(kv_idx / 100) + 248));
template <int n>
inline constexpr auto ends_of_literals =
    seen_where(by_head(kv_idx > q_idx - n, kv_idx <= q_idx + n, kv_idx < n, !(q_idx - kv_idx < n)));
template <int n>
inline constexpr auto more_of_literals =
    seen_where(by_head(kv_idx / 3 < n, q_idx - 5 != n, kv_idx * 2 - 7 > -n, n - kv_idx > q_idx));

inline constexpr auto of_number = s + where(kv_idx % 3 == 0, 0.0, x);
inline constexpr auto of_logarithm = s + by_head(log(kt), log2(kt), log1p(kt - 1), log(kt* qt));
inline constexpr auto of_quotient = s + by_head(-1.0 / kt, qt / kt, -(1.0 / kt), -abs(pt) / (kt * kt));
inline constexpr auto of_difference = s + by_head(0.25 - pt, -pt, -kt, qt - kt);
inline constexpr auto of_sum = s + kt + pt;
template <class S> constexpr auto attended(S scores) {
    return outputs(out = softmax(scores) * v, lse = log_sum_exp(scores));
}
inline constexpr auto made_of_number = attended(of_number);
inline constexpr auto made_by_logarithm = attended(of_logarithm);
inline constexpr auto made_by_quotient = attended(of_quotient);
inline constexpr auto made_by_difference = attended(of_difference);
inline constexpr auto two_biases = attended(of_sum);

}  // namespace formulas

/// What stands in a table, drawn in six ways: a masked key, every pair, and -infinity at keys, queries or heads; at
/// last NaN among it.
float drawn_number(int way, unsigned which, std::size_t at) {
    const std::size_t number = at * 7 + which;
    if (way == 0 && which == 0) return at % 70 == 1 ? -infinity : 0.25f;
    if (way == 1 && which == 0) return -infinity;
    if (way == 2 && which == 1) return number % 3 == 0 ? -infinity : 0.5f;
    if (way == 3 && which == 2) return number % 2 == 0 ? -infinity : -0.5f;
    if (way == 4 && which == 3) return number % 2 == 0 ? -infinity : 0.125f;
    if (way == 5 && which < 2) return number % 5 == 0 ? not_a_number : number % 3 == 0 ? -infinity : 0.75f;
    return 0.25f * static_cast<float>(number % 5) - 0.5f;
}

void check_infinity(const graph_ir& graph) {
    const both_kernels kernels(graph);
    for (int way = 0; way < 6; ++way) {
        workload call(graph, small, 3);
        unsigned which = 0;
        for (const char* const name : {"pairs", "keys", "queries", "heads"}) {
            put_all(call[name], [&](std::size_t at) { return drawn_number(way, which, at); });
            ++which;
        }
        if (way < 2)
            for (std::size_t d = 0; d < 16; ++d) call["v"].reals[16 + d] = not_a_number;  // of a masked key
        CAPTURE(graph.text, way);
        CHECK(kernels.wrong(call) == 0);
    }
}

void check_merge(const graph_ir& graph) {
    const both_kernels kernels(graph);
    workload call(graph, small, 3);
    put_all(call["other_lse"], [](std::size_t at) { return at % 3 == 0 ? -infinity : 0.5f; });
    for (std::size_t at = 0; at < call["other"].reals.size(); ++at)
        if (at / 16 % 3 == 0) call["other"].reals[at] = not_a_number;  // of no keys
    CHECK(kernels.wrong(call) == 0);
}

}  // namespace

TEST_CASE("-infinity in a tensor of f16 or f8 masks, wherever it is read", "[infinities][types]") {
    check_infinity(dsl::ir_of<formulas::read_as<dsl::f16>::added>);
    check_infinity(dsl::ir_of<formulas::read_as<dsl::f16>::compared>);
    check_infinity(dsl::ir_of<formulas::read_as<dsl::f8_e5m2>::compared>);
    check_merge(dsl::ir_of<formulas::read_as<dsl::f16>::joined>);
}

TEST_CASE("-infinity in a tensor of any float type masks, in every graph", "[.long]") {
    check_infinity(dsl::ir_of<formulas::read_as<dsl::f16>::weighed>);
    check_infinity(dsl::ir_of<formulas::read_as<dsl::f8_e5m2>::added>);
    check_infinity(dsl::ir_of<formulas::read_as<dsl::bf16>::added>);
    check_infinity(dsl::ir_of<formulas::read_as<dsl::bf16>::compared>);
    check_infinity(dsl::ir_of<formulas::read_as<dsl::f32>::added>);
    check_infinity(dsl::ir_of<formulas::read_as<dsl::f32>::compared>);
}

namespace {

/// Blocks of several keys and queries that tables decide, and tails of both.
constexpr support::shape long_call{
    .batches = 1, .heads = 4, .key_heads = 4, .queries = 150, .keys = 330, .depth = 16, .value_depth = 16};
constexpr support::shape few_queries{
    .batches = 1, .heads = 4, .key_heads = 2, .queries = 5, .keys = 330, .depth = 16, .value_depth = 16};

/// Tables of halves from 1 to 4, rising slowly so that blocks differ, with some numbers at every seventh key, query or
/// pair.
void fill_tables(workload& call, const graph_ir& graph, float special) {
    unsigned which = 0;
    for (const char* const name : {"kt", "qt", "pt"}) {
        ++which;
        if (!std::ranges::any_of(graph.inputs, [&](const input_declaration& d) { return d.name == name; })) continue;
        support::owned_tensor& t = call[name];
        const auto count = static_cast<double>(t.reals.size());
        put_all(t, [&](std::size_t at) {
            if (at % 7 == 3 + which % 3) return special;
            const double part = static_cast<double>(at) / count;
            return 0.5f * static_cast<float>(2 + static_cast<int>(part * 6) + static_cast<int>(at % 3 == 0));
        });
    }
}

void check_tables(const graph_ir& graph, std::initializer_list<float> specials,
                  std::initializer_list<float> numbers = {2}) {
    const both_kernels kernels(graph);
    for (const support::shape& shape : {long_call, few_queries})
        for (const float special : specials)
            for (const float x : numbers) {
                workload call(graph, shape, 11, {{"x", static_cast<double>(x)}});
                fill_tables(call, graph, special);
                CAPTURE(graph.text, shape.text(), special, x);
                CHECK(kernels.wrong(call) == 0);
            }
}

void check_ends(const graph_ir& graph, std::initializer_list<std::int32_t> numbers) {
    const both_kernels kernels(graph);
    for (const support::shape& shape : {long_call, few_queries})
        for (const std::int32_t w : numbers) {
            workload call(graph, shape, 11, {{"w", static_cast<double>(w)}});
            for (const char* const name : {"starts", "ids"}) {
                if (!std::ranges::any_of(graph.inputs, [&](const auto& d) { return d.name == name; })) continue;
                std::vector<std::int32_t>& all = call[name].integers;
                for (std::size_t at = 0; at < all.size(); ++at)
                    all[at] = at % 3 == 0   ? static_cast<std::int32_t>(at)
                              : at % 3 == 1 ? most - static_cast<std::int32_t>(at % 50)
                                            : least + static_cast<std::int32_t>(at % 40);
            }
            CAPTURE(graph.text, shape.text(), w);
            CHECK(kernels.wrong(call) == 0);
        }
}

}  // namespace

TEST_CASE("a NaN in a table that a condition reads decides its own pairs alone", "[infinities][conditions]") {
    for (const graph_ir& graph : {dsl::ir_of<formulas::nan_in_order>, dsl::ir_of<formulas::nan_in_arithmetic>})
        check_tables(graph, {not_a_number, 2, infinity, -infinity});
    check_tables(dsl::ir_of<formulas::nan_in_pairs>, {not_a_number, infinity, -infinity}, {2, not_a_number});
}

TEST_CASE("a NaN decides its own pairs alone, in all conditions", "[.long]") {
    for (const graph_ir& graph : {dsl::ir_of<formulas::nan_in_equality>, dsl::ir_of<formulas::nan_in_choices>,
                                  dsl::ir_of<formulas::nan_in_functions>})
        check_tables(graph, {not_a_number, 2, infinity, -infinity});
    check_tables(dsl::ir_of<formulas::nan_of_a_number>, {not_a_number, 2}, {2, not_a_number, infinity, -infinity});
}

TEST_CASE("limits at the ends of i32 are those of arithmetic that wraps around", "[infinities][integers]") {
    for (const graph_ir& graph : {dsl::ir_of<formulas::ends_of_windows>, dsl::ir_of<formulas::ends_of_tensors>})
        check_ends(graph, {most, most - 1, 1 << 30, 40, -1, least + 1, least});
    check_ends(dsl::ir_of<formulas::ends_of_shifts>, {0, 1, 3, 31, 32, 33, -1, -29, most, least});
    for (const graph_ir& graph :
         {dsl::ir_of<formulas::ends_of_literals<most>>, dsl::ir_of<formulas::ends_of_documents>})
        check_ends(graph, {0});
}

TEST_CASE("limits at the ends of i32 are those of arithmetic that wraps around, in all formulas", "[.long]") {
    for (const graph_ir& graph : {dsl::ir_of<formulas::ends_of_windows>, dsl::ir_of<formulas::ends_of_catalogue>,
                                  dsl::ir_of<formulas::ends_of_products>, dsl::ir_of<formulas::ends_of_tensors>})
        check_ends(graph, {most, most - 1, 1 << 30, 40, 0, -1, -(1 << 30), least + 30, least + 1, least});
    for (const graph_ir& graph :
         {dsl::ir_of<formulas::ends_of_literals<least + 1>>, dsl::ir_of<formulas::more_of_literals<most>>})
        check_ends(graph, {0});
}

TEST_CASE("-infinity that a formula makes masks, and the lowest numbers are scores", "[infinities][scores]") {
    check_tables(dsl::ir_of<formulas::made_of_number>, {2}, {-infinity, -1, lowest});
    check_tables(dsl::ir_of<formulas::made_by_logarithm>, {0, 2});
    check_tables(dsl::ir_of<formulas::two_biases>, {lowest, -infinity});
}

TEST_CASE("-infinity that a formula makes masks, in all formulas", "[.long]") {
    check_tables(dsl::ir_of<formulas::made_by_quotient>, {0, 2});
    check_tables(dsl::ir_of<formulas::made_by_difference>, {infinity, 2});
}
