#include "cpu/backward.hpp"

/// Terms of gradients that are placed pair by pair.
namespace attune::generators::inline cpu {
using namespace Halide;

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
