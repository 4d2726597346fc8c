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
    : f_(frame),
      cut_(frame.schedule_as<cpu_gradient>()),
      plan_(*frame.request.facts->gradient),
      tasks_(frame),
      lanes_(cut_.lanes),
      width_(width_of_sums(lanes_, frame.request.depths)),
      pairs_(frame, tasks_, plan_.tiles, plan_.sums) {
    define_visits();
    if (!plan_.sums.empty()) define_sweep();
    define_outputs();
}

Expr backward_sweep::rows_of(const gradient_sum& sum) const {
    if (sum.of_queries) return tasks_.group * tasks_.blocks_of_part * tasks_.block;
    return (sum.per_head ? tasks_.group * tasks_.key_blocks : tasks_.key_blocks) * tasks_.block;
}

Expr backward_sweep::first_row(std::size_t sum) const {
    Expr first = 0;
    for (std::size_t i = 0; i < sum; ++i) first = first + rows_of(plan_.sums[i]);
    return first;
}

void backward_sweep::define_visits() {
    // Algorithm
    const Expr is_there = f_.kb < tasks_.key_blocks && f_.qt < tasks_.query_blocks;
    visits_(f_.kb, f_.qt, f_.h, f_.b) = cast<std::uint8_t>(is_there && f_.visible(f_.core.scores).may);
}

void backward_sweep::define_sweep() {
    const int sums = static_cast<int>(plan_.sums.size()), block = tasks_.block;
    const Expr chunks = (tasks_.key_blocks + chunk_blocks - 1) / chunk_blocks;
    // Algorithm. Of a block of pairs: row c of the sums number w.
    within_ = RDom(0, block, "within");
    std::vector<Expr> factors;
    for (const gradient_sum& sum : plan_.sums) {
        const Func& tile = pairs_.tiles.at(sum.pairs);
        const Expr pairs =
            sum.of_queries ? tile(c_, within_, f_.kb, f_.qt, f_.h, f_.b) : tile(within_, c_, f_.kb, f_.qt, f_.h, f_.b);
        factors.push_back(pairs * pairs_.rows(sum, width_, within_.x));
    }
    product_(f_.d, c_, w_, f_.kb, f_.qt, f_.h, f_.b) = 0.0f;
    product_(f_.d, c_, w_, f_.kb, f_.qt, f_.h, f_.b) += any_of(factors, w_);

    sweep_ =
        RDom({{0, block}, {0, sums}, {0, chunk_blocks}, {0, tasks_.blocks_of_part}, {0, chunks}, {0, tasks_.group}},
             "sweep");
    row_ = sweep_[0], which_ = sweep_[1], in_chunk_ = sweep_[2], of_block_ = sweep_[3], chunk_ = sweep_[4],
    of_group_ = sweep_[5];
    const Expr key_block = chunk_ * chunk_blocks + in_chunk_;
    const auto here = [&](const Expr& of_task) {
        return substitute(std::map<std::string, Expr>{{f_.qt.name(), of_block_}, {f_.h.name(), of_group_}}, of_task);
    };
    sweep_.where(visits_(key_block, here(f_.qt * tasks_.parts + pairs_.part), here(pairs_.head), pairs_.batch) !=
                 cast<std::uint8_t>(0));
    std::vector<Expr> places;
    for (std::size_t i = 0; i < plan_.sums.size(); ++i) {
        const gradient_sum& sum = plan_.sums[i];
        const Expr keys = min(key_block, tasks_.key_blocks - 1);  // no block beyond them is visited
        const Expr at = sum.of_queries ? of_group_ * tasks_.blocks_of_part + of_block_
                        : sum.per_head ? of_group_ * tasks_.key_blocks + keys
                                       : keys;
        places.push_back(first_row(i) + at * block + row_);
    }
    sums_(f_.d, i_, f_.b) = 0.0f;
    sums_(f_.d, any_of(places, which_), f_.b) += product_(f_.d, row_, which_, key_block, of_block_, of_group_, f_.b);
}

/// What a sum of the sweep is at a query of a query head, or at a key in a part of the queries.
Expr backward_sweep::made(std::size_t number, const Expr& d, const Expr& position, const Expr& head, const Expr& part,
                          const Expr& b) const {
    const gradient_sum& sum = plan_.sums[number];
    const Expr first = first_row(number);
    const auto at = [&](const Expr& row, const Expr& key_head, const Expr& of_part) {
        return sums_(d, first + row, tasks_.number(b, key_head, of_part));
    };
    const Expr key_head = f_.inputs.key_head(head);
    const Expr in_group = clamp(head - key_head * tasks_.group, 0, tasks_.group - 1);
    if (!sum.of_queries)
        return at(sum.per_head ? in_group * tasks_.key_blocks * tasks_.block + position : position, key_head, part);
    const Expr block = position / tasks_.block, parts = tasks_.parts;
    return at((in_group * tasks_.blocks_of_part + block / parts) * tasks_.block + position % tasks_.block, key_head,
              block % parts);
}

/// An output, of the elements of the tensor that it is the gradient of; sums are f32.
Func backward_sweep::rounded(const Func& sum, std::size_t output) {
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
    const gradient_sum& any = plan_.sums[terms.front()->sums.begin()->second];
    // Algorithm: the parts' sums, in order
    const RDom part(0, any.of_queries ? Expr(1) : tasks_.parts, "part");
    const Expr head = any.of_queries ? Expr(f_.h) : f_.h * tasks_.group;
    Expr sum;
    for (const gradient_term* term : terms) {
        const Expr x = made(term->sums.begin()->second, f_.d, i_, head, part, f_.b);
        sum = sum.defined() ? sum + x : x;
    }
    Func gradient("gradient_" + std::string(f_.graph().outputs[output].name));
    gradient(f_.d, i_, f_.h, f_.b) = 0.0f;
    gradient(f_.d, i_, f_.h, f_.b) += sum;
    outputs.push_back(rounded(gradient, output));
    copied_.push_back({gradient, outputs.back(), any.of_values ? f_.value_depth() : f_.depth()});
}

void backward_sweep::define_outputs() {
    for (std::size_t output = 0; output < f_.graph().outputs.size(); ++output) {
        std::vector<const gradient_term*> terms;
        for (const gradient_term& term : plan_.terms)
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
        outputs.push_back(rounded(gradient, output));
        rounded_.push_back({gradient, outputs.back()});
    }
}

}  // namespace attune::generators
