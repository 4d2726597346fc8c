#pragma once
#include <attune/dsl.hpp>
#include <attune/dsl/layers.hpp>
#include <attune/dsl/recurrent.hpp>

/// Every word of the language with an example, of which page.py makes a table. The comment above an example gives its
/// words and what they are. The table shows what is inside scored, seen or whole: a number that is added to the scores,
/// a condition, a whole variant.
namespace words {

using namespace attune::dsl;

inline constexpr auto scores = q * t(k) * rsqrt(depth);
template <class X> constexpr auto scored(X x) { return softmax(scores + x) * v; }
template <class C> constexpr auto seen(C c) { return softmax(mask(scores, c)) * v; }
template <class G> constexpr auto whole(G g) { return g; }

inline constexpr auto slopes = input<"slopes", f32>(head);
inline constexpr auto table = input<"table", f32>(head, axis<"distance">);
inline constexpr auto documents = input<"documents", i64>(batch, position);
inline constexpr auto cap = scalar<"cap", f32>;
inline constexpr auto w = scalar<"w", i32>;
inline constexpr auto n = bound_index<"n">;
inline constexpr auto ends = input<"ends", i32>(batch, axis<"end">);
inline constexpr auto packed = input<"packed", u8>(batch, query, axis<"byte">);
inline constexpr auto codes = input<"codes", i8>(batch, key_head, key, depth);
inline constexpr auto cosines = input<"cosines", f32>(position, axis<"pair">);
inline constexpr auto sines = input<"sines", f32>(position, axis<"pair">);
inline constexpr auto gain = input<"gain", f32>(depth);
inline constexpr auto sinks = input<"sinks", f32>(head);
inline constexpr auto seed = scalar<"seed", i32>;
inline constexpr auto x = input<"x", f32>(batch, position, axis<"width">);
inline constexpr auto wq = input<"wq", f32>(axis<"out">, axis<"width">);
inline constexpr auto wb = input<"wb", f32>(axis<"out">);
inline constexpr auto gamma = input<"gamma", f32>(axis<"width">);
inline constexpr auto beta = input<"beta", f32>(axis<"width">);
inline constexpr auto out_a = input<"out_a", f32>(batch, head, query, value_depth);
inline constexpr auto lse_a = input<"lse_a", f32>(batch, head, query);
inline constexpr auto biased =
    score_mod([](auto score, auto, auto h, auto q_idx, auto kv_idx) { return score + slopes(h) * (kv_idx - q_idx); });
inline constexpr auto no_later = mask_mod([](auto, auto, auto q_idx, auto kv_idx) { return q_idx >= kv_idx; });
inline constexpr auto nearby = mask_mod([](auto, auto, auto q_idx, auto kv_idx) { return q_idx - kv_idx <= 16; });

// # Indices
// `b` `h`: batch element, query head, from 0
inline constexpr auto place = scored(0.1 * b + slopes(h));
// `q_idx` `kv_idx`: query and key position, from 0
inline constexpr auto positions = scored(-0.1 * abs(q_idx - kv_idx));
// `d_idx`: channel, for formulas of queries, keys, values and outputs
inline constexpr auto channel = whole(softmax(queries(q(b, h, q_idx, d_idx) * gain(d_idx)) * t(k)) * v);

// # Numbers of a call
// `query_length` `key_length`: the number of queries, of keys
inline constexpr auto lengths = seen(kv_idx - key_length <= q_idx - query_length);
// `depth` `value_depth`: channels of q and k, of v
inline constexpr auto depths = scored(as_real(depth) / value_depth);
// `heads` `key_heads` `batches`: the number of query heads, key heads, batch elements
inline constexpr auto counts = scored(exp2(-8.0 * (h + 1) / heads) * key_heads / batches);
// `kv_lengths(b)`: the number of keys in use: what the call passes, else key_length
inline constexpr auto in_use = seen(kv_idx < kv_lengths(b));
// `scalar<"cap", f32>`: a number of yours, i32, f32 or f64
inline constexpr auto scalars = scored(scalar<"cap", f32> + scalar<"w", i32> * scalar<"gain", f64>);
// `extent<0>(tensor)`: the length of an axis, 0 the outermost
inline constexpr auto extents = scored(table(h, min(abs(q_idx - kv_idx), extent<1>(table) - 1)));
// `same(a, b)`: a, which has to equal b; both are numbers of the call
inline constexpr auto equal_numbers = scored(as_real(same(extent<1>(table), extent<0>(cosines))));
// `inf`: infinity; -inf masks
inline constexpr auto infinity = whole(softmax(where(q_idx >= kv_idx, scores, -inf)) * v);

// # Tensors
// `q` `k` `v`: the three tensors of attention, whole or read as q(b, h, q_idx, d_idx)
inline constexpr auto given = whole(softmax(q * t(k)) * v);
// `input<"bias", f32>(axes)`: a tensor of yours: f32 bf16 f16 f8_e4m3 f8_e5m2, integers i64 i32 i16 i8 u8, conditions
// boolean; up to eight axes
inline constexpr auto declared = scored(input<"bias", bf16>(batch, head, query, key)(b, h, q_idx, kv_idx));
// `f32` `bf16` `f16` `f8_e4m3` `f8_e5m2`: elements that are reals
inline constexpr auto real_elements = scored(input<"a", f32>(head)(h) + input<"c", f16>(head)(h) +
                                             input<"d", f8_e4m3>(head)(h) + input<"e", f8_e5m2>(head)(h));
// `blocks` `q8_0` `q4_0` `q4_1` `mxfp4` `nvfp4`: elements that are blocks, which hold codes beside their scale
inline constexpr auto in_blocks = whole(softmax(q * t(input<"c", blocks<q8_0>>(batch, key_head, key, depth))) * v);
// `blocks_of`: an axis of blocks, of so many channels each; `axis<"byte", 34>` is 34 long in every call
inline constexpr auto block_axis =
    whole(softmax(q * t(keys(as_real(input<"c", u8>(batch, key, blocks_of<"block", 8>(depth), axis<"byte", 8>)(
                          b, kv_idx, d_idx / 8, d_idx % 8))))) *
          v);
// `i64` `i32` `i16` `i8` `u8`: elements that are integers; values are of 32 bits, and a call checks that i64 elements
// fit
inline constexpr auto integer_elements =
    seen(input<"a", i64>(head)(h) + input<"c", i16>(head)(h) + input<"d", i8>(head)(h) < input<"e", u8>(head)(h));
// `boolean`: elements that are conditions
inline constexpr auto condition_elements = seen(input<"visible", boolean>(query, key)(q_idx, kv_idx));
// `f64`: for scalars only; kernels compute in f32
inline constexpr auto double_scalar = scored(scalar<"shift", f64>);
// `[i][j]`: the same as (i, j)
inline constexpr auto brackets = scored(table[h][0]);
// `batch` `head` `key_head` `query` `key`: axes, read at b, h, h, q_idx, kv_idx
inline constexpr auto axes =
    scored(input<"bias", f32>(batch, head, query, key)(b, h, q_idx, kv_idx) + input<"of_keys", f32>(key_head)(h));
// `position`: an axis that is read at q_idx and at kv_idx
inline constexpr auto of_positions = seen(documents(b, q_idx) == documents(b, kv_idx));
// `depth` `value_depth` as axes: channels of q and k, of v
inline constexpr auto of_channels =
    whole(softmax(queries(q(b, h, q_idx, d_idx) * input<"gain", f32>(depth)(d_idx)) * t(k)) * v);
// `axis<"name">`: an axis of its own length
inline constexpr auto own_axis = scored(input<"table", f32>(head, axis<"distance">)(h, 3));
// `t(k)`: the transpose, in q * t(k)
inline constexpr auto transposed = whole(softmax(q * t(k) * rsqrt(depth)) * v);
// `from_bits<f16>(x)`: what the last bits of an integer are as an element
inline constexpr auto patterns = scored(from_bits<f8_e4m3>(packed(b, q_idx, 0)));
// `queries(x)` `keys(x)` `values(x)`: tensors made of a formula over (b, h, position, d_idx), of q's, k's and v's
// length
inline constexpr auto formed =
    whole(softmax(queries(q(b, h, q_idx, d_idx) * 2.0) * t(keys(as_real(codes(b, h, kv_idx, d_idx)) * 0.1))) *
          values(-v(b, h, kv_idx, d_idx)));
// `keys(x, length)` `keys(x, length, heads, depth)`: the same with a length, or with heads and depth too; also for
// queries and values
inline constexpr auto of_length =
    whole(softmax(q * t(keys(as_real(codes(b, h, kv_idx / 2, d_idx)), 2 * extent<2>(codes)))) *
          values(v(b, h, kv_idx / 2, d_idx), 2 * extent<2>(codes)));
// `tokens(x, width)`: a tensor between two attentions of a model, read at (b, position, channel)
inline constexpr auto between = whole(tokens(x(b, q_idx, d_idx) * 2.0, extent<2>(x)));

// # Operators
// `+` `-` `*` `/` `%`: of integers `/` and `%` round down, and a quotient that becomes a real is an error
inline constexpr auto arithmetic = scored(-cap * (q_idx - kv_idx) / 8.0 + kv_idx % 4);
// `floor_div(x, y)` `as_real(x)`: a quotient of integers, rounded down or as a fraction
inline constexpr auto quotients = scored(floor_div(q_idx, 4) + as_real(kv_idx) / 4);
// `==` `!=` `<` `<=` `>` `>=`: comparisons of numbers; == and != of conditions too
inline constexpr auto comparisons = seen(q_idx >= kv_idx && h != 3 && (q_idx < 4) == (kv_idx < 4));
// `&&` `||` `!`, `&` `|` `^` `~` of conditions: and, or, not; ^ is exclusive or
inline constexpr auto logic = seen((q_idx >= kv_idx || kv_idx < 4) && !(h == 0 && kv_idx > 8));
// `&` `|` `^` `~` `<<` `>>` of integers: bit by bit
inline constexpr auto bitwise = seen(((q_idx ^ kv_idx) & 3) == (q_idx >> 2 | 1 << 1));
// `bit(x, n)`: bit n, 0 the lowest
inline constexpr auto a_bit = seen(bit(packed(b, q_idx, kv_idx / 8), kv_idx % 8));
// `where(c, x, y)`: x where the condition holds; a masked branch is masked
inline constexpr auto chosen = scored(where(q_idx < 4, 0.0, 1.0));

// # Functions
// `abs` `min` `max` `sign` `relu` `clamp`: keep integers
inline constexpr auto keeping =
    scored(table(h, clamp(q_idx - kv_idx, -8, 8) + max(min(abs(q_idx), 8), relu(8 * sign(kv_idx)))));
// `exp` `exp2` `expm1` `log` `log2` `log1p` `sqrt` `rsqrt` `pow`: of reals
inline constexpr auto powers = scored(exp(-cap) + exp2(cap) * expm1(cap) + log(cap) - log2(cap) +
                                      log1p(cap) * sqrt(cap) + rsqrt(cap) + pow(cap, 3));
// `sin` `cos` `tan` `asin` `acos` `atan` `atan2` `sinh` `cosh` `tanh`: of reals
inline constexpr auto angles = scored(sin(cap) + cos(cap) + tan(cap) + asin(cap) + acos(cap) + atan(cap) +
                                      atan2(cap, 2) + sinh(cap) + cosh(cap) + tanh(cap));
// `floor` `ceil` `round` `trunc` `fmod`: whole numbers, as reals; the remainder
inline constexpr auto whole_reals = scored(floor(cap) + ceil(cap) + round(cap) + trunc(cap) + fmod(cap, 2));
// `as_integer(x)`: of a real, a score or a condition, toward zero
inline constexpr auto to_integer = scored(table(h, as_integer(cap * 4) + as_integer(q_idx > 4)));
// `erf` `sigmoid` `silu` `gelu` `gelu_tanh` `softplus` `logaddexp`: of reals
inline constexpr auto activations =
    scored(erf(cap) + sigmoid(cap) + silu(cap) + gelu(cap) + gelu_tanh(cap) + softplus(cap) + logaddexp(cap, 1));
// `isnan` `isinf` `isfinite`: conditions
inline constexpr auto classes = scored(where(isnan(cap) || isinf(cap) || !isfinite(cap), 0.0, cap));
// `bound_index<"n">` `sum(n, extent, x)` `any(n, extent, c)` `all(n, extent, c)`: sums and conditions over a small
// index
inline constexpr auto sums = seen(any(n, extent<1>(ends), kv_idx == ends(b, n)) || all(n, 4, kv_idx > ends(b, n)) ||
                                  sum(n, extent<1>(ends), ends(b, n) <= kv_idx) > 2);
// `largest(n, extent, x)`: the largest real over a small index, such as a row's for quantisation
inline constexpr auto largest_of_row = scored(1.0 / largest(n, depth, abs(q(b, h, q_idx, n))));
// `precomputed(x, n, extent, ...)`: a tensor (b, h, n, ...) of a real, computed before the first score
inline constexpr auto before_scores = scored(precomputed(n * slopes(h), n, key_length)(b, h, kv_idx));
// `top_k(precomputed, count)` `top_p(precomputed, share)`: which elements are among the largest, or make up a share of
// the sum
inline constexpr auto choices =
    seen(top_k(precomputed(n * slopes(h), n, key_length / 64), w)(b, h, kv_idx / 64) ||
         top_p(precomputed(slopes(h) / (n + 1), n, key_length / 64), 0.9)(b, h, kv_idx / 64));
// `outputs(output<"name"> = precomputed(...))`: what was computed before the first score, as an output (b, h, n, ...)
inline constexpr auto written =
    whole(outputs(out = softmax(scores) * v, output<"block_scores"> = precomputed(n * slopes(h), n, key_length / 64)));
// `keep(p, seed)` `keep(p, seed, upper half)` `keep(p, seed, upper half, b, h, q, k)`: false with probability p
inline constexpr auto random = whole(where(keep(0.1, seed, 0), softmax(scores), 0) / 0.9 * v);

// # Masks and scores
// `mask(scores, condition)`: scores where it holds, masked elsewhere
inline constexpr auto masking = whole(softmax(mask(scores, q_idx >= kv_idx)) * v);
// `causal` `window(left, right)`: the first query meets the first key; both bounds inclusive, below 0 none
inline constexpr auto masks = seen(causal && window(w, 0));
// `causal_bottom_right` `bottom_right(condition)`: the last query meets the last key in use
inline constexpr auto turned = seen(causal_bottom_right && bottom_right(window(16, 0)));
// `softcap(c, scores)`: c * tanh(s / c), before the mask
inline constexpr auto capped = whole(softmax(mask(softcap(cap, scores), causal)) * v);
// `alibi_slope`: 2^(-8 (h + 1) / heads)
inline constexpr auto alibi = scored(alibi_slope * (kv_idx - q_idx));

// # Weights, rows, outputs
// `softmax(scores)` `softmax(scores, sink)` `softmax_plus_one(scores)`: weights; the sink is like one more key with
// value 0, and plus_one has a sink of score 0
inline constexpr auto sunk = whole(softmax(scores, sinks(h)) * v);
// `unnormalized(scores)`: scores as weights
inline constexpr auto weighed = whole(unnormalized(max(scores, 0.0)) * v);
// `log_sum_exp(scores)` `row_maximum(scores)` `row_sum(weights)`: a number for each query
inline constexpr auto rows =
    whole(outputs(out = softmax(scores) * v, lse = log_sum_exp(scores), output<"top"> = row_maximum(scores),
                  output<"total"> = row_sum(softmax(scores))));
// `outputs(out = ..., lse = ...)` `out` `lse` `output<"name">`: several outputs, by name: outputs, rows, scores,
// weights and the two below
inline constexpr auto several = whole(outputs(out = softmax(scores) * v, lse = log_sum_exp(scores),
                                              output<"weights"> = softmax(scores), output<"scores"> = scores));
// `sum_over_queries(weights)` `mean_over_heads(weights)`: what each key received; the mean of the heads
inline constexpr auto received = whole(
    outputs(output<"received"> = sum_over_queries(softmax(scores)), output<"mean"> = mean_over_heads(softmax(scores))));
// `as_row(x)` `as_output(x)`: a real as a row or an output
inline constexpr auto as_those = whole(outputs(out = as_output(out_a(b, h, q_idx, d_idx)) + softmax(scores) * v,
                                               lse = as_row(lse_a(b, h, q_idx)) + log_sum_exp(scores)));
// `state(output, row)` `merge(state, state)`: attention over two parts of the keys
inline constexpr auto merged = whole(
    merge(state(out_a(b, h, q_idx, d_idx), lse_a(b, h, q_idx)), state(softmax(scores) * v, log_sum_exp(scores))).out);

// # Stores
// `store(element, value)` `new_kv_idx`: what a call writes to an input before it reads it, and where: a third argument
// is the condition on which it does; the place of a query's own key
inline constexpr auto new_keys = input<"new_keys", f32>(batch, key_head, query, depth);
inline constexpr auto stepped = whole(outputs(store(k(b, h, new_kv_idx, d_idx), new_keys(b, h, q_idx, d_idx)),
                                              out = softmax(mask(scores, causal_bottom_right)) * v));

// # FlexAttention's spelling
// `flex(...)` `score_mod(lambda)` `mask_mod(lambda)`: attention; flex takes them in any order, each once at most, and a
// scale and three tensors
inline constexpr auto flexible = whole(flex(biased, no_later, 0.125, q, k, v));
// `flex_scores(...)`: the scores of flex
inline constexpr auto flexible_scores =
    whole(outputs(out = softmax(flex_scores(biased)) * v, output<"top"> = row_maximum(flex_scores(biased))));
// `and_masks(...)` `or_masks(...)` and `&&` `||` `!` of mask_mods: several masks as one
inline constexpr auto joined_masks = whole(flex(and_masks(no_later, nearby) || !or_masks(no_later, nearby)));
// `return_lse` `return_max_scores`: flex with the outputs lse and max_scores
inline constexpr auto more_outputs = whole(flex(biased, return_lse, return_max_scores));

// # Queries and keys before their product
// `channels(q)` `channels(position, f)`: a head's channels as a function of d_idx, which the three below take and
// return
inline constexpr auto of_all_channels =
    whole(softmax(queries(channels(q_idx, [](auto d) { return channels(q)(d) * gain(d); })) * t(k)) * v);
// `rotary_half(q, cosines, sines)` `rotary_interleaved(...)`: rotary embedding, by halves or by neighbours
inline constexpr auto rotated =
    whole(softmax(queries(rotary_half(q, cosines, sines)) * t(keys(rotary_interleaved(k, cosines, sines)))) * v);
// `rms_norm(q, gain, epsilon)`: normalisation of a head's channels
inline constexpr auto normalised =
    whole(softmax(queries(rms_norm(q, gain, 1e-6)) * t(keys(rms_norm(k, gain, 1e-6)))) * v);
// `quantized<i8>(q)`: a head's channels as multiples of largest / 127, in codes of eight bits
inline constexpr auto coded =
    whole(softmax(queries(quantized<i8>(q)) * t(keys(as_real(codes(b, h, kv_idx, d_idx)) * 0.1))) * v);
// `quantized<i8, 64>(k)` `quantized<i8, 64>(v)`: keys or values of which 64 neighbouring ones share a step, in codes
// that the call makes
inline constexpr auto coded_by_block =
    whole(softmax(queries(quantized<i8>(q)) * t(keys(quantized<i8, 64>(k)))) * values(quantized<i8, 64>(v)));
// `smoothed(k)` `mean_score(q, k)`: keys less their mean, which quantized<i8, 64> takes; what scores of such keys lack
inline constexpr auto smooth = whole(
    softmax(queries(quantized<i8>(q)) * t(keys(quantized<i8, 64>(smoothed(k)))) + mean_score(q, k), sinks(h)) * v);
// `quantized<u8>(weights)` `quantized<i16>(weights)`: weights that kernels may round to 255 or 32767 steps
inline constexpr auto rounded_weights = whole(
    outputs(out = quantized<u8>(softmax(scores)) * values(as_real(codes(b, h, kv_idx, d_idx)) * 0.1),
            output<"finer"> = quantized<i16>(softmax(scores)) * values(as_real(codes(b, h, kv_idx, d_idx)) * 0.1)));

// # Whole layers (attune/dsl/layers.hpp)
// `linear(x, w)` `linear(x, w, bias)` `split_heads(x, heads)` `merge_heads(output)` `part<i, n>(x)`: projections,
// heads, and one of n equal parts of a fused projection
inline constexpr auto projected = whole(linear(merge_heads(softmax(split_heads(part<0, 3>(linear(x, wq, wb)), w) *
                                                                   t(split_heads(part<1, 3>(linear(x, wq, wb)), w))) *
                                                           split_heads(part<2, 3>(linear(x, wq, wb)), w)),
                                               input<"wo", f32>(axis<"back">, axis<"width">)));
// `one_head(x)`: a sequence as a tensor with one head
inline constexpr auto one_headed = whole(merge_heads(softmax(one_head(x) * t(one_head(x))) * one_head(x)));
// `residual(x, y)` `layer_norm(x, gamma, beta, epsilon)` `gelu(x)` `apply(f, x)` of sequences: x + y, normalisation, a
// function of each element
inline constexpr auto layered =
    whole(layer_norm(residual(gelu(linear(x, wq)), apply(x, [](auto e) { return e * 0.5; })), gamma, beta, 1e-5));
// `dropout(weights, p, seed)`: weights, each dropped with probability p, the others divided by 1 - p
inline constexpr auto dropped = whole(dropout(softmax(scores), 0.1, seed) * v);

// # Recurrences (attune/dsl/recurrent.hpp)
inline constexpr auto new_rows = input<"new_rows", f32>(batch, head, query, depth);
inline constexpr auto new_values = input<"new_values", f32>(batch, head, query, value_depth);
inline constexpr auto pool = input<"pool", f32>(axis<"slot">, head, depth, value_depth);
inline constexpr auto mixed = input<"mixed", f32>(batch, query, axis<"mixed_channel">);
inline constexpr auto taps = input<"taps", f32>(axis<"mixed_channel">, axis<"tap">);
// `recurrence(state, step)` `recurrence(step)`: the states after each token, from one before the first or from nothing
inline constexpr auto retained =
    whole(new_rows * recurrence([](auto S) { return (1 - exp2(-5.0 - h)) * S + t(new_rows) * new_values; }));
// `last(states)` `earlier(states)`: the state after the last token, the states before each token
inline constexpr auto states = recurrence([](auto S) { return 0.5 * S + t(new_rows) * new_values; });
inline constexpr auto moved = whole(outputs(out = new_rows * earlier(states), output<"state_out"> = last(states)));
// `value_idx`: the value channel in an initial state, whose `d_idx` is the channel of its keys
inline constexpr auto from_slot = whole(
    new_rows * recurrence(pool(0, h, d_idx, value_idx), [](auto S) { return 0.5 * S + t(new_rows) * new_values; }));
// `unit(row, epsilon)`: a row of length 1
inline constexpr auto of_length_one =
    whole(unit(new_rows, 1e-6) * recurrence([](auto S) { return S + t(unit(new_rows, 1e-6)) * new_values; }));
// `causal_convolution(x, weights, bias, before)` `newest(x, count, before)`: a sum over a token and those before it, as
// a function of the channel, and its state: the last tokens; bias and before may be left out
inline constexpr auto convolved = whole(outputs(out = tokens(causal_convolution(mixed, taps)(d_idx), extent<2>(mixed)),
                                                output<"newest_tokens"> = newest(mixed, extent<1>(taps) - 1)));

// # Gradients
// `gradient(graph)` `of(...)` `wrt(...)`, in a call `dq` `dk` `dv` `dout` `dlse` `d(x)`: the gradients of a graph's
// tensors
inline constexpr auto attended = outputs(out = softmax(scores + slopes(h)) * v, lse = log_sum_exp(scores + slopes(h)));
inline constexpr auto differentiated = whole(gradient(attended, of(out), wrt(q, slopes)));

// # Shards
// `shard(graph)`, in a call `before(x)` and of `of_shard` `query_positions` `key_positions` `all_queries` `all_keys`,
// also `lengths` `with_sinks` `first_head` `all_heads` `all_key_heads`: the graph over some queries, keys and heads,
// joined with the calls before
inline constexpr auto sharded = whole(shard(attended));

// # What a formula can be asked
// `ir_of<graph>` `description<graph>` `fingerprint<graph>`: its instructions, its text, its fingerprint
static_assert(!description<given>.empty() && fingerprint<given> == ir_of<given>.fingerprint);
inline constexpr auto asked = whole(softmax(q * t(k)) * v);

}  // namespace words
