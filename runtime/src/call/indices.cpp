#include "call/indices.hpp"
#include "base/text.hpp"
#include "call/formula.hpp"
#include "call/numbers.hpp"
#include "execution/workspace.hpp"

#include <attune/runtime/error.hpp>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <optional>

namespace attune::detail {
namespace {

/// An index that is read at, of which nothing says yet that it is inside its axis.
struct index_use {
    int load, index;
    std::size_t axis;
    std::int64_t places;
    bool ends_with_keys;
};

/// The position itself, along an axis that is as long as there are such positions.
bool is_own_position(const call_numbers& call, const instruction& load, std::size_t axis, operation index) {
    const axis_kind along = call.along(load, axis);
    const instruction& of = call.node(load.arguments[0]);
    const bool own = of.op == operation::input && call.shape.is_own(static_cast<std::size_t>(of.input), along);
    switch (index) {
        case operation::b: return along == axis_kind::batch;
        case operation::h: return along == axis_kind::head || along == axis_kind::key_head;
        case operation::q_idx: return !own && (along == axis_kind::query || along == axis_kind::position);
        case operation::kv_idx: return !own && (along == axis_kind::key || along == axis_kind::position);
        case operation::d_idx:
            return along == axis_kind::depth || along == axis_kind::value_depth || of.op != operation::input;
        default: return false;
    }
}

class index_check {
public:
    index_check(const call_numbers& call, bool all) : call_(call), all_(all) {}

    void run() {
        const std::span nodes = call_.graph.nodes;
        for (std::size_t at = 0; at < nodes.size(); ++at) {
            const instruction& n = nodes[at];
            if (n.op != operation::load) continue;
            for (std::size_t axis = 0; axis + 1 < n.argument_count; ++axis)
                if (!is_own_position(call_, n, axis, call_.node(n.arguments[axis + 1]).op))
                    check(static_cast<int>(at), axis);
        }
    }

private:
    using reach = std::uint8_t;
    static constexpr reach read = 1, always = 2;  // its value is: in some branch; whatever conditions say

    static std::byte* taken(scratch& block, std::size_t bytes) {
        if (!block.take(bytes)) throw std::bad_alloc();
        return block.data();
    }

    /// What is known of all nodes, made when the first index asks.
    void analyse() {
        if (facts_.data()) return;
        const std::size_t count = call_.graph.nodes.size();
        std::byte* at = taken(
            facts_, count * (sizeof(number_range) + sizeof(variation_bits) + sizeof(std::int16_t) + sizeof(reach)));
        const auto next = [&]<class T>(std::span<T>& to) {
            to = {reinterpret_cast<T*>(at), count};
            at += count * sizeof(T);
        };
        next(ranges_), next(varies_), next(order_), next(reached_);
        find_variations(call_, varies_);
        for (std::size_t n = 0; n < count; ++n) ranges_[n] = range_of(call_, static_cast<int>(n), ranges_.first(n));
        mark_reached();
    }

    /// Branches of where(), and what && and || may leave out, are not always read.
    void mark_reached() {
        std::ranges::fill(reached_, reach{0});
        for (const output_declaration& output : call_.graph.outputs)
            reached_[static_cast<std::size_t>(output.node)] = read | always;
        for (std::size_t at = reached_.size(); at-- > 0;) {
            const instruction& n = call_.node(static_cast<int>(at));
            for (std::size_t i = 0; i < n.argument_count; ++i) {
                const bool is_choice = (n.op == operation::where && i > 0) || n.op == operation::logical_and ||
                                       n.op == operation::logical_or;
                reached_[static_cast<std::size_t>(n.arguments[i])] |= is_choice ? reached_[at] & read : reached_[at];
            }
        }
    }

    void check(int load, std::size_t axis) {
        analyse();
        const instruction& n = call_.node(load);
        // A call without queries or keys is none to refuse: nothing of what it reads there counts.
        const std::int64_t none = call_.along(n, axis) == axis_kind::free ? 0 : 1;
        const index_use use{load, n.arguments[axis + 1], axis, std::max(call_.places(n, axis), none),
                            call_.ends_with_keys(n, axis)};
        const auto index = static_cast<std::size_t>(use.index);
        const variation_bits varies = varies_[index];
        if (!use.ends_with_keys && ranges_[index].is_within(use.places)) return;
        if (reached_[static_cast<std::size_t>(load)] == 0 || (varies & not_before) != 0) return;
        if (call_.node(use.index).op == operation::bound) return check_sums(use);
        // Kernels do not look at what a channel alone makes.
        const bool of_pairs = (varies & of_query) != 0 && (varies & of_key) != 0,
                   is_long =
                       varies != of_channel && (of_pairs || (varies & (of_channel | of_sum | ~(of_bound - 1))) != 0);
        // What positions make is read beyond its axis where a condition says that it does not count.
        if ((varies & of_tensor) == 0 && (of_pairs || (reached_[static_cast<std::size_t>(load)] & always) == 0)) return;
        if (is_long && !all_) return;
        scan(use, varies);
    }

