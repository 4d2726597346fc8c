#include "stages/epilogue.hpp"

#include "expr/math.hpp"

#include <algorithm>
#include <utility>

namespace attune::generators::inline stages {
using namespace Halide;

epilogue::epilogue(const kernel_frame& frame, std::vector<const row_state*> states)
    : block(states.empty() ? frame.cut.query_block : states.front()->block()),
      f_(frame),
      cores_(frame.core.cores()),
      states_(std::move(states)),
      row_{f_.qi, f_.qt, f_.h, f_.b},
      at_row_(row_.begin(), row_.end()),
      in_loop_{f_.q % block, f_.q / block, f_.h, f_.b} {
    // Algorithm
    const plan& core = f_.core;
    if (!states_.empty()) primitives_ = primitives();
    for (int i = 0; i < static_cast<int>(states_.size()); ++i) {
        if (states_[i]->chunk() == 0) continue;
        Expr sums = states_[i]->accumulated_of(in_loop_, f_.d);
        if (cores_[i]->weights_by == statistic::softmax) {
            const Expr inverse = denominator(i, cores_[i]->sink)(in_loop_)[0];
            sums = select(is_exactly(inverse, 0.0f), 0.0f, sums * inverse);
        }
        Func& result = normal.try_emplace(i, "normal").first->second;
        result(f_.q, f_.d, f_.h, f_.b) = sums;
    }
    std::vector<Expr> values;
    for (std::size_t i = 0; i < core.outputs.size(); ++i) {
        const int node = f_.graph().outputs[i].node;
        if (core.outputs[i] != kind::output && core.outputs[i] != kind::row) continue;
        values.push_back(core.outputs[i] == kind::output ? written_output(node, halide_type(f_.request.types.output))
                                                         : written_row(node));
        made.push_back(core.outputs[i]);
    }
    if (!states_.empty()) mark(values);
    if (core.saved_rows > 0) {
        values.push_back(states_.front()->maximum_of(in_loop_));
        values.push_back(denominator(0, core.sink)(in_loop_)[0]);
        made.insert(made.end(), {kind::row, kind::row});
    }
    if (core.saved_output >= 0) {
        values.push_back(written_output(core.saved_output, Float(32)));
        made.push_back(kind::output);
    }
    if (values.size() == 1)
        outputs(f_.d, f_.q, f_.h, f_.b) = values[0];
    else if (!values.empty())
        outputs(f_.d, f_.q, f_.h, f_.b) = Tuple(values);
}

int epilogue::marked() const {
    const auto first = std::ranges::find(made, kind::output);
    return first == made.end() ? 0 : static_cast<int>(first - made.begin());
}

/// The first channel of a marked row is NaN; if an output has one number a row, that number is.
void epilogue::mark(std::vector<Expr>& values) const {
    Expr is = states_.front()->is_marked(in_loop_, f_.d);
    if (!is.defined()) return;
    const std::size_t at = static_cast<std::size_t>(marked());
    if (made[at] == kind::output) is = is && f_.d == 0;
    values[at] = not_a_number_where(is, values[at]);
}

std::vector<Func> epilogue::of_rows() const {
    std::vector<Func> all = rows;
    for (const auto& [sink, row] : denominators) all.push_back(row);
    return all;
}

Expr epilogue::saved_row(int from_last, const Expr& query) const {
    return outputs(0, query, f_.h, f_.b)[outputs.outputs() - from_last - (f_.core.saved_output >= 0 ? 1 : 0)];
}

Func epilogue::saved_output() const {
    Func saved_output("saved_output");
    const FuncRef made = outputs(f_.d, f_.q, f_.h, f_.b);
    saved_output(f_.d, f_.q, f_.h, f_.b) = number_at(made, outputs.outputs() - 1);
    return saved_output;
}

/// Two functions of the sum of softmax's weights, with a sink or none: 1 / sum, relative to the state's maximum, 0 for
/// a row without a visible key; and the logarithm of the sum.
const Func& epilogue::denominator(int core, int sink) {
    const auto [at, is_new] = denominators.try_emplace({core, sink}, "denominator_" + std::to_string(sink + 1));
    Func& result = at->second;
    if (!is_new) return result;
    const row_state& state = *states_[core];
    const Expr sum = state.sum_of(at_row_), none = is_exactly(sum, 0.0f),
               highest = state.maximum_of(at_row_) * state.scale();
    if (sink < 0) {
        result(row_) = Tuple(select(none, 0.0f, 1.0f / sum), highest + natural_logarithm(at_least(sum, 1e-30f)));
        return result;
    }
    const quantity x = f_.evaluate(sink, {f_.b, f_.h, query_of_row(), 0, f_.inputs.keys_in_use(f_.b)});
    const Expr absent = x.masked.defined() ? x.masked : Internal::const_false();
    // Both relative to the larger of the two.
    const Expr of_keys = select(none, x.value, highest), of_sink = select(absent, of_keys, x.value),
               top = at_least(of_keys, of_sink);
    const Expr scale = exp2_of_nonpositive((of_keys - top) * log2_of_e);
    const Expr all = sum * scale + select(absent, 0.0f, exp2_of_nonpositive((of_sink - top) * log2_of_e));
    result(row_) =
        Tuple(select(none, 0.0f, scale / at_least(all, 1e-30f)), top + natural_logarithm(at_least(all, 1e-30f)));
    return result;
}

quantity epilogue::logarithm(int core, int sink) const {
    const FuncRef of = denominators.at({core, sink})(at_row_);
    const Expr none = is_exactly(states_[core]->sum_of(at_row_), 0.0f);
    if (sink < 0) return {of[1], none};
    const quantity x = f_.evaluate(sink, {f_.b, f_.h, query_of_row(), 0, f_.inputs.keys_in_use(f_.b)});
    return {of[1], x.masked.defined() ? none && x.masked : Expr()};
}

/// The core that makes a weighted sum, a sum of weights, a log-sum-exp or a maximum.
int epilogue::core_of(int n) const {
    const instruction& it = f_.node(n);
    const int of = it.arguments[0];
    const auto makes = [&](const plan& core) {
        if (it.op == operation::weighted_sum) return core.weights == of && core.value == it.arguments[1];
        if (it.op == operation::row_sum) return std::ranges::find(core.summed_weights, of) != core.summed_weights.end();
        return core.scores == of && (it.op == operation::log_sum_exp ? core.log_sum : core.maximum);
    };
    return static_cast<int>(std::ranges::find_if(cores_, [&](const plan* core) { return makes(*core); }) -
                            cores_.begin());
}

/// The numbers from which rows are computed, at (query in block, query block, head, batch).
std::map<int, quantity> epilogue::primitives() {
    std::map<int, quantity> known;
    for (int n = 0; n < static_cast<int>(f_.graph().nodes.size()); ++n) {
        const instruction& node = f_.node(n);
        if (node.op == operation::log_sum_exp) {
            const int core = core_of(n), sink = node.argument_count > 1 ? node.arguments[1] : -1;
            denominator(core, sink);
            known[n] = logarithm(core, sink);
        } else if (node.op == operation::row_maximum) {
            const int core = core_of(n);
            const row_state& state = *states_[core];
            const Expr highest = state.maximum_of(at_row_);
            if (is_softmax(*cores_[core])) {  // the sum keeps a NaN
                const Expr sum = state.sum_of(at_row_);
                known[n] = {select(holds_nan(sum), sum, highest * state.scale()), is_exactly(sum, 0.0f)};
            } else {
                known[n] = {highest * state.scale(), is_exactly(highest, lowest)};
            }
        } else if (node.op == operation::row_sum) {
            const int core = core_of(n);
            Expr sum = states_[core]->summed_of(node.arguments[0], at_row_);
            if (cores_[core]->weights_by == statistic::softmax)
                sum = sum * denominator(core, cores_[core]->sink)(at_row_)[0];
            known[n] = {sum, {}};
        }
    }
    return known;
}

/// Computes a node that does not depend on the channel once a query.
void epilogue::hoist(int node) {
    if (hoisted_.contains(node)) return;
    const quantity x = f_.evaluate(node, {f_.b, f_.h, query_of_row(), 0, f_.inputs.keys_in_use(f_.b), primitives_});
    const kept_number kept("row_" + std::to_string(node), {x.value, x.masked}, row_, flag_of_rows(f_.request));
    rows.push_back(kept.values);
    hoisted_.emplace(node, kept);
}

Expr epilogue::written_row(int node) {
    const quantity x = f_.evaluate(node, {f_.b, f_.h, query_of_row(), 0, f_.inputs.keys_in_use(f_.b), primitives_});
    Func written("written_" + std::to_string(node));
    written(row_) = x.masked.defined() ? or_negative_infinity(!x.masked, x.value) : x.value;
    rows.push_back(written);
    return written(in_loop_);
}

Expr epilogue::written_output(int node, const Type& type) {
    const graph_ir& graph = f_.graph();
    place at{f_.b, f_.h, f_.q, 0, f_.inputs.keys_in_use(f_.b), {}, f_.d};
    // Intermediate rows, and other numbers that are computed once a query.
    const auto is_done = [&](int n) {
        return f_.node(n).kind == kind::row || f_.node(n).op == operation::weighted_sum;
    };
    const std::vector<bool> reached = under(graph, {node}, is_done);
    std::vector<int> known;
    for (int n = node; n >= 0; --n) {
        if (!reached[n] || !is_done(n)) continue;
        known.push_back(n);
        if (f_.node(n).kind == kind::row)
            hoist(n), at.known[n] = hoisted_.at(n).at(in_loop_);
        else
            at.known[n] = {normal.at(core_of(n))(f_.q, f_.d, f_.h, f_.b), {}};
    }
    for (int n : hoistable(graph, f_.depends, {node}, known)) hoist(n), at.known[n] = hoisted_.at(n).at(in_loop_);
    const quantity x = f_.evaluate(node, at);
    const Expr number = x.masked.defined() ? or_negative_infinity(!x.masked, x.value) : x.value;
    const bool by_instruction = uses_tensor_cores(f_.request.schedule) && type.is_float() && type.bits() == 16;
    return by_instruction ? rounded_by_instruction(type, number) : stored_as(type, number);
}

}  // namespace attune::generators::inline stages
