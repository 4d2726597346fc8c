#include "random_graph.hpp"

#include <attune/ir/print.hpp>

#include <algorithm>
#include <array>
#include <limits>
#include <sstream>
#include <utility>

namespace attune::testing {
namespace {

constexpr axis_declaration along(axis_kind a) { return {a, name_of(a)}; }
constexpr axis_declaration along(std::string_view name) { return {axis_kind::free, name}; }
constexpr axis_declaration batch = along(axis_kind::batch), head = along(axis_kind::head),
                           key_head = along(axis_kind::key_head), query = along(axis_kind::query),
                           key = along(axis_kind::key), position = along(axis_kind::position),
                           depth_axis = along(axis_kind::depth);

}  // namespace

random_graph::random_graph(unsigned seed, beside drawn) : drawn_(drawn), random_(seed) {
    fingerprint = 0x9e3779b97f4a7c15ull * (seed + 1);
    if (drawn_ == beside::extremes)
        draw_extremes();
    else
        draw_outputs(seed % 3 == 0 ? 1 + below(2) : 0);
    if (drawn_ == beside::stores) draw_stores();
    forget_unused();
}

node_id random_graph::add(instruction n) {
    const auto same = std::ranges::find(nodes, n);
    if (same == nodes.end()) return nodes.push_back(n), static_cast<node_id>(nodes.size() - 1);
    return static_cast<node_id>(same - nodes.begin());
}
node_id random_graph::add(operation op, kind is, std::initializer_list<node_id> arguments) {
    instruction n{.op = op, .kind = is, .argument_count = static_cast<std::uint8_t>(arguments.size())};
    std::ranges::copy(arguments, n.arguments.begin());
    return add(n);
}
node_id random_graph::constant(std::int64_t value) {
    return add({.op = operation::constant, .kind = kind::integer, .integer = value});
}
node_id random_graph::constant_real(double value) {
    return add({.op = operation::constant, .kind = kind::real, .number = value});
}

node_id random_graph::input(std::string_view name, element_type element, std::initializer_list<axis_declaration> axes) {
    input_declaration d{
        .name = name, .element = element, .is_scalar = false, .rank = static_cast<std::uint8_t>(axes.size())};
    std::ranges::copy(axes, d.axes.begin());
    const auto known = std::ranges::find(inputs, d);
    const auto at = static_cast<std::int16_t>(known - inputs.begin());
    if (known == inputs.end()) inputs.push_back(d);
    return add({.op = operation::input, .kind = kind::tensor, .input = at});
}
node_id random_graph::scalar(std::string_view name, element_type element) {
    const input_declaration d{.name = name, .element = element, .is_scalar = true};
    const auto known = std::ranges::find(inputs, d);
    const auto at = static_cast<std::int16_t>(known - inputs.begin());
    if (known == inputs.end()) inputs.push_back(d);
    return add(
        {.op = operation::scalar, .kind = element == element_type::f32 ? kind::real : kind::integer, .input = at});
}
node_id random_graph::load(node_id tensor, kind is, std::initializer_list<node_id> at) {
    instruction n{.op = operation::load,
                  .kind = is,
                  .argument_count = static_cast<std::uint8_t>(1 + at.size()),
                  .arguments = {tensor}};
    std::ranges::copy(at, n.arguments.begin() + 1);
    return add(n);
}
node_id random_graph::extent(node_id tensor, int axis) {
    return add(
        {.op = operation::extent, .kind = kind::integer, .argument_count = 1, .arguments = {tensor}, .integer = axis});
}

node_id random_graph::from_bits(element_type element, node_id bits) {
    return add({.op = operation::from_bits,
                .kind = is_integer(element) ? kind::integer : kind::real,
                .argument_count = 1,
                .arguments = {bits},
                .integer = static_cast<std::int64_t>(element)});
}

node_id random_graph::core_tensor(char which) {
    if (which == 'q') return input("q", element_type::any, {batch, head, query, depth_axis});
    if (which == 'k') return input("k", element_type::any, {batch, key_head, key, depth_axis});
    return input("v", element_type::any, {batch, key_head, key, along(axis_kind::value_depth)});
}

node_id random_graph::queries() {
    const node_id q = core_tensor('q'), d = index(operation::d_idx);
    if (!one_in(4)) return q;
    node_id x = load(q, kind::real, {b(), h(), index(operation::q_idx), d});
    if (one_in(2)) {  // rotated in pairs
        const node_id other =
            load(q, kind::real,
                 {b(), h(), index(operation::q_idx), add(operation::bit_xor, kind::integer, {d, constant(1)})});
        const node_id turn = real(1, {.query = true});
        x = add(operation::add, kind::real, {x, add(operation::multiply, kind::real, {other, turn})});
    } else {
        x = add(operation::multiply, kind::real,
                {x, add(operation::tanh, kind::real, {real(2, {.query = true, .channel = true})})});
    }
    return add(operation::queries, kind::tensor, {x});
}

node_id random_graph::keys() {
    if (one_in(4)) return cached_keys();
    const node_id k = core_tensor('k'), d = index(operation::d_idx), key_index = index(operation::kv_idx);
    if (!one_in(4)) return k;
    const node_id at =
        one_in(2) ? key_index
                  : among_keys(load(input("place", element_type::i32, {batch, key}), kind::integer, {b(), key_index}));
    node_id x = load(k, kind::real, {b(), h(), at, d});
    if (one_in(2))
        x = add(operation::multiply, kind::real,
                {x, add(operation::tanh, kind::real, {real(2, {.key = true, .channel = true})})});
    return add(operation::keys, kind::tensor, {x});
}

node_id random_graph::values() {
    if (one_in(4)) return cached_values();
    const node_id v = core_tensor('v');
    if (!one_in(5)) return v;
    const node_id x = load(v, kind::real, {b(), h(), index(operation::kv_idx), index(operation::d_idx)});
    return add(operation::values, kind::tensor, {add(operation::add, kind::real, {x, real(1, {.key = true})})});
}

node_id random_graph::modified(node_id scores) {
    const place pair{.query = true, .key = true};
    const auto is_scores = [&](operation op, std::initializer_list<node_id> arguments) {
        return add(op, kind::scores, arguments);
    };
    switch (below(8)) {
        case 0:
        case 1: return is_scores(operation::add, {scores, real(3, pair)});
        case 2: return is_scores(operation::multiply, {scores, real(2, pair)});
        case 3:
            return is_scores(
                operation::multiply,
                {is_scores(operation::tanh, {is_scores(operation::multiply, {scores, constant_real(0.25)})}),
                 constant_real(4)});
        case 4:
            return is_scores(operation::where,
                             {condition(3, pair), scores, constant_real(-std::numeric_limits<double>::infinity())});
        case 5: return is_scores(operation::where, {condition(2, pair), scores, real(1, pair)});
        case 6: return is_scores(operation::subtract, {real(2, pair), scores});
        default: return is_scores(operation::maximum, {scores, constant_real(-1)});
    }
}

node_id random_graph::with_core(node_id out, const read_tensors& of_first) {
    const place pair{.query = true, .key = true}, row{.query = true};
    const auto other = [&](node_id first, std::string_view name, axis_kind heads, axis_kind tokens,
                           axis_kind channels) {
        if (one_in(2)) return first;
        return input(name, element_type::f32, {batch, along(heads), along(tokens), along(channels)});
    };
    const node_id query_of_it = other(of_first.query, "other_q", axis_kind::head, axis_kind::query, axis_kind::depth),
                  key_of_it = other(of_first.key, "other_k", axis_kind::key_head, axis_kind::key, axis_kind::depth),
                  value = other(of_first.value, "other_v", axis_kind::key_head, axis_kind::key, axis_kind::value_depth);
    const node_id product =
        add(operation::contract, kind::scores, {query_of_it, add(operation::transpose, kind::transposed, {key_of_it})});
    node_id scores = add(operation::multiply, kind::scores, {product, scalar("scale", element_type::f32)});
    if (one_in(2)) scores = modified(scores);
    const bool sums = one_in(4);
    if (sums) scores = add(operation::absolute, kind::scores, {scores});
    if (!one_in(4)) scores = add(operation::mask, kind::scores, {scores, condition(2, pair)});
    node_id weights = add(sums ? operation::unnormalized : operation::softmax, kind::weights, {scores});
    if (one_in(6)) weights = add(operation::multiply, kind::weights, {weights, real(2, pair)});
    const node_id sum = add(operation::weighted_sum, kind::output, {weights, value});

    const auto named = [&](const char* what, node_id node) {
        const std::string name = what + std::to_string(outputs.size());
        if (std::ranges::find(outputs, node, &output_declaration::node) == outputs.end())
            outputs.push_back({lasting(name), node});
    };
    if (one_in(4)) named("top_", add(operation::row_maximum, kind::row, {scores}));
    if (one_in(4)) named("sum_", add(operation::row_sum, kind::row, {weights}));
    if (!sums && one_in(4)) named("lse_", add(operation::log_sum_exp, kind::row, {scores}));
    if (one_in(3)) return named("beside_", sum), out;
    const node_id part = add(operation::as_row, kind::row, {real(2, row)});
    return add(one_in(2) ? operation::add : operation::subtract, kind::output,
               {out, add(operation::multiply, kind::output, {part, sum})});
}

void random_graph::draw_outputs(int further_cores) {
    const place pair{.query = true, .key = true}, row{.query = true};
    read_tensors of_first{};
    of_first.query = queries(), of_first.key = keys();
    const node_id raw = add(operation::contract, kind::scores,
                            {of_first.query, add(operation::transpose, kind::transposed, {of_first.key})});
    node_id scores = add(operation::multiply, kind::scores, {raw, scalar("scale", element_type::f32)});
    for (int i = below(3); i > 0; --i) scores = modified(scores);
    const bool sums = one_in(5);
    if (sums) scores = add(one_in(2) ? operation::tanh : operation::absolute, kind::scores, {scores});
    if (drawn_ == beside::choices)
        scores = chosen_among(scores);
    else if (!one_in(4))
        scores = add(operation::mask, kind::scores, {scores, condition(3, pair)});

    const bool sinks = !sums && one_in(4);
    const node_id sink = sinks ? real(1, row) : node_id{-1};
    const auto statistic = [&](operation op, kind is) {
        return sinks ? add(op, is, {scores, sink}) : add(op, is, {scores});
    };
    node_id weights =
        sums ? add(operation::unnormalized, kind::weights, {scores}) : statistic(operation::softmax, kind::weights);
    if (one_in(5)) weights = add(operation::multiply, kind::weights, {weights, real(2, pair)});
    if (one_in(6)) weights = dropped(weights);
    of_first.value = values();
    node_id out = add(operation::weighted_sum, kind::output, {weights, of_first.value});
    for (int i = 0; i < further_cores; ++i) out = with_core(out, of_first);

    const auto named = [&](std::string_view name, node_id node) { outputs.push_back({name, node}); };
    const node_id maximum = add(operation::row_maximum, kind::row, {scores}),
                  sum = add(operation::row_sum, kind::row, {weights});
    if (one_in(6)) {
        const node_id size =
            add(operation::add, kind::row, {constant_real(1), add(operation::absolute, kind::row, {sum})});
        out = add(operation::divide, kind::output, {out, size});
    }
    if (one_in(6))
        out = add(operation::multiply, kind::output, {out, add(operation::as_row, kind::row, {real(2, row)})});
    if (one_in(5)) out = bent(out, maximum);
    if (one_in(6)) return named("out", out), add_layer(out);
    named("out", out);
    if (!sums && one_in(2)) named("lse", statistic(operation::log_sum_exp, kind::row));
    if (one_in(5)) named("top", maximum);
    if (one_in(5)) named("sum", sum);
    if (one_in(6)) named("half_top", add(operation::multiply, kind::row, {maximum, constant_real(0.5)}));
    if (further_cores > 0) return;  // numbers of pairs are written where there is one core
    if (one_in(6)) named("raw", raw);
    if (one_in(6)) named("scores", scores);
    if (one_in(6)) named("weights", weights);
    if (one_in(6)) named("key_sums", add(operation::sum_over_queries, kind::column, {weights}));
    if (one_in(6)) named("head_means", add(operation::mean_over_heads, kind::head_mean, {weights}));
}

}  // namespace attune::testing
