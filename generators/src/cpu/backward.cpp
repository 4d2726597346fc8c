#include "cpu/backward.hpp"

#include <attune/ir/gradient_outputs.hpp>

#include <algorithm>

namespace attune::generators {
using namespace Halide;

namespace {

constexpr int chunk_blocks = 8;  // keys, values and their sums that are gone over together stay in the cache

Expr any_of(const std::vector<Expr>& all, const Expr& which) { return all.size() == 1 ? all.front() : mux(which, all); }

}  // namespace

backward_sweep::backward_sweep(kernel_frame& frame)
    : plan(*frame.request.facts->gradient),
      tasks(frame),
      width(width_of_sums(lanes_of(frame.request.schedule), frame.request.depths)),
      pairs(frame, tasks, plan.tiles, plan.sums),
      f_(frame) {
    define_visits();
    if (!plan.sums.empty()) define_sweep();
    define_outputs();
}

Expr backward_sweep::rows_of(const gradient_sum& sum) const {
    if (sum.of_queries) return tasks.group * tasks.blocks_of_part * tasks.block;
    return (sum.per_head ? tasks.group * tasks.key_blocks : tasks.key_blocks) * tasks.block;
}

Expr backward_sweep::first_row(std::size_t sum) const {
    Expr first = 0;
    for (std::size_t i = 0; i < sum; ++i) first = first + rows_of(plan.sums[i]);
    return first;
}

void backward_sweep::define_visits() {
    // Algorithm
    const Expr is_there = f_.kb < tasks.key_blocks && f_.qt < tasks.query_blocks;
    visits(f_.kb, f_.qt, f_.h, f_.b) = cast<std::uint8_t>(is_there && f_.visible(f_.core.scores).may);
}

void backward_sweep::define_sweep() {
    const int count = static_cast<int>(plan.sums.size()), block = tasks.block;
    const Expr chunks = (tasks.key_blocks + chunk_blocks - 1) / chunk_blocks;
    // Algorithm. Of a block of pairs: a row of the sum of a number.
    std::vector<pair_block::channel_of> rows;
    for (const gradient_sum& sum : plan.sums) {
        rows.push_back(pairs.rows(sum, width));
        if (sum.rows >= 0) scan(sum, rows.back());
    }
    product(f_.d, in_block, number, f_.kb, f_.qt, f_.h, f_.b) = 0.0f;
    const auto add_up = [&](const RDom& over, bool look) {
        std::vector<Expr> factors;
        for (std::size_t i = 0; i < plan.sums.size(); ++i) {
            const Func& tile = pairs.tiles.at(plan.sums[i].pairs);
            const Expr numbers = plan.sums[i].of_queries ? tile(in_block, over, f_.kb, f_.qt, f_.h, f_.b)
                                                         : tile(over, in_block, f_.kb, f_.qt, f_.h, f_.b);
            const Expr row = rows[i](f_.d, over.x);
            factors.push_back(numbers * (look ? masked_values::unless_masked(numbers, row) : row));
        }
        product(f_.d, in_block, number, f_.kb, f_.qt, f_.h, f_.b) += any_of(factors, number);
    };
    within = RDom(0, block, "within");
    if (!scanned.empty()) within.where(!some_spoilt());
    add_up(within, false);
    if (!scanned.empty()) {
        looked_at = RDom(0, block, "looked_at");
        looked_at.where(some_spoilt());
        add_up(looked_at, true);
    }

    sweep = RDom({{0, block}, {0, count}, {0, chunk_blocks}, {0, tasks.blocks_of_part}, {0, chunks}, {0, tasks.group}},
                 "sweep");
    row = sweep[0], which = sweep[1], in_chunk = sweep[2], of_block = sweep[3], chunk = sweep[4], of_group = sweep[5];
    const Expr key_block = chunk * chunk_blocks + in_chunk;
    const auto here = [&](const Expr& of_task) {
        return substitute(std::map<std::string, Expr>{{f_.qt.name(), of_block}, {f_.h.name(), of_group}}, of_task);
    };
    sweep.where(visits(key_block, here(f_.qt * tasks.parts + pairs.part), here(pairs.head), pairs.batch) !=
                cast<std::uint8_t>(0));
    std::vector<Expr> places;
    for (std::size_t i = 0; i < plan.sums.size(); ++i) {
        const gradient_sum& sum = plan.sums[i];
        const Expr keys = min(key_block, tasks.key_blocks - 1);  // no block beyond them is visited
        const Expr at = sum.of_queries ? of_group * tasks.blocks_of_part + of_block
                        : sum.per_head ? of_group * tasks.key_blocks + keys
                                       : keys;
        places.push_back(first_row(i) + at * block + row);
    }
    sums(f_.d, i, f_.b) = 0.0f;
    sums(f_.d, any_of(places, which), f_.b) += product(f_.d, row, which, key_block, of_block, of_group, f_.b);
}

/// Looks for what is not finite among the rows that a sum's numbers are multiplied by.
void backward_sweep::scan(const gradient_sum& sum, const pair_block::channel_of& rows) {
    const int lanes = lanes_of(f_.request.schedule);
    const bool of_query = !sum.of_queries;
    for (const scanned_rows& before : scanned)
        if (before.rows == sum.rows && before.of_query == of_query) return;
    // Algorithm
    const RDom each({{0, width / lanes}, {0, tasks.block}}, "scanned");
    const std::vector<Var> block{of_query ? f_.qt : f_.kb, f_.h, f_.b};
    scanned.push_back({non_finite(lane, lanes, block, rows(each.x * lanes + lane, each.y)), each, sum.rows, of_query});
}

Expr backward_sweep::some_spoilt() const {
    Expr some = Internal::const_false();
    for (const scanned_rows& of : scanned)
        some = some || of.found.spoilt(of.of_query ? f_.qt : f_.kb, f_.h, f_.b) != cast<std::uint8_t>(0);
    return some;
}

/// What a sum of the sweep is at a query of a query head, or at a key in a part of the queries.
Expr backward_sweep::made(std::size_t number, const Expr& d, const Expr& position, const Expr& head, const Expr& part,
                          const Expr& b) const {
    const gradient_sum& sum = plan.sums[number];
    const Expr first = first_row(number);
    const auto at = [&](const Expr& row, const Expr& key_head, const Expr& of_part) {
        return sums(d, first + row, tasks.number(b, key_head, of_part));
    };
    const Expr key_head = f_.inputs.key_head(head);
    const Expr in_group = clamp(head - key_head * tasks.group, 0, tasks.group - 1);
    if (!sum.of_queries)
        return at(sum.per_head ? in_group * tasks.key_blocks * tasks.block + position : position, key_head, part);
    const Expr block = position / tasks.block, parts = tasks.parts;
    return at((in_group * tasks.blocks_of_part + block / parts) * tasks.block + position % tasks.block, key_head,
              block % parts);
}

/// An output, of the elements of the tensor that it is the gradient of; sums are f32.
Func backward_sweep::rounded_to(const Func& sum, std::size_t output) {
    const int input = input_of_gradient(f_.graph(), f_.graph().outputs[output]);
    const input_declaration& of = f_.graph().inputs[static_cast<std::size_t>(input)];
    const Type type = of.element == element_type::any ? f_.inputs.tensor(input).type() : Float(32);
    if (type == Float(32)) return sum;
    // Algorithm
    Func gradient("rounded_" + sum.name());
    const std::vector<Var> axes = sum.args();
    gradient(axes) = cast(type, sum(axes));
    return gradient;
}

void backward_sweep::define_copied(std::size_t output, const std::vector<const gradient_term*>& terms) {
    const gradient_sum& any = plan.sums[terms.front()->sums.begin()->second];
    // Algorithm: the parts' sums, in order
    const RDom part(0, any.of_queries ? Expr(1) : tasks.parts, "part");
    const Expr head = any.of_queries ? Expr(f_.h) : f_.h * tasks.group;
    Expr sum;
    for (const gradient_term* term : terms) {
        const Expr x = made(term->sums.begin()->second, f_.d, i, head, part, f_.b);
        sum = sum.defined() ? sum + x : x;
    }
    Func gradient("gradient_" + std::string(f_.graph().outputs[output].name));
    gradient(f_.d, i, f_.h, f_.b) = 0.0f;
    gradient(f_.d, i, f_.h, f_.b) += sum;
    outputs.push_back(rounded_to(gradient, output));
    copied.push_back({gradient, outputs.back(), any.of_values ? f_.value_depth() : f_.depth()});
}

void backward_sweep::define_outputs() {
    for (std::size_t output = 0; output < f_.graph().outputs.size(); ++output) {
        std::vector<const gradient_term*> terms;
        for (const gradient_term& term : plan.terms)
            if (term.output == output) terms.push_back(&term);
        if (std::ranges::all_of(terms, [](const auto* term) { return term->is == gradient_term::form::copied; })) {
            define_copied(output, terms);
            continue;
        }
        // Algorithm
        const input_declaration& to = f_.graph().inputs[f_.node(terms.front()->deposit).input];
        std::vector<Var> axes;
        for (int axis = 0; axis < to.rank; ++axis) axes.emplace_back("axis_" + std::to_string(axis));
        Func gradient("gradient_" + std::string(f_.graph().outputs[output].name));
        gradient(axes) = 0.0f;
        for (const gradient_term* term : terms)
            if (term->is == gradient_term::form::by_pair)
                add_by_pair(gradient, *term);
            else
                add_placed(gradient, *term);
        outputs.push_back(rounded_to(gradient, output));
        rounded.push_back({gradient, outputs.back()});
    }
}

}  // namespace attune::generators
