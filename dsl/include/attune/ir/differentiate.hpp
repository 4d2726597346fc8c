#pragma once
#include <attune/ir/gradient_domain.hpp>
#include <attune/ir/gradient_states.hpp>
#include <attune/ir/gradient_values.hpp>

#include <limits>
#include <span>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"  // the lists of a graph are indexed by int

/// Reverse mode over the list: from a graph, the graph of its gradients.
///
/// The cotangent of a node is an expression with a domain: the indices that it is summed over in the end. Nothing is
/// summed before a tensor is reached. There a deposit adds up what the forward pass broadcast. The forward pass's
/// output and log-sum-exp are inputs, so that a weight is a function of its pair alone: exp(score - lse).
namespace attune::dsl::detail {

class differentiation {
public:
    constexpr explicit differentiation(const ir_builder& forward) : to_(forward) {}
    constexpr differentiation(const differentiation&) = delete;

    /// `of` and `wrt` are names. Empty they mean every output proper, and every tensor of reals that a cotangent
    /// reaches.
    constexpr ir_builder run(std::span<const std::string_view> of, std::span<const std::string_view> wrt) {
        if (forward_.node_count == 0 || forward_.output_count == 0) return forward_;
        choose(wrt);
        find_active();
        begin(of);
        for (node_id n = node_at(forward_.node_count - 1); n >= 0 && !to_.failed(); --n) visit(n);
        return to_.failed() ? to_.failure() : kept(wrt);
    }

private:
    static constexpr int max_reaching = 256, max_each = cotangent_domain::max_each;
    using domain = cotangent_domain;

    gradient_writer to_;
    const ir_builder& forward_ = to_.forward();
    ir_builder& list_ = to_.list();
    gradient_values values_{to_};  // of the forward pass
    gradient_states states_{to_};
    std::array<reaching_cotangent, max_reaching> reached_{};
    int reached_count_{};
    node_table<optional_node> delta_{};  // of a softmax: sum over the keys of w dw
    node_table<bool> active_{};          // whether a tensor of `wrt` lies under a node
    std::array<bool, max_inputs> wanted_{};
    std::array<optional_node, max_inputs> deposited_{};  // the sum so far

    // --- what is asked

    constexpr void choose(std::span<const std::string_view> wrt) {
        for (int i = 0; i < forward_.input_count; ++i) wanted_[i] = wrt.empty() && is_real_tensor(forward_.inputs[i]);
        for (const std::string_view name : wrt) {
            bool known = false;
            for (int i = 0; i < forward_.input_count; ++i)
                if (forward_.inputs[i].name == name && is_real_tensor(forward_.inputs[i])) known = wanted_[i] = true;
            if (!known) to_.fail(gradient_fault::not_a_real_tensor, name);
        }
    }

    constexpr void find_active() {
        for (node_id n{}; n < forward_.node_count; ++n) {
            const instruction& it = to_.node(n);
            if (it.op == operation::input) active_[n] = wanted_[it.input];
            if (about(it.op).derivative == derivative::flat) continue;
            const int first = it.op == operation::where ? 1 : 0;
            const int last = it.op == operation::load || it.op == operation::mask ? 1 : it.argument_count;
            for (int a = first; a < last; ++a) active_[n] = active_[n] || active_[it.arguments[a]];
        }
    }

