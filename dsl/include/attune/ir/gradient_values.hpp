#pragma once
#include <attune/ir/at_index.hpp>
#include <attune/ir/gradient_writer.hpp>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"  // the lists of a graph are indexed by int

namespace attune::dsl::detail {

/// The forward pass's nodes in its gradient. A pair's number may use some of them as they are; the others are replaced.
class gradient_values {
public:
    constexpr explicit gradient_values(gradient_writer& to) : to_(to) { find_sums_and_reads(); }

    /// The index by which an output is read at the channels of all heads, one after another, as merge_heads does: d_idx
    /// or that of a sum; no_node if it is not read so.
    constexpr node_id merged_index(const instruction& load) const {
        if (load.op != operation::load || load.argument_count != 5) return no_node;
        const instruction &head = to_.node(load.arguments[2]), &channel = to_.node(load.arguments[4]);
        const bool merged = to_.node(load.arguments[1]).op == operation::b && head.op == operation::divide &&
                            to_.node(load.arguments[3]).op == operation::q_idx && channel.op == operation::remainder &&
                            head.arguments == channel.arguments &&
                            to_.node(head.arguments[1]).op == operation::value_depth;
        return merged ? head.arguments[0] : no_node;
    }
    /// Whether a number is that of the channels of all heads.
    constexpr bool counts_merged_heads(node_id extent) const {
        const instruction& it = to_.node(extent);
        if (it.op == operation::same)
            return counts_merged_heads(it.arguments[0]) || counts_merged_heads(it.arguments[1]);
        const auto is = [&](int a, operation op) { return to_.node(it.arguments[a]).op == op; };
        return it.op == operation::multiply && ((is(0, operation::heads) && is(1, operation::value_depth)) ||
                                                (is(0, operation::value_depth) && is(1, operation::heads)));
    }

    /// An element of q, k, v or of a tensor in their place, at d_idx: a projected tensor is read where it was made
    /// once, and other formulas stand for themselves.
    constexpr node_id element(node_id tensor, operation position) {
        const bool formula = to_.node(tensor).op != operation::input && !is_projected(to_.node(tensor).arguments[0]);
        return formula ? to_.node(tensor).arguments[0] : to_.load(tensor, position);
    }

    /// Whether masked scores reach more than a statistic, further masks included. A statistic passes back 0 for a
    /// hidden pair. A function that is finite there, such as atan, may divide by the square of -infinity.
    constexpr bool is_read_by_functions(node_id scores) const {
        for (node_id n = scores; n < forward_.node_count; ++n)
            for (int a = 0; a < to_.node(n).argument_count; ++a)
                if (to_.node(n).arguments[a] == scores &&
                    (to_.node(n).op == operation::mask ? is_read_by_functions(n)
                                                       : family_of(to_.node(n).op) != family::attention))
                    return true;
        return false;
    }
    /// The softmax that these weights are multiples of; -1 where there is none.
    constexpr node_id softmax_of(node_id weights) const {
        while (to_.node(weights).kind == kind::weights && to_.node(weights).op != operation::softmax)
            weights = to_.node(weights).arguments[to_.node(weights).op == operation::where ? 1 : 0];
        return to_.node(weights).op == operation::softmax ? weights : no_node;
    }

