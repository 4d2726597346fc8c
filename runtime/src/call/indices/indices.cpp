#include "call/indices/indices.hpp"
#include "base/text.hpp"
#include "call/shape/formula.hpp"

#include <attune/ir/projections.hpp>
#include <attune/runtime/error.hpp>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <new>

namespace attune::detail {
namespace {

/// The axes of which a position is a place; `own`: of an input whose axis has a length of its own.
using is_place = bool (*)(axis_kind along, bool own);
constexpr is_place no_position = [](axis_kind, bool) { return false; };
constexpr by_operation<family::terminal, is_place> positions{
    {operation::b, [](axis_kind along, bool) { return along == axis_kind::batch; }},
    {operation::h, [](axis_kind along, bool) { return along == axis_kind::head || along == axis_kind::key_head; }},
    {operation::q_idx,
     [](axis_kind along, bool own) { return !own && (along == axis_kind::query || along == axis_kind::position); }},
    {operation::kv_idx,
     [](axis_kind along, bool own) { return !own && (along == axis_kind::key || along == axis_kind::position); }},
    {operation::d_idx,
     [](axis_kind along, bool) { return along == axis_kind::depth || along == axis_kind::value_depth; }},
    {operation::constant, no_position},
    {operation::bound, no_position},
    {operation::input, no_position},
    {operation::scalar, no_position},
    {operation::kv_lengths, no_position},
    {operation::depth, no_position},
    {operation::value_depth, no_position},
    {operation::query_length, no_position},
    {operation::key_length, no_position},
    {operation::heads, no_position},
    {operation::key_heads, no_position},
    {operation::batches, no_position}};

/// The position itself, along an axis that is as long as there are such positions.
bool is_own_position(const call_numbers& call, const instruction& load, std::size_t axis) {
    const instruction& index = call.node(load.arguments[axis + 1]);
    const axis_kind along = call.along(load, axis);
    if (index.op == operation::value_idx) return along == axis_kind::value_depth;
    if (family_of(index.op) != family::terminal) return false;
    if (load.op == operation::deposit && index.op == operation::bound) {  // a channel, as gradients call it
        const node_id extent = extent_of_deposit(call.graph, load, index.integer);
        return extent >= 0 && positions[operation::d_idx](along, false) &&
               call.node(extent).op == (along == axis_kind::depth ? operation::depth : operation::value_depth);
    }
    const int input = call.input_of(load);
    if (index.op == operation::d_idx && input < 0) return true;
    return positions[index.op](along, input >= 0 && call.shape.is_own(static_cast<std::size_t>(input), along));
}

class index_search {
public:
    index_search(const call_numbers& call, bool all, scratch& facts, std::pmr::vector<index_use>& found)
        : call_(call), all_(all), facts_(facts), found_(found) {}

    void run() {
        if (may_overflow()) check_overflows();
        for (const node_id at : call_.graph.nodes.ids()) {
            const instruction& n = call_.node(at);
            if (n.op != operation::load && n.op != operation::deposit) continue;
            if (is_formed(call_.node(n.arguments[0]).op)) continue;  // read by gradients, at their own positions
            for (std::size_t axis = 0; axis + 1 < n.argument_count; ++axis)
                if (!is_own_position(call_, n, axis)) check(at, axis);
        }
    }

private:
    using reach = std::uint8_t;
    static constexpr reach read = 1, always = 2;  // its value is: in some branch; whatever conditions say
    static constexpr reach chosen = 4;            // it is 0 where some condition says so
    static constexpr reach place = 8;             // an integer that some index is made of

    /// What is known of all nodes, made when the first index asks.
    void analyse() {
        if (facts_.data()) return;
        const std::size_t count = call_.graph.nodes.size();
        auto* at = static_cast<std::byte*>(
            facts_.take(count * (sizeof(variation_bits) + sizeof(integer_interval) + sizeof(node_id) + sizeof(reach))));
        if (!at) throw std::bad_alloc();
        const auto next = [&]<class T>(node_span<T>& to) {
            to = node_span<T>({reinterpret_cast<T*>(at), count});
            at += count * sizeof(T);
        };
        next(ranges_), next(varies_), next(order_), next(reached_);
        find_variations(call_.graph, varies_);
        find_ranges(call_, ranges_);
        mark_reached();
        mark_chosen();
        mark_places();
    }

