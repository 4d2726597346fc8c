#include "gpu/backward.hpp"

#include "stages/masked_values.hpp"

#include <algorithm>
#include <limits>

namespace attune::generators::inline gpu {
using namespace Halide;

gradient_passes::side_pass::side_pass(kernel_frame& f, const backward_tasks& tasks, const side_plan& planned,
                                      const std::vector<gradient_sum>& sums, const std::map<int, quantity>& kept)
    : planned(planned),
      own(planned.of_queries ? f.qi : f.ki),
      own_block(planned.of_queries ? f.qt : f.kb),
      pairs(f, tasks, planned.tiles, sums, kept),
      state(planned.of_queries   ? "sums_of_queries"
            : planned.adds_heads ? "sums_of_keys"
                                 : "sums_of_keys_of_heads"),
      made("made_of_" + state.name()) {}

gradient_passes::gradient_passes(kernel_frame& frame)
    : gradient_terms(frame),
      planned_(std::get<side_passes_plan>(frame.planned().body)),
      single_(frame, block_sizes{1, 1}),
      of_single_(single_) {
    define_visits();
    for (const side_plan& side : planned_.sides) {
        std::vector<gradient_sum> sums;
        for (const std::size_t number : side.sums) sums.push_back(plan.sums[number]);
        const std::map<int, quantity> kept = sides.empty() ? std::map<int, quantity>{} : sides.back().pairs.of_sides;
        define(sides.emplace_back(f_, tasks, side, sums, kept));
    }
    define_outputs();
}

void gradient_passes::define_visits() {
    // Algorithm
    visits(f_.kb, f_.qt, f_.h, f_.b) = cast<std::uint8_t>(f_.visible(f_.core.scores).may);
}

void gradient_passes::define(side_pass& its) {
    const bool of_queries = its.planned.of_queries, adds_heads = its.planned.adds_heads;
    const int other = of_queries ? f_.cut.key_block : f_.cut.query_block;
    const std::vector<Expr> at{its.own, its.own_block, f_.h, f_.b};
    // Algorithm
    std::vector<Expr> initial;
    for (const std::size_t number : its.planned.sums) {
        const gradient_sum& sum = plan.sums[number];
        const bool multiplies = sum.rows >= 0;
        added_sum added;
        added.number = number, added.first = static_cast<int>(initial.size());
        added.count = multiplies ? its.planned.channels : 1;
        initial.resize(initial.size() + static_cast<std::size_t>(added.count), 0.0f);
        added.added = RDom(0, other, "added");
        const Func& tile = its.pairs.tiles.at(sum.pairs);
        Expr x = of_queries ? tile(f_.qi, added.added, f_.kb, f_.qt, f_.h, f_.b)
                            : tile(added.added, f_.ki, f_.kb, f_.qt, f_.h, f_.b);
        if (multiplies) {  // neighbouring threads have neighbouring channels; the last ones may have none
            const int depth = sum.of_values ? f_.value_depth() : f_.depth();
            const Expr d = min(its.channel * its.planned.across + its.thread, depth - 1);
            x = x * masked_values::unless_masked(x, its.pairs.rows(sum, depth)(d, added.added));
        }
        added.product = Func("product_" + std::to_string(number));
        const std::vector<Var> pair{its.channel, its.thread, its.own, f_.kb, f_.qt, f_.h, f_.b};
        added.product(pair) = 0.0f;
        added.product(pair) += x;
        its.sums.push_back(added);
    }
    its.blocks = RDom(
        {{0, of_queries ? tasks.key_blocks : tasks.query_blocks}, {0, adds_heads ? tasks.group : Expr(1)}}, "blocks");
    const Expr head = adds_heads ? Expr(its.blocks.y) : Expr(f_.h), kb = of_queries ? Expr(its.blocks.x) : Expr(f_.kb),
               qt = of_queries ? Expr(f_.qt) : Expr(its.blocks.x),
               head_of_call = substitute(f_.h.name(), head, its.pairs.head);
    its.blocks.where(visits(kb, qt, head_of_call, its.pairs.batch) != cast<std::uint8_t>(0));
    its.state(its.thread, its.own, its.own_block, f_.h, f_.b) = Tuple(initial);
    const FuncRef before = its.state(its.thread, its.own, its.own_block, f_.h, f_.b);
    std::vector<Expr> next;
    for (const added_sum& added : its.sums)
        for (int j = 0; j < added.count; ++j)
            next.push_back(number_at(before, added.first + j) +
                           added.product(j, its.thread, its.own, kb, qt, head, f_.b));
    // Halide reuses shared memory after its last use in the program's text, although the loop over the blocks comes
    // back to it. Rows that were copied before the loop are therefore used once more at the loop's end, to no effect.
    Expr rows = 0.0f;
    for (const pair_block::contraction& c : its.pairs.contractions)
        rows = rows + (of_queries ? Expr(c.panel(0, 0, qt, head, f_.b)) : Expr(c.keys(0, 0, kb, head, f_.b)));
    next[0] += select(number_at(before, 0) > std::numeric_limits<float>::max(), rows, 0.0f);
    its.state(its.thread, its.own, its.own_block, f_.h, f_.b) = Tuple(next);
    std::vector<Expr> numbers;
    for (int j = 0; j < static_cast<int>(next.size()); ++j) numbers.push_back(number_at(before, j));
    its.made(its.number, its.thread, its.own, its.own_block, f_.h, f_.b) = one_of(numbers, its.number);
}

/// A sum at a query of a query head, or at a key: of a query head if sums of keys do not add up the heads of a group.
Expr gradient_passes::made(std::size_t number, const Expr& d, const Expr& position, const Expr& head, const Expr&,
                           const Expr& b) const {
    const gradient_sum& sum = plan.sums[number];
    const auto side = std::ranges::find_if(sides, [&](const side_pass& each) {
        return std::ranges::find(each.planned.sums, number) != each.planned.sums.end();
    });
    const added_sum& added = *std::ranges::find(side->sums, number, &added_sum::number);
    const int across = side->planned.across, block = sum.of_queries ? f_.cut.query_block : f_.cut.key_block;
    const Expr key_head = f_.inputs.key_head(head), task = tasks.number(b, key_head, 0);
    const auto at = [&](const Expr& in_group) {
        const Expr thread = sum.rows >= 0 ? d % across : Expr(0), channel = sum.rows >= 0 ? d / across : Expr(0);
        return side->made(added.first + channel, thread, position % block, position / block, in_group, task);
    };
    return at(side->planned.adds_heads ? Expr(0) : clamp(head - key_head * tasks.group, 0, tasks.group - 1));
}

Expr gradient_passes::whole(std::size_t number, const Expr& d) {
    const gradient_sum& sum = plan.sums[number];
    const bool of_heads = sum.of_queries || sum.per_head;
    return made(number, d, i, of_heads ? Expr(f_.h) : f_.h * tasks.group, 0, f_.b);
}

/// A sum for each element, as it is: sums of keys are those of a group of heads.
Func gradient_passes::copied(std::size_t output, const std::vector<const gradient_term*>& terms) {
    const bool of_queries = plan.sums[terms.front()->sums.begin()->second].of_queries;
    // Algorithm
    const Expr head = of_queries ? Expr(f_.h) : f_.h * tasks.group;
    Func gradient("gradient_" + std::string(f_.graph().outputs[output].name));
    Expr sum;
    for (const gradient_term* term : terms) {
        const Expr x = made(term->sums.begin()->second, f_.d, i, head, 0, f_.b);
        sum = sum.defined() ? sum + x : x;
    }
    gradient(f_.d, i, f_.h, f_.b) = sum;
    return gradient;
}

void gradient_passes::define_outputs() {
    for (std::size_t output = 0; output < f_.graph().outputs.size(); ++output) {
        std::vector<const gradient_term*> terms;
        for (const gradient_term& term : plan.terms)
            if (term.output == output) terms.push_back(&term);
        Func gradient;
        if (std::ranges::all_of(terms, [](const auto* term) { return term->is == gradient_term::form::copied; })) {
            gradient = copied(output, terms);
        } else {
            // Algorithm
            const input_declaration& to = f_.graph().inputs[f_.node(terms.front()->deposit).input];
            std::vector<Var> axes;
            for (int axis = 0; axis < to.rank; ++axis) axes.emplace_back("axis_" + std::to_string(axis));
            gradient = Func("gradient_" + std::string(f_.graph().outputs[output].name));
            gradient(axes) = 0.0f;
            for (const gradient_term* term : terms)
                if (term->is == gradient_term::form::by_pair)
                    add_by_element(gradient, *term);
                else
                    add_placed(gradient, *term);
        }
        outputs.push_back(rounded_to(gradient, output));
        written.push_back({gradient, outputs.back()});
    }
}

void gradient_passes::add_by_element(Func gradient, const gradient_term& term) {
    element_pass& pass = elements.emplace_back(pair_block(single_, of_single_, term.tiles, {}), gradient);
    // Algorithm: the axes of the tensor name some of batch element, head, query and key; the others are added up
    const instruction& deposit = f_.node(term.deposit);
    const input_declaration& to = f_.graph().inputs[deposit.input];
    const std::vector<Var> axes = gradient.args();
    std::map<operation, Expr> named;
    bool of_key_heads = false;  // h stands for the key head, which adds up the query heads of its group
    for (int axis = 0; axis < to.rank; ++axis) {
        const operation index = f_.node(deposit.arguments[axis + 1]).op;
        named[index] = axes[static_cast<std::size_t>(to.rank - 1 - axis)];
        of_key_heads = of_key_heads || (index == operation::h && to.axes[axis].kind == axis_kind::key_head);
    }
    std::vector<Range> ranges;
    for (const auto& [op, extent] : {std::pair(operation::kv_idx, f_.inputs.key_length),
                                     {operation::q_idx, f_.inputs.query_length},
                                     {operation::h, f_.inputs.heads},
                                     {operation::b, f_.inputs.batches}})
        if (op == operation::h && of_key_heads)
            ranges.emplace_back(0, tasks.group);
        else if (!named.contains(op))
            ranges.emplace_back(0, max(extent, 0));
    const bool names_all = ranges.empty();
    if (names_all) ranges.emplace_back(0, 1);
    // A name of its own: storage is hoisted to each loop of a gradient that has the name.
    pass.others = RDom(ranges, "others_" + std::to_string(gradient.num_update_definitions()));
    int next = 0;
    const auto at = [&](operation op) { return named.contains(op) ? named[op] : Expr(pass.others[next++]); };
    const Expr key = at(operation::kv_idx), query = at(operation::q_idx),
               h_of_axis = of_key_heads ? named[operation::h] * tasks.group + pass.others[next++] : at(operation::h),
               b_of_axis = at(operation::b);
    // A free axis may be longer than there are heads or batch elements.
    const Expr h = min(h_of_axis, max(f_.inputs.heads, 1) - 1), b = min(b_of_axis, max(f_.inputs.batches, 1) - 1),
               key_head = f_.inputs.key_head(h);
    place of_pair = pass.pairs.at_pair();
    for (const auto& [node, tile] : pass.pairs.tiles)
        of_pair.known[node] = made_of_pairs(tile(f_.qi, f_.ki, f_.kb, f_.qt, f_.h, f_.b));
    const quantity x = single_.evaluate(term.value, of_pair);
    const Expr none = h_of_axis > h || b_of_axis > b || pass.pairs.beyond(),
               hidden = x.masked.defined() ? none || x.masked : none;
    Expr here = select(hidden, 0.0f, x.value);
    if (names_all) here = select(pass.others[0] == 0, here, 0.0f);  // Halide makes no loop that a value does not name
    for (const auto& [name, value] : {std::pair<std::string, Expr>(f_.ki.name(), 0),
                                      {f_.qi.name(), 0},
                                      {f_.kb.name(), key},
                                      {f_.qt.name(), query},
                                      {f_.h.name(), clamp(h - key_head * tasks.group, 0, tasks.group - 1)},
                                      {f_.b.name(), tasks.number(b, key_head, 0)}})
        here = Internal::graph_substitute(name, value, here);  // shared parts stay shared
    gradient(std::vector<Expr>(axes.begin(), axes.end())) += here;
    pass.stage = gradient.num_update_definitions();
}

}  // namespace attune::generators::inline gpu
