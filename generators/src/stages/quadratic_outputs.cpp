#include "stages/quadratic_outputs.hpp"

#include "expr/math.hpp"

#include <algorithm>
#include <numeric>

namespace attune::generators {
using namespace Halide;

namespace {

const char* name_of(quadratic_outputs::shape of) {
    return of == quadratic_outputs::shape::pairs        ? "pairs_"
           : of == quadratic_outputs::shape::head_means ? "means_"
                                                        : "columns_";
}

}  // namespace

quadratic_outputs::shape quadratic_outputs::shape_of(kind output) {
    return output == kind::column ? shape::columns : output == kind::head_mean ? shape::head_means : shape::pairs;
}

bool quadratic_outputs::wanted(const plan& core, shape of) {
    if (of == shape::pairs) return core.makes(kind::scores) || core.makes(kind::weights);
    return core.makes(of == shape::columns ? kind::column : kind::head_mean);
}

quadratic_outputs::quadratic_outputs(const kernel_frame& frame, const epilogue& rows, shape of)
    : outputs(name_of(of) + std::string("outputs")),
      f_(frame),
      rows_(rows),
      of_(of),
      scores_at_(frame, name_of(of), score_tile::lanes::keys),
      block_kinds_(name_of(of) + std::string("visits")),
      maximum_(name_of(of) + std::string("maximum")),
      inverse_(name_of(of) + std::string("inverse")),
      values_(name_of(of) + std::string("values")),
      tile_(name_of(of) + std::string("tile")) {
    for (std::size_t i = 0; i < f_.core.outputs.size(); ++i) {
        const kind what = f_.core.outputs[i];
        if (what != kind::output && what != kind::row && what != kind::tokens && shape_of(what) == of_)
            nodes_.push_back(f_.graph().outputs[i].node);
    }
    define_visits();
    define_tile(values());
    define_outputs();
}

/// Blocks in which some pair of some output is not filled.
void quadratic_outputs::define_visits() {
    // Algorithm
    Expr may;
    for (int node : nodes_) {
        const Expr here = f_.visible(f_.node(node).kind == kind::scores ? node : f_.core.scores).may;
        may = may.defined() ? may || here : here;
    }
    block_kinds_(f_.kb, f_.qt, f_.h, f_.b) = cast<uint8_t>(may);
}

/// What a pair adds to each of the outputs.
std::vector<Expr> quadratic_outputs::values() {
    // Algorithm
    const Expr query = f_.read_query(f_.qi);
    const bool weighs =
        std::any_of(nodes_.begin(), nodes_.end(), [this](int node) { return f_.node(node).kind != kind::scores; });
    Expr weight;
    if (!weighs) {  // scores alone need no row
    } else if (f_.core.weights_by == statistic::softmax) {
        maximum_(f_.qi, f_.qt, f_.h, f_.b) = rows_.maximum(query);
        inverse_(f_.qi, f_.qt, f_.h, f_.b) = rows_.inverse(query);
        const Expr below = (scores_at_.real - maximum_(f_.qi, f_.qt, f_.h, f_.b)) * (scores_at_.scale * log2_of_e);
        weight = exp2_of_nonpositive(at_most(below, 0.0f)) * inverse_(f_.qi, f_.qt, f_.h, f_.b);
    } else {
        weight = scores_at_.real * scores_at_.scale;
    }
    if (weighs) weight = choose_whole(scores_at_.masked, 0.0f, weight);
    std::vector<Expr> values;
    for (int node : nodes_) {
        const instruction& it = f_.node(node);
        if (it.kind == kind::scores) {
            const quantity score = scores_at_(node);
            values.push_back(or_negative_infinity(!score.masked, score.value));
        } else {
            values.push_back(scores_at_.weights(it.kind == kind::weights ? node : it.arguments[0], weight));
        }
    }
    return values;
}

/// A block of pairs, keys innermost; of the columns, a row of it.
void quadratic_outputs::define_tile(const std::vector<Expr>& values) {
    // Algorithm
    const std::vector<Var> pair = scores_at_.pair();
    values_(pair) = values.size() == 1 ? Tuple(values[0]) : Tuple(values);
    std::vector<Var> over = pair;
    std::vector<Expr> at(pair.begin(), pair.end());
    const bool skips = !f_.request.on_gpu();  // a block of one pair is not worth the question
    if (of_ == shape::pairs) {
        // One step, number 0, unless the block is skipped. The bound is a number of the call, so that Halide keeps a
        // loop, which is then guarded.
        steps_ = RDom(0, min(f_.inputs.batches, 1), "step");
        guarded_ = f_.qt;
        at[5] = f_.b + steps_.x;
        if (skips) steps_.where(block_kinds_(f_.kb, f_.qt, f_.h, f_.b) != cast<uint8_t>(0));
    } else if (of_ == shape::head_means) {
        steps_ = RDom(0, f_.inputs.heads, "each_head");
        guarded_ = f_.qt;
        if (skips) steps_.where(block_kinds_(f_.kb, f_.qt, steps_.x, f_.b) != cast<uint8_t>(0));
        over.erase(over.begin() + 4);
        at[4] = steps_.x;
    } else {
        const Expr queries = f_.cut.query_block;
        steps_ = RDom({{0, f_.cut.query_block}, {0, (f_.inputs.query_length + queries - 1) / queries}}, "each_query");
        guarded_ = steps_.y;
        if (skips) steps_.where(block_kinds_(f_.kb, steps_.y, f_.h, f_.b) != cast<uint8_t>(0));
        over = {f_.ki, f_.kb, f_.h, f_.b};
        at[1] = steps_.x, at[3] = steps_.y;
    }
    std::vector<Expr> initial, next;
    const FuncRef value = values_(at);
    const auto each = [&](const FuncRef& ref, std::size_t i) {
        return values.size() == 1 ? Expr(ref) : Expr(ref[static_cast<int>(i)]);
    };
    for (int node : nodes_)
        initial.push_back(f_.node(node).kind == kind::scores ? or_negative_infinity(Internal::const_false(), 0.0f)
                                                             : Expr(0.0f));
    tile_(over) = Tuple(initial);
    const FuncRef before = tile_(over);
    for (std::size_t i = 0; i < values.size(); ++i) {
        Expr here = each(value, i);
        if (of_ == shape::columns)  // the last block may have room for more queries than there are
            here = select(steps_.y * f_.cut.query_block + steps_.x < f_.inputs.query_length, here, 0.0f);
        next.push_back(of_ == shape::pairs ? here : each(before, i) + here);
    }
    tile_(over) = Tuple(next);
}

void quadratic_outputs::define_outputs() {
    // Algorithm
    const Expr ki = f_.k % f_.cut.key_block, kb = f_.k / f_.cut.key_block, qi = f_.q % f_.cut.query_block,
               qt = f_.q / f_.cut.query_block;
    std::vector<Var> over{f_.k, f_.q, f_.h, f_.b};
    std::vector<Expr> at{ki, qi, kb, qt, f_.h, f_.b};
    if (of_ == shape::head_means) over = {f_.k, f_.q, f_.b}, at = {ki, qi, kb, qt, f_.b};
    if (of_ == shape::columns) over = {f_.k, f_.h, f_.b}, at = {ki, kb, f_.h, f_.b};
    const FuncRef tile = tile_(at);
    std::vector<Expr> made;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
        const Expr value = nodes_.size() == 1 ? Expr(tile) : Expr(tile[static_cast<int>(i)]);
        made.push_back(of_ == shape::head_means ? value * (1.0f / f_.inputs.heads) : value);
    }
    outputs(over) = Tuple(made);
}

