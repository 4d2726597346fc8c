#pragma once
#include <attune/dsl/enter.hpp>
#include <attune/dsl/shard.hpp>
#include <attune/dsl/states.hpp>
#include <attune/ir/operations.hpp>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"  // the lists of a graph are indexed by int

/// From a graph, the graph of its shards: positions are read from tables, lengths are those of the whole, keys beyond
/// them are masked, and each output is joined with the result of the calls before.
namespace attune::dsl::detail {

class sharding {
    /// First in the class, as clang 14 finds a template only above its use in a constant expression.
    template <class Output> constexpr ir_builder with_outputs(const Output& output) {
        if (whole_.node_count == 0 || whole_.output_count == 0) return whole_;
        find_faults();
        find_axes_kept_whole();
        if (failed()) return failure();
        for (node_id n{}; n < whole_.node_count; ++n) now_[n] = rewritten(n);
        for (int i = 0; i < whole_.output_count; ++i)
            made_.add_output(whole_.outputs[i].name, output(i), whole_.derivative_names_of_outputs[i],
                             whole_.before_names_of_outputs[i]);
        return in_order_of_use(made_);
    }

public:
    constexpr explicit sharding(const ir_builder& whole) : whole_(whole) {}

    constexpr ir_builder run() {
        return with_outputs([this](int i) { return joined(i); });
    }
    /// Its outputs belong to the call's keys alone. Their gradients are sums over the pairs of all calls.
    constexpr ir_builder of_parts() {
        return with_outputs([this](int i) { return now_[whole_.outputs[i].node]; });
    }

private:
    const ir_builder& whole_;
    ir_builder made_{};
    std::array<std::array<bool, max_rank>, max_inputs> kept_whole_{};  // axes of inputs, read at any position
    node_table<node_id> now_{};
    shard_fault fault_{};
    std::string_view fault_name_{};

    constexpr const instruction& node(node_id n) const { return whole_.nodes[n]; }
    constexpr bool failed() const { return fault_ != shard_fault::none; }
    constexpr void fail(shard_fault why, std::string_view name = {}) {
        if (!failed()) fault_ = why, fault_name_ = name;
    }
    constexpr ir_builder failure() const {
        ir_builder none = whole_;
        none.unshardable = fault_, none.fault_name = fault_name_;
        return none;
    }

    // --- what has no shards

    static constexpr bool is_statistic(operation op) {
        return op == operation::log_sum_exp || op == operation::row_maximum || op == operation::row_sum;
    }

    constexpr void find_faults() {
        for (node_id n{}; n < whole_.node_count; ++n) {
            if (node(n).op == operation::tokens) fail(shard_fault::of_tokens);
            if (node(n).kind == kind::precomputed) fail(shard_fault::of_precomputed);
            if (node(n).kind == kind::gradient) fail(shard_fault::of_a_gradient);  // it is made of a shard's parts
        }
        for (int i = 0; i < whole_.output_count; ++i) {
            const auto [name, at] = whole_.outputs[i];
            const instruction& it = node(at);
            if (it.kind != kind::output && it.kind != kind::row) return fail(shard_fault::of_pairs_or_keys, name);
            if (it.op != operation::weighted_sum && !is_statistic(it.op)) return fail(shard_fault::not_a_sum, name);
            if ((it.op == operation::weighted_sum || it.op == operation::row_sum) && softmax_of(it.arguments[0]) >= 0 &&
                log_sum_of(softmax_of(it.arguments[0])) < 0)
                return fail(shard_fault::no_log_sum_exp, name);
        }
    }

    /// The softmax that these weights are multiples of; -1 where there is none.
    constexpr node_id softmax_of(node_id weights) const {
        while (node(weights).op != operation::softmax && node(weights).op != operation::unnormalized) {
            const instruction& it = node(weights);
            for (int a = 0; a < it.argument_count; ++a)
                if (node(it.arguments[a]).kind == kind::weights) weights = it.arguments[a];
        }
        return node(weights).op == operation::softmax ? weights : no_node;
    }

    /// The output that is the log-sum-exp of the same scores and sink as a softmax; -1 where there is none.
    constexpr int log_sum_of(node_id softmax) const {
        for (int i = 0; i < whole_.output_count; ++i) {
            const instruction& it = node(whole_.outputs[i].node);
            if (it.op == operation::log_sum_exp && it.arguments == node(softmax).arguments) return i;
        }
        return -1;
    }

    // --- tensors

    static constexpr bool is_spread(axis_kind over) {
        return over == axis_kind::query || over == axis_kind::key || over == axis_kind::head ||
               over == axis_kind::key_head;
    }
    static constexpr operation own_index(axis_kind over) {
        if (over == axis_kind::query) return operation::q_idx;
        return over == axis_kind::key ? operation::kv_idx : operation::h;
    }
    static constexpr std::string_view name_of_whole(axis_kind over) {
        if (over == axis_kind::head) return "all_heads";
        if (over == axis_kind::key_head) return "all_key_heads";
        return over == axis_kind::query ? "all_queries" : "all_keys";
    }