    /// A forward node in the gradient: computed again if that takes no pass over the keys, else read from what the
    /// forward pass wrote.
    constexpr node_id value(node_id n, bool of_values = false) {
        auto& known = value_[of_values ? 1 : 0];
        if (!known[n]) known[n] = find_value(n, of_values);
        return *known[n];
    }
    constexpr bool is_named(node_id n) const {
        for (int i = 0; i < forward_.output_count; ++i)
            if (forward_.outputs[i].node == n) return true;
        return false;
    }
    constexpr node_id saved(node_id n) {
        for (int i = 0; i < forward_.output_count; ++i)
            if (forward_.outputs[i].node == n) return to_.load_rows(forward_.outputs[i].name, to_.node(n).kind);
        for (int i = 0; i < forward_.output_count; ++i)
            if (const instruction& it = to_.node(forward_.outputs[i].node); it.kind == kind::tokens)
                if (const instruction& read = to_.node(it.arguments[0]);
                    reads_merged_heads(read) && read.arguments[0] == n)
                    return to_.with_channel(to_.load_tokens(forward_.outputs[i].name, it.arguments[1]),
                                            to_.merged_channel());
        to_.fail(gradient_fault::value_not_named,
                 about(to_.node(n).op).precedence ? "weights * values" : about(to_.node(n).op).text);
        return to_.write().number(0);
    }
    /// The log-sum-exp of the same scores and sink as a softmax.
    constexpr node_id lse_of(const instruction& softmax) {
        for (int i = 0; i < forward_.output_count; ++i) {
            const instruction& it = to_.node(forward_.outputs[i].node);
            if (it.op == operation::log_sum_exp && it.arguments == softmax.arguments)
                return to_.load_rows(forward_.outputs[i].name, kind::row);
        }
        to_.fail(gradient_fault::no_log_sum_exp);
        return to_.write().number(0);
    }
    constexpr node_id weights_by(node_id score, node_id lse) {
        auto w = to_.write();
        return w.apply(operation::exp, w.apply(operation::minimum, w.subtract(score, lse), w.number(0)));
    }

private:
    gradient_writer& to_;
    const ir_builder& forward_ = to_.forward();

    // The value of a node in the gradient, once it was asked for: first where d_idx counts the channels of queries and
    // keys, then where it counts those of values.
    std::array<node_table<optional_node>, 2> value_{};
    node_table<bool> of_channel_{};    // forward: it differs from channel to channel
    node_table<bool> has_products_{};  // forward: it contains a sum for each channel
    node_table<bool> reads_output_{};  // forward: it contains an element of an attention's output

    constexpr void find_sums_and_reads() {
        for (node_id n{}; n < forward_.node_count; ++n) {
            const instruction& it = to_.node(n);
            if (gradient_writer::is_whole(it)) continue;
            of_channel_[n] = it.op == operation::d_idx;
            for (int a = 0; a < it.argument_count; ++a) {
                const node_id argument = it.arguments[a];
                of_channel_[n] = of_channel_[n] || of_channel_[argument];
                has_products_[n] = has_products_[n] || has_products_[argument];
                reads_output_[n] = reads_output_[n] || reads_output_[argument];
            }
            if (it.op == operation::contract) of_channel_[n] = false, has_products_[n] = false;  // channels of its own
            if (it.op == operation::sum)
                has_products_[n] = has_products_[n] || of_channel_[n] || product_at_index(n).sum >= 0;
            if (it.op == operation::load) reads_output_[n] = to_.node(it.arguments[0]).kind == kind::output;
        }
    }

    constexpr bool reads_merged_heads(const instruction& load) const {
        const node_id index = merged_index(load);
        return index >= 0 && to_.node(index).op == operation::d_idx;
    }

    /// A sum for each channel, and an index that stands for d_idx where another node reads it, as a norm does; -1: no
    /// such.
    struct read_product {
        node_id sum{no_node}, index{no_node};
    };
    constexpr read_product product_at_index(node_id n) const {
        for (node_id sum{}; sum < forward_.node_count && to_.node(n).op == operation::sum; ++sum) {
            node_id index = no_node;
            const auto of_channel = [&](node_id x) { return of_channel_[x]; };
            if (attune::detail::is_at_index(forward_.nodes, of_channel, sum, n, index) && index >= 0)
                return {sum, index};
        }
        return {};
    }
    /// Whether sums over an index count the channels of a tensor.
    constexpr bool counts_channels(node_id index, node_id tensor) const {
        const operation width = to_.node(tensor).op == operation::values ? operation::value_depth : operation::depth;
        for (node_id n{}; n < forward_.node_count; ++n)
            if (const instruction& it = to_.node(n); it.op == operation::sum && it.arguments[0] == index)
                if (to_.node(it.arguments[1]).op != width) return false;
        return true;
    }

    /// Whether a formula has a sum for each channel.
    constexpr bool is_projected(node_id formula) const {
        node_table<bool> of_channel{}, below{};
        for (node_id n{}; n <= formula; ++n)
            of_channel[n] =
                dependences_at(to_.node(n), [&](node_id argument) {
                    return dependences_of_node{.on = of_channel[argument] ? variable::channel : variable::none};
                }).has(variable::channel);
        below[formula] = true;
        for (node_id n = formula; n >= 0; --n) {
            if (!below[n]) continue;
            if (to_.node(n).op == operation::sum && of_channel[n]) return true;
            for (int a = 0; a < to_.node(n).argument_count; ++a) below[to_.node(n).arguments[a]] = true;
        }
        return false;
    }

