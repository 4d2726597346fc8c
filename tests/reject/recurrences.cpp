// Recurrences: states, steps, rows.
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

// --- gradient_of_a_recurrence
// rejects: attune makes no gradient of a recurrence yet
namespace my {
#ifdef REJECT
inline constexpr auto variant = gradient(q_row * usual);
#else
inline constexpr auto variant = q_row * usual;
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

// --- state_as_a_divisor
// rejects: a step is linear in its state: a state is added, multiplied by a real, or read by a row
namespace my {
#ifdef REJECT
inline constexpr auto states = recurrence(state_in, [](auto S) { return 1 / S; });
#else
inline constexpr auto states = recurrence(state_in, [](auto S) { return S / 2 + t(k_row) * values_of_token; });
#endif
inline constexpr auto variant = q_row * states;
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my

// --- state_assigned
// rejects: a state does not change in place; a step returns the new one
namespace my {
#ifdef REJECT
inline constexpr auto states = recurrence(state_in, [](auto S) {
    S += t(k_row) * values_of_token;
    return S;
});
#else
inline constexpr auto states = recurrence(state_in, [](auto S) { return S + t(k_row) * values_of_token; });
#endif
inline constexpr auto variant = q_row * states;
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my

// --- state_at_an_element
// rejects: a step reads a state whole, by a row: q \* S
namespace my {
#ifdef REJECT
inline constexpr auto states = recurrence(state_in, [](auto S) { return S(b, h, d_idx, value_idx) * S; });
#else
inline constexpr auto states = recurrence(state_in, [](auto S) { return S + t(k_row) * values_of_token; });
#endif
inline constexpr auto variant = q_row * states;
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my

// --- state_chosen
// rejects: a step is linear in its state: a state is added, multiplied by a real, or read by a row
namespace my {
#ifdef REJECT
inline constexpr auto states = recurrence(state_in, [](auto S) { return where(q_idx == 0, 0, S); });
#else
inline constexpr auto states =
    recurrence(state_in, [](auto S) { return where(q_idx == 0, 0.0, 1.0) * S + t(k_row) * values_of_token; });
#endif
inline constexpr auto variant = q_row * states;
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my

// --- state_compared
// rejects: a step is linear in its state: a state is added, multiplied by a real, or read by a row
namespace my {
#ifdef REJECT
inline constexpr auto states = recurrence(state_in, [](auto S) { return where(S > 0, S, 0); });
#else
inline constexpr auto states = recurrence(
    state_in, [](auto S) { return where(decay(b, h, q_idx) > 0, 1.0, 0.0) * S + t(k_row) * values_of_token; });
#endif
inline constexpr auto variant = q_row * states;
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my

// --- state_decays_by_key
// rejects: a state decays by heads, tokens and channels of its keys
namespace my {
#ifdef REJECT
inline constexpr auto states =
    recurrence(state_in, [](auto S) { return exp(0.1 * kv_idx) * S + t(k_row) * values_of_token; });
#else
inline constexpr auto states =
    recurrence(state_in, [](auto S) { return exp(-0.1 * q_idx) * S + t(k_row) * values_of_token; });
#endif
inline constexpr auto variant = q_row * states;
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my

// --- state_decays_by_value
// rejects: a state decays by heads, tokens and channels of its keys
namespace my {
#ifdef REJECT
inline constexpr auto rate = input<"rate", f32>(value_depth);
inline constexpr auto states =
    recurrence(state_in, [](auto S) { return rate(value_idx) * S + t(k_row) * values_of_token; });
#else
inline constexpr auto rate = input<"rate", f32>(depth);
inline constexpr auto states =
    recurrence(state_in, [](auto S) { return rate(d_idx) * S + t(k_row) * values_of_token; });
#endif
inline constexpr auto variant = q_row * states;
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my

// --- state_in_a_function
// rejects: a step is linear in its state: a state is added, multiplied by a real, or read by a row
namespace my {
#ifdef REJECT
inline constexpr auto states = recurrence(state_in, [](auto S) { return tanh(S) + t(k_row) * values_of_token; });
#else
inline constexpr auto states = recurrence(state_in, [](auto S) { return S + t(k_row) * values_of_token; });
#endif
inline constexpr auto variant = q_row * states;
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my

// --- state_of_scores
// rejects: a state is made of a row of keys and a row of values
namespace my {
#ifdef REJECT
inline constexpr auto states = recurrence(state_in, [](auto S) { return S + t(k_row) * scores; });
#else
inline constexpr auto states = recurrence(state_in, [](auto S) { return S + t(k_row) * values_of_token; });
#endif
inline constexpr auto variant = q_row * states;
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my

// --- state_of_two_rows_of_keys
// rejects: a state is made of a row of keys and a row of values
namespace my {
#ifdef REJECT
inline constexpr auto states = recurrence(state_in, [](auto S) { return S + t(q_row) * t(k_row); });
#else
inline constexpr auto states = recurrence(state_in, [](auto S) { return S + t(k_row) * values_of_token; });
#endif
inline constexpr auto variant = q_row * states;
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my

// --- state_of_values_over_keys
// rejects: the values of a recurrence are a tensor
namespace my {
#ifdef REJECT
inline constexpr auto states = recurrence(state_in, [](auto S) { return S + t(k_row) * v; });
#else
inline constexpr auto states = recurrence(state_in, [](auto S) { return S + t(k_row) * values_of_token; });
#endif
inline constexpr auto variant = q_row * states;
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my

// --- state_plus_a_number
// rejects: a step is linear in its state: a state is added, multiplied by a real, or read by a row
namespace my {
#ifdef REJECT
inline constexpr auto states = recurrence(state_in, [](auto S) { return S + 1.0; });
#else
inline constexpr auto states = recurrence(state_in, [](auto S) { return S + t(k_row) * values_of_token; });
#endif
inline constexpr auto variant = q_row * states;
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my

// --- state_read_after_it_is_added_to
// rejects: a step reads its state before it adds to it
namespace my {
#ifdef REJECT
inline constexpr auto states =
    recurrence(state_in, [](auto S) { return S + t(k_row) * (q_row * (S + t(k_row) * values_of_token)); });
#else
inline constexpr auto states =
    recurrence(state_in, [](auto S) { return S + t(k_row) * (values_of_token - q_row * S); });
#endif
inline constexpr auto variant = q_row * states;
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my

// --- state_read_by_channels
// rejects: what a step reads from its state is multiplied by reals of \(b, h, q_idx\)
namespace my {
#ifdef REJECT
inline constexpr auto states =
    recurrence(state_in, [](auto S) { return S + t(k_row) * (values_of_token(b, h, q_idx, d_idx) * (k_row * S)); });
#else
inline constexpr auto states =
    recurrence(state_in, [](auto S) { return S - t(k_row) * (beta(b, h, q_idx) * (k_row * S)); });
#endif
inline constexpr auto variant = q_row * states;
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my

// --- state_read_from_the_right
// rejects: a step is linear in its state: a state is added, multiplied by a real, or read by a row
namespace my {
#ifdef REJECT
inline constexpr auto states =
    recurrence(state_in, [](auto S) { return S + t(k_row) * (values_of_token - S * k_row); });
#else
inline constexpr auto states =
    recurrence(state_in, [](auto S) { return S + t(k_row) * (values_of_token - k_row * S); });
#endif
inline constexpr auto variant = q_row * states;
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my

// --- state_squared
// rejects: a step is linear in its state: a state is added, multiplied by a real, or read by a row
namespace my {
#ifdef REJECT
inline constexpr auto states = recurrence(state_in, [](auto S) { return S * S; });
#else
inline constexpr auto states = recurrence(state_in, [](auto S) { return S + t(k_row) * values_of_token; });
#endif
inline constexpr auto variant = q_row * states;
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my

// --- state_times_values
// rejects: a state decays by heads, tokens and channels of its keys
namespace my {
#ifdef REJECT
inline constexpr auto states =
    recurrence(state_in, [](auto S) { return as_output(values_of_token(b, h, q_idx, d_idx)) * S; });
#else
inline constexpr auto states = recurrence(state_in, [](auto S) { return S + t(k_row) * values_of_token; });
#endif
inline constexpr auto variant = q_row * states;
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my

// --- states_times_a_number
// rejects: states are read by a row, from the left: q \* states
namespace my {
#ifdef REJECT
inline constexpr auto states = usual;
inline constexpr auto half = q_row * (0.5 * states);
#else
inline constexpr auto states = usual;
inline constexpr auto half = 0.5 * (q_row * states);
#endif
inline constexpr auto variant = q_row * states;
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my

// --- step_of_another_state
// rejects: a step reads its own state only
namespace my {
#ifdef REJECT
inline constexpr auto states = recurrence(state_in, [](auto S) {
    const auto inner = recurrence(state_in, [S](auto other) { return other + t(k_row) * (k_row * S); });
    return S + t(k_row) * values_of_token;
});
#else
inline constexpr auto states = recurrence(state_in, [](auto S) { return S + t(k_row) * values_of_token; });
#endif
inline constexpr auto variant = q_row * states;
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my

// --- step_of_three_erasures
// rejects: a step adds one row of keys times values, and reads its state twice at most
namespace my {
#ifdef REJECT
inline constexpr auto states = recurrence(state_in, [](auto S) {
    return S + t(k_row) * (values_of_token - k_row * S) - t(q_row) * (k_row * S) - t(q_row) * (q_row * S);
});
#else
inline constexpr auto states =
    recurrence(state_in, [](auto S) { return S + t(k_row) * (values_of_token - k_row * S) - t(q_row) * (k_row * S); });
#endif
inline constexpr auto variant = q_row * states;
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my

// --- step_returns_a_number
// rejects: a step returns a state, this one returns an output
namespace my {
#ifdef REJECT
inline constexpr auto states = recurrence(state_in, [](auto S) { return decay(b, h, q_idx); });
#else
inline constexpr auto states =
    recurrence(state_in, [](auto S) { return decay(b, h, q_idx) * S + t(k_row) * values_of_token; });
#endif
inline constexpr auto variant = q_row * states;
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my

// --- step_returns_an_output
// rejects: a step returns a state, this one returns an output
namespace my {
#ifdef REJECT
inline constexpr auto states = recurrence(state_in, [](auto S) { return q_row * S; });
#else
inline constexpr auto states = recurrence(state_in, [](auto S) { return S + t(k_row) * values_of_token; });
#endif
inline constexpr auto variant = q_row * states;
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my

// --- step_that_forgets_its_state
// rejects: a step that forgets its state is no recurrence; it has to return a state made of `S`
namespace my {
#ifdef REJECT
inline constexpr auto states = recurrence(state_in, [](auto S) { return t(k_row) * values_of_token; });
#else
inline constexpr auto states = recurrence(state_in, [](auto S) { return S + t(k_row) * values_of_token; });
#endif
inline constexpr auto variant = q_row * states;
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my

// --- step_that_is_no_function
// rejects: the step of a recurrence is a function of its state
namespace my {
#ifdef REJECT
inline constexpr auto states = recurrence(state_in, 0.5);
#else
inline constexpr auto states = recurrence(state_in, [](auto S) { return 0.5 * S + t(k_row) * values_of_token; });
#endif
inline constexpr auto variant = q_row * states;
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my

// --- step_that_returns_another_state
// rejects: a step reads its own state only
namespace my {
#ifdef REJECT
inline constexpr auto states = recurrence([](auto S) {
    const auto inner = recurrence([S](auto) { return S; });
    return S + t(k_row) * values_of_token;
});
#else
inline constexpr auto states = recurrence(state_in, [](auto S) { return S + t(k_row) * values_of_token; });
#endif
inline constexpr auto variant = q_row * states;
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