void quadratic_outputs::schedule() {
    // Schedule
    const TailStrategy guard = TailStrategy::GuardWithIf;
    const auto& cut = f_.schedule_as<cpu_prefill>();
    const Var &k = f_.k, &q = f_.q, &h = f_.h, &b = f_.b, &ki = f_.ki, &kb = f_.kb, &qi = f_.qi, &qt = f_.qt;
    const Var kx("kx"), qx("qx"), ko("ko"), qo("qo"), qs("qs");
    const int in_lanes = std::gcd(cut.key_block, 2 * cut.lanes), vector = std::min(in_lanes, cut.lanes);
    const int others = std::gcd(cut.query_block, cut.lanes >= 16 ? 12 : 6);

    std::vector<OutputImageParam> buffers = outputs.output_buffers();
    for (OutputImageParam& buffer : buffers) buffer.dim(0).set_stride(1);
    for (int dim = 0; dim < outputs.dimensions(); ++dim)
        buffers.front().dim(dim).set_min(0);  // and so all further ones
    outputs.split(k, ko, ki, cut.key_block, guard).vectorize(ki, cut.lanes, guard);
    // Keys are transposed once for several blocks of queries, where there is work enough for that.
    if (of_ != shape::columns)
        outputs.split(q, qo, qi, cut.query_block, guard).split(qo, qo, qs, blocks_together(), guard);
    if (of_ == shape::pairs)
        outputs.reorder(ki, qi, qs, ko, qo, h, b).fuse(qo, h, task_).fuse(task_, b, task_).parallel(task_);
    else if (of_ == shape::head_means)
        outputs.reorder(ki, qi, qs, ko, qo, b).fuse(ko, qo, task_).fuse(task_, b, task_).parallel(task_);
    else
        outputs.fuse(ko, h, task_).fuse(task_, b, task_).parallel(task_);
    const LoopLevel task(outputs, task_), step(tile_, guarded_);

    block_kinds_.compute_at(task);
    tile_.compute_at(of_ == shape::pairs ? LoopLevel(outputs, qs) : task)
        .hoist_storage(task)
        .bound_extent(ki, cut.key_block)
        .vectorize(ki, vector);
    Stage update = tile_.update();
    Func& tile = tile_;
    if (of_ == shape::columns) {
        const RVar rx("rx"), ro("ro");
        update.split(ki, ki, kx, in_lanes)
            .split(steps_.x, ro, rx, others)
            .reorder(kx, rx, ro, ki, steps_.y)
            .vectorize(kx, vector)
            .unroll(kx)
            .unroll(rx);
        values_.compute_at(tile, ro);
    } else {
        update.split(ki, ki, kx, in_lanes)
            .split(qi, qi, qx, others)
            .reorder(kx, qx, qi, ki, qt, steps_.x)
            .vectorize(kx, vector)
            .unroll(kx)
            .unroll(qx);
        values_.compute_at(tile, qi);
        tile_.bound_extent(qi, cut.query_block);
    }
    update.never_partition_all();  // one loop, for skip_blocks to guard
    values_.bound_extent(ki, in_lanes)
        .bound_extent(qi, others)
        .bound_extent(kb, 1)
        .bound_extent(qt, 1)
        .vectorize(ki, vector)
        .unroll(ki)
        .unroll(qi);
    scores_at_.schedule_products(LoopLevel(tile, of_ == shape::columns ? VarOrRVar(RVar("ro")) : VarOrRVar(qi)),
                                 in_lanes, others, vector);
    for (Func* row : {&maximum_, &inverse_})
        if (row->defined())
            row->compute_at(step).bound_extent(qi, cut.query_block).bound_extent(qt, 1).vectorize(qi, cut.lanes);
    const LoopLevel keys = of_ == shape::pairs        ? LoopLevel(outputs, ko)
                           : of_ == shape::head_means ? LoopLevel(tile_, steps_.x)
                                                      : step;
    scores_at_.schedule_shared(keys);
    scores_at_.schedule_keys(keys, task);
    scores_at_.schedule_queries(step, task);
}

/// More blocks together make fewer and larger tasks: as many as leave 32 tasks, at most 4.
Expr quadratic_outputs::blocks_together() const {
    const Expr blocks = (f_.inputs.query_length + f_.cut.query_block - 1) / f_.cut.query_block;
    const Expr others = f_.inputs.batches * (of_ == shape::pairs ? f_.inputs.heads : f_.key_blocks());
    return clamp(blocks * others / 32, 1, 4);
}

}  // namespace attune::generators