    /// Whether a sum of lengths and constants, each doubled by each addition, may leave 32 bits: of most graphs it may
    /// not, and nothing else has to be asked.
    bool may_overflow() const {
        const auto bits_of = [](std::int64_t x) {
            return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(std::abs(x))));
        };
        int widest = 1, additions = 0;
        for (const std::int64_t extent : call_.shape.extents) widest = std::max(widest, bits_of(extent));
        for (const instruction& n : call_.graph.nodes) {
            if (n.kind != kind::integer) continue;
            const auto is_one_of = [&](std::initializer_list<operation> all) {
                return std::ranges::find(all, n.op) != all.end();
            };
            if (is_one_of({operation::multiply, operation::extent, operation::bound, operation::d_idx, operation::sum}))
                return true;
            if (is_one_of({operation::negate, operation::absolute, operation::add, operation::subtract})) ++additions;
            if (n.op == operation::constant) widest = std::max(widest, bits_of(n.integer));
            if (n.op == operation::scalar)
                widest = std::max(widest, bits_of(call_.given.inputs[static_cast<std::size_t>(n.input)]->integer));
        }
        return widest + additions > 31;
    }

    /// An index that leaves 32 bits would wrap around and read another element. Integers that make no index wrap around
    /// in every kernel, as the language says.
    void check_overflows() {
        analyse();
        for (const node_id at : ranges_.ids()) {
            if ((reached_[at] & place) == 0 || !ranges_[at].overflows()) continue;
            const bool above = ranges_[at].is_above();
            constexpr variation_bits of_positions = of_batch | of_head | of_query | of_key | of_channel;
            const bool varies = (varies_[at] & (of_positions | ~(of_bound - 1))) != 0;
            fail(say(formula_of(call_.graph, at), " from ", integer_interval::least, " to ", integer_interval::most,
                     ", integers of 32 bits"),
                 say(above ? "up to " : "down to ", above ? ranges_[at].highest : ranges_[at].lowest,
                     varies ? " at this call's lengths" : ""),
                 varies ? "an index for each axis of a table, reals (as_real) where no index is meant, or fewer "
                          "positions a call"
                        : "smaller numbers");
        }
    }

    /// The indices of loads and deposits, and the integers that these are made of.
    void mark_places() {
        for (node_id at = reached_.ids().last(); at >= 0; --at) {
            const instruction& n = call_.node(at);
            const bool reads = n.op == operation::load || n.op == operation::deposit,
                       computes = n.kind == kind::integer && (reached_[at] & place) != 0;
            for (std::size_t i = 0; i < n.argument_count; ++i) {
                const node_id argument = n.arguments[i];
                if (call_.node(n.arguments[i]).kind == kind::integer && ((reads && i > 0) || (computes && !reads)))
                    reached_[argument] |= place;
            }
        }
    }

    /// Branches of where(), and what && and || may leave out, are not always read.
    void mark_reached() {
        std::ranges::fill(reached_, reach{0});
        for (const output_declaration& output : call_.graph.outputs) reached_[output.node] = read | always;
        for (const auto& [element, value] : call_.graph.stores) reached_[element] = reached_[value] = read | always;
        for (node_id at = reached_.ids().last(); at >= 0; --at) {
            const instruction& n = call_.node(at);
            for (std::size_t i = 0; i < n.argument_count; ++i) {
                const bool is_choice = (n.op == operation::where && i > 0) || n.op == operation::logical_and ||
                                       n.op == operation::logical_or;
                reached_[n.arguments[i]] |= is_choice ? reached_[at] & read : reached_[at];
            }
        }
    }

    /// where(condition, x, 0), times what it is multiplied by on its way to a gradient, and summed.
    void mark_chosen() {
        const auto is = [&](node_id at) { return (reached_[at] & chosen) != 0; };
        const auto is_zero = [&](node_id at) {
            const instruction& n = call_.node(at);
            return n.op == operation::constant && n.integer == 0 && n.number == 0;
        };
        for (const node_id at : reached_.ids()) {
            const instruction& n = call_.node(at);
            const node_id first = n.arguments[0], last = n.arguments[n.argument_count > 0 ? n.argument_count - 1u : 0u];
            if (n.op == operation::where      ? is_zero(n.arguments[1]) || is_zero(last)
                : n.op == operation::multiply ? is(first) || is(last)
                : n.op == operation::negate   ? is(first)
                : family_of(n.op) == family::sums || n.op == operation::each
                    ? is(last)
                    : (n.op == operation::add || n.op == operation::subtract) && is(first) && is(last))
                reached_[at] |= chosen;
        }
    }

    /// Whether an index counts whatever conditions say.
    bool is_always(node_id load) const {
        const instruction& n = call_.node(load);
        if (n.op == operation::deposit) return (reached_[n.arguments[0]] & chosen) == 0;
        return (reached_[load] & always) != 0;
    }