    /// An axis that a sum runs over: as many places as the sum says.
    void check_sums(const index_use& use) {
        const instruction& index = call_.node(use.index);
        for (std::size_t at = static_cast<std::size_t>(use.load) + 1; at < call_.graph.nodes.size(); ++at) {
            const instruction& n = call_.node(static_cast<int>(at));
            if ((n.op != operation::sum && n.op != operation::any) ||
                call_.node(n.arguments[0]).integer != index.integer)
                continue;
            if (const std::int64_t extent = call_.number(n.arguments[1]);
                extent > use.places && is_in_body(use.load, n))
                fail(say("at least ", extent, " places along ", axis_name(use), " of ", tensor_name(use),
                         ", over which a sum runs"),
                     say(use.places), "tensors that are as long there as what they are multiplied by");
        }
    }

    /// Whether a sum adds what a load reads, and always does.
    bool is_in_body(int load, const instruction& sum) {
        const variation_bits index = varies_[static_cast<std::size_t>(sum.arguments[0])];
        const std::span within = order_;  // 1 where the body reads it
        std::ranges::fill(within, std::int16_t{0});
        within[static_cast<std::size_t>(sum.arguments[2])] = 1;
        for (int at = sum.arguments[2]; at > load; --at) {
            const instruction& n = call_.node(at);
            if (within[static_cast<std::size_t>(at)] == 0 || (varies_[static_cast<std::size_t>(at)] & index) == 0)
                continue;
            if (n.op == operation::where || n.op == operation::logical_and || n.op == operation::logical_or) continue;
            for (std::size_t i = 0; i < n.argument_count; ++i) within[static_cast<std::size_t>(n.arguments[i])] = 1;
        }
        return within[static_cast<std::size_t>(load)] != 0;
    }

    // --- every index of a use

    void scan(const index_use& use, variation_bits varies) {
        const std::span<const std::int16_t> order = collect(use.index);
        if (std::ranges::any_of(order, [&](std::int16_t at) { return is_elsewhere(call_.node(at)); })) return;
        const named_argument* const lengths = call_.given.kv_lengths;
        if (lengths && lengths->view.where() != memory::host && (use.ends_with_keys || (varies & of_key) != 0)) return;
        const int quotient = all_quotients_of_keys(order);
        scratch memory;
        number_run values(call_, varies_, without_keys(order, quotient), quotient,
                          taken(memory, number_run::bytes_for(call_.graph.nodes.size(), order.size())));
        found_ = {};
        divisor_ = quotient < 0 ? 1 : std::max<std::int64_t>(call_.number(call_.node(quotient).arguments[1]), 1);
        if (use.ends_with_keys || ((varies & of_key) != 0 && call_.given.kv_lengths)) varies |= of_batch;
        walk(use, values, varies, of_batch, {});
        if (found_.count > 0) refuse(use, values);
        // Other uses of the index may have more channels, or longer sums.
        const bool alike = (varies & (of_channel | ~(of_bound - 1))) == 0;
        if (alike && !use.ends_with_keys) ranges_[static_cast<std::size_t>(use.index)] = {0, use.places - 1};
    }

    /// What an index is made of, arguments first.
    std::span<const std::int16_t> collect(int index) {
        std::ranges::fill(order_, std::int16_t{0});
        order_[static_cast<std::size_t>(index)] = 1;
        for (int at = index; at >= 0; --at) {
            const instruction& n = call_.node(at);
            if (order_[static_cast<std::size_t>(at)] == 0 || n.op == operation::extent) continue;
            for (std::size_t i = n.op == operation::load ? 1 : 0; i < n.argument_count; ++i)
                order_[static_cast<std::size_t>(n.arguments[i])] = 1;
        }
        std::size_t count = 0;
        for (int at = 0; at <= index; ++at)
            if (order_[static_cast<std::size_t>(at)] != 0) order_[count++] = static_cast<std::int16_t>(at);
        return order_.first(count);
    }