    /// The outputs' cotangents are inputs of the gradient.
    constexpr void begin(std::span<const std::string_view> of) {
        bool some = false, tokens = false;
        for (int i = 0; i < forward_.output_count; ++i)
            tokens = tokens || to_.node(forward_.outputs[i].node).kind == kind::tokens;
        for (const std::string_view name : of) {
            bool known = false;
            for (int i = 0; i < forward_.output_count; ++i) known = known || forward_.outputs[i].name == name;
            if (!known) to_.fail(gradient_fault::not_an_output, name);
        }
        for (int i = 0; i < forward_.output_count; ++i) {
            const std::string_view name = forward_.outputs[i].name;
            bool asked =
                of.empty() && to_.node(forward_.outputs[i].node).kind == (tokens ? kind::tokens : kind::output);
            for (const std::string_view each : of) asked = asked || each == name;
            if (!asked) continue;
            const instruction& it = to_.node(forward_.outputs[i].node);
            const kind is = it.kind;
            some = true;
            if (is == kind::last_state) {
                states_.begin(it.arguments[0], forward_.derivative_names_of_outputs[i]);
                continue;
            }
            if (is != kind::output && is != kind::row && is != kind::tokens)
                return to_.fail(gradient_fault::not_a_row_or_output, name);
            domain rows{};
            if (is == kind::output) rows.channels = operation::value_depth;
            if (is == kind::tokens) {
                rows.channels = operation::tokens, rows.width = it.arguments[1];
                reach(it.arguments[0], to_.load_tokens(forward_.derivative_names_of_outputs[i], rows.width), rows);
                continue;
            }
            reach(forward_.outputs[i].node, to_.load_rows(forward_.derivative_names_of_outputs[i], is), rows);
        }
        if (!some) to_.fail(gradient_fault::no_output);
    }

    // --- what reaches a node

    constexpr void reach(node_id n, node_id expression, const domain& over) {
        if (!active_[n]) return;
        for (int i = 0; i < reached_count_; ++i)
            if (reached_[i].node == n && reached_[i].over == over) {
                reached_[i].expression = to_.sum_of(reached_[i].expression, expression);
                return;
            }
        if (reached_count_ == max_reaching) return to_.fail(gradient_fault::too_long);
        reached_[reached_count_++] = {n, expression, over};
    }

    constexpr void visit(node_id n) {
        if (!active_[n]) return;
        bool some = false;
        for (int i = 0; i < reached_count_; ++i)
            if (reached_[i].node == n) some = true, differentiate(n, reached_[i].expression, reached_[i].over);
        // If nothing asks for the weights of a softmax, its log-sum-exp alone.
        if (!some && delta_[n]) reach_softmax(n, to_.write().number(0), domain::pairs());
        if (to_.node(n).op == operation::recurrence && states_.has_last_alone(n)) reach_states(n, no_node, no_node);
    }

    constexpr void differentiate(node_id n, node_id e, const domain& over) {
        const instruction it = to_.node(n);
        switch (about(it.op).derivative) {
            case derivative::flat: return;
            case derivative::rule: return by_rule(n, e, over);
            case derivative::stage: return by_stage(n, e, over);
            case derivative::not_yet: return to_.fail(gradient_fault::no_derivative, about(it.op).text);
        }
    }

    constexpr void by_rule(node_id n, node_id e, const domain& over) {
        const instruction it = to_.node(n);
        const bool of_values = over.channels == operation::value_depth;
        const differentiated_node here{values_.value(it.arguments[0], of_values),
                                       values_.value(it.arguments[it.argument_count - 1], of_values),
                                       values_.value(n, of_values), e};
        auto w = to_.write();
        if (family_of(it.op) == family::function)
            return reach(it.arguments[0], w.multiply(e, (*slopes_of_functions[it.op])(w, here.x, here.value)), over);
        const auto rule = family_of(it.op) == family::arithmetic ? derivatives_of_arithmetic[it.op]
                                                                 : derivatives_of_functions_of_two[it.op];
        for (int side = 0; side < it.argument_count; ++side)
            if (active_[it.arguments[side]]) reach(it.arguments[side], (*rule)(w, here, side), over);
    }

    constexpr void by_stage(node_id n, node_id e, const domain& over) {
        const instruction it = to_.node(n);
        if (it.op == operation::load) return reach_load(it, e, over);
        if (it.op == operation::contract) return reach_contraction(it, e, over);
        if (it.op == operation::where) return reach_branches(it, e, over);
        if (it.op == operation::sum) return reach_summand(it, e, over);
        if (it.op == operation::softmax) return reach_softmax(n, e, over);
        if (it.op == operation::unnormalized) return reach_scores(it, e, over);
        if (it.op == operation::weighted_sum) return reach_weighted_sum(n, e);
        if (it.op == operation::row_sum) return reach_summed_weights(n, of_row(e, over));
        if (it.op == operation::log_sum_exp) return reach_log_sum(n, of_row(e, over));
        if (it.op == operation::read_states) return reach_states(recurrence_under(list_.instructions(), n), n, e);
        if (it.op == operation::mask && values_.is_read_by_functions(n)) e = where_seen(it, e);
        reach(it.arguments[0], e, over);  // mask, as_row, as_output: passed on
    }

