#pragma once
#include <attune/ir/derivatives.hpp>
#include <attune/ir/visibility.hpp>

#include <limits>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"  // the lists of a graph are indexed by int

namespace attune::dsl::detail {

constexpr bool has_scores(const ir_builder& list) {
    for (const instruction& it : list.instructions())
        if (it.kind == kind::scores) return true;
    return false;
}

/// Writes the terms of a gradient: it appends to the forward pass's list.
class gradient_writer {
public:
    constexpr explicit gradient_writer(const ir_builder& forward) : forward_(forward), list_(forward) {
        name_channels();
    }
    constexpr const ir_builder& forward() const { return forward_; }
    constexpr ir_builder& list() { return list_; }
    constexpr std::string_view channel() const { return channel_; }
    constexpr std::string_view value_channel() const { return value_channel_; }
    constexpr std::string_view token_channel() const { return token_channel_; }

    constexpr real_writer write() { return {list_}; }
    constexpr const instruction& node(node_id n) const { return list_.nodes[n]; }
    constexpr bool failed() const { return fault_ != gradient_fault::none; }
    constexpr void fail(gradient_fault why, std::string_view name = {}) {
        if (!failed()) fault_ = why, fault_name_ = name;
    }
    constexpr ir_builder failure() const {
        ir_builder none = forward_;
        none.fault = fault_, none.fault_name = fault_name_;
        return none;
    }

    static constexpr bool is_whole(const instruction& it) {  // made in full before its elements are read
        return it.kind == kind::tensor || it.kind == kind::transposed || it.kind == kind::tokens ||
               it.kind == kind::precomputed || it.kind == kind::states;
    }

    // --- terms

    constexpr node_id terminal(operation op) { return list_.add({.op = op, .kind = kind::integer}); }
    constexpr node_id bound(std::string_view name) {
        return list_.add({.op = operation::bound, .kind = kind::integer, .integer = list_.add_index(name)});
    }

    constexpr node_id whole_number(std::int64_t x) {
        return list_.add({.op = operation::constant, .kind = kind::integer, .integer = x});
    }
    constexpr node_id of_integers(operation op, node_id x, node_id y) {
        return list_.add({.op = op, .kind = kind::integer, .argument_count = 2, .arguments = {x, y}});
    }

    /// Where the channel d_idx of head h is among those of all heads, one after another.
    constexpr node_id merged_channel() {
        const node_id first =
            of_integers(operation::multiply, terminal(operation::h), terminal(operation::value_depth));
        return of_integers(operation::add, first, terminal(operation::d_idx));
    }

    /// A row (b, h, q_idx), or an output (b, h, q_idx, d_idx), that the caller passes.
    constexpr node_id load_rows(std::string_view name, kind is) {
        input_declaration d{name,
                            element_type::f32,
                            false,
                            3,
                            {{{axis_kind::batch, "batch"}, {axis_kind::head, "head"}, {axis_kind::query, "query"}}}};
        if (is == kind::output)
            d.element = element_type::any, d.rank = 4, d.axes[3] = {axis_kind::value_depth, "value_depth"};
        return load(list_.add({.op = operation::input, .kind = kind::tensor, .input = list_.add_input(d)}),
                    operation::q_idx, is == kind::output);
    }

    /// The states (b, h, d_idx, value_idx), of heads or of key heads, that the caller passes.
    constexpr node_id load_states(std::string_view name, bool of_key_heads) {
        const axis_declaration heads = of_key_heads ? axis_declaration{axis_kind::key_head, "key_head"}
                                                    : axis_declaration{axis_kind::head, "head"};
        const input_declaration d{name,
                                  element_type::f32,
                                  false,
                                  4,
                                  {{{axis_kind::batch, "batch"},
                                    heads,
                                    {axis_kind::depth, "depth"},
                                    {axis_kind::value_depth, "value_depth"}}}};
        const node_id tensor = list_.add({.op = operation::input, .kind = kind::tensor, .input = list_.add_input(d)});
        return list_.add({.op = operation::load,
                          .kind = kind::real,
                          .argument_count = 5,
                          .arguments = {tensor, terminal(operation::b), terminal(operation::h),
                                        terminal(operation::d_idx), terminal(operation::value_idx)}});
    }

