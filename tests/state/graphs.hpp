#pragma once
#include <attune/catalogue/recurrent.hpp>
#include <attune/dsl.hpp>
#include <attune/dsl/recurrent.hpp>

/// The recurrences of the field over the tensors of the golden files: which heads a tensor has, how it decays, and
/// whether there is a state before.
namespace state_graphs {
using namespace attune::dsl;
namespace catalogue = attune::catalogue;

/// q, k and v, each over the heads of the call or over key heads.
template <bool QShared, bool KShared, bool VShared, attune::element_type Element = f32> struct rows {
    template <bool Shared> static constexpr auto heads_of() {
        if constexpr (Shared)
            return key_head;
        else
            return head;
    }
    static constexpr auto q = input<"q", Element>(batch, heads_of<QShared>(), query, depth);
    static constexpr auto k = input<"k", Element>(batch, heads_of<KShared>(), query, depth);
    static constexpr auto v = input<"v", Element>(batch, heads_of<VShared>(), query, value_depth);
    static constexpr auto state_heads = heads_of<KShared && VShared>();
    static constexpr auto state_in = input<"state_in", f32>(batch, state_heads, depth, value_depth);
    static constexpr auto beta = input<"beta", f32>(batch, state_heads, query);
};

enum class decays { none, of_heads, of_tokens, of_channels };

/// The logarithm of a decay, as the file has it.
template <class Rows, decays By> constexpr auto log_decay_of() {
    constexpr auto heads = Rows::state_heads;
    if constexpr (By == decays::of_heads)
        return input<"log_decay", f32>(heads)(h);
    else if constexpr (By == decays::of_tokens)
        return input<"log_decay", f32>(batch, heads, query)(b, h, q_idx);
    else
        return input<"log_decay", f32>(batch, heads, query, depth)(b, h, q_idx, d_idx);
}

/// The states before, or none.
template <class Rows, bool In> constexpr auto before_of() {
    if constexpr (In)
        return Rows::state_in;
    else
        return 0;
}

/// Linear attention, RetNet, lightning attention, GLA.
template <class Rows, decays By, bool In> struct additive {
    static constexpr auto scale = attune::dsl::scalar<"scale", f32>;
    static constexpr auto made() {
        if constexpr (By == decays::none)
            return catalogue::linear_attention(before_of<Rows, In>(), Rows::k, Rows::v);
        else
            return catalogue::gated_linear_attention(before_of<Rows, In>(), Rows::k, Rows::v, log_decay_of<Rows, By>());
    }
    static constexpr auto states = made();
    static constexpr auto graph = outputs(out = Rows::q * states * scale, output<"state_out"> = last(states));
};

/// DeltaNet, gated DeltaNet, KDA.
template <class Rows, decays By, bool In, bool Every = false> struct delta {
    static constexpr auto key = unit(Rows::k, 1e-6);
    static constexpr auto step = Rows::beta(b, h, q_idx);
    static constexpr auto made() {
        if constexpr (By == decays::none)
            return catalogue::delta_rule(before_of<Rows, In>(), key, Rows::v, step);
        else
            return catalogue::gated_delta_rule(before_of<Rows, In>(), key, Rows::v, log_decay_of<Rows, By>(), step);
    }
    static constexpr auto states = made();
    static constexpr auto named() {
        const auto rows = unit(Rows::q, 1e-6) * states * rsqrt(depth);
        if constexpr (Every)
            return outputs(out = rows, output<"state_out"> = last(states), output<"states"> = states);
        else
            return outputs(out = rows, output<"state_out"> = last(states));
    }
    static constexpr auto graph = named();
};

template <class Rows, bool In> struct mamba2 {
    static constexpr auto dt_raw = input<"dt", f32>(batch, head, query);
    static constexpr auto dt_bias = input<"dt_bias", f32>(head);
    static constexpr auto a_log = input<"a_log", f32>(head);
    static constexpr auto skip = input<"skip", f32>(head);
    static constexpr auto states = catalogue::state_space(before_of<Rows, In>(), Rows::k, Rows::v,
                                                          softplus(dt_raw(b, h, q_idx) + dt_bias(h)), a_log);
    static constexpr auto graph = outputs(out = Rows::q * states + skip(h) * as_output(Rows::v(b, h, q_idx, d_idx)),
                                          output<"state_out"> = last(states));
};

/// RetNet by its formula; the files have the decay of each head.
template <bool In> struct retnet {
    using of = rows<false, false, false>;
    static constexpr auto states = catalogue::retention(before_of<of, In>(), of::k, of::v);
    static constexpr auto graph = outputs(out = of::q * states * rsqrt(depth), output<"state_out"> = last(states));
};

/// elu + 1
template <class X> constexpr auto feature(X x) { return queries(where(x > 0, x + 1, exp(min(x, 0.0)))); }

/// The feature map elu + 1; the sum of the keys is a state whose values are 1.
struct normalised {
    using of = rows<false, false, false>;
    static constexpr auto q = feature(of::q(b, h, q_idx, d_idx));
    static constexpr auto k = feature(of::k(b, h, q_idx, d_idx));
    static constexpr auto normaliser_in = input<"normaliser_in", f32>(batch, head, depth);
    static constexpr auto states = catalogue::linear_attention(of::state_in, k, of::v);
    static constexpr auto keys_so_far = catalogue::sum_of_keys(normaliser_in(b, h, d_idx), k);
    static constexpr auto graph = outputs(out = q * states / (q * keys_so_far), output<"state_out"> = last(states),
                                          output<"normaliser_out"> = last(keys_so_far));
};

template <bool In> struct rwkv7 {
    using of = rows<false, false, false>;
    static constexpr auto kappa = input<"kappa", f32>(batch, head, query, depth);
    static constexpr auto rate = input<"rate", f32>(batch, head, query, depth);
    static constexpr auto states =
        catalogue::rwkv7(before_of<of, In>(), of::k, of::v, log_decay_of<of, decays::of_channels>(), kappa, rate);
    static constexpr auto graph = outputs(out = of::q * states, output<"state_out"> = last(states));
};

struct rwkv6 {
    using of = rows<false, false, false>;
    static constexpr auto bonus = input<"bonus", f32>(head, depth);
    static constexpr auto n = bound_index<"n">;
    static constexpr auto itself = sum(n, depth, of::q(b, h, q_idx, n) * bonus(h, n) * of::k(b, h, q_idx, n));
    static constexpr auto states =
        catalogue::gated_linear_attention(of::state_in, of::k, of::v, log_decay_of<of, decays::of_channels>());
    static constexpr auto graph = outputs(out = of::q * earlier(states) + itself * as_output(of::v(b, h, q_idx, d_idx)),
                                          output<"state_out"> = last(states));
};

template <bool Bias, bool In, bool Silu> struct convolution {
    static constexpr auto x = input<"x", f32>(batch, query, axis<"channel">);
    static constexpr auto weight = input<"weight", f32>(axis<"channel">, axis<"tap">);
    static constexpr auto bias = input<"bias", f32>(axis<"channel">);
    static constexpr auto conv_in = input<"conv_in", f32>(batch, axis<"row">, axis<"channel">);
    static constexpr auto rows = extent<1>(weight) - 1;
    static constexpr auto made() {
        if constexpr (Bias && In)
            return causal_convolution(x, weight, bias, conv_in);
        else if constexpr (Bias)
            return causal_convolution(x, weight, bias);
        else if constexpr (In)
            return causal_convolution(x, weight, conv_in);
        else
            return causal_convolution(x, weight);
    }
    static constexpr auto activated() {
        if constexpr (Silu)
            return silu(made()(d_idx));
        else
            return made()(d_idx);
    }
    static constexpr auto kept() {
        if constexpr (In)
            return newest(x, rows, conv_in);
        else
            return newest(x, rows);
    }
    static constexpr auto graph = outputs(out = tokens(activated(), extent<2>(x)), output<"conv_out"> = kept());
};

/// The core of a layer of Qwen3-Next: [q heads, k heads, v heads] through the convolution, the rule, the gated norm.
template <bool In> struct qwen3_next {
    static constexpr auto mixed = input<"mixed", f32>(batch, query, axis<"channel">);
    static constexpr auto weight = input<"weight", f32>(axis<"channel">, axis<"tap">);
    static constexpr auto conv_in = input<"conv_in", f32>(batch, axis<"row">, axis<"channel">);
    static constexpr auto state_in = input<"state_in", f32>(batch, head, depth, value_depth);
    static constexpr auto a = input<"a", f32>(batch, head, query);
    static constexpr auto beta = input<"b", f32>(batch, head, query);
    static constexpr auto z = input<"z", f32>(batch, head, query, value_depth);
    static constexpr auto a_log = input<"a_log", f32>(head);
    static constexpr auto dt_bias = input<"dt_bias", f32>(head);
    static constexpr auto gain = input<"gain", f32>(value_depth);
    static constexpr auto shared_heads = attune::dsl::scalar<"Hk", i32>;
    static constexpr auto n = bound_index<"n">;

    static constexpr auto convolved() {
        if constexpr (In)
            return causal_convolution(mixed, weight, conv_in);
        else
            return causal_convolution(mixed, weight);
    }
    static constexpr auto shared_head = h / (heads / shared_heads);
    static constexpr auto query_row =
        unit(channels(q_idx, [](auto d) { return silu(convolved()(shared_head * depth + d)); }), 1e-6);
    static constexpr auto key =
        unit(channels(q_idx, [](auto d) { return silu(convolved()((shared_heads + shared_head) * depth + d)); }), 1e-6);
    static constexpr auto value = silu(convolved()(2 * shared_heads * depth + h * value_depth + d_idx));
    static constexpr auto before() {
        if constexpr (In)
            return state_in;
        else
            return 0;
    }
    static constexpr auto states = recurrence(before(), [](auto S) {
        const auto kept = exp(-exp(a_log(h)) * softplus(a(attune::dsl::b, h, q_idx) + dt_bias(h))) * S;
        return kept + t(key) * (sigmoid(beta(attune::dsl::b, h, q_idx)) * (value - key * kept));
    });
    static constexpr auto o = query_row * states * rsqrt(depth);
    static constexpr auto element = o(attune::dsl::b, h, q_idx, n);
    static constexpr auto of_norm = rsqrt(sum(n, value_depth, element* element) / value_depth + 1e-6);
    static constexpr auto kept() {
        if constexpr (In)
            return newest(mixed, extent<1>(weight) - 1, conv_in);
        else
            return newest(mixed, extent<1>(weight) - 1);
    }
    static constexpr auto graph =
        outputs(out = o * as_output(of_norm) * gain(d_idx) * as_output(silu(z(attune::dsl::b, h, q_idx, d_idx))),
                output<"state_out"> = last(states), output<"conv_out"> = kept());
};

}  // namespace state_graphs
