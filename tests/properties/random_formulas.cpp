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

node_id random_graph::among(node_id places, node_id index) {
    const node_id last = add(operation::subtract, kind::integer, {places, constant(1)});
    return add(operation::maximum, kind::integer, {constant(0), add(operation::minimum, kind::integer, {index, last})});
}
node_id random_graph::among_keys(node_id index) { return among(this->index(operation::kv_lengths), index); }
node_id random_graph::query_of(const place& p) {
    if (p.query) return index(operation::q_idx);
    return among(index(operation::query_length), constant(below(5)));
}
node_id random_graph::key_of(const place& p) {
    return p.key ? index(operation::kv_idx) : among_keys(constant(below(5)));
}

random_graph::number random_graph::integer_leaf(const place& p) {
    switch (below(18)) {
        case 0:
        case 1:
            if (p.query) return {index(operation::q_idx), 1024};
            break;
        case 2:
        case 3:
            if (p.key) return {index(operation::kv_idx), 1024};
            break;
        case 4:
            if (!p.bounds.empty())
                return {p.bounds[static_cast<std::size_t>(below(static_cast<int>(p.bounds.size())))], 8};
            break;
        case 5: return {h(), 8};
        case 6: return {one_in(2) ? b() : index(one_in(2) ? operation::heads : operation::key_heads), 8};
        case 7: return {index(one_in(2) ? operation::query_length : operation::key_length), 1024};
        case 8: return {scalar("offset", element_type::i32), 8};
        case 9:
            return {load(input("document", element_type::i32, {position}), kind::integer,
                         {p.key && one_in(2) ? key_of(p) : query_of(p)}),
                    1024};
        case 10: return {load(input("place", element_type::i32, {batch, key}), kind::integer, {b(), key_of(p)}), 1024};
        case 11: {
            const node_id chosen = input("chosen", element_type::i32, {query, along("choice")});
            const node_id choice = p.bounds.empty() ? constant(below(5)) : p.bounds.back();
            return {load(chosen, kind::integer, {query_of(p), among(extent(chosen, 1), choice)}), 1024};
        }
        case 12:
            if (p.channel) return {index(operation::d_idx), 64};
            break;
        case 13: return {index(operation::kv_lengths), 1024};
        case 14: {
            static constexpr std::array numbers{operation::depth, operation::value_depth, operation::batches};
            return {index(numbers[static_cast<std::size_t>(below(3))]), 64};
        }
        case 15:
            return {add(operation::same, kind::integer,
                        {index(operation::heads), extent(input("slopes", element_type::f32, {head}), 0)}),
                    8};
        case 16: {  // rounded toward zero: of what is read, so that f32 and double agree
            const node_id read = load(input("by_key", element_type::f32, {batch, key}), kind::real, {b(), key_of(p)});
            return {add(operation::to_integer, kind::integer,
                        {add(operation::multiply, kind::real, {read, constant_real(4)})}),
                    32};
        }
        default: break;
    }
    return {constant(below(30) - 9), 32};
}

