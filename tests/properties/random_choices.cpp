#include "random_graph.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace attune::testing {
namespace {

constexpr axis_declaration along(axis_kind a) { return {a, name_of(a)}; }
constexpr axis_declaration along(std::string_view name) { return {axis_kind::free, name}; }

constexpr double masked = -std::numeric_limits<double>::infinity();

}  // namespace

float deciding_number(float any) { return std::clamp(std::nearbyint(any * 4) / 4, -2.0f, 2.0f); }

/// (b, h, blocks of queries if they choose apart, blocks of keys)
node_id random_graph::made_before(node_id x, const blocks_of_keys& of) {
    if (of.queries == 0) return add(operation::precomputed, kind::precomputed, {x, of.block, of.count});
    return add(operation::precomputed, kind::precomputed, {x, of.at, of.positions, of.block, of.count});
}

node_id random_graph::of_block(node_id tensor, kind is, const blocks_of_keys& of, node_id at, node_id block) {
    return of.queries == 0 ? load(tensor, is, {b(), h(), block}) : load(tensor, is, {b(), h(), at, block});
}

/// Of so many keys as a block has, a power of two, so that nothing is rounded; those not in use count as 0.
node_id random_graph::mean_of_keys(const blocks_of_keys& of) {
    const node_id row = bound("row"), channel = bound("channel");
    const node_id key = add(operation::add, kind::integer,
                            {add(operation::multiply, kind::integer, {of.block, constant(of.size)}), row});
    const node_id in_use = add(operation::less, kind::condition, {key, index(operation::kv_lengths)});
    const node_id x = load(core_tensor('k'), kind::real, {b(), h(), key, channel});
    const node_id all = add(operation::sum, kind::real,
                            {row, constant(of.size), add(operation::where, kind::real, {in_use, x, constant_real(0)})});
    const node_id mean = add(operation::multiply, kind::real, {all, constant_real(1.0 / of.size)});
    return add(operation::precomputed, kind::precomputed, {mean, of.block, of.count, channel, index(operation::depth)});
}

/// A channel of the one query, of the mean of those that choose together, or of the head's first one.
node_id random_graph::query_of_block(const blocks_of_keys& of, node_id channel) {
    const node_id q = core_tensor('q');
    if (of.queries == 0)
        return load(q, kind::real, {b(), h(), among(index(operation::query_length), constant(0)), channel});
    if (of.queries == 1) return load(q, kind::real, {b(), h(), of.at, channel});
    const node_id row = bound("row_of_queries"), other = bound("channel_of_queries");
    const node_id query = add(operation::add, kind::integer,
                              {add(operation::multiply, kind::integer, {of.at, constant(of.queries)}), row});
    const node_id there = add(operation::less, kind::condition, {query, index(operation::query_length)});
    const node_id x = load(q, kind::real, {b(), h(), query, other});
    const node_id all =
        add(operation::sum, kind::real,
            {row, constant(of.queries), add(operation::where, kind::real, {there, x, constant_real(0)})});
    const node_id means = add(operation::precomputed, kind::precomputed,
                              {add(operation::multiply, kind::real, {all, constant_real(1.0 / of.queries)}), of.at,
                               of.positions, other, index(operation::depth)});
    return load(means, kind::real, {b(), h(), of.at, channel});
}

node_id random_graph::product_with_key(const blocks_of_keys& of, node_id key) {
    const node_id channel = bound("channel");
    const node_id x = load(core_tensor('k'), kind::real, {b(), h(), key, channel});
    return add(
        operation::sum, kind::real,
        {channel, index(operation::depth), add(operation::multiply, kind::real, {query_of_block(of, channel), x})});
}

