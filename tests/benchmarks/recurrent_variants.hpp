#pragma once
#include <attune/catalogue/recurrent.hpp>

/// The recurrences that recurrences.py times: rules alone, of rows that are ready, as ONNX Runtime's operator has them.
namespace bench {
using namespace attune::dsl;
namespace catalogue = attune::catalogue;

/// Rows of one element type, states of f32.
template <attune::element_type E> struct recurring {
    static constexpr auto q_rows = input<"q_rows", E>(batch, head, query, depth);
    static constexpr auto k_rows = input<"k_rows", E>(batch, head, query, depth);
    static constexpr auto v_rows = input<"v_rows", E>(batch, head, query, value_depth);
};
inline constexpr auto log_decay = input<"log_decay", f32>(batch, head, query);
inline constexpr auto log_decays = input<"log_decays", f32>(batch, head, query, depth);
inline constexpr auto beta = input<"beta", f32>(batch, head, query);
inline constexpr auto state_in = input<"state_in", f32>(batch, head, depth, value_depth);

template <class Rows, class States> constexpr auto read(Rows, States states) {
    return outputs(out = Rows::q_rows * states * rsqrt(depth), output<"state_out"> = last(states));
}
template <class Rows> constexpr auto gated_delta_of(Rows rows) {
    return read(rows, catalogue::gated_delta_rule(state_in, Rows::k_rows, Rows::v_rows, log_decay(b, h, q_idx),
                                                  beta(b, h, q_idx)));
}
template <class Rows> constexpr auto kda_of(Rows rows) {
    return read(rows, catalogue::gated_delta_rule(state_in, Rows::k_rows, Rows::v_rows, log_decays(b, h, q_idx, d_idx),
                                                  beta(b, h, q_idx)));
}
template <class Rows> constexpr auto mamba2_of(Rows rows) {
    return read(rows, catalogue::gated_linear_attention(state_in, Rows::k_rows, Rows::v_rows, log_decay(b, h, q_idx)));
}
template <class Rows> constexpr auto gla_of(Rows rows) {
    return read(
        rows, catalogue::gated_linear_attention(state_in, Rows::k_rows, Rows::v_rows, log_decays(b, h, q_idx, d_idx)));
}

inline constexpr auto gated_delta = gated_delta_of(recurring<f32>());
inline constexpr auto gated_delta_bf16 = gated_delta_of(recurring<bf16>());
inline constexpr auto kda = kda_of(recurring<f32>());
inline constexpr auto mamba2 = mamba2_of(recurring<f32>());
inline constexpr auto gla = gla_of(recurring<f32>());

}  // namespace bench