random_graph::number random_graph::integer(int depth, const place& p) {
    if (depth <= 0 || one_in(4)) return integer_leaf(p);
    const number x = integer(depth - 1, p), y = integer(depth - 1, p);
    const auto two = [&](operation op, std::int64_t most) {
        return number{add(op, kind::integer, {x.node, y.node}), most};
    };
    const auto power = [](std::int64_t most) {
        std::int64_t all = 1;
        while (all <= most) all *= 2;
        return all;
    };
    constexpr std::int64_t limit = 1 << 26;
    switch (below(17)) {
        case 0:
        case 1:
            if (x.most + y.most < limit) return two(operation::add, x.most + y.most);
            break;
        case 2:
        case 3:
            if (x.most + y.most < limit) return two(operation::subtract, x.most + y.most);
            break;
        case 4:
            if (x.most * y.most < limit) return two(operation::multiply, x.most * y.most);
            break;
        case 5: return {add(operation::divide, kind::integer, {x.node, constant(1 + below(20))}), x.most};
        case 6: return two(operation::divide, x.most);
        case 7: return {add(operation::remainder, kind::integer, {x.node, constant(1 + below(40))}), 40};
        case 8: return two(operation::remainder, y.most);
        case 9: return two(one_in(2) ? operation::minimum : operation::maximum, std::max(x.most, y.most));
        case 10:
            return two(std::array{operation::bit_and, operation::bit_or,
                                  operation::bit_xor}[static_cast<std::size_t>(below(3))],
                       power(std::max(x.most, y.most)));
        case 11: {
            const int bits = below(5);
            if (one_in(2)) return {add(operation::shift_right, kind::integer, {x.node, constant(bits)}), x.most};
            if (x.most << bits < limit)
                return {add(operation::shift_left, kind::integer, {x.node, constant(bits)}), x.most << bits};
            break;
        }
        case 12: return {add(one_in(2) ? operation::negate : operation::absolute, kind::integer, {x.node}), x.most};
        case 14: {  // by a number of bits that is computed
            const node_id bits = add(operation::remainder, kind::integer, {y.node, constant(1 + below(5))});
            if (x.most << 4 >= limit) return {add(operation::shift_right, kind::integer, {x.node, bits}), x.most};
            return {add(one_in(2) ? operation::shift_left : operation::shift_right, kind::integer, {x.node, bits}),
                    x.most << 4};
        }
        case 15: return {add(operation::to_integer, kind::integer, {condition(depth - 1, p)}), 1};
        case 13:
            return {add(operation::where, kind::integer, {condition(depth - 1, p), x.node, y.node}),
                    std::max(x.most, y.most)};
        default: {
            if (p.bounds.size() > 1) break;
            std::int64_t most = 1;
            const node_id sum = over(operation::sum, kind::integer, p, [&](const place& inside) {
                const number term = integer(depth - 1, inside);
                most = term.most;
                return term.node;
            });
            return {add(operation::remainder, kind::integer, {sum, constant(1 + below(100))}), most == 0 ? 1 : 100};
        }
    }
    return x;
}

node_id random_graph::bound(std::string_view name) {
    const auto at = std::ranges::find(indices, name) - indices.begin();
    if (at == std::ssize(indices)) indices.push_back(name);
    return add({.op = operation::bound, .kind = kind::integer, .integer = at});
}

template <class Body> node_id random_graph::over(operation op, kind is, const place& p, Body body) {
    static constexpr std::array<std::string_view, 3> names{"i", "j", "n"};
    const node_id index = bound(names[p.bounds.size()]);
    place inside = p;
    inside.bounds.push_back(index);
    node_id length = constant(below(5));
    if (one_in(2))
        length = extent(input("chosen", element_type::i32, {query, along("choice")}), 1);
    else if (one_in(3))
        length = extent(input("parts", element_type::f32, {along("short"), head}), 0);
    return add(op, is, {index, length, body(inside)});
}

/// An element of a table of (head, another axis). Half of the indices of both positions are left to kernels, which read
/// those beyond the axis at its end.
node_id random_graph::at_any(node_id table, int depth, const place& p) {
    const node_id any = integer(depth - 1, p).node;
    const node_id pair = add(operation::subtract, kind::integer, {index(operation::q_idx), index(operation::kv_idx)});
    if (p.query && p.key && one_in(2))
        return load(table, kind::real, {h(), add(operation::bit_xor, kind::integer, {any, pair})});
    return load(table, kind::real, {h(), among(extent(table, 1), any)});
}

