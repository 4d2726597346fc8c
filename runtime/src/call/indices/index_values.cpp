#include "base/text.hpp"
#include "call/indices/indices.hpp"
#include "call/shape/formula.hpp"

#include <attune/ir/integer_operations.hpp>
#include <attune/ir/recurrence.hpp>
#include <attune/ir/stores.hpp>
#include <attune/runtime/error.hpp>

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <utility>

namespace attune::detail {
namespace {

/// Whether all are places 0 to `places` - 1; four at a time, since tables of pages are looked at in every call.
bool all_within(const std::int32_t* at, std::int64_t stride, std::int64_t count, std::int64_t places) {
    using four = std::uint32_t __attribute__((vector_size(16)));
    const auto last = static_cast<std::uint32_t>(places - 1);
    four outside{};  // the highest bit of x or of last - x, both below 2^31 where x is a place
    std::int64_t i = 0;
    for (; stride == 1 && i + 4 <= count; i += 4) {
        four x;
        std::memcpy(&x, at + i, sizeof x);
        outside |= x | (last - x);
    }
    std::uint32_t any = outside[0] | outside[1] | outside[2] | outside[3];
    for (; i < count; ++i) {
        const auto x = static_cast<std::uint32_t>(at[i * stride]);
        any |= x | (last - x);
    }
    return any >> 31 == 0;
}

/// Whether arithmetic may bring a number beyond 32 bits.
constexpr by_operation<family::arithmetic, bool> widens{
    {operation::negate, true},     {operation::absolute, true}, {operation::add, true},
    {operation::subtract, true},   {operation::multiply, true}, {operation::divide, false},
    {operation::remainder, false}, {operation::minimum, false}, {operation::maximum, false}};
bool may_wrap(operation op) { return family_of(op) == family::arithmetic && widens[op]; }

/// The integers of an index that arithmetic makes of elements: their size is known once these are read. Those that a
/// choice may leave out or that a sum adds up are not among them.
std::span<const node_id> made_of_elements(const call_numbers& call, node_id index, node_span<variation_bits> varies,
                                          node_span<node_id> room) {
    std::ranges::fill(room, no_node);
    room[index] = index;
    for (node_id at = index; at >= 0; --at) {
        const instruction& n = call.node(at);
        if (room[at] == no_node) continue;
        const bool computes = n.kind == kind::integer && (varies[at] & of_tensor) != 0 && n.op != operation::load &&
                              family_of(n.op) != family::selection && family_of(n.op) != family::sums;
        for (std::size_t i = 0; computes && i < n.argument_count; ++i) room[n.arguments[i]] = n.arguments[i];
        if (!computes || !may_wrap(n.op)) room[at] = no_node;
    }
    const auto others = std::ranges::remove(room, no_node);
    return {room.begin(), others.begin()};
}

class index_look {
public:
    index_look(const call_numbers& call, const index_use& use, node_span<variation_bits> varies)
        : call_(call), use_(use), varies_(varies) {}

    void run() {
        if (use_.is_entry && all_entries_within()) return;
        const std::size_t nodes = call_.graph.nodes.size();
        scratch room, memory;
        auto* const first = static_cast<node_id*>(room.take(2 * nodes * sizeof(node_id)));
        if (!first) throw std::bad_alloc();
        wraps_ = made_of_elements(call_, use_.index, varies_, node_span<node_id>({first + nodes, nodes}));
        std::span order = nodes_under(call_.graph, use_, node_span<node_id>({first, nodes}));
        const node_id quotient = all_quotients_of_keys(order);
        auto* const numbers = static_cast<std::byte*>(memory.take(number_run::bytes_for(nodes, order.size())));
        if (!numbers) throw std::bad_alloc();
        number_run values(call_, varies_, without_keys(order, quotient), quotient, numbers);
        divisor_ = quotient < 0 ? 1 : std::max<std::int64_t>(call_.number(call_.node(quotient).arguments[1]), 1);
        walk(values, of_batch, {});
        if (found_.count > 0) refuse(values);
    }

private:
    /// For an index that is an entry of a table itself: nothing is computed.
    bool all_entries_within() const {
        const instruction& entry = call_.node(use_.index);
        const instruction& key = call_.node(entry.arguments[2]);
        const std::int64_t divisor =
            key.op == operation::divide ? std::max<std::int64_t>(call_.number(key.arguments[1]), 1) : 1;
        const tensor& t = call_.read_by(entry)->view;
        const auto* const entries = static_cast<const std::int32_t*>(t.data());
        const std::int64_t rows = call_.given.kv_lengths ? call_.shape[axis_kind::batch] : t.extent(0);
        for (std::int64_t b = 0; b < rows; ++b) {
            const std::int64_t count = (call_.keys_in_use(b) + divisor - 1) / divisor;
            if (count > 0 && !all_within(entries + (t.extent(0) == 1 ? 0 : b * t.stride(0)),
                                         t.extent(1) == 1 ? 0 : t.stride(1), count, use_.places))
                return false;
        }
        return true;
    }