    void check(node_id load, std::size_t axis) {
        analyse();
        const instruction& n = call_.node(load);
        // A call without queries or keys is not refused: none of its reads counts.
        const std::int64_t at_least = call_.along(n, axis) == axis_kind::free ? 0 : 1;
        index_use use{load, n.arguments[axis + 1], axis, std::max(call_.places(n, axis), at_least),
                      call_.ends_with_keys(n, axis)};
        const node_id index = use.index;
        const variation_bits varies = varies_[index];
        if (!use.ends_with_keys && ranges_[index].is_within(use.places)) return;
        if (reached_[load] == 0 || (varies & not_before) != 0) return;
        if (call_.node(use.index).op == operation::bound) return check_sums(use);
        // Kernels do not check an index that a channel alone makes. In a gradient the channel is a bound index.
        const bool of_channels = varies == of_channel || varies == of_value_channel ||
                                 (n.op == operation::deposit && varies >= of_bound && std::has_single_bit(varies));
        const bool of_pairs = (varies & of_query) != 0 && (varies & of_key) != 0,
                   is_long = !of_channels && (of_pairs || (varies & (of_channel | of_sum | ~(of_bound - 1))) != 0);
        guard_by_store(call_.graph, use);
        // An index that positions make may lie beyond its axis if a condition says that it does not count.
        if ((varies & of_tensor) == 0) {
            if (all_ ? !find_guards(use) : of_pairs || !is_always(load)) return;
        }
        if (is_long && !all_) return;
        add(use, varies);
    }

    /// The conditions under which an index counts, from the read up to a node that is always computed. False if they
    /// are unknown: the read has several users, or a condition that only the kernel knows.
    bool find_guards(index_use& use) const {
        if (is_always(use.load)) return true;
        const instruction& first = call_.node(use.load);
        if (first.op == operation::deposit) return false;
        constexpr variation_bits unknown = not_before | ~(of_bound - 1);
        for (node_id at = use.load; (reached_[at] & always) == 0;) {
            node_id user = no_node;
            int argument = 0;
            for (node_id other = node_at(at + 1); other <= reached_.ids().last(); ++other) {
                const instruction& n = call_.node(other);
                for (std::size_t i = 0; i < n.argument_count; ++i) {
                    if (n.arguments[i] != at) continue;
                    if (user >= 0) return false;
                    user = other, argument = static_cast<int>(i);
                }
            }
            if (user < 0) return false;
            const instruction& n = call_.node(user);
            const bool both = n.op == operation::logical_and, either = n.op == operation::logical_or,
                       of_where = n.op == operation::where && argument > 0;
            if (both || either || of_where) {
                const node_id condition = n.arguments[of_where ? 0 : static_cast<std::size_t>(1 - argument)];
                if (use.guard_count == index_use::most_guards || (varies_[condition] & unknown) != 0) return false;
                use.guards[use.guard_count++] = {condition, both || (of_where && argument == 1)};
            }
            at = user;
        }
        return (varies_[use.index] & unknown) == 0 || use.guard_count == 0;
    }

    void add(index_use use, variation_bits varies) {
        for (const index_use::guard& each : use.guarded_by()) varies |= varies_[each.condition];
        const std::span<const node_id> order = nodes_under(call_.graph, use, order_);
        if (std::ranges::any_of(order, [&](node_id at) { return is_elsewhere(call_.node(at)); })) return;
        const named_argument* const lengths = call_.given.kv_lengths;
        if (lengths && lengths->view.where() != memory::host && (use.ends_with_keys || (varies & of_key) != 0)) return;
        use.is_entry = !use.ends_with_keys && use.guard_count == 0 && is_entry(call_.node(use.index));
        if (use.ends_with_keys || ((varies & of_key) != 0 && lengths)) varies |= of_batch;
        use.varies = varies;
        found_.push_back(use);
        // Other uses of the index may have more channels, or longer sums.
        const bool alike = (varies & (of_channel | ~(of_bound - 1))) == 0 && use.guard_count == 0;
        if (alike && !use.ends_with_keys) ranges_[use.index] = {0, use.places - 1};
    }

    bool is_elsewhere(const instruction& n) const {
        return n.op == operation::load && call_.read_by(n)->view.where() != memory::host;
    }

    /// The entry of a table for a sequence and a key, or a page of keys; the table has every such place.
    bool is_entry(const instruction& n) const {
        if (n.op != operation::load || call_.read_by(n)->view.type() != element_type::i32) return false;
        for (std::size_t axis = 0; axis + 1 < n.argument_count; ++axis) {
            const instruction& at = call_.node(n.arguments[axis + 1]);
            const bool page = at.op == operation::divide && call_.node(at.arguments[0]).op == operation::kv_idx &&
                              varies_[at.arguments[1]] == 0;
            if (axis + 2 < n.argument_count ? at.op != operation::b : at.op != operation::kv_idx && !page) return false;
            if (!ranges_[n.arguments[axis + 1]].is_within(call_.places(n, axis))) return false;
        }
        return n.argument_count == 3;
    }

