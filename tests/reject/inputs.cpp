// Inputs, scalars, lengths and names, and the indices at which tensors are read.
#include "language.hpp"

// --- bound_index_called_k
// rejects: q, k and v are inputs, too
namespace my {
#ifdef REJECT
inline constexpr auto i = bound_index<"k">;
inline constexpr auto variant = softmax(scores + sum(i, 4, slopes(i))) * v;
#else
inline constexpr auto i = bound_index<"i">;
inline constexpr auto variant = softmax(scores + sum(i, 4, slopes(i))) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- brackets_too_few
// rejects: a tensor is read at indices, such as slopes(h)
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores + input<"bias", f32>(head, query, key)[h][q_idx]) * v;
#else
inline constexpr auto variant = softmax(scores + input<"bias", f32>(head, query, key)[h][q_idx][kv_idx]) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- brackets_too_many
// rejects: a tensor is indexed by another number of indices than it has axes
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores + slopes[h][h]) * v;
#else
inline constexpr auto variant = softmax(scores + slopes[h]) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- channel_on_another_axis
// rejects: a tensor is indexed by other axes than it was declared with
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(queries(q(b, h, d_idx, d_idx)) * t(k)) * v;
#else
inline constexpr auto variant = softmax(queries(q(b, h, q_idx, d_idx)) * t(k)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- cu_seqlens_q_in_a_formula
// rejects: cu_seqlens_q is passed to a call and not read by a formula
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(scores, kv_idx <= q_idx - cu_seqlens_q(b))) * v;
#else
inline constexpr auto variant = softmax(mask(scores, kv_idx <= q_idx + kv_lengths(b))) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- extent_beyond_the_axes
// rejects: extent<n>(tensor) is the length of axis n of an input, 0 the outermost; this has no such axis
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(scores, kv_idx < extent<1>(slopes))) * v;
#else
inline constexpr auto variant = softmax(mask(scores, kv_idx < extent<0>(slopes))) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- extent_of_a_number
// rejects: extent<n>(tensor) is the length of axis n of an input, 0 the outermost; this has no such axis
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(scores, kv_idx < extent<0>(slopes(h)))) * v;
#else
inline constexpr auto variant = softmax(mask(scores, kv_idx < extent<0>(slopes))) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- extent_of_no_axis
// rejects: extent is told which axis: extent<1>(tensor), 0 the outermost
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(scores, kv_idx < extent(slopes))) * v;
#else
inline constexpr auto variant = softmax(mask(scores, kv_idx < extent<0>(slopes))) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- heads_that_nothing_counts
// rejects: no input has an axis that says how many heads there are; pass a tensor with the axis head
namespace my {
#ifdef REJECT
inline constexpr auto tokens_in = input<"tokens_in", f32>(batch, query, depth);
inline constexpr auto own = tokens_in(b, q_idx, d_idx);
#else
inline constexpr auto tokens_in = input<"tokens_in", f32>(batch, head, query, depth);
inline constexpr auto own = tokens_in(b, h, q_idx, d_idx);
#endif
inline constexpr auto cache = input<"cache", f32>(batch, key, depth);
inline constexpr auto past = cache(b, kv_idx, d_idx);
inline constexpr auto variant = softmax(queries(own) * t(keys(past)) + as_real(h) / heads) * values(past);
inline constexpr auto text = ir_of<variant>;
}  // namespace my