    /// A shard has its own rows of an axis that is read at the position or head itself alone; of any other it has all.
    /// So it does of the keys of a tensor of pairs, which no two shards share.
    constexpr void find_axes_kept_whole() {
        for (node_id n{}; n < whole_.node_count; ++n) {
            const instruction& it = node(n);
            if (it.op != operation::load || node(it.arguments[0]).op != operation::input) continue;
            const std::int16_t input = node(it.arguments[0]).input;
            const input_declaration& declared = whole_.inputs[input];
            bool of_pairs = false;
            for (int a = 0; a < declared.rank; ++a) of_pairs = of_pairs || declared.axes[a].kind == axis_kind::query;
            for (int a = 0; a < declared.rank; ++a) {
                const axis_kind over = declared.axes[a].kind;
                const operation index = node(it.arguments[a + 1]).op;
                if (is_spread(over) && (index != own_index(over) || (over == axis_kind::key && of_pairs)))
                    kept_whole_[input][a] = true;
            }
        }
        for (node_id n{}; n < whole_.node_count; ++n) {
            const instruction& it = node(n);
            if (it.op == operation::load || it.op == operation::extent) continue;
            for (int a = 0; a < it.argument_count; ++a)
                if (const instruction& used = node(it.arguments[a]); used.op == operation::input)
                    for (int axis = 0; axis < whole_.inputs[used.input].rank; ++axis)
                        if (kept_whole_[used.input][axis])
                            fail(shard_fault::read_elsewhere, whole_.inputs[used.input].name);
        }
    }

    /// Whether an axis of an input has the shard's rows or heads, and not all.
    constexpr bool is_cut(std::int16_t input, int axis) const {
        return is_spread(whole_.inputs[input].axes[axis].kind) && !kept_whole_[input][axis];
    }

    constexpr node_id tensor(std::int16_t input) {
        input_declaration declared = whole_.inputs[input];
        for (int a = 0; a < declared.rank; ++a)
            if (kept_whole_[input][a]) declared.axes[a] = {axis_kind::free, name_of_whole(declared.axes[a].kind)};
        return made_.add({.op = operation::input,
                          .kind = kind::tensor,
                          .input = made_.add_input(declared, whole_.derivative_names_of_inputs[input])});
    }

    // --- nodes

    /// Whether an argument is passed over: the position itself along a cut axis, or a number for which a shard has its
    /// own.
    constexpr bool is_replaced(const instruction& it, int argument) const {
        const instruction& first = node(it.arguments[0]);
        if (it.op == operation::queries || it.op == operation::keys || it.op == operation::values) return argument == 1;
        if (reads_formed(it)) return argument == 2 || argument == 3;
        return it.op == operation::load && first.op == operation::input && argument > 0 &&
               is_cut(first.input, argument - 1);
    }

    /// Whether an element of queries, keys or values of a formula is read, as gradients do at h and their positions.
    constexpr bool reads_formed(const instruction& it) const {
        const operation of = node(it.arguments[0]).op;
        return it.op == operation::load &&
               (of == operation::queries || of == operation::keys || of == operation::values);
    }

    /// Whether an argument is the key head of h, of a tensor that a shard has whole.
    constexpr bool is_key_head(const instruction& it, int argument) const {
        const instruction& first = node(it.arguments[0]);
        return it.op == operation::load && first.op == operation::input && argument > 0 &&
               whole_.inputs[first.input].axes[argument - 1].kind == axis_kind::key_head &&
               node(it.arguments[argument]).op == operation::h;
    }

    template <class N> constexpr node_id write(const N& formula) { return enter(made_, formula); }