    /// kv_idx / n, if keys are asked for in no other way: then a look at each page will do.
    node_id all_quotients_of_keys(std::span<const node_id> order) const {
        node_id quotient = no_node;
        for (const node_id at : order) {
            const instruction& n = call_.node(at);
            for (std::size_t i = n.op == operation::load ? 1 : 0; i < n.argument_count; ++i) {
                if (call_.node(n.arguments[i]).op != operation::kv_idx) continue;
                if (n.op != operation::divide || i != 0 || quotient >= 0 || varies_[n.arguments[1]] != 0)
                    return no_node;
                quotient = at;
            }
        }
        return quotient;
    }
    std::span<const node_id> without_keys(std::span<node_id> order, node_id quotient) const {
        if (quotient < 0) return order;
        const auto kept =
            std::ranges::remove_if(order, [&](node_id at) { return call_.node(at).op == operation::kv_idx; });
        return order.first(order.size() - kept.size());
    }

    std::int64_t count_of(variation_bits variable, const number_place& place) const {
        const call_shape& shape = call_.shape;
        switch (variable) {
            case of_batch: return shape[axis_kind::batch];
            case of_head: return shape[axis_kind::head];
            case of_query: return shape[axis_kind::query];
            case of_key: return (call_.keys_in_use(place[of_batch]) + divisor_ - 1) / divisor_;
            case of_channel: return channels();
            default: return extent_of(variable);
        }
    }

    /// Loops over the variables, one within the other; neighbours of the innermost are taken together.
    void walk(number_run& values, variation_bits variable, number_place place) {
        const variation_bits variables = use_.varies & ~(of_tensor | not_before | of_sum);
        while (variable != 0 && (variables & variable) == 0) variable = variable <= variables ? variable << 1 : 0;
        if (variable == 0) return look(values, place, of_channel, 1);
        const bool last =
            variables < variable << 1 && variable != of_head && (variable != of_batch || !use_.ends_with_keys);
        const std::int64_t count = count_of(variable, place), step = last ? number_run::longest : 1;
        for (std::int64_t at = 0; at < count; at += step) {
            place[variable] = static_cast<std::int32_t>(at);
            if (last)
                look(values, place, variable, static_cast<int>(std::min(step, count - at)));
            else
                walk(values, variable << 1, place);
        }
    }

    void look(number_run& values, const number_place& place, variation_bits counting, int count) {
        values.compute(place, counting, count);
        const number_run::values& index = values[use_.index];
        const std::int64_t places =
            use_.ends_with_keys ? std::max<std::int64_t>(call_.keys_in_use(place[of_batch]), 1) : use_.places;
        std::int32_t lowest = index[0].integer, highest = lowest;
        const int some = index.step == 0 ? 1 : count;
        for (int i = 0; i < some; ++i)
            lowest = std::min(lowest, index.at[i].integer), highest = std::max(highest, index.at[i].integer);
        if (lowest >= 0 && highest < places && !any_wraps(values, some)) return;
        const auto counts = [&](int i) {
            return std::ranges::all_of(use_.guarded_by(), [&](const index_use::guard& each) {
                return (values[each.condition][i].integer != 0) == each.value;
            });
        };
        const int guarded = use_.guard_count > 0 ? count : some;  // an index that is one for all may count for some
        for (int i = 0; i < guarded; ++i) {
            const std::int32_t number = index[i].integer;
            const node_id wrapped = wrapped_at(values, i);
            if ((wrapped == no_node && number >= 0 && number < places) || !counts(i) || found_.count++ > 0) continue;
            found_.number = number, found_.places = places, found_.place = place, found_.wrapped = wrapped;
            found_.place[counting] += i;
        }
    }

