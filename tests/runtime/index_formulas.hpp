#pragma once
#include <attune/dsl.hpp>
#include <attune/dsl/layers.hpp>

/// Formulas that read at indices which they read or compute.
namespace formulas {
using namespace attune::dsl;

inline constexpr auto k_pages = input<"k_pages", f32>(axis<"page">, key_head, axis<"slot">, depth);
inline constexpr auto v_pages = input<"v_pages", f32>(axis<"page">, key_head, axis<"slot">, value_depth);
inline constexpr auto block_table = input<"block_table", i32>(batch, axis<"page">);
inline constexpr auto slots = same(extent<2>(k_pages), extent<2>(v_pages));
inline constexpr auto page = block_table(b, kv_idx / slots);
inline constexpr auto most_keys = extent<1>(block_table) * slots;
inline constexpr auto paged = softmax(q * t(keys(k_pages(page, h, kv_idx % slots, d_idx), most_keys))) *
                              values(v_pages(page, h, kv_idx % slots, d_idx), most_keys);

inline constexpr auto slot_of = input<"slot_of", i32>(batch, key);  // one pool of keys, its place a key
inline constexpr auto pool = input<"pool", f32>(axis<"place">, key_head, depth);
inline constexpr auto gathered = softmax(q * t(keys(pool(slot_of(b, kv_idx), h, d_idx)))) * v;
inline constexpr auto shifted = softmax(q * t(keys(pool(slot_of(b, kv_idx) + 2, h, d_idx)))) * v;
inline constexpr auto clamped =
    softmax(q * t(keys(pool(max(min(slot_of(b, kv_idx), extent<0>(pool) - 1), 0), h, d_idx)))) * v;
inline constexpr auto linked = softmax(q * t(k) + as_real(slot_of(b, slot_of(b, kv_idx)))) * v;  // ends with the keys

inline constexpr auto bucket = input<"bucket", i32>(query, key);
inline constexpr auto bias = input<"bias", f32>(head, axis<"bucket">);
inline constexpr auto bucketed = softmax(q * t(k) + bias(h, bucket(q_idx, kv_idx))) * v;
inline constexpr auto code = input<"code", u8>(batch, key_head, key, depth);
inline constexpr auto book = input<"book", f32>(axis<"entry">);
inline constexpr auto coded = softmax(q * t(keys(book(code(b, h, kv_idx, d_idx))))) * v;

inline constexpr auto packed = input<"packed", u8>(batch, key_head, key, axis<"byte">);  // two codes a byte
inline constexpr auto groups = input<"groups", f32>(axis<"group">);
inline constexpr auto in_lower = d_idx < depth / 2;
inline constexpr auto unpacked =
    softmax(q *
            t(keys(as_real(packed(b, h, kv_idx, where(in_lower, d_idx, d_idx - depth / 2)) >> where(in_lower, 0, 4)) *
                   groups(d_idx / 4)))) *
    v;

inline constexpr auto of_values = input<"of_values", u8>(batch, key_head, key, axis<"byte">);
inline constexpr auto both_packed =  // one index, over the depth and over the value depth
    softmax(q * t(keys(as_real(packed(b, h, kv_idx, d_idx / 2))))) *
    values(as_real(of_values(b, h, kv_idx, d_idx / 2)));
inline constexpr auto scaled_twice =
    softmax(q * t(keys(k(b, h, kv_idx, d_idx) * groups(d_idx / 4)))) * v * groups(d_idx / 4);

inline constexpr auto row_of = input<"row_of", i32>(batch, query);
inline constexpr auto rows = input<"rows", f32>(axis<"row">);
inline constexpr auto by_query = softmax(q * t(k) + rows(row_of(b, q_idx))) * v;
inline constexpr auto at_a_number = softmax(q * t(k) + rows(scalar<"at", i32>)) * v;
inline constexpr auto by_position = softmax(q * t(k) * rows(kv_idx)) * v;
inline constexpr auto in_a_branch = softmax(q * t(k) * where(kv_idx < extent<0>(rows), rows(kv_idx), 1.0)) * v;

inline constexpr auto n = bound_index<"n">;
inline constexpr auto starts = input<"starts", i32>(axis<"sequence">);  // of sequences, one behind the other
inline constexpr auto sequence = sum(n, extent<0>(starts), starts(n) <= q_idx);
inline constexpr auto by_sequence = softmax(q * t(k) + rows(sequence)) * v;
inline constexpr auto angles = input<"angles", f32>(axis<"place">, axis<"pair">);
inline constexpr auto turned =
    softmax(queries(rotary_half(q, angles, angles)) * t(keys(rotary_half(k, angles, angles)))) * v;
inline constexpr auto last = q_idx + (kv_lengths(b) - query_length);
inline constexpr auto turned_at_the_end =
    softmax(queries(rotary_half(q, angles, angles, last)) * t(keys(rotary_half(k, angles, angles)))) * v;
inline constexpr auto qr = input<"qr", f32>(batch, head, query, axis<"rope">);
inline constexpr auto kr = input<"kr", f32>(batch, key, axis<"rope">);
inline constexpr auto decoupled = softmax(q * t(k) + sum(n, extent<2>(kr), qr(b, h, q_idx, n) * kr(b, kv_idx, n))) * v;
inline constexpr auto gains = input<"gains", f32>(batch, axis<"gain">);
inline constexpr auto of_two_lengths = softmax(q * t(k) + sum(n, extent<2>(kr), qr(b, h, q_idx, n) * kr(b, kv_idx, n)) +
                                               sum(n, extent<1>(gains), gains(b, n))) *
                                       v;

inline constexpr auto k_new = input<"k_new", f32>(batch, key_head, query, depth);
inline constexpr auto place_of = input<"place_of", i32>(batch, query);
inline constexpr auto stored_where_placed =
    outputs(store(k(b, h, place_of(b, q_idx), d_idx), k_new(b, h, q_idx, d_idx), place_of(b, q_idx) >= 0),
            out = softmax(q * t(k)) * v);
inline constexpr auto stored_by_page =  // pages of 65,536 places
    outputs(store(k(b, h, 65536 * place_of(b, q_idx) - 3, d_idx), k_new(b, h, q_idx, d_idx), place_of(b, q_idx) != 2),
            out = softmax(q * t(k)) * v);
inline constexpr auto stored_or_read =  // the place is read elsewhere, too
    outputs(store(k(b, h, place_of(b, q_idx), d_idx), k_new(b, h, q_idx, d_idx), place_of(b, q_idx) >= 0),
            out = softmax(queries(q(b, h, q_idx, d_idx) + k(b, h, place_of(b, q_idx), d_idx)) * t(k)) * v);
inline constexpr auto stored_twice =
    outputs(store(k(b, h, place_of(b, q_idx), d_idx), k_new(b, h, q_idx, d_idx), place_of(b, q_idx) >= 0),
            store(k(b, h, place_of(b, q_idx), d_idx), k_new(b, h, q_idx, d_idx) * 2), out = softmax(q * t(k)) * v);
inline constexpr auto stored = outputs(store(k(b, h, new_kv_idx, d_idx), k_new(b, h, q_idx, d_idx)),
                                       out = softmax(mask(q * t(k), causal_bottom_right)) * v);

// A ring of keys, which holds a window of the last keys for each query of the call.
inline constexpr auto ring = same(extent<2>(k), max(extent<2>(k), scalar<"window", i32> + query_length - 1));
inline constexpr auto in_ring = softmax(q * t(keys(k(b, h, (row_of(b, 0) + kv_idx) % ring, d_idx)))) * v;

// Gradients of what is read at an index: these are added up there. That of q has scores in it, as a gradient needs.
inline constexpr auto slot = input<"slot", i32>(batch, query);
inline constexpr auto gates = input<"gates", f32>(axis<"slot">);
inline constexpr auto channel_gates = input<"channel_gates", f32>(axis<"group">);
template <class Output, class Scores> constexpr auto trained(Output made, Scores scores) {
    return outputs(out = made, output<"attended"> = softmax(scores) * v, lse = log_sum_exp(scores));
}
inline constexpr auto gated = trained(softmax(q * t(k)) * v * gates(slot(b, q_idx)), q* t(k));
inline constexpr auto gated_gradient = gradient(gated, of(out), wrt(gates, q));
inline constexpr auto lifted = trained(softmax(q * t(k)) * v + gates(slot(b, q_idx)), q* t(k));
inline constexpr auto lifted_gradient = gradient(lifted, of(out), wrt(gates, q));
inline constexpr auto by_group = trained(softmax(q * t(k)) * v + channel_gates(d_idx / 2), q* t(k));
inline constexpr auto by_group_gradient = gradient(by_group, of(out), wrt(channel_gates, q));
inline constexpr auto added_rows = trained(softmax(q * t(k)) * v + rows(q_idx), q* t(k));
inline constexpr auto added_rows_gradient = gradient(added_rows, of(out), wrt(rows, q));
inline constexpr auto added_in_a_branch =
    trained(softmax(q * t(k)) * v + where(q_idx < extent<0>(rows), rows(q_idx), 0.0), q* t(k));
inline constexpr auto added_in_a_branch_gradient = gradient(added_in_a_branch, of(out), wrt(rows, q));
#if defined(__aarch64__)
inline constexpr const char* level = "aarch64";  // of kernels that any such machine runs
#else
inline constexpr const char* level = "x86-64-v2";
#endif

}  // namespace formulas