    constexpr node_id rewritten(node_id n) {
        instruction it = node(n);
        if (it.op == operation::q_idx) return write(of_shard::query_positions(q_idx));
        if (it.op == operation::kv_idx) return write(of_shard::key_positions(kv_idx));
        if (it.op == operation::h) return write(of_shard::first_head + h);
        if (it.op == operation::heads) return write(of_shard::all_heads);
        if (it.op == operation::key_heads) return write(of_shard::all_key_heads);
        if (it.op == operation::query_length) return write(of_shard::all_queries);
        if (it.op == operation::key_length) return write(of_shard::all_keys);
        if (it.op == operation::kv_lengths) return write(of_shard::lengths(b));
        if (it.op == operation::input) return tensor(it.input);
        if (it.op == operation::extent) return rewritten_extent(it);
        if (it.op == operation::bound) it.integer = made_.add_index(whole_.indices[it.integer]);
        if (it.op == operation::scalar) it.input = made_.add_input(whole_.inputs[it.input]);
        for (int a = 0; a < it.argument_count; ++a)
            it.arguments[a] = is_replaced(node(n), a) ? replaced(node(n), a)
                              : is_key_head(node(n), a)
                                  ? write(floor_div(of_shard::first_head + h,
                                                    floor_div(of_shard::all_heads, of_shard::all_key_heads)))
                                  : now_[it.arguments[a]];
        if (it.op == operation::softmax || it.op == operation::log_sum_exp || it.op == operation::unnormalized ||
            it.op == operation::row_maximum)
            it.arguments[0] = within_lengths(it.arguments[0]);
        if ((it.op == operation::softmax || it.op == operation::log_sum_exp) && it.argument_count > 1)
            it.arguments[1] =
                write(where(of_shard::with_sinks != 0, entered<kind::real, use::data>{it.arguments[1]}, -inf));
        if (it.op == operation::keep && it.argument_count == about(it.op).fewest)
            for (const node_id drawn_for :
                 {write(b), write(of_shard::first_head + h), write(of_shard::query_positions(q_idx)),
                  write(of_shard::key_positions(kv_idx))})
                it.arguments[it.argument_count++] = drawn_for;
        return made_.add(it);
    }

    constexpr node_id replaced(const instruction& it, int argument) {
        if (it.op == operation::queries) return write(extent<0>(of_shard::query_positions));
        if (it.op != operation::load) return write(extent<0>(of_shard::key_positions));
        if (reads_formed(it)) {
            if (argument == 2) return write(h);
            return node(it.arguments[0]).op == operation::queries ? write(q_idx) : write(kv_idx);
        }
        const axis_kind over = whole_.inputs[node(it.arguments[0]).input].axes[argument - 1].kind;
        if (over == axis_kind::query) return write(q_idx);
        return over == axis_kind::key ? write(kv_idx) : write(h);
    }

    constexpr node_id rewritten_extent(instruction it) {
        const std::int16_t input = node(it.arguments[0]).input;
        if (is_cut(input, static_cast<int>(it.integer))) switch (whole_.inputs[input].axes[it.integer].kind) {
                case axis_kind::query: return write(of_shard::all_queries);
                case axis_kind::key: return write(of_shard::all_keys);
                case axis_kind::head: return write(of_shard::all_heads);
                default: return write(of_shard::all_key_heads);
            }
        it.arguments[0] = tensor(input);
        return made_.add(it);
    }

    constexpr node_id within_lengths(node_id scores) {
        return write(
            mask(entered<kind::scores, use::data>{scores}, of_shard::key_positions(kv_idx) < of_shard::lengths(b)));
    }

    // --- outputs

    template <kind Is> constexpr auto as_it_is(node_id n) {
        return entered<Is, Is == kind::output ? use::output : use::row>{n};
    }

    /// An output's result of the calls before.
    template <kind Is> constexpr auto before_of(int output) {
        using enum axis_kind;
        constexpr auto over = [](axis_kind axis) { return axis_declaration{axis, name_of(axis)}; };
        input_declaration d{whole_.before_names_of_outputs[output],
                            element_type::f32,
                            false,
                            3,
                            {over(batch), over(head), over(query)}};
        instruction load{.op = operation::load, .kind = kind::real, .argument_count = 4};
        if (Is == kind::output) d.element = element_type::any, d.rank = 4, d.axes[3] = over(value_depth);
        load.arguments = {made_.add({.op = operation::input, .kind = kind::tensor, .input = made_.add_input(d)}),
                          write(b), write(h), write(q_idx)};
        if (Is == kind::output) load.arguments[load.argument_count++] = write(d_idx);
        const entered<kind::real, use::data> left{made_.add(load)};
        if constexpr (Is == kind::output)
            return as_output(left);
        else
            return as_row(left);
    }

    template <kind Is> constexpr node_id joined_sum(int output) {
        const node_id n = whole_.outputs[output].node;
        const node_id softmax = softmax_of(node(n).arguments[0]);
        if (softmax < 0) return write(as_it_is<Is>(now_[n]) + before_of<Is>(output));
        const int lse = log_sum_of(softmax);
        return write(merged_sum(as_it_is<Is>(now_[n]), as_it_is<kind::row>(now_[whole_.outputs[lse].node]),
                                before_of<Is>(output), before_of<kind::row>(lse)));
    }

    /// An output joined with the result of the calls before.
    constexpr node_id joined(int output) {
        const node_id n = whole_.outputs[output].node;
        const instruction& it = node(n);
        const auto row = as_it_is<kind::row>(now_[n]);
        if (it.op == operation::row_maximum) return write(max(row, before_of<kind::row>(output)));
        if (it.op == operation::log_sum_exp) return write(merged_log_sum(row, before_of<kind::row>(output)));
        return it.kind == kind::output ? joined_sum<kind::output>(output) : joined_sum<kind::row>(output);
    }
};

}  // namespace attune::dsl::detail

#pragma GCC diagnostic pop
