// Steps of a recurrence: states and what a step returns.
#include "recurrent.hpp"

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
