#pragma once
#include <attune/catalogue/windows.hpp>

/// One softmax over keys of two tensors: a window of the first, and those of the second that a list names for each
/// query. (attention-gym selected_attention)
namespace attune::catalogue {

using namespace dsl;

/// Keys or values: near[k] for k < N, far[k - N] beyond, N the length of near.
template <class Near, class Far> constexpr auto joined_keys(Near near, Far far) {
    const auto split = extent<2>(near);
    return where(kv_idx < split, near(b, h, kv_idx, d_idx), far(b, h, kv_idx - split, d_idx));
}
template <class Near, class Far> constexpr auto joined_length(Near near, Far far) {
    return extent<2>(near) + extent<2>(far);
}

/// How often key k is listed for query q: n with list[b, q, n] == k; -1 is no key.
template <class List> constexpr auto times_listed(List list, operand auto k) {
    constexpr auto n = bound_index<"listed">;
    return sum(n, extent<2>(list), list(b, q_idx, n) == k);
}

/// near[k] where 0 <= q - k < w and doc[q] == doc[k]; far[i] as many times as list[q] names i, that is s + log(times).
template <class Near, class List, class Ids>
constexpr auto selected(expression auto s, Near near, List list, operand auto w, Ids doc) {
    const auto split = extent<2>(near);
    const auto times = times_listed(list, kv_idx - split);
    return mask(s + where(kv_idx < split, 0.0, log(max(times, 1))),
                where(kv_idx < split, last_keys(w) && doc(q_idx) == doc(kv_idx), times > 0));
}

}  // namespace attune::catalogue