// --- input_named_like_an_output
// rejects: one name stands for two things in this graph
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores + input<"out", f32>(head)(h)) * v;
#else
inline constexpr auto variant = softmax(scores + input<"outer", f32>(head)(h)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- input_of_nine_axes
// rejects: an input has one to eight axes
namespace my {
#ifdef REJECT
inline constexpr auto variant =
    softmax(scores + input<"bias", f32>(batch, head, query, key, axis<"l">, axis<"m">, axis<"n">, axis<"o">, axis<"p">)(
                         b, h, q_idx, kv_idx, 0, 0, 0, 0, 0)) *
    v;
#else
inline constexpr auto variant =
    softmax(scores + input<"bias", f32>(batch, head, query, key, axis<"m">, axis<"n">, axis<"o">, axis<"p">)(
                         b, h, q_idx, kv_idx, 0, 0, 0, 0)) *
    v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- input_over_an_index
// rejects: an input is declared over axes: batch, head, key_head, query, key, position, depth, value_depth or
// axis<"name">
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores + input<"bias", f32>(h)(h)) * v;
#else
inline constexpr auto variant = softmax(scores + input<"bias", f32>(head)(h)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- input_without_axes
// rejects: an input has one to eight axes; a single number is declared with scalar<"name", type>
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores + input<"bias", f32>()()) * v;
#else
inline constexpr auto variant = softmax(scores + scalar<"bias", f32>) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- key_index_called_k
// rejects: t\(...\) transposes a tensor, and this is an integer
namespace my {
#ifdef REJECT
inline constexpr auto variant = flex(score_mod([](auto score, auto, auto, auto, auto k) { return score + q * t(k); }));
#else
inline constexpr auto variant =
    flex(score_mod([](auto score, auto, auto, auto, auto kv) { return score + kv; }), q, k, v);
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- key_lengths_of_a_head
// rejects: kv_lengths has one axis, the batch: it is read as kv_lengths(b)
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(scores, kv_idx < kv_lengths(h))) * v;
#else
inline constexpr auto variant = softmax(mask(scores, kv_idx < kv_lengths(b))) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- name_of_a_bound_index
// rejects: the name of a bound index is an identifier, as of a variable
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores + sum(bound_index<"1st">, 4, slopes(h))) * v;
#else
inline constexpr auto variant = softmax(scores + sum(bound_index<"first">, 4, slopes(h))) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- name_of_a_scalar
// rejects: the name of a scalar is an identifier, as of a variable
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores * scalar<"my scale", f32>) * v;
#else
inline constexpr auto variant = softmax(scores * scalar<"my_scale", f32>) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- name_of_an_output
// rejects: the name of an output is an identifier, as of a variable
namespace my {
#ifdef REJECT
inline constexpr auto variant = outputs(output<"my out"> = softmax(scores) * v);
#else
inline constexpr auto variant = outputs(output<"my_out"> = softmax(scores) * v);
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- name_that_is_no_identifier
// rejects: the name of an input is an identifier, as of a variable
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores + input<"my slopes", f32>(head)(h)) * v;
#else
inline constexpr auto variant = softmax(scores + input<"my_slopes", f32>(head)(h)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- query_index_called_q
// rejects: a parameter or an index called q, k or v hides that tensor
namespace my {
#ifdef REJECT
inline constexpr auto variant =
    flex(score_mod([](auto score, auto b, auto h, auto q, auto) { return score + q(b, h, q, 0); }));
#else
inline constexpr auto variant =
    flex(score_mod([](auto score, auto b, auto h, auto i, auto) { return score + q(b, h, i, 0); }));
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- query_index_called_q_in_a_product
// rejects: scores are q \* t\(k\), and the left factor is an integer
namespace my {
#ifdef REJECT
namespace other {
inline constexpr auto q = bound_index<"q">;
inline constexpr auto made = q * t(k);
}  // namespace other
inline constexpr auto variant = softmax(other::made) * v;
#else
inline constexpr auto variant = softmax(q * t(k)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- real_index
// rejects: a tensor is indexed by something that is not an integer; indices are integers
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(scores, doc(q_idx * 0.5) == 1)) * v;
#else
inline constexpr auto variant = softmax(mask(scores, doc(q_idx / 2) == 1)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- same_name_declared_twice
// rejects: one name stands for two things in this graph
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores + input<"slopes", i32>(head)(h) + slopes(h)) * v;
#else
inline constexpr auto variant = softmax(scores + input<"slopes", f32>(head)(h) + slopes(h)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- scalar_of_bytes
// rejects: a scalar is i32, f32 or f64
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores + scalar<"bias", bf16>) * v;
#else
inline constexpr auto variant = softmax(scores + scalar<"bias", f32>) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- tensor_of_f64
// rejects: f64 is for numbers of the call
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores + input<"bias", f64>(head)(h)) * v;
#else
inline constexpr auto variant = softmax(scores * scalar<"bias", f64>) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- tensor_without_indices
// rejects: arithmetic on something that is not a number; a tensor is read at indices, such as slopes(h)
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores + slopes) * v;
#else
inline constexpr auto variant = softmax(scores + slopes(h)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- thirty_three_inputs
// rejects: a graph has at most 512 different operations, 32 inputs, 16 outputs, 16 bound indices and 16 stores
namespace my {
template <int number> constexpr name<3> label() {
    const char text[] = {'a' + number / 8, 'a' + number % 8, '\0'};
    return name<3>(text);
}
template <int count> constexpr auto sum_of() {
    constexpr auto last = input<label<count>(), f32>(head);
    if constexpr (count == 1)
        return last(h);
    else
        return sum_of<count - 1>() + last(h);
}
#ifdef REJECT
inline constexpr auto variant = softmax(scores + sum_of<30>()) * v;
#else
inline constexpr auto variant = softmax(scores + sum_of<29>()) * v;
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my

// --- two_outputs_of_one_name
// rejects: one name stands for two things in this graph
namespace my {
#ifdef REJECT
inline constexpr auto variant = outputs(out = softmax(scores) * v, out = log_sum_exp(scores));
#else
inline constexpr auto variant = outputs(out = softmax(scores) * v, lse = log_sum_exp(scores));
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- wrong_axis
// rejects: a tensor is indexed by other axes than it was declared with
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores + slopes(q_idx)) * v;
#else
inline constexpr auto variant = softmax(scores + slopes(h)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- wrong_number_of_indices
// rejects: a tensor is indexed by another number of indices than it has axes
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores + slopes(b, h)) * v;
#else
inline constexpr auto variant = softmax(scores + slopes(h)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my
