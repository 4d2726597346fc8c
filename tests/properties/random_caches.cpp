#include "random_graph.hpp"

#include <array>

namespace attune::testing {
namespace {

constexpr axis_declaration along(axis_kind a) { return {a, name_of(a)}; }
constexpr axis_declaration along(std::string_view name) { return {axis_kind::free, name}; }

}  // namespace

element_type random_graph::small_element() {
    static constexpr std::array elements{element_type::f32,     element_type::bf16, element_type::f16,
                                         element_type::i8,      element_type::u8,   element_type::f8_e4m3,
                                         element_type::f8_e5m2, element_type::i8};
    return elements[static_cast<std::size_t>(below(static_cast<int>(elements.size())))];
}

/// An element of a cache (batch, key head, key, channel) of any element type, or of pages of one: within a few units.
node_id random_graph::cached(std::string_view name, axis_kind channels, node_id page_of_key, node_id slot_of_key) {
    const element_type element = small_element();
    const kind read = is_integer(element) ? kind::integer : kind::real;
    const node_id d = index(operation::d_idx);
    const bool pages = page_of_key >= 0;
    const node_id x =
        pages
            ? load(input(name, element, {along("page"), along(axis_kind::key_head), along("slot"), along(channels)}),
                   read, {page_of_key, h(), slot_of_key, d})
            : load(input(name, element,
                         {along(axis_kind::batch), along(axis_kind::key_head), along(axis_kind::key), along(channels)}),
                   read, {b(), h(), index(operation::kv_idx), d});
    if (read == kind::real) return x;
    const node_id zero = constant_real(element == element_type::u8 ? 128 : 0);
    const node_id centred = add(operation::subtract, kind::real, {add(operation::to_real, kind::real, {x}), zero});
    const node_id scale =
        one_in(2) ? constant_real(1.0 / 64)
                  : add(operation::multiply, kind::real,
                        {load(input("key_scales", element_type::f32, {along(axis_kind::batch), along(axis_kind::key)}),
                              kind::real, {b(), index(operation::kv_idx)}),
                         constant_real(1.0 / 64)});
    return add(operation::multiply, kind::real, {centred, scale});
}

node_id random_graph::of_kind(operation op, node_id real, node_id length) {
    return length >= 0 ? add(op, kind::tensor, {real, length}) : add(op, kind::tensor, {real});
}

/// Keys or values in pages, found by a table of each sequence's.
node_id random_graph::paged(operation op) {
    pages_ = true;
    const bool keys = op == operation::keys;
    const axis_kind channels = keys ? axis_kind::depth : axis_kind::value_depth;
    const node_id table = input("block_table", element_type::i32, {along(axis_kind::batch), along("seat")});
    const node_id slots = input("page_marks", element_type::f32, {along("slot")});
    const node_id slot = extent(slots, 0), key = index(operation::kv_idx);
    const node_id page = load(table, kind::integer, {b(), add(operation::divide, kind::integer, {key, slot})});
    const node_id x = cached(keys ? "key_pages" : "value_pages", channels, page,
                             add(operation::remainder, kind::integer, {key, slot}));
    return of_kind(op, x, add(operation::multiply, kind::integer, {extent(table, 1), slot}));
}

node_id random_graph::cached_keys() {
    if (one_in(2)) return paged(operation::keys);
    return of_kind(operation::keys, cached("key_codes", axis_kind::depth, no_node, no_node), no_node);
}

node_id random_graph::cached_values() {
    if (one_in(2)) return paged(operation::values);
    return of_kind(operation::values, cached("value_codes", axis_kind::value_depth, no_node, no_node), no_node);
}

node_id random_graph::dropped(node_id weights) {
    const node_id kept = add(operation::keep, kind::condition,
                             {constant_real(0.25), scalar("seed", element_type::i32), constant(below(3) - 1)});
    const node_id some = add(operation::where, kind::weights, {kept, weights, constant_real(0)});
    return one_in(2) ? some : add(operation::divide, kind::weights, {some, constant_real(0.75)});
}

/// An output times or beside reals of its channels, or nothing where its row is empty.
node_id random_graph::bent(node_id output, node_id maximum) {
    const node_id by_channel = load(input("value_gain", element_type::f32, {along(axis_kind::value_depth)}), kind::real,
                                    {index(operation::d_idx)});
    switch (below(3)) {
        case 0:
            return add(operation::multiply, kind::output,
                       {output, add(operation::as_output, kind::output, {by_channel})});
        case 1: {
            const node_id row = real(2, {.query = true});
            return add(operation::add, kind::output,
                       {output, add(operation::as_output, kind::output,
                                    {add(operation::multiply, kind::real, {by_channel, row})})});
        }
        default:
            return add(operation::where, kind::output,
                       {add(operation::greater, kind::condition, {maximum, constant_real(-1000000)}), output,
                        constant_real(0)});
    }
}

/// The heads side by side, times a matrix: the projection behind attention.
void random_graph::add_layer(node_id output) {
    if (!indices.empty()) return;  // its index is the first that the graph has
    indices.push_back("in");
    const node_id in = add({.op = operation::bound, .kind = kind::integer, .integer = 0});
    const node_id weight = input("out_weight", element_type::f32, {along("width"), along("joined")});
    const node_id channels = index(operation::value_depth);
    const node_id at = add(operation::divide, kind::integer, {in, channels}),
                  channel = add(operation::remainder, kind::integer, {in, channels});
    const node_id x = load(output, kind::real, {b(), at, index(operation::q_idx), channel});
    const node_id product =
        add(operation::multiply, kind::real, {x, load(weight, kind::real, {index(operation::d_idx), in})});
    const node_id whole = add(operation::multiply, kind::integer, {index(operation::heads), channels});
    const node_id length = add(operation::same, kind::integer, {extent(weight, 1), whole});
    const node_id joined = add(operation::sum, kind::real, {in, length, product});
    outputs.push_back({"layer", add(operation::tokens, kind::tokens, {joined, extent(weight, 0)})});
}

}  // namespace attune::testing
