#include "cpu/backward.hpp"

#include <algorithm>

/// Terms of gradients that are placed by an index: of a query or of a key, or pair by pair.
namespace attune::generators::inline cpu {
using namespace Halide;

std::vector<Expr> backward_sweep::indices(const gradient_term& term, const place& at) const {
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
bool backward_sweep::indexes(const gradient_term& term, axis_kind axis, operation by) const {
    const instruction& deposit = f_.node(term.deposit);
    const input_declaration& to = f_.graph().inputs[deposit.input];
    for (int a = 0; a < to.rank; ++a)
        if (to.axes[a].kind == axis && f_.node(deposit.arguments[a + 1]).op == by) return true;
    return false;
}

/// Whether only the first head adds, as it does to a tensor without heads.
bool backward_sweep::is_of_first_head(const gradient_term& term) const {
    const instruction& value = f_.node(term.value);
    if (value.op != operation::where) return false;
    const instruction &condition = f_.node(value.arguments[0]), &otherwise = f_.node(value.arguments[2]);
    if (condition.op != operation::equal || otherwise.op != operation::constant || otherwise.number != 0) return false;
    const instruction& head = f_.node(condition.arguments[1]);
    return f_.node(condition.arguments[0]).op == operation::h && head.op == operation::constant && head.integer == 0;
}

/// Adds loops over the heads of a group, the parts, key heads and batch elements. Loops that decide a place are last,
/// and run in parallel; the others add up in order.
void backward_sweep::add_task_loops(task_loops& loops, const gradient_term& term, const Expr& parts, bool pairs) const {
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
void backward_sweep::know_numbers(place& here, int formula, const std::vector<int>& known,
                                  const std::vector<Expr>& at) {
    for (const int n : hoistable(f_.graph(), f_.depends, {formula}, known)) {
        const quantity x = f_.evaluate(n, {f_.b, f_.h, i, i, f_.inputs.keys_in_use(f_.b)});
        if (is_const(x.value)) continue;
        const std::vector<Var> over{i, f_.h, f_.b};
        here.known[n] = of_positions.try_emplace(n, "of_positions_" + std::to_string(n), x, over).first->second.at(at);
    }
}

/// Adds a term's number of each query, or of each key and part, at the place that its index gives.
void backward_sweep::add_placed(Func gradient, const gradient_term& term) {
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

/// Needs a last axis whose elements lie side by side in memory, and whose length is the call's.
backward_sweep::pair_pass::along backward_sweep::last_axis_of(const gradient_term& term) const {
    const instruction& deposit = f_.node(term.deposit);
    const input_declaration& to = f_.graph().inputs[deposit.input];
    if (to.rank == 0 || !term.over.empty() || tasks.block % lanes_of(f_.request.schedule) != 0)
        return pair_pass::along::neither;
    const axis_kind axis = to.axes[to.rank - 1].kind;
    const operation index = f_.node(deposit.arguments[to.rank]).op;
    const auto is_along = [&](axis_kind kind, operation position, operation rows) {
        return axis == kind && index == position && !length_is_given(f_.graph(), rows);
    };
    if (is_along(axis_kind::key, operation::kv_idx, operation::keys)) return pair_pass::along::keys;
    if (is_along(axis_kind::query, operation::q_idx, operation::queries)) return pair_pass::along::queries;
    return pair_pass::along::neither;
}

void backward_sweep::add_by_pair(Func gradient, const gradient_term& term) {
    passes.push_back({pair_block(f_, tasks, term.tiles, {}), gradient});
    pair_pass& pass = passes.back();
    pass.last_axis = last_axis_of(term);
    // Algorithm
    task_loops loops;
    for (std::size_t i = term.over.size(); i-- > 0;)
        loops.ranges.emplace_back(0, max(f_.evaluate(term.over[i].extent, {}).value, 0));
    const std::size_t pair = loops.ranges.size();
    for (const Expr& extent :
         {Expr(tasks.block), Expr(tasks.block), tasks.key_blocks, tasks.blocks_of_part, tasks.group})
        loops.ranges.emplace_back(0, extent);
    add_task_loops(loops, term, tasks.parts, true);
    // A name of its own: storage is hoisted to each loop of a gradient that has the name.
    RDom each_pair(loops.ranges, "each_pair" + std::to_string(gradient.num_update_definitions()));
    const Expr task = tasks.number(each_pair[loops.batch], each_pair[loops.key_head], each_pair[loops.part]);
    const auto here = [&](Expr of_block) {
        for (const auto& [name, value] : {std::pair<std::string, Expr>(f_.ki.name(), each_pair[pair]),
                                          {f_.qi.name(), each_pair[pair + 1]},
                                          {f_.kb.name(), each_pair[pair + 2]},
                                          {f_.qt.name(), each_pair[pair + 3]},
                                          {f_.h.name(), each_pair[pair + 4]},
                                          {f_.b.name(), task}})
            of_block = Internal::graph_substitute(name, value, of_block);  // shared parts stay shared
        return of_block;
    };
    each_pair.where(visits(each_pair[pair + 2], each_pair[pair + 3] * tasks.parts + each_pair[loops.part],
                           each_pair[loops.key_head] * tasks.group + each_pair[pair + 4],
                           each_pair[loops.batch]) != cast<std::uint8_t>(0));
    place at = pass.pairs.at_pair();
    for (std::size_t i = 0; i < term.over.size(); ++i)
        at.indices[static_cast<int>(f_.node(term.over[i].index).integer)] = each_pair[term.over.size() - 1 - i];
    std::vector<Expr> places = indices(term, at);
    for (const auto& [node, tile] : pass.pairs.tiles)
        at.known[node] = made_of_pairs(tile(f_.qi, f_.ki, f_.kb, f_.qt, f_.h, f_.b));
    quantity x = f_.evaluate(term.value, at);
    if (f_.node(term.value).op != operation::constant && !pass.pairs.tiles.contains(term.value))
        x.value = select(x.masked.defined() ? pass.pairs.beyond() || x.masked : pass.pairs.beyond(), 0.0f, x.value);
    if (pass.last_axis != pair_pass::along::neither) {
        const bool of_keys = pass.last_axis == pair_pass::along::keys;
        const Expr length = of_keys ? f_.inputs.key_length : f_.inputs.query_length;
        each_pair.where(likely(here(of_keys ? at.k : at.q) < length));  // whole vectors are stored as one
        places.front() = unsafe_promise_clamped(of_keys ? at.k : at.q, 0, length - 1);
        if (of_keys) {
            pass.numbers = Func("numbers_of_" + gradient.name());
            const std::vector<Var> keys_first{f_.ki, f_.qi, f_.kb, f_.qt, f_.h, f_.b};
            pass.numbers(keys_first) = x.value;
            x.value = pass.numbers(keys_first);
        }
    }
    for (Expr& index : places) index = here(index);
    gradient(places) += here(x.value);
    pass.stage = gradient.num_update_definitions(), pass.loops = each_pair;
    pass.key = pair, pass.query = pair + 1, pass.key_block = pair + 2, pass.block = pair + 3, pass.group = pair + 4;
    pass.first_parallel = loops.first_parallel;
}

}  // namespace attune::generators::inline cpu