node_id random_graph::real_leaf(int depth, const place& p) {
    switch (below(12)) {
        case 0: return load(input("slopes", element_type::f32, {head}), kind::real, {h()});
        case 1: return at_any(input("by_group", element_type::f32, {key_head, along("short")}), depth, p);
        case 2: return load(input("by_key", element_type::f32, {batch, key}), kind::real, {b(), key_of(p)});
        case 3:
            return load(input("by_query", element_type::f32, {batch, head, query}), kind::real,
                        {b(), h(), query_of(p)});
        case 4:
            if (p.query && p.key)
                return load(input("bias", element_type::f32, {batch, head, query, key}), kind::real,
                            {b(), h(), query_of(p), key_of(p)});
            break;
        case 5: return at_any(input("table", element_type::f32, {head, along("entry")}), depth, p);
        case 6: {
            const node_id parts = input("parts", element_type::f32, {along("short"), head});
            return load(parts, kind::real,
                        {among(extent(parts, 0), p.bounds.empty() ? constant(1) : p.bounds.back()), h()});
        }
        case 7:
            if (p.channel)
                return load(input("by_channel", element_type::f32, {depth_axis}), kind::real,
                            {index(operation::d_idx)});
            break;
        case 8: return scalar("gain", element_type::f32);
        case 9:
        case 10: {
            const number x = integer(depth - 1, p);
            std::int64_t all = 4;
            while (all < x.most) all *= 2;
            return add(operation::multiply, kind::real,
                       {add(operation::to_real, kind::real, {x.node}), constant_real(4.0 / static_cast<double>(all))});
        }
        default: break;
    }
    return constant_real(0.25 * (below(17) - 8));
}

operation random_graph::any_of(family of) {
    std::vector<operation> all;
    for (const operation_row& row : operation_table::rows_of_all)
        if (row.family == of) all.push_back(row.op);
    return all[static_cast<std::size_t>(below(static_cast<int>(all.size())))];
}

node_id random_graph::real(int depth, const place& p) {
    if (depth <= 0 || one_in(4)) return real_leaf(depth, p);
    const node_id x = real(depth - 1, p);
    const auto one = [&](operation op, node_id of) { return add(op, kind::real, {of}); };
    const auto two = [&](operation op, node_id y) { return add(op, kind::real, {x, y}); };
    const auto size = [&](node_id of) {
        return add(operation::add, kind::real, {constant_real(1), one(operation::absolute, of)});
    };
    // From 1/4 to 3/4 every function is defined, and none is steep.
    const auto within = [&](node_id of) {
        const node_id part = one(operation::absolute, one(operation::tanh, of));
        return add(operation::add, kind::real,
                   {constant_real(0.25), add(operation::multiply, kind::real, {constant_real(0.5), part})});
    };
    switch (below(20)) {
        case 0:
            return add(operation::multiply, kind::real, {two(operation::add, real(depth - 1, p)), constant_real(0.5)});
        case 1:
            return add(operation::multiply, kind::real,
                       {two(operation::subtract, real(depth - 1, p)), constant_real(0.5)});
        case 2:
            return add(operation::multiply, kind::real,
                       {two(operation::multiply, real(depth - 1, p)), constant_real(0.25)});
        case 3: return two(operation::divide, size(real(depth - 1, p)));
        case 4: return two(one_in(2) ? operation::minimum : operation::maximum, real(depth - 1, p));
        case 5: return one(operation::tanh, x);
        case 6: return one(operation::exp, two(operation::minimum, constant_real(1)));
        case 7: return one(operation::log, size(x));
        case 8: return one(operation::sqrt, size(x));
        case 9: return one(operation::rsqrt, size(x));
        case 10: return one(operation::erf, x);
        case 11: return one(one_in(2) ? operation::negate : operation::absolute, x);
        case 12: return add(operation::where, kind::real, {condition(depth - 1, p), x, real(depth - 1, p)});
        case 13: return one(operation::to_real, condition(depth - 1, p));
        case 14: return add(operation::add, kind::real, {x, constant_real(0.5)});
        case 15:
        case 16: return one(any_of(family::function), within(x));
        case 17: {  // any bits of a number between 1/2 and 1
            const node_id bits = integer(depth - 1, p).node;
            const node_id fraction = add(operation::bit_and, kind::integer, {bits, constant(127)});
            return from_bits(element_type::bf16, add(operation::bit_or, kind::integer, {fraction, constant(0x3f00)}));
        }
        case 18: return add(any_of(family::function_of_two), kind::real, {within(x), within(real(depth - 1, p))});
        default: {
            if (p.bounds.size() > 1) return x;
            const operation joined = one_in(3) ? operation::largest : operation::sum;
            const node_id all =
                over(joined, kind::real, p, [&](const place& inside) { return real(depth - 1, inside); });
            if (joined == operation::largest)  // masked over nothing
                return add(operation::maximum, kind::real, {all, constant_real(-4)});
            return add(operation::multiply, kind::real, {all, constant_real(0.125)});
        }
    }
}

