#include "random_graph.hpp"

#include <attune/ir/element.hpp>

#include <algorithm>
#include <optional>

namespace attune::testing {
namespace {

constexpr axis_declaration along(axis_kind a) { return {a, name_of(a)}; }

}  // namespace

/// The value that a query's own token leaves in a cache: an element of `<name>_new`, rounded there and in the reference
/// alike. Only what is kept as f32 may be a formula besides, as elsewhere a float's last bit would decide which of two
/// numbers of fewer bits is the nearest.
node_id random_graph::new_number(const input_declaration& to) {
    const std::string_view name = lasting(std::string(to.name) + "_new");
    const node_id query = index(operation::q_idx);
    if (to.rank == 2) {
        const bool whole = is_integer(to.element);
        const element_type element = whole ? element_type::i32 : element_type::f32;
        const node_id x = load(input(name, element, {along(axis_kind::batch), along(axis_kind::query)}),
                               whole ? kind::integer : kind::real, {b(), query});
        if (!whole) return x;
        const node_id above = add(operation::maximum, kind::integer, {x, constant(-100)});
        return add(operation::minimum, kind::integer, {above, constant(2000)});
    }
    const axis_declaration channels = to.axes[3];
    const node_id x =
        load(input(name, element_type::f32,
                   {along(axis_kind::batch), along(axis_kind::key_head), along(axis_kind::query), channels}),
             kind::real, {b(), h(), query, index(operation::d_idx)});
    if (is_integer(to.element)) {
        const int lowest = to.element == element_type::u8 ? 0 : -128;
        const node_id code =
            add(operation::to_integer, kind::integer,
                {add(operation::round, kind::real, {add(operation::multiply, kind::real, {x, constant_real(32)})})});
        const node_id moved = add(operation::add, kind::integer, {code, constant(lowest + 128)});
        const node_id above = add(operation::maximum, kind::integer, {moved, constant(lowest)});
        return add(operation::minimum, kind::integer, {above, constant(lowest + 255)});
    }
    if (one_in(3)) return add(operation::multiply, kind::real, {x, constant_real(-0.5)});
    const bool wide = to.element == element_type::f32 || to.element == element_type::any;
    if (!wide || one_in(2)) return x;
    const node_id part = add(operation::tanh, kind::real, {real(2, {.query = true, .channel = true})});
    return add(operation::multiply, kind::real, {x, part});
}

/// Each query's token to its own place, as in decode. False for what is no tensor of keys.
bool random_graph::draw_store(const input_declaration& to) {
    const bool kept = to.name == "key_scales" || to.name == "by_key" || to.name == "place";
    const bool pages = to.name == "key_pages" || to.name == "value_pages";
    const bool rows = to.name == "k" || to.name == "v" || to.name == "key_codes" || to.name == "value_codes" || pages;
    if (!kept && !rows) return false;
    const node_id before =
        add(operation::subtract, kind::integer, {index(operation::kv_lengths), index(operation::query_length)});
    const node_id key = add(operation::add, kind::integer, {index(operation::q_idx), before});
    const auto own = std::ranges::find(inputs, to) - inputs.begin();
    const node_id tensor = add({.op = operation::input, .kind = kind::tensor, .input = static_cast<std::int16_t>(own)});
    const kind is = is_integer(to.element) ? kind::integer : kind::real;
    node_id element{};
    if (kept) {
        element = load(tensor, is, {b(), key});
    } else if (pages) {
        const node_id table =
            input("block_table", element_type::i32, {along(axis_kind::batch), {axis_kind::free, "seat"}});
        const node_id slot = extent(input("page_marks", element_type::f32, {{axis_kind::free, "slot"}}), 0);
        const node_id page = load(table, kind::integer, {b(), add(operation::divide, kind::integer, {key, slot})});
        element = load(tensor, is,
                       {page, h(), add(operation::remainder, kind::integer, {key, slot}), index(operation::d_idx)});
    } else {
        element = load(tensor, is, {b(), h(), key, index(operation::d_idx)});
    }
    // A formula may read what is stored, or a query head's: then another one.
    for (int tries = 0; tries < 30; ++tries) {
        stores.push_back({element, new_number(to)});
        if (fault().empty()) return true;
        stores.pop_back();
    }
    return false;
}

void random_graph::draw_stores() {
    std::vector<input_declaration> all = inputs;
    std::ranges::shuffle(all, random_);
    for (const input_declaration& each : all)
        if (stores.empty() || one_in(2)) draw_store(each);
}

}  // namespace attune::testing