    /// An axis that a sum runs over: as many places as the sum says.
    void check_sums(const index_use& use) {
        const instruction& index = call_.node(use.index);
        const auto check_extent = [&](std::int64_t extent, auto counts) {
            if (extent > use.places && counts())
                fail(say("at least ", extent, " places along ", axis_name(call_, use), " of ", tensor_name(call_, use),
                         ", over which a sum runs"),
                     say(use.places), "tensors that are as long there as what they are multiplied by");
        };
        if (call_.node(use.load).op == operation::deposit) {
            const node_id extent = extent_of_deposit(call_.graph, call_.node(use.load), index.integer);
            return check_extent(extent < 0 ? 0 : call_.number(extent), [] { return true; });
        }
        for (node_id at = node_at(use.load + 1); at <= call_.graph.nodes.ids().last(); ++at) {
            const instruction& n = call_.node(at);
            each_bound_index(n, [&](node_id counted, node_id extent, node_id body) {
                if (call_.node(counted).integer == index.integer)
                    check_extent(call_.number(extent), [&] { return is_in_body(use.load, counted, body); });
            });
        }
    }

    /// Whether a sum always adds the element that a load reads.
    bool is_in_body(node_id load, node_id counted, node_id body) {
        const variation_bits index = varies_[counted];
        node_span<node_id> within = order_;  // itself where the body reads it
        std::ranges::fill(within, no_node);
        within[body] = body;
        for (node_id at = body; at > load; --at) {
            const instruction& n = call_.node(at);
            if (within[at] == no_node || (varies_[at] & index) == 0) continue;
            if (n.op == operation::where || n.op == operation::logical_and || n.op == operation::logical_or) continue;
            for (std::size_t i = 0; i < n.argument_count; ++i) within[n.arguments[i]] = n.arguments[i];
        }
        return within[load] != no_node;
    }

    const call_numbers& call_;
    bool all_;
    scratch& facts_;
    std::pmr::vector<index_use>& found_;
    node_span<integer_interval> ranges_;
    node_span<variation_bits> varies_;
    node_span<node_id> order_;
    node_span<reach> reached_;

public:
    node_span<variation_bits> varies() const { return varies_; }
};

}  // namespace

std::span<node_id> nodes_under(const graph_ir& graph, const index_use& use, node_span<node_id> room) {
    std::ranges::fill(room, no_node);  // itself where a node is needed
    node_id last = use.index;
    room[last] = last;
    for (const index_use::guard& each : use.guarded_by())
        last = std::max(last, each.condition), room[each.condition] = each.condition;
    for (node_id at = last; at >= 0; --at) {
        const instruction& n = node_of(graph, at);
        if (room[at] == no_node || n.op == operation::extent) continue;
        for (std::size_t i = n.op == operation::load ? 1 : 0; i < n.argument_count; ++i)
            room[n.arguments[i]] = n.arguments[i];
    }
    const auto others = std::ranges::remove(room, no_node);
    return {room.begin(), others.begin()};
}

node_id extent_of_deposit(const graph_ir& graph, const instruction& deposit, std::int64_t index) {
    const instruction* n = &node_of(graph, deposit.arguments[0]);
    for (; n->op == operation::each; n = &node_of(graph, n->arguments[2]))
        if (node_of(graph, n->arguments[0]).integer == index) return n->arguments[1];
    return no_node;
}

std::string_view tensor_name(const call_numbers& call, const index_use& use) {
    const int input = call.input_of(call.node(use.load));
    return input >= 0 ? call.graph.inputs[static_cast<std::size_t>(input)].name
                      : std::string_view("what the kernel computes");
}

std::string_view axis_name(const call_numbers& call, const index_use& use) {
    const int input = call.input_of(call.node(use.load));
    return input >= 0 ? call.graph.inputs[static_cast<std::size_t>(input)].axes[use.axis].name
                      : name_of(call.along(call.node(use.load), use.axis));
}

void index_checks::find(const call_numbers& call, bool all) {
    index_search search(call, all, facts_, uses_);
    search.run();
    varies_ = search.varies();
}

void index_checks::look(const call_numbers& call) const {
    for (const index_use& use : uses_) look_at(call, use, varies_);
}

}  // namespace attune::detail
