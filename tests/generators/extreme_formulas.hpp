#pragma once
#include <attune/catalogue/windows.hpp>
#include <attune/dsl.hpp>

#include <cstdint>
#include <limits>

/// Formulas of numbers that may be -infinity, NaN or near the ends of i32: in tensors of every float type, in
/// conditions, in scores.
namespace extreme_formulas {
using namespace attune::dsl;
namespace catalogue = attune::catalogue;

inline constexpr auto s = q * t(k) * rsqrt(depth);

template <attune::element_type type> struct read_as {
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

inline constexpr auto row_of_pairs =
    outputs(output<"sum"> = row_sum(softmax(s + read_as<f32>::pairs(b, h, q_idx, kv_idx))));

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
    seen_where(by_head(kt + qt <= 4.0, !(kt * qt < 6.0) && !(log(kt) > 99.0), abs(kt - qt) < 1.5, !(kt / qt >= 1.0)));
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
/// The least i32 over -2 is larger than all others of its tile over any divisor.
inline constexpr auto ends_of_quotients = seen_where(min(ids(kv_idx), 5) / (starts % 4 - 3) > 100);
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
inline constexpr auto of_product = s + by_head(x * -2.0, -abs(x), x * (0.0 - kt), 0.5 - x * kt * qt);
inline constexpr auto of_sum = s + kt + pt;
template <class S> constexpr auto attended(S scores) {
    return outputs(out = softmax(scores) * v, lse = log_sum_exp(scores));
}
inline constexpr auto made_of_number = attended(of_number);
inline constexpr auto made_by_logarithm = attended(of_logarithm);
inline constexpr auto made_by_quotient = attended(of_quotient);
inline constexpr auto made_by_difference = attended(of_difference);
inline constexpr auto made_by_product = attended(of_product);
inline constexpr auto two_biases = attended(of_sum);

/// Weights times numbers of pairs, keys and queries; no query sees every fifth key, and every seventh query sees none.
template <class F> constexpr auto weighed_by(F factor) {
    const auto weights = softmax(mask(s, kv_idx % 5 != 1 && q_idx % 7 != 2)) * factor;
    return outputs(out = weights * v, output<"sums"> = row_sum(weights));
}
inline constexpr auto weighed_by_keys = weighed_by(kt);
inline constexpr auto weighed_by_queries = weighed_by(qt);
inline constexpr auto weighed_by_pairs = weighed_by(pt);

/// Keys that -infinity in f16 hides; NaN in tables and limits near the ends of i32 in conditions.
inline constexpr auto hiding = input<"hiding", f16>(batch, key);
inline constexpr auto all_kinds = attended(
    mask(s + hiding(b, kv_idx), by_head(kt <= qt, !(kt <= qt), causal&& kv_idx > q_idx - w, kv_idx <= q_idx + w)));

}  // namespace extreme_formulas
