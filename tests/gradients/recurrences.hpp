#pragma once
#include <attune/dsl.hpp>
#include <attune/dsl/recurrent.hpp>

/// Recurrences and their gradients: additive ones and delta rules, by what decays, and by whose heads the rows and the
/// states are.
namespace recurrent_gradients {
using namespace attune::dsl;

inline constexpr auto state_out = output<"state_out">;

/// Rows of keys and values, over the heads of the call or over key heads, and what a step reads beside them.
template <class KeyHeads, class ValueHeads, class StateHeads> struct rows {
    static constexpr auto k = input<"k_new", f32>(batch, KeyHeads{}, query, depth);
    static constexpr auto v = input<"v_new", f32>(batch, ValueHeads{}, query, value_depth);
    static constexpr auto value = as_output(v(b, h, q_idx, d_idx));
    static constexpr auto before = input<"state_in", f32>(batch, StateHeads{}, depth, value_depth);
    static constexpr auto gate = input<"gate", f32>(batch, StateHeads{}, query);
    static constexpr auto gates = input<"gates", f32>(batch, StateHeads{}, query, depth);
    static constexpr auto beta = input<"beta", f32>(batch, StateHeads{}, query);
    static constexpr auto kept = sigmoid(gate(b, h, q_idx));
    static constexpr auto kept_channels = sigmoid(gates(b, h, q_idx, d_idx));
    static constexpr auto written = sigmoid(beta(b, h, q_idx));
};
using of_head = std::remove_const_t<decltype(head)>;
using of_key_head = std::remove_const_t<decltype(key_head)>;
using own = rows<of_head, of_head, of_head>;
using shared_keys = rows<of_key_head, of_head, of_head>;            ///< heads of values share those of keys
using shared_states = rows<of_key_head, of_key_head, of_key_head>;  ///< heads of queries share states

template <class Made> constexpr auto read(const Made& states) {
    return outputs(out = q * states * rsqrt(depth), state_out = last(states));
}

inline constexpr auto linear = read(recurrence([](auto S) { return S + t(own::k) * own::v; }));
inline constexpr auto linear_gradient = gradient(linear);

inline constexpr auto retention =
    read(recurrence(own::before, [](auto S) { return (1 - exp2(-5.0 - h)) * S + t(own::k) * own::v; }));
inline constexpr auto retention_gradient = gradient(retention, of(out, state_out));

/// A decay that is learned, a head's.
inline constexpr auto slopes = input<"slopes", f32>(head);
inline constexpr auto lightning =
    read(recurrence(own::before, [](auto S) { return exp(-exp(slopes(h))) * S + t(own::k) * own::v; }));
inline constexpr auto lightning_gradient = gradient(lightning, of(out, state_out));

/// Mamba-2; documents begin where the decay is 0.
inline constexpr auto dt_raw = input<"dt_raw", f32>(batch, head, query);
inline constexpr auto dt_bias = input<"dt_bias", f32>(head);
inline constexpr auto a_log = input<"a_log", f32>(head);
inline constexpr auto skip = input<"skip", f32>(head);
inline constexpr auto dt = softplus(dt_raw(b, h, q_idx) + dt_bias(h));
inline constexpr auto mamba2_states = recurrence(shared_keys::before, [](auto S) {
    return where(q_idx % 7 == 5, 0.0, exp(-exp(a_log(h)) * dt)) * S + t(shared_keys::k) * (dt * shared_keys::value);
});
inline constexpr auto mamba2 =
    outputs(out = q * mamba2_states + skip(h) * shared_keys::value, state_out = last(mamba2_states));
inline constexpr auto mamba2_gradient = gradient(mamba2, of(out, state_out));

/// GLA: a decay of each channel, some of them 0.
inline constexpr auto gla = read(recurrence(own::before, [](auto S) {
    return where((q_idx + d_idx) % 5 == 1, 0.0, own::kept_channels) * S + t(own::k) * own::v;
}));
inline constexpr auto gla_gradient = gradient(gla, of(out, state_out));
inline constexpr auto gla_shared = read(recurrence(shared_states::before, [](auto S) {
    return shared_states::kept_channels * S + t(shared_states::k) * shared_states::v;
}));
inline constexpr auto gla_shared_gradient = gradient(gla_shared, of(out, state_out));

template <class Rows, class Decay> constexpr auto delta_of(const Decay& decay) {
    return read(recurrence(Rows::before, [=](auto S) {
        const auto kept = decay * S;
        return kept + t(unit(Rows::k, 1e-6)) * (Rows::written * (Rows::value - unit(Rows::k, 1e-6) * kept));
    }));
}
inline constexpr auto delta = delta_of<own>(1.0);
inline constexpr auto delta_gradient = gradient(delta, of(out, state_out));
inline constexpr auto gated_delta = delta_of<shared_keys>(where(q_idx % 7 == 3, 0.0, shared_keys::kept));
inline constexpr auto gated_delta_gradient = gradient(gated_delta, of(out, state_out));
inline constexpr auto kda = delta_of<own>(own::kept_channels);
inline constexpr auto kda_gradient = gradient(kda, of(out, state_out));

/// Logarithms of decays, of a token and of a channel, which may be -infinity.
inline constexpr auto log_decay = input<"log_decay", f32>(batch, head, query);
inline constexpr auto log_decays = input<"log_decays", f32>(batch, head, query, depth);
inline constexpr auto forgetting = delta_of<own>(exp(log_decay(b, h, q_idx)));
inline constexpr auto forgetting_gradient = gradient(forgetting, of(out, state_out));
inline constexpr auto forgetting_channels = delta_of<own>(exp(log_decays(b, h, q_idx, d_idx)));
inline constexpr auto forgetting_channels_gradient = gradient(forgetting_channels, of(out, state_out));

/// Keys of a convolution, and a first state that all heads have in common.
inline constexpr auto mixed = input<"mixed", f32>(batch, query, axis<"channel">);
inline constexpr auto taps = input<"taps", f32>(axis<"channel">, axis<"tap">);
inline constexpr auto start = input<"start", f32>(depth, value_depth);
inline constexpr auto convolved_keys = causal_convolution(mixed, taps);
inline constexpr auto convolved = read(recurrence(
    start(d_idx, value_idx), [](auto S) { return own::kept * S + t(queries(silu(convolved_keys(d_idx)))) * own::v; }));
inline constexpr auto convolved_gradient = gradient(convolved, of(out, state_out));

/// The gate of a layer: what the row reads is an output of its own.
inline constexpr auto z = input<"z", f32>(batch, head, query, value_depth);
inline constexpr auto gated_states = recurrence([](auto S) { return own::kept * S + t(own::k) * own::v; });
inline constexpr auto attended = q * gated_states;
inline constexpr auto gated =
    outputs(out = attended * as_output(sigmoid(z(b, h, q_idx, d_idx))), output<"attended"> = attended);
inline constexpr auto gated_gradient = gradient(gated, of(out));

}  // namespace recurrent_gradients
