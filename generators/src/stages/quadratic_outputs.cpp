#include "stages/quadratic_outputs.hpp"

#include "expr/math.hpp"
#include "stages/kept_number.hpp"

#include <algorithm>

namespace attune::generators::inline stages {
using namespace Halide;

namespace {

const char* name_of(quadratic_outputs::shape of) {
    return of == quadratic_outputs::shape::pairs        ? "pairs_"
           : of == quadratic_outputs::shape::head_means ? "means_"
                                                        : "columns_";
}

}  // namespace

quadratic_outputs::quadratic_outputs(kernel_frame& frame, const epilogue& rows, const pair_outputs& planned)
    : outputs(name_of(planned.shape) + std::string("outputs")),
      of(planned.shape),
      scores_at(frame, name_of(planned.shape), planned.scores),
      visits_of_block(name_of(planned.shape) + std::string("visits")),
      maximum(name_of(planned.shape) + std::string("maximum")),
      inverse(name_of(planned.shape) + std::string("inverse")),
      values(name_of(planned.shape) + std::string("values")),
      tile(name_of(planned.shape) + std::string("tile")),
      f_(frame),
      rows_(rows),
      nodes_(planned.nodes) {
    define_visits();
    define_tile(made_of_pair());
    define_outputs();
}

/// Marks blocks in which some output needs a pair that is computed, not filled.
void quadratic_outputs::define_visits() {
    // Algorithm
    Expr may;
    for (int node : nodes_) {
        const Expr here = f_.visible(f_.node(node).kind == kind::scores ? node : f_.core.scores).may;
        may = may.defined() ? may || here : here;
    }
    visits_of_block(f_.kb, f_.qt, f_.h, f_.b) = cast<uint8_t>(may);
}

/// The term that a pair adds to each of the outputs.
std::vector<Expr> quadratic_outputs::made_of_pair() {
    // Algorithm
    const Expr query = f_.read_query(f_.qi);
    const bool weighs =
        std::any_of(nodes_.begin(), nodes_.end(), [this](int node) { return f_.node(node).kind != kind::scores; });
    Expr weight;
    if (!weighs) {  // scores alone need no row
    } else if (f_.core.weights_by == statistic::softmax) {
        maximum(f_.qi, f_.qt, f_.h, f_.b) = rows_.maximum(query);
        inverse(f_.qi, f_.qt, f_.h, f_.b) = rows_.inverse(query);
        const Expr below = (scores_at.real - maximum(f_.qi, f_.qt, f_.h, f_.b)) * (scores_at.scale * log2_of_e);
        weight = exp2_of_nonpositive(at_most(below, 0.0f)) * inverse(f_.qi, f_.qt, f_.h, f_.b);
    } else {
        weight = scores_at.real * scores_at.scale;
    }
    if (weighs) weight = choose_whole(scores_at.masked, 0.0f, weight);
    std::vector<Expr> made;
    for (int node : nodes_) {
        const instruction& it = f_.node(node);
        if (it.kind == kind::scores) {
            const quantity score = scores_at(node);
            made.push_back(or_negative_infinity(!score.masked, score.value));
        } else {
            made.push_back(scores_at.weights(it.kind == kind::weights ? node : it.arguments[0], weight));
        }
    }
    return made;
}

/// A block of pairs, keys innermost; for columns, one row of it.
void quadratic_outputs::define_tile(const std::vector<Expr>& of_pair) {
    // Algorithm
    const std::vector<Var> pair = scores_at.pair();
    values(pair) = Tuple(of_pair);
    std::vector<Var> over = pair;
    std::vector<Expr> at(pair.begin(), pair.end());
    const bool skips = !f_.request.on_gpu();  // asking about a block of one pair does not pay
    if (of == shape::pairs) {
        // One step, number 0, unless the block is skipped. The bound is a number of the call, so that Halide keeps a
        // loop, which is then guarded.
        steps = RDom(0, min(f_.inputs.batches, 1), "steps");
        guarded = f_.qt;
        at[5] = f_.b + steps.x;
        if (skips) steps.where(visits_of_block(f_.kb, f_.qt, f_.h, f_.b) != cast<uint8_t>(0));
    } else if (of == shape::head_means) {
        steps = RDom(0, f_.inputs.heads, "steps_of_heads");
        guarded = f_.qt;
        if (skips) steps.where(visits_of_block(f_.kb, f_.qt, steps.x, f_.b) != cast<uint8_t>(0));
        over.erase(over.begin() + 4);
        at[4] = steps.x;
    } else {
        const Expr queries = f_.cut.query_block;
        steps =
            RDom({{0, f_.cut.query_block}, {0, (f_.inputs.query_length + queries - 1) / queries}}, "steps_of_queries");
        guarded = steps.y;
        if (skips) steps.where(visits_of_block(f_.kb, steps.y, f_.h, f_.b) != cast<uint8_t>(0));
        over = {f_.ki, f_.kb, f_.h, f_.b};
        at[1] = steps.x, at[3] = steps.y;
    }
    std::vector<Expr> initial, next;
    const FuncRef value = values(at);
    for (int node : nodes_)
        initial.push_back(f_.node(node).kind == kind::scores ? or_negative_infinity(Internal::const_false(), 0.0f)
                                                             : Expr(0.0f));
    tile(over) = Tuple(initial);
    const FuncRef before = tile(over);
    for (int i = 0; i < static_cast<int>(of_pair.size()); ++i) {
        Expr here = number_at(value, i);
        if (of == shape::columns)  // the last block may have room for more queries than there are
            here = select(steps.y * f_.cut.query_block + steps.x < f_.inputs.query_length, here, 0.0f);
        next.push_back(of == shape::pairs ? here : number_at(before, i) + here);
    }
    tile(over) = Tuple(next);
}

void quadratic_outputs::define_outputs() {
    // Algorithm
    const Expr ki = f_.k % f_.cut.key_block, kb = f_.k / f_.cut.key_block, qi = f_.q % f_.cut.query_block,
               qt = f_.q / f_.cut.query_block;
    std::vector<Var> over{f_.k, f_.q, f_.h, f_.b};
    std::vector<Expr> at{ki, qi, kb, qt, f_.h, f_.b};
    if (of == shape::head_means) over = {f_.k, f_.q, f_.b}, at = {ki, qi, kb, qt, f_.b};
    if (of == shape::columns) over = {f_.k, f_.h, f_.b}, at = {ki, kb, f_.h, f_.b};
    const FuncRef here = tile(at);
    std::vector<Expr> made;
    for (int i = 0; i < static_cast<int>(nodes_.size()); ++i) {
        const Expr value = number_at(here, i);
        made.push_back(of == shape::head_means ? value * (1.0f / f_.inputs.heads) : value);
    }
    outputs(over) = Tuple(made);
}

/// More blocks together make fewer and larger tasks: as many as leave 32 tasks, at most 4.
Expr quadratic_outputs::blocks_together() const {
    const Expr blocks = (f_.inputs.query_length + f_.cut.query_block - 1) / f_.cut.query_block;
    const Expr others = f_.inputs.batches * (of == shape::pairs ? f_.inputs.heads : f_.key_blocks());
    return clamp(blocks * others / 32, 1, 4);
}

}  // namespace attune::generators::inline stages
