// Recurrences: rows, outputs, and what stands beside them.
#include "recurrent.hpp"

// --- convolution_of_heads
// rejects: causal_convolution takes tokens \(batch, query, channels\)
namespace my {
#ifdef REJECT
inline constexpr auto states = usual;
inline constexpr auto rows = causal_convolution(k_row, taps);
#else
inline constexpr auto states = usual;
inline constexpr auto rows = causal_convolution(x, taps);
#endif
inline constexpr auto variant = q_row * states;
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my

// --- earlier_of_an_output
// rejects: `earlier` takes the states that `recurrence` returns
namespace my {
#ifdef REJECT
inline constexpr auto states = usual;
inline constexpr auto ended = earlier(q_row * states);
#else
inline constexpr auto states = usual;
inline constexpr auto ended = q_row * earlier(states);
#endif
inline constexpr auto variant = q_row * states;
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my

// --- gradient_of_earlier_states
// rejects: attune makes gradients of a recurrence whose states one row reads
namespace my {
#ifdef REJECT
inline constexpr auto variant = gradient(q_row * earlier(usual));
#else
inline constexpr auto variant = gradient(q_row * usual);
#endif
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my

// --- gradient_of_two_reads
// rejects: attune makes gradients of a recurrence whose states one row reads
namespace my {
#ifdef REJECT
inline constexpr auto variant = gradient(q_row * usual + k_row * usual);
#else
inline constexpr auto variant = gradient(q_row * usual * 2.0);
#endif
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my

// --- gradient_of_two_recurrences
// rejects: attune makes gradients of a recurrence whose states one row reads
namespace my {
#ifdef REJECT
inline constexpr auto ended = recurrence([](auto S) { return S + t(k_row) * values_of_token; });
#else
inline constexpr auto ended = usual;
#endif
inline constexpr auto variant =
    gradient(outputs(out = q_row * usual, output<"ended"> = last(ended)), of(out, output<"ended">));
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my

// --- gradient_of_a_gate
// rejects: or what a row reads from states; name it
namespace my {
inline constexpr auto z = input<"z", f32>(batch, head, query, value_depth);
inline constexpr auto gate = as_output(z(b, h, q_idx, d_idx));
#ifdef REJECT
inline constexpr auto variant = gradient(q_row * usual * gate);
#else
inline constexpr auto variant = gradient(outputs(out = q_row * usual * gate, output<"read"> = q_row * usual), of(out));
#endif
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my

// --- graph_ends_in_states
// rejects: a variant must end in an output
namespace my {
#ifdef REJECT
inline constexpr auto variant = usual;
#else
inline constexpr auto variant = q_row * usual;
#endif
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my

// --- initial_state_of_a_token
// rejects: an initial state is a tensor of reals
namespace my {
#ifdef REJECT
inline constexpr auto states = recurrence(k_row, [](auto S) { return S + t(k_row) * values_of_token; });
#else
inline constexpr auto states = recurrence(state_in, [](auto S) { return S + t(k_row) * values_of_token; });
#endif
inline constexpr auto variant = q_row * states;
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my

// --- last_of_an_output
// rejects: `last` takes the states that `recurrence` returns
namespace my {
#ifdef REJECT
inline constexpr auto states = usual;
inline constexpr auto ended = last(q_row * states);
#else
inline constexpr auto states = usual;
inline constexpr auto ended = last(states);
#endif
inline constexpr auto variant = q_row * states;
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my

// --- newest_of_heads
// rejects: newest takes tokens \(batch, query, channels\)
namespace my {
#ifdef REJECT
inline constexpr auto states = usual;
inline constexpr auto rows = newest(k_row, 3);
#else
inline constexpr auto states = usual;
inline constexpr auto rows = newest(x, 3);
#endif
inline constexpr auto variant = q_row * states;
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my

// --- recurrence_beside_a_softmax
// rejects: a recurrence sees every earlier token; say in its step which tokens count
namespace my {
#ifdef REJECT
inline constexpr auto variant = outputs(out = q_row * usual, output<"other"> = softmax(mask(scores, causal)) * v);
#else
inline constexpr auto variant = outputs(out = q_row * usual, output<"state_out"> = last(usual));
#endif
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my

// --- recurrence_of_a_recurrence
// rejects: a step is made of what another recurrence gives
namespace my {
#ifdef REJECT
inline constexpr auto deeper = recurrence([](auto S) { return S + t(k_row) * (q_row * usual); });
inline constexpr auto variant = q_row * deeper;
#else
inline constexpr auto deeper = recurrence([](auto S) { return S + t(k_row) * values_of_token; });
inline constexpr auto variant = q_row * deeper;
#endif
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my

// --- row_of_a_state_squared
// rejects: a step is linear in its state: a state is added, multiplied by a real, or read by a row
namespace my {
#ifdef REJECT
inline constexpr auto states = recurrence(state_in, [](auto S) { return S + t(k_row) * tanh(k_row * S); });
#else
inline constexpr auto states = recurrence(
    state_in, [](auto S) { return S + t(k_row) * (tanh(as_output(values_of_token(b, h, q_idx, d_idx))) - k_row * S); });
#endif
inline constexpr auto variant = q_row * states;
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my

// --- row_of_keys_over_keys
// rejects: the rows of a recurrence are declared over `query`
namespace my {
#ifdef REJECT
inline constexpr auto states = recurrence(state_in, [](auto S) { return S + t(k) * values_of_token; });
#else
inline constexpr auto states = recurrence(state_in, [](auto S) { return S + t(k_row) * values_of_token; });
#endif
inline constexpr auto variant = q_row * states;
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my

// --- row_over_keys
// rejects: the rows of a recurrence are declared over `query`
namespace my {
#ifdef REJECT
inline constexpr auto states = usual;
inline constexpr auto cached = k * states;
#else
inline constexpr auto states = usual;
inline constexpr auto cached = k_row * states;
#endif
inline constexpr auto variant = q_row * states;
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my

// --- row_over_keys_normalised
// rejects: the rows of a recurrence are declared over `query`
namespace my {
#ifdef REJECT
inline constexpr auto states = recurrence(state_in, [](auto S) { return S + t(unit(k, 1e-6)) * values_of_token; });
#else
inline constexpr auto states = recurrence(state_in, [](auto S) { return S + t(unit(k_row, 1e-6)) * values_of_token; });
#endif
inline constexpr auto variant = q_row * states;
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my

// --- shard_of_a_recurrence
// rejects: attune makes no shard of a recurrence yet
namespace my {
#ifdef REJECT
inline constexpr auto variant = shard(q_row * usual);
#else
inline constexpr auto variant = q_row * usual;
#endif
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my

// --- tokens_of_a_length_by_batch
// rejects: the number of tokens is one integer for the whole call
namespace my {
#ifdef REJECT
inline constexpr auto states = usual;
inline constexpr auto rows = newest(x, h);
#else
inline constexpr auto states = usual;
inline constexpr auto rows = newest(x, 3);
#endif
inline constexpr auto variant = q_row * states;
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my

// --- unit_without_epsilon
// rejects: unit takes a row and what is added to its sum of squares
namespace my {
#ifdef REJECT
inline constexpr auto states = recurrence(state_in, [](auto S) { return S + t(unit(k_row)) * values_of_token; });
#else
inline constexpr auto states = recurrence(state_in, [](auto S) { return S + t(unit(k_row, 1e-6)) * values_of_token; });
#endif
inline constexpr auto variant = q_row * states;
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my