    constexpr void reach_states(node_id recurrence, node_id reader, node_id e) {
        states_.flow_back(recurrence, reader, e, [&](node_id part, node_id cotangent, operation channels, bool states) {
            domain over{};
            over.channels = channels, over.states = states;
            reach(part, cotangent, over);
        });
    }

    constexpr void reach_branches(const instruction& where, node_id e, const domain& over) {
        auto w = to_.write();
        const node_id zero = w.number(0),
                      condition = values_.value(where.arguments[0], over.channels == operation::value_depth);
        reach(where.arguments[1], w.where(condition, e, zero), over);
        reach(where.arguments[2], w.where(condition, zero, e), over);
    }

    constexpr void reach_summand(const instruction& sum, node_id e, const domain& over) {
        domain inside = over;
        if (inside.each_count == max_each) return to_.fail(gradient_fault::too_long);
        inside.index[inside.each_count] = sum.arguments[0], inside.extent[inside.each_count++] = sum.arguments[1];
        reach(sum.arguments[2], stored(e, over), inside);
    }

    constexpr node_id where_seen(const instruction& mask, node_id e) {
        auto w = to_.write();
        return w.where(values_.value(mask.arguments[1]), e, w.number(0));
    }

    /// A pair that is not seen weighs nothing.
    constexpr void reach_scores(const instruction& unnormalized, node_id e, const domain& over) {
        auto w = to_.write();
        const auto seen = w.compare(operation::greater, unnormalized.arguments[0],
                                    w.number(-std::numeric_limits<double>::infinity()));
        reach(unnormalized.arguments[0], w.where(seen, e, w.number(0)), over);
    }

    constexpr void reach_summed_weights(node_id n, node_id row) {
        add_delta(to_.node(n).arguments[0], row, n);
        reach(to_.node(n).arguments[0], row, domain::pairs());
    }

    /// Where a row met an output, its cotangent is a sum over the channels.
    constexpr node_id of_row(node_id e, const domain& over) {
        return over.channels == operation::b ? e : to_.over_channels(e);
    }

    constexpr void reach_load(const instruction& it, node_id e, const domain& over) {
        if (to_.node(it.arguments[0]).kind == kind::output && over.channels == operation::tokens)
            return reach_merged_heads(it, e, over);
        if (to_.node(it.arguments[0]).op != operation::input)
            return to_.fail(gradient_fault::no_derivative, about(to_.node(it.arguments[0]).op).text);
        deposit(it.arguments[0], stored(e, over), over, it);
    }

    /// An output whose heads are merged: alone, or as the input of an output projection. The projection's transpose is
    /// made once, as tokens.
    constexpr void reach_merged_heads(const instruction& load, node_id e, const domain& over) {
        const node_id index = values_.merged_index(load);
        domain rows{};
        rows.channels = operation::value_depth;
        if (index >= 0 && to_.node(index).op == operation::d_idx && over.each_count == 0)
            return reach(load.arguments[0], to_.with_channel(e, to_.merged_channel()), rows);
        if (index < 0 || over.each_count != 1 || over.index[0] != index || !values_.counts_merged_heads(over.extent[0]))
            return to_.fail(gradient_fault::not_a_row_or_output, "tokens");
        const node_id channel = to_.bound(to_.token_channel()), d = to_.terminal(operation::d_idx);
        gradient_writer::replacement with;
        with.put(d, channel), with.put(index, d);
        const node_id summed = list_.add({.op = operation::sum,
                                          .kind = kind::real,
                                          .argument_count = 3,
                                          .arguments = {channel, over.width, to_.replaced(e, with)}});
        reach(load.arguments[0], to_.load_of_tokens(summed, over.extent[0], to_.merged_channel()), rows);
    }