    /// Tokens (b, q_idx, d_idx), as wide as the forward pass's, that the caller passes.
    constexpr node_id load_tokens(std::string_view name, node_id width) {
        const input_declaration d{
            name,
            element_type::f32,
            false,
            3,
            {{{axis_kind::batch, "batch"}, {axis_kind::query, "query"}, {axis_kind::free, "channel"}}}};
        const node_id tensor = list_.add({.op = operation::input, .kind = kind::tensor, .input = list_.add_input(d)});
        const node_id extent = list_.add(
            {.op = operation::extent, .kind = kind::integer, .argument_count = 1, .arguments = {tensor}, .integer = 2});
        const node_id last =
            of_integers(operation::subtract, of_integers(operation::same, extent, width), whole_number(1));
        const node_id channel = of_integers(operation::minimum, terminal(operation::d_idx), last);
        return list_.add({.op = operation::load,
                          .kind = kind::real,
                          .argument_count = 4,
                          .arguments = {tensor, terminal(operation::b), terminal(operation::q_idx), channel}});
    }

    constexpr node_id load(node_id tensor, operation position, bool channels = true) {
        instruction i{.op = operation::load,
                      .kind = kind::real,
                      .argument_count = 4,
                      .arguments = {tensor, terminal(operation::b), terminal(operation::h), terminal(position)}};
        if (channels) i.arguments[i.argument_count++] = terminal(operation::d_idx);
        return list_.add(i);
    }

    /// Nodes and their replacements.
    struct replacement {
        node_table<optional_node> by{};
        constexpr void put(node_id n, node_id other) { by[n] = other; }
    };
    /// The same expression with some nodes replaced. A contraction or a computed tensor counts channels of its own,
    /// which stay.
    constexpr node_id replaced(node_id n, replacement& with) {
        instruction it = node(n);
        if (with.by[n]) return *with.by[n];
        if (it.op == operation::contract || is_whole(it) || it.argument_count == 0) return n;
        for (int a = 0; a < it.argument_count; ++a) it.arguments[a] = replaced(it.arguments[a], with);
        const node_id made = list_.add(it);
        with.put(n, made);
        return made;
    }
    constexpr node_id with_channel(node_id n, node_id channel) {
        replacement with;
        with.put(terminal(operation::d_idx), channel);
        return replaced(n, with);
    }
    /// What is written of the channels of all heads, by the index that counts them, as written of a head and d_idx.
    constexpr void split_heads(node_id index, replacement& with, node_id channel) {
        const node_id size = terminal(operation::value_depth), head = terminal(operation::h);
        with.put(of_integers(operation::divide, index, size), head);
        with.put(of_integers(operation::remainder, index, size), channel);
        with.put(index, of_integers(operation::add, of_integers(operation::multiply, head, size), channel));
    }

    /// Tokens that the kernel makes first, at (b, q_idx, channel).
    constexpr node_id load_of_tokens(node_id formula, node_id width, node_id channel) {
        const node_id made = list_.add(
            {.op = operation::tokens, .kind = kind::tokens, .argument_count = 2, .arguments = {formula, width}});
        return list_.add({.op = operation::load,
                          .kind = kind::real,
                          .argument_count = 4,
                          .arguments = {made, terminal(operation::b), terminal(operation::q_idx), channel}});
    }
    constexpr bool has_sum(node_id n) const {
        node_table<bool> below{};
        below[n] = true;
        for (; n >= 0; --n) {
            if (!below[n] || is_whole(node(n))) continue;
            if (node(n).op == operation::sum) return true;
            for (int a = 0; a < node(n).argument_count; ++a) below[node(n).arguments[a]] = true;
        }
        return false;
    }

    // --- what is masked

    /// The sum of two cotangents. A cotangent that was multiplied by a masked value is masked: its target is masked
    /// whatever the other factor is, so nothing flows. The other cotangent stays.
    constexpr node_id sum_of(node_id x, node_id y) {
        const node_id sum = write().add(unless_masked(x), unless_masked(y));
        seen_[sum] = always;
        return sum;
    }
    /// A term, or 0 where it is masked. Of a product the masked factor becomes 0, so that products with rows stay such.
    constexpr node_id unless_masked(node_id e) {
        const node_id seen = where_not_masked(e);
        if (seen == always) return e;
        const instruction it = node(e);
        auto w = write();
        if (it.op == operation::negate) return w.negate(unless_masked(it.arguments[0]));
        const bool product = it.op == operation::multiply;
        if (product && where_not_masked(it.arguments[0]) == always)
            return w.multiply(it.arguments[0], unless_masked(it.arguments[1]));
        if ((product || it.op == operation::divide) && where_not_masked(it.arguments[1]) == always)
            return w.apply(it.op, unless_masked(it.arguments[0]), it.arguments[1]);
        return w.where(seen, e, w.number(0));
    }

