#include "random_graph.hpp"

#include <array>
#include <limits>
#include <string>

namespace attune::testing {
namespace {

constexpr axis_declaration along(axis_kind a) { return {a, name_of(a)}; }

}  // namespace

element_type random_graph::any_float() {
    static constexpr std::array types{element_type::f32, element_type::f32,     element_type::bf16,   element_type::f16,
                                      element_type::f16, element_type::f8_e5m2, element_type::f8_e4m3};
    return types[static_cast<std::size_t>(below(static_cast<int>(types.size())))];
}

/// An element of a table of any float type: of the pair, the key, the query or the head. What is drawn for it may be
/// -infinity or NaN.
node_id random_graph::extreme_number(std::string_view used_as) {
    const element_type type = any_float();
    const int which = below(7);
    const std::string_view of = which < 2 ? "keys" : which < 4 ? "queries" : which < 6 ? "pairs" : "heads";
    const std::string_view name =
        lasting("extreme_" + std::string(used_as) + "_" + std::string(of) + "_" + std::string(name_of(type)));
    const axis_declaration batch = along(axis_kind::batch), query = along(axis_kind::query),
                           key = along(axis_kind::key);
    const node_id q = index(operation::q_idx), k = index(operation::kv_idx);
    if (which < 2) return load(input(name, type, {batch, key}), kind::real, {b(), k});
    if (which < 4) return load(input(name, type, {batch, query}), kind::real, {b(), q});
    if (which < 6) return load(input(name, type, {batch, query, key}), kind::real, {b(), q, k});
    return load(input(name, type, {along(axis_kind::head)}), kind::real, {h()});
}

/// Likewise, of a row: its own, or its head's.
node_id random_graph::extreme_row(std::string_view used_as) {
    const element_type type = any_float();
    const bool of_head = one_in(2);
    const std::string_view name =
        lasting("extreme_" + std::string(used_as) + "_" + (of_head ? "heads_" : "rows_") + std::string(name_of(type)));
    if (of_head) return load(input(name, type, {along(axis_kind::head)}), kind::real, {h()});
    return load(input(name, type, {along(axis_kind::batch), along(axis_kind::head), along(axis_kind::query)}),
                kind::real, {b(), h(), index(operation::q_idx)});
}

/// A number near an end of i32: of the formula, of the call or of a tensor.
node_id random_graph::end_of_integers() {
    constexpr std::int64_t most = 2147483647;
    switch (below(5)) {
        case 0: return scalar("end", element_type::i32);
        case 1: return scalar("other_end", element_type::i32);
        case 2:
            return load(input("extreme_ends", element_type::i32, {along(axis_kind::batch), along(axis_kind::key)}),
                        kind::integer, {b(), index(operation::kv_idx)});
        case 3: return constant(one_in(2) ? most - below(3) : below(3) - most);
        default: return constant(one_in(2) ? 1 << 30 : below(40));
    }
}

node_id random_graph::extreme_condition_leaf() {
    static constexpr std::array comparisons{operation::equal,      operation::not_equal, operation::less,
                                            operation::less_equal, operation::greater,   operation::greater_equal};
    const operation compare = comparisons[static_cast<std::size_t>(below(6))];
    const auto number = [&] { return extreme_number("limit"); };
    const auto one = [&](operation op, node_id x) { return add(op, kind::condition, {x}); };
    const auto two = [&](operation op, kind is, node_id x, node_id y) { return add(op, is, {x, y}); };
    const node_id q = index(operation::q_idx), k = index(operation::kv_idx);
    switch (below(8)) {
        case 0:
        case 1: return two(compare, kind::condition, number(), number());
        case 2: return two(compare, kind::condition, number(), constant_real(0.5 * below(5)));
        case 3: return two(compare, kind::condition, number(), scalar("limit", element_type::f32));
        case 4: return one(any_of(family::classification), number());
        default: break;
    }
    // Indices and ends, on either side, with what limits say: <, <=, > and >=.
    const operation ordered = comparisons[static_cast<std::size_t>(2 + below(4))];
    const auto moved = [&](node_id x) {
        const node_id end = end_of_integers();
        switch (below(5)) {
            case 0: return two(operation::add, kind::integer, x, end);
            case 1: return two(operation::subtract, kind::integer, end, x);
            case 2: return two(operation::multiply, kind::integer, x, end);
            default: return two(operation::subtract, kind::integer, x, end);
        }
    };
    if (one_in(4))
        return two(compare, kind::condition, two(operation::subtract, kind::integer, q, k), end_of_integers());
    return one_in(2) ? two(ordered, kind::condition, k, moved(q)) : two(ordered, kind::condition, moved(k), q);
}

/// What `merge` makes of the graph's rows and of others that the call passes: the state of no keys is a log-sum-exp of
/// -infinity beside anything.
random_graph::state random_graph::merged(const state& made) {
    using axis_kind::value_depth;
    const node_id other =
        load(input("extreme_other", one_in(2) ? element_type::f32 : element_type::f16,
                   {along(axis_kind::batch), along(axis_kind::head), along(axis_kind::query), along(value_depth)}),
             kind::real, {b(), h(), index(operation::q_idx), index(operation::d_idx)});
    const node_id out = add(operation::as_output, kind::output, {other}), x = made.lse,
                  y = add(operation::as_row, kind::row, {extreme_row("lse")});
    const node_id nothing = constant_real(0), masked = constant_real(-std::numeric_limits<double>::infinity());
    const auto row = [&](operation op, std::initializer_list<node_id> of) { return add(op, kind::row, of); };
    const auto output = [&](operation op, std::initializer_list<node_id> of) { return add(op, kind::output, of); };
    const auto is_some = [&](node_id lse) { return add(operation::not_equal, kind::condition, {lse, masked}); };
    const node_id top = row(operation::maximum, {x, y}), base = row(operation::where, {is_some(top), top, nothing});
    const auto share = [&](node_id lse) { return row(operation::exp, {row(operation::subtract, {lse, base})}); };
    const auto part = [&](node_id sum, node_id lse) {
        return output(operation::where, {is_some(lse), output(operation::multiply, {sum, share(lse)}), nothing});
    };
    const node_id all = row(operation::add, {share(x), share(y)}),
                  divisor = row(operation::where, {is_some(top), all, constant_real(1)});
    const node_id mean =
        output(operation::divide, {output(operation::add, {part(made.out, x), part(out, y)}), divisor});
    const node_id sum = row(operation::add, {base, row(operation::log, {all})});
    return {output(operation::where, {is_some(top), mean, nothing}),
            row(operation::where, {is_some(top), sum, masked})};
}

/// Scores with biases, seen where conditions on tables and limits say; sinks, factors of weights and other states.
void random_graph::draw_extremes() {
    const node_id raw = add(operation::contract, kind::scores,
                            {core_tensor('q'), add(operation::transpose, kind::transposed, {core_tensor('k')})});
    node_id scores = add(operation::multiply, kind::scores, {raw, constant_real(0.25)});
    for (int i = below(3); i > 0; --i) {
        node_id bias = extreme_number("bias");
        if (one_in(6)) bias = add(operation::log, kind::real, {add(operation::absolute, kind::real, {bias})});
        scores = add(operation::add, kind::scores, {scores, bias});
    }
    if (!one_in(5)) scores = add(operation::mask, kind::scores, {scores, condition(2, {.query = true, .key = true})});
    const bool sums = one_in(6);
    // What a row of zeros makes of it: -0 is no weight, either.
    if (sums && one_in(2)) scores = add(operation::negate, kind::scores, {scores});
    const bool sinks = !sums && one_in(3);
    const node_id sink = sinks ? extreme_row("sink") : node_id{-1};
    const auto statistic = [&](operation op, kind is) {
        return sinks ? add(op, is, {scores, sink}) : add(op, is, {scores});
    };
    node_id weights =
        sums ? add(operation::unnormalized, kind::weights, {scores}) : statistic(operation::softmax, kind::weights);
    if (one_in(5)) weights = add(operation::multiply, kind::weights, {weights, extreme_number("factor")});
    state made{.out = add(operation::weighted_sum, kind::output, {weights, core_tensor('v')})};
    if (!sums) made.lse = statistic(operation::log_sum_exp, kind::row);
    if (!sums && one_in(3)) made = merged(made);
    outputs.push_back({"out", made.out});
    if (!sums) outputs.push_back({"lse", made.lse});
    if (one_in(4)) outputs.push_back({"top", add(operation::row_maximum, kind::row, {scores})});
    if (one_in(6)) outputs.push_back({"sum", add(operation::row_sum, kind::row, {weights})});
    if (one_in(8)) outputs.push_back({"weights", weights});
}

}  // namespace attune::testing