    /// The first integer that leaves 32 bits at a position of a run; no_node: none does.
    node_id wrapped_at(const number_run& values, int i) const {
        for (const node_id at : wraps_)
            if (exact(values, at, i) != values[at][i].integer) return at;
        return no_node;
    }
    bool any_wraps(const number_run& values, int count) const {
        bool all_fit = true;
        for (const node_id at : wraps_)
            for (int i = 0; i < count; ++i) all_fit &= exact(values, at, i) == values[at][i].integer;
        return !all_fit;
    }
    std::int64_t exact(const number_run& values, node_id at, int i) const {
        const instruction& n = call_.node(at);
        return exact_integers::of(n.op)(values[n.arguments[0]][i].integer,
                                        values[n.arguments[n.argument_count > 1 ? 1 : 0]][i].integer);
    }

    // --- channels and sums that a use stands in, where all is looked at

    std::int64_t channels() const {
        std::int64_t most = 0;
        for (const node_id at : call_.graph.nodes.ids()) {
            const instruction& n = call_.node(at);
            if (n.op == operation::tokens && leads_to(n.arguments[0], use_.load))
                most = std::max(most, width_of_tokens(call_.shape, call_.graph, call_.given, at));
            if ((n.op == operation::queries || n.op == operation::keys) && leads_to(n.arguments[0], use_.load))
                most = std::max(most, call_.shape[axis_kind::depth]);
            if ((n.op == operation::values || n.op == operation::as_output) && leads_to(n.arguments[0], use_.load))
                most = std::max(most, call_.shape[axis_kind::value_depth]);
            for (std::size_t i = 0; n.op == operation::recurrence && i < n.argument_count; ++i)
                if (n.arguments[i] != arguments_of(n).value && leads_to(n.arguments[i], use_.load))
                    most = std::max(most, call_.shape[axis_kind::depth]);
        }
        for (const output_declaration& output : call_.graph.outputs)
            if (leads_to(output.node, use_.load)) most = std::max(most, call_.shape[axis_kind::value_depth]);
        for (const store_declaration& store : call_.graph.stores)
            if (const int axis = channel_axis(call_.graph.nodes, store);
                axis >= 0 && (leads_to(store.element, use_.load) || leads_to(store.value, use_.load)))
                most = std::max(most, call_.places(call_.node(store.element), static_cast<std::size_t>(axis)));
        return most > 0 ? most : call_.shape[axis_kind::value_depth];
    }
    std::int64_t extent_of(variation_bits bound) const {
        if (bound == of_value_channel) return call_.shape[axis_kind::value_depth];
        const instruction& use = call_.node(use_.load);
        if (use.op == operation::deposit) {
            const node_id extent = extent_of_deposit(call_.graph, use, std::countr_zero(bound / of_bound));
            return extent < 0 ? 0 : call_.number(extent);
        }
        std::int64_t most = 0;
        for (const instruction& n : call_.graph.nodes)
            each_bound_index(n, [&](node_id counted, node_id extent, node_id body) {
                if (varies_[counted] == bound && leads_to(body, use_.load)) most = std::max(most, call_.number(extent));
            });
        return most;
    }
    /// Within the formula of one tensor: another tensor has channels of its own.
    bool leads_to(node_id from, node_id load) const {
        if (from <= load) return from == load;
        const instruction& n = call_.node(from);
        if (n.kind == kind::tensor || n.kind == kind::tokens || n.op == operation::as_output) return false;
        if (n.op == operation::recurrence) return leads_to(arguments_of(n).value, load);
        const auto first = n.arguments.begin() + (n.op == operation::load ? 1 : 0);
        return std::any_of(first, n.arguments.begin() + n.argument_count,
                           [&](node_id each) { return leads_to(each, load); });
    }

    // --- words

