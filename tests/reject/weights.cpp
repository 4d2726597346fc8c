// Scores, softmax and its weights.
#include "language.hpp"

// --- attention_before_softmax
// rejects: scores are multiplied by a tensor without normalisation; wrap them in softmax(...)
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores * v);
#else
inline constexpr auto variant = softmax(scores) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- nine_softmaxes
// rejects: a graph has at most 8 softmaxes
namespace my {
template <int width> inline constexpr auto of = softmax(mask(scores, kv_idx > q_idx - width)) * v;
#ifdef REJECT
inline constexpr auto variant = of<1> + of<2> + of<3> + of<4> + of<5> + of<6> + of<7> + of<8> + of<9>;
#else
inline constexpr auto variant = of<1> + of<2> + of<3> + of<4> + of<5> + of<6> + of<7> + of<8>;
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my

// --- quantized_weights_to_i8
// rejects: quantized<u8>(weights) rounds weights to 255 steps, quantized<i16> to 32767
namespace my {
#ifdef REJECT
inline constexpr auto variant = quantized<i8>(softmax(scores)) * v;
#else
inline constexpr auto variant = quantized<u8>(softmax(scores)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- row_added_to_scores
// rejects: scores meet a row or an output; those are known only after all scores of a row
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores - row_maximum(scores)) * v;
#else
inline constexpr auto variant = softmax(scores - slopes(h)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- row_sum_of_scores
// rejects: row_sum, sum_over_queries and mean_over_heads take weights, such as softmax(scores)
namespace my {
#ifdef REJECT
inline constexpr auto variant = outputs(out = softmax(scores) * v, lse = row_sum(scores));
#else
inline constexpr auto variant = outputs(out = softmax(scores) * v, lse = row_sum(softmax(scores)));
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- score_added_to
// rejects: a value of the graph does not change; give the new one a name of its own
namespace my {
#ifdef REJECT
inline constexpr auto variant = flex(score_mod([](auto score, auto, auto h, auto, auto) {
    score += slopes(h);
    return score;
}));
#else
inline constexpr auto variant = flex(score_mod([](auto score, auto, auto h, auto, auto) { return score + slopes(h); }));
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- score_assigned
// rejects: a value of the graph does not change; give the new one a name of its own
namespace my {
#ifdef REJECT
inline constexpr auto variant = flex(score_mod([](auto score, auto, auto h, auto, auto) {
    score = score + slopes(h);
    return score;
}));
#else
inline constexpr auto variant = flex(score_mod([](auto score, auto, auto h, auto, auto) {
    auto biased = score + slopes(h);
    return biased;
}));
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- scores_without_softmax
// rejects: scores are multiplied by a tensor without normalisation; wrap them in softmax(...)
namespace my {
#ifdef REJECT
inline constexpr auto variant = scores * v;
#else
inline constexpr auto variant = softmax(scores) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- sink_of_a_key
// rejects: softmax(scores, sink): the sink is one number for each (b, h, q_idx), such as sinks(h)
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores, kv_idx) * v;
#else
inline constexpr auto variant = softmax(scores, q_idx) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- sink_of_scores
// rejects: softmax(scores, sink): the sink is one number for each (b, h, q_idx), such as sinks(h)
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores, scores) * v;
#else
inline constexpr auto variant = softmax(scores, slopes(h)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- sink_that_is_a_tensor
// rejects: softmax(scores, sink): the sink is one number for each (b, h, q_idx), such as sinks(h)
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores, slopes) * v;
#else
inline constexpr auto variant = softmax(scores, slopes(h)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- softmax_of_a_tensor
// rejects: softmax(scores): the argument is not scores
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(q) * v;
#else
inline constexpr auto variant = softmax(scores) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- softmax_over_an_axis
// rejects: softmax takes scores, or scores and a sink
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores, -1, 0) * v;
#else
inline constexpr auto variant = softmax(scores) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- two_softmaxes
// rejects: the scores are normalised already; softmax is applied once
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(softmax(scores)) * v;
#else
inline constexpr auto variant = softmax(scores) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- unnormalized_weights
// rejects: unnormalized(scores) and row_maximum(scores): the argument is not scores
namespace my {
#ifdef REJECT
inline constexpr auto variant = unnormalized(softmax(scores)) * v;
#else
inline constexpr auto variant = unnormalized(scores) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- weights_and_a_number_added
// rejects: weights are multiplied and divided by numbers, and nothing else
namespace my {
#ifdef REJECT
inline constexpr auto variant = (softmax(scores) + 1.0) * v;
#else
inline constexpr auto variant = (softmax(scores) * 2.0) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- weights_beside_another_softmax
// rejects: scores, weights and their sums over queries or heads are written where there is one softmax
namespace my {
inline constexpr auto near = output<"near">;
#ifdef REJECT
inline constexpr auto variant = outputs(out = softmax(mask(scores, causal)) * v, near = softmax(scores));
#else
inline constexpr auto variant = outputs(out = softmax(mask(scores, causal)) * v, near = softmax(scores) * v);
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my

// --- weights_compared
// rejects: a comparison takes numbers; a tensor is read at indices first
namespace my {
#ifdef REJECT
inline constexpr auto variant = where(softmax(scores) > 0.1, softmax(scores), 0) * v;
#else
inline constexpr auto variant = where(scores > 0.1, softmax(scores), 0) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- weights_kept_by_a_channel
// rejects: weights are kept by a condition of (b, h, q_idx, kv_idx); rows, outputs and d_idx have no place in it
namespace my {
#ifdef REJECT
inline constexpr auto variant = where(d_idx > 3, softmax(scores), 0) * v;
#else
inline constexpr auto variant = where(kv_idx > 3, softmax(scores), 0) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- weights_or_one
// rejects: weights are chosen as where(condition, weights, 0), nothing else
namespace my {
#ifdef REJECT
inline constexpr auto variant = where(causal, softmax(scores), 1) * v;
#else
inline constexpr auto variant = where(causal, softmax(scores), 0) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- weights_times_a_row
// rejects: weights are multiplied and divided by plain numbers of (b, h, q_idx, kv_idx); a row or an output belongs to
// weights * v
namespace my {
#ifdef REJECT
inline constexpr auto variant = (softmax(scores) / row_sum(softmax(scores))) * v;
#else
inline constexpr auto variant = softmax(scores) * v / row_sum(softmax(scores));
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- weights_times_scores
// rejects: weights are multiplied and divided by plain numbers of (b, h, q_idx, kv_idx)
namespace my {
#ifdef REJECT
inline constexpr auto variant = (softmax(scores) * scores) * v;
#else
inline constexpr auto variant = (softmax(scores) * slopes(h)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- weights_with_a_channel
// rejects: weights have no channel
namespace my {
#ifdef REJECT
inline constexpr auto variant = (softmax(scores) * gain(d_idx)) * v;
#else
inline constexpr auto variant = softmax(scores) * v * gain(d_idx);
#endif
inline constexpr auto text = description<variant>;
}  // namespace my
