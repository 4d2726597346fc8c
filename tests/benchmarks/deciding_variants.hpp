#pragma once
#include <attune/dsl.hpp>

/// Masks whose blocks are decided in different ways: by arithmetic, by tables, by both.
namespace bench {
using namespace attune::dsl;

inline constexpr auto w = scalar<"w", i32>;
inline constexpr auto document = input<"document", i32>(position);
inline constexpr auto is_global = input<"is_global", boolean>(position);
inline constexpr auto from = input<"from", i32>(query);
inline constexpr auto to = input<"to", i32>(query);

template <class Condition> constexpr auto under(Condition c) { return softmax(mask(q * t(k) * rsqrt(depth), c)) * v; }

inline constexpr auto decides_causal = under(causal);
inline constexpr auto decides_window = under(window(w, 0));
inline constexpr auto decides_documents = under(causal && document(q_idx) == document(kv_idx));
inline constexpr auto decides_longformer = under(causal && (window(w, 0) || is_global(kv_idx)));
inline constexpr auto decides_ranges = under(from(q_idx) <= kv_idx && kv_idx < to(q_idx));

}  // namespace bench