    /// " at (batch 1, page 3)" if an index is an element itself; else " at (b 1, kv_idx 48)"; empty for a number of the
    /// whole call.
    std::string place_of(const number_run& values) const {
        std::string place;
        const auto add = [&](std::string_view name, std::int64_t at) { add_part(place, say(name, " ", at)); };
        const instruction& n = call_.node(use_.index);
        if (n.op == operation::load) {
            for (std::size_t axis = 0; axis + 1 < n.argument_count; ++axis) {
                const input_declaration& read = call_.graph.inputs[static_cast<std::size_t>(call_.input_of(n))];
                add(read.axes[axis].name,
                    call_.shape.as_counted_outside(read, axis, values[n.arguments[axis + 1]][0].integer));
            }
            return say(" at (", place, ")");
        }
        const variation_bits varies = varies_[use_.index];
        static constexpr std::pair<variation_bits, std::string_view> positions[] = {
            {of_batch, "b"},    {of_head, "h"},        {of_query, "q_idx"},
            {of_key, "kv_idx"}, {of_channel, "d_idx"}, {of_value_channel, "value_idx"}};
        for (const auto& [variable, name] : positions)
            if ((varies & variable) != 0)
                add(name, found_.place[variable] * (variable == of_key ? divisor_ : 1) +
                              (variable == of_batch ? call_.shape.first_batch : 0));
        return place.empty() ? place : say(" at (", place, ")");
    }

    [[noreturn]] void refuse(number_run& values) const {
        values.compute(found_.place, of_head, 1);
        const instruction& n = call_.node(use_.index);
        const bool from_tensor = (varies_[use_.index] & of_tensor) != 0;
        if (found_.wrapped != no_node)
            fail(say(formula_of(call_.graph, found_.wrapped), " from ", integer_interval::least, " to ",
                     integer_interval::most, ", integers of 32 bits, in an index along ", axis_name(call_, use_),
                     " of ", tensor_name(call_, use_)),
                 say(exact(values, found_.wrapped, 0), place_of(values),
                     found_.count > 1 ? say(", the first of ", found_.count) : ""),
                 say("elements that are places of ", tensor_name(call_, use_), ", or an index for each axis of it"));
        const std::string what =
            n.op == operation::load
                ? std::string(call_.graph.inputs[static_cast<std::size_t>(call_.node(n.arguments[0]).input)].name)
                : formula_of(call_.graph, use_.index);
        fail(say(what, " from 0 to ", found_.places - 1, use_.ends_with_keys ? ", the keys in use" : "",
                 ", an index along ", axis_name(call_, use_), " of ", tensor_name(call_, use_)),
             say(found_.number, place_of(values), found_.count > 1 ? say(", the first of ", found_.count) : ""),
             std::ranges::find(call_.graph.stores, use_.load, &store_declaration::element) != call_.graph.stores.end()
                 ? say("a place in ", tensor_name(call_, use_), " for all that is stored",
                       n.op == operation::load && found_.number < 0 ? ", or a condition in store(...) for padding" : "",
                       "; kv_lengths count the new keys")
             : from_tensor
                 ? say("entries that are places of ", tensor_name(call_, use_), " wherever the lengths in use reach")
                 : say("a longer ", tensor_name(call_, use_), ", or positions that are in it"));
    }

    const call_numbers& call_;
    const index_use& use_;
    node_span<variation_bits> varies_;
    std::span<const node_id> wraps_;  // what may leave 32 bits
    std::int64_t divisor_ = 1;        // keys that a position stands for
    struct {
        std::int64_t count, places;
        std::int32_t number;
        number_place place;
        node_id wrapped;  ///< what left 32 bits; no_node: the index itself is beyond its axis
    } found_{};
};

}  // namespace

/// One store of an element, whose value nothing else reads: equal nodes of a graph are one.
void guard_by_store(const graph_ir& graph, index_use& use) {
    const auto readers = [&](node_id node) {
        return std::ranges::count_if(graph.nodes, [&](const instruction& n) {
            const auto end = n.arguments.begin() + n.argument_count;
            return std::find(n.arguments.begin(), end, node) != end;
        });
    };
    if (std::ranges::count(graph.stores, use.load, &store_declaration::element) != 1) return;
    const auto& store = *std::ranges::find(graph.stores, use.load, &store_declaration::element);
    const stored_value written = value_of(graph.nodes, store);
    if (written.has_condition() && readers(use.load) == 1 && readers(store.value) == 0)
        use.guards[use.guard_count++] = {written.condition, true};
}

void look_at(const call_numbers& call, const index_use& use, node_span<variation_bits> varies) {
    index_look(call, use, varies).run();
}

}  // namespace attune::detail