    bool is_elsewhere(const instruction& n) const {
        return n.op == operation::load && call_.read_by(n)->view.where() != memory::host;
    }

    /// kv_idx / n, if keys are asked for in no other way: then a look at each page will do.
    int all_quotients_of_keys(std::span<const std::int16_t> order) const {
        int quotient = -1;
        for (const std::int16_t at : order) {
            const instruction& n = call_.node(at);
            for (std::size_t i = n.op == operation::load ? 1 : 0; i < n.argument_count; ++i) {
                if (call_.node(n.arguments[i]).op != operation::kv_idx) continue;
                if (n.op != operation::divide || i != 0 || quotient >= 0 ||
                    varies_[static_cast<std::size_t>(n.arguments[1])] != 0)
                    return -1;
                quotient = at;
            }
        }
        return quotient;
    }
    std::span<const std::int16_t> without_keys(std::span<const std::int16_t> order, int quotient) {
        if (quotient < 0) return order;
        const auto end = std::remove_if(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(order.size()),
                                        [&](std::int16_t at) { return call_.node(at).op == operation::kv_idx; });
        return order_.first(static_cast<std::size_t>(end - order_.begin()));
    }

    std::int64_t count_of(variation_bits variable, const index_use& use, const number_place& place) const {
        const call_shape& shape = call_.shape;
        switch (variable) {
            case of_batch: return shape[axis_kind::batch];
            case of_head: return shape[axis_kind::head];
            case of_query: return shape[axis_kind::query];
            case of_key: return (call_.keys_in_use(place[of_batch]) + divisor_ - 1) / divisor_;
            case of_channel: return channels_of(use);
            default: return extent_of(variable, use);
        }
    }

    /// Variables one within the other; of the last, neighbours together.
    void walk(const index_use& use, number_run& values, variation_bits varies, variation_bits variable,
              number_place place) {
        const variation_bits variables = varies & ~(of_tensor | not_before | of_sum);
        while (variable != 0 && (variables & variable) == 0) variable = variable <= variables ? variable << 1 : 0;
        if (variable == 0) return look(use, values, place, of_channel, 1);
        const bool last =
            variables < variable << 1 && variable != of_head && (variable != of_batch || !use.ends_with_keys);
        const std::int64_t count = count_of(variable, use, place), step = last ? number_run::longest : 1;
        for (std::int64_t at = 0; at < count; at += step) {
            place[variable] = static_cast<std::int32_t>(at);
            if (last)
                look(use, values, place, variable, static_cast<int>(std::min(step, count - at)));
            else
                walk(use, values, varies, variable << 1, place);
        }
    }

    void look(const index_use& use, number_run& values, const number_place& place, variation_bits counting, int count) {
        values.compute(place, counting, count);
        const number_run::values& index = values[use.index];
        const std::int64_t places =
            use.ends_with_keys ? std::max<std::int64_t>(call_.keys_in_use(place[of_batch]), 1) : use.places;
        std::int32_t lowest = index[0].integer, highest = lowest;
        const int some = index.step == 0 ? 1 : count;
        for (int i = 0; i < some; ++i)
            lowest = std::min(lowest, index.at[i].integer), highest = std::max(highest, index.at[i].integer);
        if (lowest >= 0 && highest < places) return;
        for (int i = 0; i < some; ++i)
            if (const std::int32_t number = index.at[i].integer; number < 0 || number >= places) {
                if (found_.count++ > 0) continue;
                found_.number = number, found_.places = places, found_.place = place;
                found_.place[counting] += i;
            }
    }

    // --- channels and sums that a use stands in, where all is looked at