    /// The cotangent of tokens. It is made first if it has sums, because later nodes read it once for each of their
    /// terms.
    constexpr node_id stored(node_id e, const domain& over) {
        const bool whole = over.channels == operation::tokens && over.each_count == 0 && to_.has_sum(e);
        return whole ? to_.load_of_tokens(e, over.width, to_.terminal(operation::d_idx)) : e;
    }

    constexpr void reach_contraction(const instruction& it, node_id e, const domain& over) {
        const node_id query = it.arguments[0], key = to_.node(it.arguments[1]).arguments[0];
        domain channels = over;
        channels.channels = operation::depth;
        auto w = to_.write();
        if (active_[query])
            reach_tensor(query, w.multiply(e, values_.element(key, operation::kv_idx)), channels, operation::q_idx);
        if (active_[key])
            reach_tensor(key, w.multiply(e, values_.element(query, operation::q_idx)), channels, operation::kv_idx);
    }

    constexpr void reach_tensor(node_id tensor, node_id e, const domain& over, operation position) {
        if (to_.node(tensor).op != operation::input) return reach(to_.node(tensor).arguments[0], e, over);
        deposit(tensor, e, over, to_.node(to_.load(tensor, position)));
    }

    constexpr void reach_weighted_sum(node_id n, node_id e) {
        const instruction it = to_.node(n);
        const node_id weights = it.arguments[0], values = it.arguments[1];
        auto w = to_.write();
        if (active_[values])
            reach_tensor(values, w.multiply(values_.value(weights), e), domain::pairs(operation::value_depth),
                         operation::kv_idx);
        if (!active_[weights]) return;
        add_delta(weights, e, n);
        const node_id of_value = values_.element(values, operation::kv_idx);
        reach(weights, to_.over_channels(w.multiply(e, of_value)), domain::pairs());
    }

    /// The sum over the keys of w dw, which a softmax's derivative subtracts from every pair of a row. Everything made
    /// of the weights is linear in them, so it is the cotangent of each sum of weights times that sum.
    constexpr void add_delta(node_id weights, node_id e, node_id sum) {
        const node_id softmax = values_.softmax_of(weights);
        if (softmax < 0 || !active_[softmax]) return;
        node_id term = to_.write().multiply(e, values_.saved(sum));
        if (to_.node(sum).kind == kind::output) term = to_.over_channels(term);
        delta_[softmax] = delta_[softmax] ? to_.sum_of(*delta_[softmax], term) : term;
    }

    constexpr void reach_softmax(node_id n, node_id e, const domain& over) {
        const instruction it = to_.node(n);
        auto w = to_.write();
        const node_id lse = values_.lse_of(it), delta = *delta_[n];
        reach(it.arguments[0],
              w.multiply(values_.weights_by(it.arguments[0], lse), w.subtract(to_.unless_masked(e), delta)), over);
        if (it.argument_count > 1 && active_[it.arguments[1]])
            reach(it.arguments[1], w.negate(w.multiply(values_.weights_by(it.arguments[1], lse), delta)), domain{});
    }

    constexpr void reach_log_sum(node_id n, node_id e) {
        const instruction it = to_.node(n);
        auto w = to_.write();
        for (node_id other{}; other < n; ++other)  // a softmax of the same: one term for both
            if (to_.node(other).op == operation::softmax && to_.node(other).arguments == it.arguments) {
                const optional_node before = delta_[other];
                delta_[other] = before ? w.subtract(to_.unless_masked(*before), to_.unless_masked(e)) : w.negate(e);
                return;
            }
        const node_id lse = values_.saved(n);
        reach(it.arguments[0], w.multiply(values_.weights_by(it.arguments[0], lse), e), domain::pairs());
        if (it.argument_count > 1 && active_[it.arguments[1]])
            reach(it.arguments[1], w.multiply(values_.weights_by(it.arguments[1], lse), e), domain{});
    }

    // --- what reaches a tensor