    /// An expression of d_idx, summed over the channels of the values.
    constexpr node_id over_channels(node_id expression) {
        const node_id index = bound(value_channel_);
        return list_.add({.op = operation::sum,
                          .kind = kind::real,
                          .argument_count = 3,
                          .arguments = {index, terminal(operation::value_depth), with_channel(expression, index)}});
    }

private:
    ir_builder forward_, list_;
    std::string_view channel_ = "channel", value_channel_ = "value_channel", token_channel_ = "token_channel";
    gradient_fault fault_{};
    std::string_view fault_name_{};
    static constexpr node_id always = no_node;
    node_table<std::optional<node_id>> seen_{};  // of a term: where it is not masked, once that was asked

    constexpr void name_channels() {
        const auto taken = [&](std::string_view name) {
            for (int i = 0; i < forward_.input_count; ++i)
                if (forward_.inputs[i].name == name) return true;
            for (int i = 0; i < forward_.index_count; ++i)
                if (forward_.indices[i] == name) return true;
            return false;
        };
        for (const std::string_view other : {"channel_", "gradient_channel"})
            if (taken(channel_)) channel_ = other;
        for (const std::string_view other : {"value_channel_", "gradient_value_channel"})
            if (taken(value_channel_)) value_channel_ = other;
        for (const std::string_view other : {"token_channel_", "gradient_token_channel"})
            if (taken(token_channel_)) token_channel_ = other;
    }

    /// A condition on tensors and numbers of the forward pass, not on scores or weights, in which terms are linear. For
    /// a sum over an index it is a condition on the sum, whatever its summands are.
    constexpr node_id where_not_masked(node_id e) {
        if (!seen_[e]) seen_[e] = find_where_not_masked(e);
        return *seen_[e];
    }
    constexpr node_id find_where_not_masked(node_id e) {
        const instruction it = node(e);
        auto w = write();
        const auto of_argument = [&](int a) { return where_not_masked(it.arguments[a]); };
        const auto is_not_masked = [&] {
            return w.compare(operation::not_equal, e, w.number(-std::numeric_limits<double>::infinity()));
        };
        switch (is_whole(it) ? visibility::always : visibility_of(it)) {
            case visibility::always: break;
            case visibility::never: return is_not_masked();
            case visibility::by_value:
                if (it.op == operation::load) return is_captured_score(it) ? is_not_masked() : always;
                return of_argument(2) == always ? always : is_not_masked();
            case visibility::as_first: return of_argument(0);
            case visibility::as_both: return both(of_argument(0), of_argument(1));
            case visibility::as_either: return either(of_argument(0), of_argument(1));
            case visibility::where_kept: return both(of_argument(0), it.arguments[1]);
            case visibility::as_chosen: {
                if (both(of_argument(1), of_argument(2)) == always) return always;
                const node_id other = w.apply(operation::logical_not, it.arguments[0], kind::condition);
                return both(either(other, of_argument(1)), either(it.arguments[0], of_argument(2)));
            }
        }
        return always;
    }
    constexpr node_id both(node_id x, node_id y) {
        if (x == always || y == always || x == y) return x == always ? y : x;
        return write().apply(operation::logical_and, x, y, kind::condition);
    }
    constexpr node_id either(node_id x, node_id y) {
        return x == always || y == always ? always : write().apply(operation::logical_or, x, y, kind::condition);
    }
    /// An element along a depth belongs to a row, and is never a score. Neither is a result that the forward pass
    /// wrote.
    constexpr bool is_captured_score(const instruction& load) const {
        const instruction& tensor = node(load.arguments[0]);
        if (tensor.op != operation::input) return tensor.kind == kind::precomputed;
        const input_declaration& d = list_.inputs[tensor.input];
        const axis_kind along = d.axes[d.rank - 1].kind;
        return tensor.input < forward_.input_count && along != axis_kind::depth && along != axis_kind::value_depth &&
               !is_of_channel(load.arguments[load.argument_count - 1]);
    }
    constexpr bool is_of_channel(node_id index) const {
        const instruction& it = node(index);
        if (it.op == operation::d_idx) return true;
        if (it.op == operation::bound) return list_.indices[it.integer] == value_channel_;
        for (int a = 0; a < it.argument_count && !is_whole(it); ++a)
            if (is_of_channel(it.arguments[a])) return true;
        return false;
    }
};

}  // namespace attune::dsl::detail

#pragma GCC diagnostic pop