/// By which it is chosen, -infinity where no key is in use or a condition says so.
node_id random_graph::number_of_block(const blocks_of_keys& of, int which) {
    const node_id row = bound("row"), channel = bound("channel");
    const node_id key = add(operation::add, kind::integer,
                            {add(operation::multiply, kind::integer, {of.block, constant(of.size)}), row});
    const node_id in_use = add(operation::less, kind::condition, {key, index(operation::kv_lengths)});
    const auto of_rows = [&](operation joined, node_id x, double otherwise) {
        return add(joined, kind::real,
                   {row, constant(of.size), add(operation::where, kind::real, {in_use, x, constant_real(otherwise)})});
    };
    const auto kept = [&] {
        return load(input("by_key", element_type::f32, {along(axis_kind::batch), along(axis_kind::key)}), kind::real,
                    {b(), key});
    };
    switch (which) {
        case 0: return of_rows(operation::sum, kept(), 0);
        case 1: return of_rows(operation::largest, kept(), masked);
        case 2: return of_rows(operation::largest, product_with_key(of, key), masked);
        case 3:
            return load(input("importance", element_type::f32,
                              {along(axis_kind::batch), along(axis_kind::key_head), along("block")}),
                        kind::real, {b(), h(), of.block});
        default: {
            const node_id mean = load(mean_of_keys(of), kind::real, {b(), h(), of.block, channel});
            return add(operation::sum, kind::real,
                       {channel, index(operation::depth),
                        add(operation::multiply, kind::real, {query_of_block(of, channel), mean})});
        }
    }
}

node_id random_graph::chosen_among(node_id scores) {
    const place pair{.query = true, .key = true};
    const bool shares = one_in(3);
    const int which = below(6);
    // A share compares sums over all blocks: means of few rows leave room for them in the 24 bits of a float.
    const bool means = which > 3;
    blocks_of_keys of{};
    of.size = 1 << below(means && shares ? 3 : 6);
    of.queries = one_in(3) ? 0 : one_in(2) ? 1 : 2 << below(means && shares ? 1 : 3);
    const auto blocks_of = [&](operation length, int size) {
        const node_id all = add(operation::add, kind::integer, {index(length), constant(size - 1)});
        return add(operation::divide, kind::integer, {all, constant(size)});
    };
    of.block = bound("key_block"), of.count = blocks_of(operation::key_length, of.size);
    if (of.queries > 0) {
        of.at = bound("query_block");
        of.positions =
            of.queries == 1 ? index(operation::query_length) : blocks_of(operation::query_length, of.queries);
    }

    place before{.bounds = {of.block}};
    if (of.queries > 0) before.bounds.push_back(of.at);
    node_id x = number_of_block(of, which);
    if (one_in(3)) {
        const node_id few = add(operation::remainder, kind::integer, {integer(1, before).node, constant(1 + below(8))});
        x = add(operation::add, kind::real, {x, add(operation::to_real, kind::real, {few})});
    }
    if (one_in(3)) x = add(operation::where, kind::real, {condition(1, before), x, constant_real(masked)});
    const node_id numbers = made_before(x, of);
    const node_id amount = shares ? (one_in(2) ? scalar("share", element_type::f32) : constant_real(0.125 * below(9)))
                                  : (one_in(2) ? scalar("count", element_type::i32) : constant(below(7) - 1));
    const node_id choice = add(shares ? operation::top_p : operation::top_k, kind::precomputed, {numbers, amount});

    const node_id query = index(operation::q_idx), key = index(operation::kv_idx);
    const node_id at = of.queries > 1 ? add(operation::divide, kind::integer, {query, constant(of.queries)}) : query;
    const node_id block = of.size > 1 ? add(operation::divide, kind::integer, {key, constant(of.size)}) : key;
    const node_id chosen = of_block(choice, kind::condition, of, at, block);
    if (one_in(2)) outputs.push_back({"block_scores", numbers});
    if (one_in(3)) {
        const node_id own = of_block(choice, kind::condition, of, of.at, of.block);
        outputs.push_back(
            {"chosen_blocks",
             made_before(add(operation::where, kind::real, {own, constant_real(1), constant_real(0)}), of)});
    }
    if (one_in(3)) {  // added to the scores, too; as a few units
        const node_id part =
            add(operation::multiply, kind::real, {of_block(numbers, kind::real, of, at, block), constant_real(0.0625)});
        scores = add(operation::add, kind::scores, {scores, add(operation::tanh, kind::real, {part})});
    }
    const auto with = [&](operation op) { return add(op, kind::condition, {chosen, condition(2, pair)}); };
    node_id visible = chosen;
    switch (below(6)) {
        case 0: visible = with(operation::logical_or); break;
        case 1:
        case 2: visible = with(operation::logical_and); break;
        case 3: visible = add(operation::logical_not, kind::condition, {chosen}); break;
        default: break;
    }
    return add(operation::mask, kind::scores, {scores, visible});
}

}  // namespace attune::testing
