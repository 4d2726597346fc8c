#include "cases.hpp"
#include "graphs.hpp"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <type_traits>

/// Which graph computes a file.
namespace attune::testing {
namespace {

using namespace state_graphs;
using support::tensor_file;

struct of_file {
    bool q_shared, k_shared, v_shared, before, every, bias, silu;
    decays by;
};

of_file read(const tensor_file& file, bool before) {
    const auto heads = [&](const char* name) {
        const auto found = file.params.find(name);
        return found == file.params.end() ? 1.0 : found->second;
    };
    const double all = std::max({heads("Hq"), heads("Hk"), heads("Hv")});
    const auto* log_decay = file.find("log_decay");
    const decays by = log_decay == nullptr           ? decays::none
                      : log_decay->shape.size() == 1 ? decays::of_heads
                      : log_decay->shape.size() == 3 ? decays::of_tokens
                                                     : decays::of_channels;
    return {heads("Hq") != all,
            heads("Hk") != all,
            heads("Hv") != all,
            before,
            file.find("states") != nullptr,
            file.find("bias") != nullptr,
            file.metadata.at("params").find("silu") != std::string::npos,
            by};
}

/// Calls `with` with the value as a template argument.
template <class F> graph_ir either(bool value, F with) {
    return value ? with(std::true_type{}) : with(std::false_type{});
}

/// Which of q, k and v are over key heads, as bits.
template <int... Shared> struct of_heads {
    template <class F> static graph_ir with(const of_file& it, F make) {
        const int shared = it.q_shared * 4 + it.k_shared * 2 + it.v_shared;
        std::optional<graph_ir> made;
        ((shared == Shared ? void(made = make(rows<(Shared & 4) != 0, (Shared & 2) != 0, (Shared & 1) != 0>{}))
                           : void()),
         ...);
        if (!made) throw std::runtime_error("no graph has its heads so");
        return *made;
    }
};
template <decays... By> struct of_decays {
    template <class F> static graph_ir with(const of_file& it, F make) {
        std::optional<graph_ir> made;
        ((it.by == By ? void(made = make(std::integral_constant<decays, By>{})) : void()), ...);
        if (!made) throw std::runtime_error("no graph decays so");
        return *made;
    }
};

graph_ir additive_graph(const of_file& it) {
    return of_heads<0, 3>::with(it, [&]<class Rows>(Rows) {
        return of_decays<decays::none, decays::of_heads, decays::of_channels>::with(it, [&](auto by) {
            return either(it.before, [&](auto in) { return ir_of<additive<Rows, by.value, in.value>::graph>; });
        });
    });
}

graph_ir delta_graph(const of_file& it) {
    if (it.every) return ir_of<delta<rows<false, false, false>, decays::of_tokens, true, true>::graph>;
    return of_heads<0, 2, 6>::with(it, [&]<class Rows>(Rows) {
        return of_decays<decays::none, decays::of_tokens, decays::of_channels>::with(it, [&](auto by) {
            return either(it.before, [&](auto in) { return ir_of<delta<Rows, by.value, in.value>::graph>; });
        });
    });
}

graph_ir convolution_graph(const of_file& it) {
    return either(it.bias, [&](auto bias) {
        return either(it.before, [&](auto in) {
            return either(it.silu,
                          [&](auto silu) { return ir_of<convolution<bias.value, in.value, silu.value>::graph>; });
        });
    });
}

}  // namespace

graph_ir graph_of(const tensor_file& file, bool state_before) {
    const of_file it = read(file, state_before);
    const std::string family = file.metadata.at("family");
    if (file.path.stem().string().starts_with("retnet"))
        return either(it.before, [&](auto in) { return ir_of<retnet<in.value>::graph>; });
    if (family == "linear" || family == "decay") return additive_graph(it);
    if (family == "delta") return delta_graph(it);
    if (family == "conv") return convolution_graph(it);
    if (family == "mamba2")
        return of_heads<0, 2, 6>::with(it, [&]<class Rows>(Rows) {
            return either(it.before, [&](auto in) { return ir_of<mamba2<Rows, in.value>::graph>; });
        });
    if (family == "rwkv7") return either(it.before, [&](auto in) { return ir_of<rwkv7<in.value>::graph>; });
    if (family == "rwkv6") return ir_of<rwkv6::graph>;
    if (family == "linear_normalised") return ir_of<normalised::graph>;
    if (family == "qwen3_next") return either(it.before, [&](auto in) { return ir_of<qwen3_next<in.value>::graph>; });
    throw std::runtime_error(file.path.string() + ": no graph is of the family `" + family + "`");
}

}  // namespace attune::testing
