#include "stages/gradient_terms.hpp"

#include "expr/math.hpp"

#include <attune/ir/gradient_outputs.hpp>

#include <algorithm>

namespace attune::generators::inline stages {
using namespace Halide;

gradient_terms::gradient_terms(kernel_frame& frame) : plan(*frame.request.facts->gradient), tasks(frame), f_(frame) {}

/// An output: the f32 sum, rounded to the element type of the tensor whose gradient it is.
Func gradient_terms::rounded_to(const Func& sum, std::size_t output) {
    const int input = input_of_gradient(f_.graph(), f_.graph().outputs[output]);
    const input_declaration& of = f_.graph().inputs[static_cast<std::size_t>(input)];
    const Type type = of.element == element_type::any ? f_.inputs.tensor(input).type() : Float(32);
    if (type == Float(32)) return sum;
    // Algorithm
    Func rounded_gradient("rounded_" + sum.name());
    const std::vector<Var> axes = sum.args();
    rounded_gradient(axes) = cast(type, sum(axes));
    return rounded_gradient;
}

std::vector<Expr> gradient_terms::indices(const gradient_term& term, const place& at) const {
    const instruction& deposit = f_.node(term.deposit);
    const input_declaration& to = f_.graph().inputs[deposit.input];
    std::vector<Expr> all;
    for (int axis = to.rank - 1; axis >= 0; --axis) {
        const int argument = deposit.arguments[axis + 1];
        const Expr extent = f_.inputs.tensor(deposit.input).dim(to.rank - 1 - axis).extent();
        if (to.axes[axis].kind == axis_kind::key_head && f_.node(argument).op == operation::h)
            all.push_back(f_.inputs.key_head(at.h));
        else
            all.push_back(clamp(f_.evaluate(argument, at).value, 0, extent - 1));
    }
    return all;
}

/// Whether a deposit is at a bare index along such an axis: different indices are different places then.
bool gradient_terms::indexes(const gradient_term& term, axis_kind axis, operation by) const {
    const instruction& deposit = f_.node(term.deposit);
    const input_declaration& to = f_.graph().inputs[deposit.input];
    for (int a = 0; a < to.rank; ++a)
        if (to.axes[a].kind == axis && f_.node(deposit.arguments[a + 1]).op == by) return true;
    return false;
}

/// Whether only the first head adds, as it does to a tensor without heads.
bool gradient_terms::is_of_first_head(const gradient_term& term) const {
    const instruction& value = f_.node(term.value);
    if (value.op != operation::where) return false;
    const instruction &condition = f_.node(value.arguments[0]), &otherwise = f_.node(value.arguments[2]);
    if (condition.op != operation::equal || otherwise.op != operation::constant || otherwise.number != 0) return false;
    const instruction& head = f_.node(condition.arguments[1]);
    return f_.node(condition.arguments[0]).op == operation::h && head.op == operation::constant && head.integer == 0;
}

/// Adds loops over the heads of a group, the parts, key heads and batch elements. Loops that decide a place are last,
/// and run in parallel; the others add up in order.
void gradient_terms::add_task_loops(task_loops& loops, const gradient_term& term, const Expr& parts, bool pairs) const {
    const bool of_batch = indexes(term, axis_kind::batch, operation::b),
               of_head =
                   indexes(term, axis_kind::head, operation::h) || indexes(term, axis_kind::key_head, operation::h);
    const bool of_part =
        pairs && !length_is_given(f_.graph(), operation::queries) && indexes(term, axis_kind::query, operation::q_idx);
    for (const bool decides : {false, true}) {
        if (decides) loops.first_parallel = loops.ranges.size();
        const auto add = [&](std::size_t& place, const Expr& extent, bool does) {
            if (does == decides) place = loops.ranges.size(), loops.ranges.emplace_back(0, extent);
        };
        add(loops.part, parts, of_part);
        add(loops.key_head, is_of_first_head(term) ? Expr(1) : tasks.key_heads, of_head);
        add(loops.batch, max(f_.inputs.batches, 0), of_batch);
    }
}

/// Computes the numbers of a position that a formula reads once. They are known where the formula is evaluated, `at`
/// (position, head, batch).
void gradient_terms::know_numbers(place& here, int formula, const std::vector<int>& known,
                                  const std::vector<Expr>& at) {
    for (const int n : hoistable(f_.graph(), f_.depends, {formula}, known)) {
        const quantity x = f_.evaluate(n, {f_.b, f_.h, i, i, f_.inputs.keys_in_use(f_.b)});
        if (is_const(x.value)) continue;
        const std::vector<Var> over{i, f_.h, f_.b};
        here.known[n] = of_positions.try_emplace(n, "of_positions_" + std::to_string(n), x, over).first->second.at(at);
    }
}

/// A position of a query head, or of a key head.
place gradient_terms::at_position(const gradient_term& term, bool of_heads) const {
    const Expr keys = f_.inputs.keys_in_use(f_.b), head = of_heads ? Expr(f_.h) : f_.h * tasks.group,
               at = clamp(i, 0, (term.of_queries ? f_.inputs.query_length : max(keys, 1)) - 1);
    return {f_.b, head, at, at, keys};
}

/// The number that a term adds up first, for each position of each head.
Func gradient_terms::number_of(const gradient_term& term, bool of_heads) {
    const auto [entry, is_new] = added_first.try_emplace(
        {term.added_first, of_heads}, added_number{Func("added_" + std::to_string(term.added_first)), {}});
    added_number& added = entry->second;
    if (!is_new) return added.sum;
    // Algorithm
    added.over = RDom(0, max(f_.evaluate(term.added_over.extent, {}).value, 0), "added_over");
    place here = at_position(term, of_heads);
    here.indices = {{static_cast<int>(f_.node(term.added_over.index).integer), added.over}};
    std::vector<int> sums;
    for (const auto& [node, number] : term.sums) {
        here.known[node] = made_of_pairs(whole(number, added.over));
        sums.push_back(node);
    }
    know_numbers(here, term.added_first, sums, {here.q, here.h, here.b});
    const quantity x = f_.evaluate(term.added_first, here);
    added.sum(i, f_.h, f_.b) = 0.0f;
    added.sum(i, f_.h, f_.b) += x.masked.defined() ? select(x.masked, 0.0f, x.value) : x.value;
    return added.sum;
}

/// Adds a term's number of each query, or of each key and part, at the place that its index gives.
void gradient_terms::add_placed(Func gradient, const gradient_term& term) {
    const bool made_first = term.added_first >= 0;  // of all parts
    const bool per_head = term.sums.empty() || term.of_queries || std::ranges::any_of(term.sums, [&](const auto& each) {
                              return plan.sums[each.second].per_head;
                          });
    // Algorithm
    task_loops loops;
    for (std::size_t i = term.over.size(); i-- > 0;)
        loops.ranges.emplace_back(0, max(f_.evaluate(term.over[i].extent, {}).value, 0));
    const std::size_t position = loops.ranges.size();
    loops.ranges.emplace_back(0, term.of_queries ? f_.inputs.query_length : f_.inputs.key_length);
    loops.ranges.emplace_back(0, per_head && !is_of_first_head(term) ? tasks.group : Expr(1));
    add_task_loops(loops, term, term.of_queries || made_first ? Expr(1) : tasks.parts, false);
    const RDom each_place(loops.ranges, "each_place");

    const Expr at = each_place[position], b = each_place[loops.batch],
               h = each_place[loops.key_head] * tasks.group + each_place[position + 1];
    place here{b, h, at, at, f_.inputs.keys_in_use(b)};
    std::vector<int> made_before{term.added_first};
    for (const auto& [node, number] : term.sums) made_before.push_back(node);
    know_numbers(here, term.value, made_before, {at, h, b});
    for (std::size_t i = 0; i < term.over.size(); ++i)
        here.indices[static_cast<int>(f_.node(term.over[i].index).integer)] = each_place[term.over.size() - 1 - i];
    if (made_first)
        here.known[term.added_first] =
            made_of_pairs(number_of(term, per_head)(at, per_head ? h : each_place[loops.key_head], b));
    for (const auto& [node, number] : term.sums) {
        if (made_first) break;
        const int channel = plan.sums[number].channel;
        const Expr d = channel < 0 ? Expr(0) : here.indices.at(channel);
        here.known[node] = made_of_pairs(made(number, d, at, h, each_place[loops.part], b));
    }
    const quantity x = f_.evaluate(term.value, here);
    // Sums over nothing are 0, but their factors need not be finite if there is no key.
    const Expr over_nothing = !term.of_queries    ? at >= here.key_limit
                              : term.sums.empty() ? Internal::const_false()
                                                  : here.key_limit <= 0;
    const Expr adds_nothing = x.masked.defined() ? over_nothing || x.masked : over_nothing;
    gradient(indices(term, here)) += select(adds_nothing, 0.0f, x.value);
    placed.push_back({gradient, gradient.num_update_definitions(), each_place, loops.first_parallel});
}

}  // namespace attune::generators::inline stages
