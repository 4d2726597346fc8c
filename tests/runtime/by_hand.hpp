#pragma once
#include <attune/runtime/detail/call.hpp>
#include <attune/runtime/error.hpp>

#include <HalideRuntime.h>

#include <algorithm>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

/// Variants written as graphs, with a kernel that notes how it was called: what a call binds is tested for graphs that
/// nobody compiled.
namespace by_hand {

using attune::axis_kind, attune::element_type, attune::instruction, attune::kind, attune::node_id, attune::operation;

struct graph {
    std::vector<instruction> nodes;
    std::vector<attune::input_declaration> inputs;
    std::vector<attune::output_declaration> outputs;
    int saved_rows = 0;

    node_id add(operation op, kind is, std::initializer_list<node_id> arguments = {}, std::int64_t integer = 0) {
        instruction n{
            .op = op, .kind = is, .argument_count = static_cast<std::uint8_t>(arguments.size()), .integer = integer};
        std::copy(arguments.begin(), arguments.end(), n.arguments.begin());
        nodes.push_back(n);
        return static_cast<node_id>(nodes.size() - 1);
    }
    node_id integer(std::int64_t value) { return add(operation::constant, kind::integer, {}, value); }
    node_id input(std::string_view name, element_type element, std::initializer_list<axis_kind> axes) {
        attune::input_declaration d{.name = name, .element = element, .rank = static_cast<std::uint8_t>(axes.size())};
        std::transform(axes.begin(), axes.end(), d.axes.begin(),
                       [](axis_kind a) { return attune::axis_declaration{a, name_of(a)}; });
        return declare(d, operation::input, kind::tensor);
    }
    node_id scalar(std::string_view name, element_type element) {
        return declare({.name = name, .element = element, .is_scalar = true}, operation::scalar,
                       element == element_type::f32 ? kind::real : kind::integer);
    }
    node_id q() {
        return input("q", element_type::any, {axis_kind::batch, axis_kind::head, axis_kind::query, axis_kind::depth});
    }
    node_id k() {
        return input("k", element_type::any, {axis_kind::batch, axis_kind::key_head, axis_kind::key, axis_kind::depth});
    }
    node_id v() {
        return input("v", element_type::any,
                     {axis_kind::batch, axis_kind::key_head, axis_kind::key, axis_kind::value_depth});
    }
    node_id scores(node_id q, node_id k) {
        return add(operation::contract, kind::scores, {q, add(operation::transpose, kind::transposed, {k})});
    }
    node_id softmax(node_id scores) { return add(operation::softmax, kind::weights, {scores}); }
    node_id attend(node_id weights, node_id v) { return add(operation::weighted_sum, kind::output, {weights, v}); }
    void output(std::string_view name, node_id node) { outputs.push_back({name, node}); }

    attune::graph_ir graph_ir() const { return {nodes, inputs, outputs, "by hand", 0, {}}; }

private:
    node_id declare(const attune::input_declaration& d, operation op, kind is) {
        inputs.push_back(d);
        const node_id n = add(op, is);
        nodes.back().input = static_cast<std::int16_t>(inputs.size() - 1);
        return n;
    }
};

/// A buffer as the kernel got it, innermost dimension first.
struct bound {
    std::vector<int> extents, strides;
    void* host{};
    halide_type_t type;
};

/// How the kernel was called last: inputs, kv_lengths, outputs, saved rows; scalars are left empty.
struct record {
    std::vector<bound> buffers;
    int calls = 0;
};
inline record seen;
inline const graph* called = nullptr;
inline void (*also)(void** arguments) = nullptr;  ///< done within the kernel

inline int note(void** arguments) {
    static std::mutex one_at_a_time;  // kernels of packed queries run beside each other
    const std::lock_guard lock(one_at_a_time);
    seen.buffers.clear();
    ++seen.calls;
    const std::size_t inputs = called->inputs.size(),
                      all = inputs + 1 + called->outputs.size() + static_cast<std::size_t>(called->saved_rows);
    for (std::size_t i = 0; i < all; ++i) {
        bound b{};
        if (i >= inputs || !called->inputs[i].is_scalar) {
            const auto& buffer = *static_cast<halide_buffer_t*>(arguments[1 + i]);
            for (int d = 0; d < buffer.dimensions; ++d)
                b.extents.push_back(buffer.dim[d].extent), b.strides.push_back(buffer.dim[d].stride);
            b.host = buffer.host, b.type = buffer.type;
        }
        seen.buffers.push_back(b);
    }
    if (also) also(arguments);
    return 0;
}

inline const char* const level =
#if defined(__aarch64__)
    "aarch64";
#else
    "x86-64-v2";
#endif

/// Kernels of a graph: f32 of depth 8 x 4, further ones as asked.
inline std::vector<attune::kernel> kernels_of(const graph& g,
                                              std::initializer_list<std::pair<int, int>> depths = {{8, 4}}) {
    std::vector<attune::kernel> all;
    constexpr auto f32 = element_type::f32;
    for (const auto& [depth, value_depth] : depths)
        all.push_back({.symbol = "by_hand",
                       .target = level,
                       .query = f32,
                       .key = f32,
                       .value = f32,
                       .output = f32,
                       .depth = depth,
                       .value_depth = value_depth,
                       .query_block = 16,
                       .key_block = 32,
                       .scratch_bytes = 1000,
                       .schedule = "{}",
                       .call = note,
                       .blocks = nullptr,
                       .saved_rows = g.saved_rows,
                       .depths_of_pair = depth});
    return all;
}

using arguments = std::vector<attune::detail::named_argument>;

inline attune::detail::named_argument view(std::string_view name, attune::tensor t) {
    return {.name = name, .is = attune::detail::named_argument::form::view, .view = t};
}
inline attune::detail::named_argument number(std::string_view name, std::int64_t value) {
    return {.name = name, .is = attune::detail::named_argument::form::integer, .integer = value};
}

/// The message of a refusal; empty if the call was made.
inline std::string call(const graph& g, const arguments& given,
                        std::initializer_list<std::pair<int, int>> depths = {{8, 4}}) {
    const auto kernels = kernels_of(g, depths);
    const attune::kernel_table table{
        .version = attune::kernel_table_version, .variant = "by::hand", .graph = g.graph_ir(), .kernels = kernels};
    called = &g;
    seen = {};
    try {
        attune::detail::call(table, given, {});
    } catch (const attune::error& e) {
        return e.what();
    }
    return "";
}

}  // namespace by_hand