    /// The first case that fits decides:
    /// 1. an element of an attention's output: the output's value at that element;
    /// 2. a sum over an index that stands for d_idx, as a norm has: the value of the product at d_idx, at that index;
    /// 3. in a formula of queries, keys or values a sum for each channel, or the whole formula: an element of the row
    ///    that is formed. Case 6 would make the sum again for each pair;
    /// 4. softmax's weights: the score and the log-sum-exp; a weight that is not normalised, or a number that is named
    ///    as a row or an output: its argument;
    /// 5. states, rows and outputs of an attention: what the forward pass wrote;
    /// 6. weights, conditions and numbers that contain one of these: made again, from the values of their arguments;
    /// 7. all other nodes, such as inputs, indices and constants: themselves.
    constexpr node_id find_value(node_id n, bool of_values) {
        instruction it = to_.node(n);
        if (it.op == operation::load && reads_output_[n]) {
            gradient_writer::replacement with;
            with.put(to_.terminal(operation::h), it.arguments[2]),
                with.put(to_.terminal(operation::d_idx), it.arguments[4]);
            return to_.replaced(value(it.arguments[0]), with);
        }
        if (const read_product read = product_at_index(n); read.sum >= 0)
            if (const node_id tensor = formed_of(read.sum, of_values); tensor >= 0)
                if (counts_channels(read.index, tensor))
                    return to_.with_channel(value(read.sum, of_values), read.index);
        if (has_products_[n] && it.kind == kind::real)
            if (const node_id tensor = formed_of(n, of_values); tensor >= 0) {
                instruction formed = to_.node(tensor);
                const bool of_queries = formed.op == operation::queries;
                if ((it.op == operation::sum && of_channel_[n]) || formed.arguments[0] == n) {
                    formed.arguments[0] = n;
                    return to_.load(to_.list().add(formed), of_queries ? operation::q_idx : operation::kv_idx);
                }
            }
        if (it.op == operation::softmax) return weights_by(it.arguments[0], lse_of(it));
        if (it.op == operation::unnormalized) return it.arguments[0];
        if (it.op == operation::as_row || it.op == operation::as_output) return value(it.arguments[0]);
        if (it.op == operation::read_states) return is_named(n) ? saved(n) : n;  // refused where it is needed
        if (family_of(it.op) == family::attention && (it.kind == kind::row || it.kind == kind::output)) return saved(n);
        const bool made_again = it.kind == kind::weights || it.kind == kind::row || it.kind == kind::output ||
                                it.kind == kind::condition || reads_output_[n] ||
                                (has_products_[n] && (it.kind == kind::real || it.kind == kind::integer));
        if (!made_again || gradient_writer::is_whole(it)) return n;
        for (int a = 0; a < it.argument_count; ++a) it.arguments[a] = value(it.arguments[a], of_values);
        if (it.kind != kind::condition && it.kind != kind::integer) it.kind = kind::real;
        return to_.list().add(it);
    }
    /// The queries or keys, or the values, of whose formula a node is a part; no_node if there are none.
    constexpr node_id formed_of(node_id n, bool of_values) const {
        for (node_id tensor = n; tensor < forward_.node_count; ++tensor) {
            const operation op = to_.node(tensor).op;
            const bool formed = of_values ? op == operation::values : op == operation::queries || op == operation::keys;
            if (formed && is_below(n, to_.node(tensor).arguments[0])) return tensor;
        }
        return no_node;
    }
    constexpr bool is_below(node_id n, node_id formula) const {
        node_table<bool> below{};
        below[formula] = true;
        for (node_id at = formula; at > n; --at)
            for (int a = 0; below[at] && !gradient_writer::is_whole(to_.node(at)) && a < to_.node(at).argument_count;
                 ++a)
                below[to_.node(at).arguments[a]] = true;
        return below[n];
    }
};

}  // namespace attune::dsl::detail

#pragma GCC diagnostic pop
