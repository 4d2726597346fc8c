#pragma once
#include <attune/dsl.hpp>

/// Several documents packed into one sequence: a query sees the keys of its own document, up to itself. `doc_id` holds
/// the number of the document that each position belongs to. Documents that do not meet are skipped block by block.
namespace documents {
using namespace attune::dsl;

inline constexpr auto doc_id = input<"doc_id", i32>(position);
inline constexpr auto visible = doc_id(q_idx) == doc_id(kv_idx) && causal;
inline constexpr auto attention = softmax(mask(q * t(k) * rsqrt(depth), visible)) * v;  // (b, h, lq, dv)

}  // namespace documents