    constexpr void deposit(node_id tensor, node_id e, const domain& over, const instruction& load) {
        const std::int16_t input = to_.node(tensor).input;
        if (!wanted_[input]) return;
        instruction to{.op = operation::deposit,
                       .kind = kind::gradient,
                       .argument_count = load.argument_count,
                       .arguments = load.arguments,
                       .input = input,
                       .integer = over.keys     ? 1
                                  : over.states ? 2
                                                : 0};
        const bool tokens = over.channels == operation::tokens;
        int merged = -1;  // of `each`: counts the channels of all heads, of which each head adds its own
        for (int i = 0; tokens && i < over.each_count; ++i)
            if (values_.counts_merged_heads(over.extent[i])) merged = i;
        if (tokens && merged < 0) {  // which have no head: the first one adds
            auto w = to_.write();
            e = w.where(w.compare(operation::equal, to_.terminal(operation::h), to_.whole_number(0)), e, w.number(0));
        }
        if (over.channels != operation::b) {
            const node_id index = to_.bound(merged < 0 ? to_.channel() : to_.token_channel());
            gradient_writer::replacement with;
            with.put(to_.terminal(operation::d_idx), index);
            const node_id of_value = to_.bound(to_.value_channel());
            if (over.states) with.put(to_.terminal(operation::value_idx), of_value);
            if (merged >= 0) to_.split_heads(over.index[merged], with, to_.bound(to_.channel()));
            e = to_.replaced(e, with);
            for (int a = 1; a < to.argument_count; ++a) to.arguments[a] = to_.replaced(to.arguments[a], with);
            if (merged >= 0) e = each(to_.bound(to_.channel()), to_.terminal(operation::value_depth), e);
            if (over.states) e = each(of_value, to_.terminal(operation::value_depth), e);
            e = each(index, tokens ? over.width : to_.terminal(over.channels), e);
        }
        for (int i = over.each_count; i-- > 0;)
            if (i != merged) e = each(over.index[i], over.extent[i], e);
        to.arguments[0] = e;
        const node_id made = list_.add(to);
        auto& sum = deposited_[input];
        sum = sum ? to_.write().apply(operation::add, *sum, made, kind::gradient) : made;
    }
    constexpr node_id each(node_id index, node_id extent, node_id e) {
        return list_.add(
            {.op = operation::each, .kind = kind::real, .argument_count = 3, .arguments = {index, extent, e}});
    }

    /// The gradients and the nodes that they need, as a list of their own.
    constexpr ir_builder kept(std::span<const std::string_view> wrt) {
        for (const std::string_view name : wrt)
            for (int i = 0; i < forward_.input_count; ++i)
                if (forward_.inputs[i].name == name && !deposited_[i]) to_.fail(gradient_fault::nothing_depends, name);
        ir_builder made;
        made.too_long = list_.too_long;
        node_table<bool> needed{};
        for (int i = 0; i < forward_.input_count; ++i)
            if (deposited_[i]) needed[*deposited_[i]] = true;
        for (node_id n = node_at(list_.node_count - 1); n >= 0; --n)
            for (int a = 0; needed[n] && a < list_.nodes[n].argument_count; ++a)
                needed[list_.nodes[n].arguments[a]] = true;
        node_table<node_id> now{};
        for (node_id n{}; n < list_.node_count; ++n) {
            if (!needed[n]) continue;
            instruction it = list_.nodes[n];
            if (it.op == operation::read_states) to_.fail(gradient_fault::value_not_named, "row * states");
            for (int a = 0; a < it.argument_count; ++a) it.arguments[a] = now[it.arguments[a]];
            if (it.op == operation::bound) it.integer = made.add_index(list_.indices[it.integer]);
            if (it.input >= 0) it.input = made.add_input(list_.inputs[it.input]);
            now[n] = made.add(it);
        }
        for (int i = 0; i < forward_.input_count; ++i)
            if (deposited_[i]) made.add_output(forward_.derivative_names_of_inputs[i], now[*deposited_[i]]);
        if (made.output_count == 0) to_.fail(gradient_fault::nothing_depends, "any of its tensors");
        if (!made.too_long && !has_scores(made) && !has_recurrences(made.instructions()))
            to_.fail(gradient_fault::without_scores);
        return to_.failed() ? to_.failure() : made;
    }
};

}  // namespace attune::dsl::detail

#pragma GCC diagnostic pop