    std::int64_t channels_of(const index_use& use) const {
        std::int64_t most = 0;
        for (std::size_t at = 0; at < call_.graph.nodes.size(); ++at) {
            const instruction& n = call_.node(static_cast<int>(at));
            if (n.op == operation::tokens && leads_to(n.arguments[0], use.load))
                most = std::max(most, width_of_tokens(call_.shape, call_.graph, call_.given, static_cast<int>(at)));
            if ((n.op == operation::queries || n.op == operation::keys) && leads_to(n.arguments[0], use.load))
                most = std::max(most, call_.shape[axis_kind::depth]);
            if ((n.op == operation::values || n.op == operation::as_output) && leads_to(n.arguments[0], use.load))
                most = std::max(most, call_.shape[axis_kind::value_depth]);
        }
        for (const output_declaration& output : call_.graph.outputs)
            if (leads_to(output.node, use.load)) most = std::max(most, call_.shape[axis_kind::value_depth]);
        return most > 0 ? most : call_.shape[axis_kind::value_depth];
    }
    std::int64_t extent_of(variation_bits bound, const index_use& use) const {
        std::int64_t most = 0;
        for (const instruction& n : call_.graph.nodes)
            if ((n.op == operation::sum || n.op == operation::any) &&
                varies_[static_cast<std::size_t>(n.arguments[0])] == bound && leads_to(n.arguments[2], use.load))
                most = std::max(most, call_.number(n.arguments[1]));
        return most;
    }
    /// Within the formula of one tensor: what another is made of has channels of its own.
    bool leads_to(int from, int load) const {
        if (from <= load) return from == load;
        const instruction& n = call_.node(from);
        if (n.kind == kind::tensor || n.kind == kind::tokens || n.op == operation::as_output) return false;
        const auto first = n.arguments.begin() + (n.op == operation::load ? 1 : 0);
        return std::any_of(first, n.arguments.begin() + n.argument_count,
                           [&](std::int16_t each) { return leads_to(each, load); });
    }

    // --- words

    std::string_view tensor_name(const index_use& use) const {
        const instruction& of = call_.node(call_.node(use.load).arguments[0]);
        return of.op == operation::input ? call_.graph.inputs[static_cast<std::size_t>(of.input)].name
                                         : std::string_view("what the kernel computes");
    }
    std::string_view axis_name(const index_use& use) const {
        const instruction& of = call_.node(call_.node(use.load).arguments[0]);
        return of.op == operation::input ? call_.graph.inputs[static_cast<std::size_t>(of.input)].axes[use.axis].name
                                         : name_of(call_.along(call_.node(use.load), use.axis));
    }

    /// "(batch 1, page 3)", of what an index is the very element of; else "(b 1, kv_idx 48)".
    std::string place_of(const index_use& use, const number_run& values) const {
        std::string place;
        const auto add = [&](std::string_view name, std::int64_t at) { add_part(place, say(name, " ", at)); };
        const instruction& n = call_.node(use.index);
        if (n.op == operation::load) {
            for (std::size_t axis = 0; axis + 1 < n.argument_count; ++axis)
                add(call_.graph.inputs[static_cast<std::size_t>(call_.node(n.arguments[0]).input)].axes[axis].name,
                    values[n.arguments[axis + 1]][0].integer);
            return place;
        }
        const variation_bits varies = varies_[static_cast<std::size_t>(use.index)];
        static constexpr std::pair<variation_bits, std::string_view> positions[] = {
            {of_batch, "b"}, {of_head, "h"}, {of_query, "q_idx"}, {of_key, "kv_idx"}, {of_channel, "d_idx"}};
        for (const auto& [variable, name] : positions)
            if ((varies & variable) != 0) add(name, found_.place[variable] * (variable == of_key ? divisor_ : 1));
        return place;
    }

    [[noreturn]] void refuse(const index_use& use, number_run& values) const {
        values.compute(found_.place, of_head, 1);
        const instruction& n = call_.node(use.index);
        const bool from_tensor = (varies_[static_cast<std::size_t>(use.index)] & of_tensor) != 0;
        const std::string what =
            n.op == operation::load
                ? std::string(call_.graph.inputs[static_cast<std::size_t>(call_.node(n.arguments[0]).input)].name)
                : formula_of(call_.graph, use.index);
        fail(say(what, " from 0 to ", found_.places - 1, use.ends_with_keys ? ", the keys in use" : "",
                 ", an index along ", axis_name(use), " of ", tensor_name(use)),
             say(found_.number, " at (", place_of(use, values), ")",
                 found_.count > 1 ? say(", the first of ", found_.count) : ""),
             from_tensor ? say("entries that are places of ", tensor_name(use), " wherever the lengths in use reach")
                         : say("a ", tensor_name(use), " that is long enough, or positions that are in it"));
    }

    const call_numbers& call_;
    bool all_;
    scratch facts_;
    std::span<number_range> ranges_;
    std::span<variation_bits> varies_;
    std::span<std::int16_t> order_;
    std::span<reach> reached_;
    std::int64_t divisor_ = 1;  // keys that a position stands for
    struct {
        std::int64_t count, places;
        std::int32_t number;
        number_place place;
    } found_{};
};

}  // namespace

void check_indices(const graph_ir& graph, const matched_arguments& given, const call_shape& shape, bool all) {
    const call_numbers call{graph, shape, given};
    index_check(call, all).run();
}

}  // namespace attune::detail