node_id random_graph::condition_leaf(int depth, const place& p) {
    if (drawn_ == beside::extremes) return extreme_condition_leaf();
    static constexpr std::array comparisons{operation::equal,      operation::not_equal, operation::less,
                                            operation::less_equal, operation::greater,   operation::greater_equal};
    const operation compare = comparisons[static_cast<std::size_t>(below(6))];
    switch (below(12)) {
        case 10:
            if (p.query && p.key && !p.channel && p.bounds.empty())
                return add(operation::keep, kind::condition,
                           {constant_real(0.125 * (1 + below(3))), scalar("seed", element_type::i32), constant(0)});
            [[fallthrough]];
        case 11: return add(operation::less, kind::condition, {key_of(p), index(operation::kv_lengths)});
        case 0:
            return load(input("allowed", element_type::boolean, {query, key}), kind::condition,
                        {query_of(p), key_of(p)});
        case 1:
            return load(input("flag", element_type::boolean, {position}), kind::condition,
                        {p.key ? key_of(p) : query_of(p)});
        case 2: {
            const node_id packed = input("packed", element_type::u8, {query, along("byte")}),
                          of_eight = add(operation::divide, kind::integer, {key_of(p), constant(8)}),
                          byte = load(packed, kind::integer, {query_of(p), among(extent(packed, 1), of_eight)});
            const node_id shifted = add(operation::shift_right, kind::integer,
                                        {byte, add(operation::remainder, kind::integer, {key_of(p), constant(8)})});
            return add(operation::not_equal, kind::condition,
                       {add(operation::bit_and, kind::integer, {shifted, constant(1)}), constant(0)});
        }
        case 3: {
            const node_id read = load(input("by_key", element_type::f32, {batch, key}), kind::real, {b(), key_of(p)});
            return add(compare, kind::condition, {read, constant_real(0.25 * (below(9) - 4))});
        }
        case 4:
        case 5: return add(operation::less_equal, kind::condition, {key_of(p), integer(depth - 1, p).node});
        default: return add(compare, kind::condition, {integer(depth - 1, p).node, integer(depth - 1, p).node});
    }
}

node_id random_graph::condition(int depth, const place& p) {
    if (depth <= 0 || one_in(3)) return condition_leaf(depth, p);
    const node_id x = condition(depth - 1, p);
    switch (drawn_ == beside::extremes ? below(5) : below(8)) {
        case 7: return add(any_of(family::classification), kind::condition, {real(depth - 1, p)});
        case 0:
        case 1: return add(operation::logical_and, kind::condition, {x, condition(depth - 1, p)});
        case 2:
        case 3: return add(operation::logical_or, kind::condition, {x, condition(depth - 1, p)});
        case 4: return add(operation::logical_not, kind::condition, {x});
        case 5:
            if (p.bounds.size() > 1) return x;
            return over(operation::any, kind::condition, p,
                        [&](const place& inside) { return condition(depth - 1, inside); });
        default:
            return add(operation::less_equal, kind::condition,
                       {query_of(p), add(operation::add, kind::integer, {key_of(p), constant(below(60))})});
    }
}

}  // namespace attune::testing
