#include "lower.hpp"

#include "lower_pairs.hpp"
#include "skip_blocks.hpp"

#include <memory>
#include <optional>

namespace attune::generators {
using namespace Halide;

namespace {

<<<<<<< HEAD
/// Which blocks the pass over the keys visits, as an output of its own.
Pipeline pipeline_of_visits(const kernel_frame& f) {
=======
constexpr float lowest = std::numeric_limits<float>::lowest();  // a masked pair
const float lowest_score = std::nextafter(lowest, 0.0f);        // every real score is at least this
constexpr float log2_of_e = 1.44269504f;

/// Online softmax over key blocks, one task a (query block, head, batch).
class attention {
public:
    attention(const kernel_request& request, const plan& its)
        : request_(request),
          its_(its),
          cut_(request.schedule),
          depends_(dependences(request.graph)),
          inputs_(request, its),
          tables_(request, inputs_, depends_),
          chunk_(its.value < 0 ? 0 : cut_.chunk) {}

    lowered_kernel make() {
        define_visits();
        define_scores();
        define_weights();
        define_state();
        define_outputs();
        schedule_task();
        schedule_scores();
        schedule_state();
        schedule_outputs();
        Pipeline attention(outputs_);
        attention.add_custom_lowering_pass(new skip_blocks(".s1.blocks$x", visits_.name()));
        return {inputs_.arguments(), attention, pipeline_of_visits()};
    }

private:
    Expr query_at(const Expr& i) const { return qt * cut_.query_block + i; }
    Expr key_at(const Expr& i) const { return kb * cut_.key_block + i; }
    Expr read_query(const Expr& i) const { return clamp(query_at(i), 0, inputs_.query_length - 1); }
    Expr read_key(const Expr& i) const { return min(key_at(i), last_key_(b)); }

    /// Whether an expression differs between the pairs of a task.
    bool varies(const Expr& e) const {
        for (const Var& v : {qi, ki, kb, qt})
            if (Internal::expr_uses_var(e, v.name())) return true;
        return false;
    }

    void define_visits();
    void define_scores();
    void keep_what_recurs(place& at);
    Expr without_scale(const Expr& score, const std::string& product);
    void define_weights();
    void define_state();
    void define_outputs();
    void schedule_task();
    void schedule_scores();
    void schedule_state();
    void schedule_outputs();
    Pipeline pipeline_of_visits();

    const kernel_request& request_;
    const plan& its_;
    const schedule& cut_;
    std::vector<dependence> depends_;
    kernel_inputs inputs_;
    tile_tables tables_;
    const int chunk_;  ///< value depths that share a state; 0 where only rows are made

    Var d{"d"}, q{"q"}, h{"h"}, b{"b"};                    // an output's axes
    Var qi{"qi"}, qt{"qt"}, ki{"ki"}, kb{"kb"}, dc{"dc"};  // query in block, query block, key in block, key block, chunk of the value depth
    Var task{"task"}, qo{"qo"}, qv{"qv"}, qx{"qx"}, kx{"kx"}, dj{"dj"}, dx{"dx"};
    RDom rd_, rk_, masked_, blocks_;
    Expr visit_, scale_, query_sign_ = 1.0f;
    bool separate_mask_{};

    Func keys_{"keys"}, last_key_{"last_key"}, visits_{"visits"}, query_rows_{"query_rows"}, query_{"query"}, product_{"product"},
        scores_{"scores"}, highest_{"highest"}, weights_{"weights"}, sum_{"sum"}, accumulated_{"accumulated"}, weighted_{"weighted"},
        state_{"state"}, inverse_{"inverse"}, row_{"row"}, normal_{"normal"}, outputs_{"outputs"};
    std::vector<Func> kept_of_queries_, kept_of_keys_, kept_of_task_;
};

/// Which blocks are visited: 0 not, 1 visited, 2 visited without a mask as all of its pairs are visible.
void attention::define_visits() {
    // Algorithm
    keys_(b) = inputs_.keys_in_use(b);
    last_key_(b) = max(inputs_.keys_in_use(b), 1) - 1;
    const verdict visible = coverage(request_, inputs_, depends_, tables_, {qt, kb, h, b}).visible(its_.scores);
    // Where nothing can say so, the mask joins the scores' own pass.
    separate_mask_ = !is_const_zero(visible.must);
    visit_ = select(!visible.may, cast<uint8_t>(0), select(visible.must, cast<uint8_t>(2), cast<uint8_t>(1)));
    visits_(kb, qt, h, b) = visit_;
}

/// What depends on the query, the key or neither alone, and costs something, is computed once a task or once a block.
void attention::keep_what_recurs(place& at) {
    const listing& graph = request_.graph;
    std::vector<bool> reached(graph.nodes.size());
    reached[its_.scores] = true;
    for (int n = its_.scores; n >= 0; --n) {
        if (!reached[n]) continue;
        const instruction& node = graph.nodes[n];
        const dependence& depends = depends_[n];
        const bool one_sided = !(depends.query && depends.key) && !depends.score && !depends.channel && depends.bound == 0;
        if (one_sided && depends.costly && node.op != operation::input) {
            const bool of_query = depends.query, of_key = depends.key;
            const quantity x = pointwise(request_, inputs_, depends_, {b, h, read_query(qi), read_key(ki), keys_(b), {}})(n);
            if (is_const(x.value)) continue;
            std::vector<Var> over{h, b};
            if (of_query) over.insert(over.begin(), {qi, qt});
            if (of_key) over.insert(over.begin(), {ki, kb});
            const bool condition = x.value.type().is_bool();
            std::vector<Expr> values{condition ? cast<uint8_t>(x.value) : x.value};
            if (x.hidden.defined()) values.push_back(cast<uint8_t>(x.hidden));
            // (query in block, query block, head, batch) or (key in block, key block, head, batch) or (head, batch)
            Func kept((of_query ? "kept_of_queries_" : of_key ? "kept_of_keys_" : "kept_of_task_") + std::to_string(n));
            if (values.size() == 1)
                kept(over) = values[0];
            else
                kept(over) = Tuple(values);
            const auto read = [&](int i) { return kept.outputs() == 1 ? Expr(kept(over)) : Expr(kept(over)[i]); };
            const Expr zero = cast<uint8_t>(0);
            at.known.emplace(n, quantity{condition ? read(0) != zero : read(0), x.hidden.defined() ? read(1) != zero : Expr()});
            (of_query ? kept_of_queries_ : of_key ? kept_of_keys_ : kept_of_task_).push_back(kept);
            continue;
        }
        if (node.op == operation::contract) continue;
        for (int i = 0; i < node.argument_count; ++i) reached[node.arguments[i]] = true;
    }
}

/// A product times numbers of the task keeps its factor until the maximum is subtracted: one multiplication less a score, and large
/// scores lose nothing to its rounding. Returns what is left of the score; `scale_` becomes the factor, positive.
Expr attention::without_scale(const Expr& score, const std::string& product) {
    Expr left = score, factor = 1.0f;
    while (const auto* times = left.as<Internal::Mul>()) {
        const bool first = Internal::expr_uses_var(times->a, product);
        const Expr other = first ? times->b : times->a;
        if (Internal::expr_uses_var(other, product) || varies(other)) break;
        factor = factor * other;
        left = first ? times->a : times->b;
    }
    if (!left.as<Internal::Variable>()) {
        scale_ = 1.0f;
        return score;
    }
    // The sign moves into the queries. A factor of zero makes all products zero, never masked pairs visible.
    const float smallest = 1e-25f;
    scale_ = Internal::simplify(max(abs(factor), smallest));
    query_sign_ = Internal::simplify(select(abs(factor) < smallest, 0.0f, select(factor < 0.0f, -1.0f, 1.0f)));
    return left;
}

void attention::define_scores() {
    // Algorithm
    const std::string product = "product_of_a_pair";  // stands for what is defined once the score is known
    place at{b, h, query_at(qi), key_at(ki), keys_(b), {}};
    at.known[its_.contraction] = {Internal::Variable::make(Float(32), product), {}};
    keep_what_recurs(at);
    const quantity score = pointwise(request_, inputs_, depends_, at)(its_.scores);
    const Expr beyond = key_at(ki) >= at.key_limit;
    Expr real = max(without_scale(score.value, product), lowest_score), hidden = score.hidden.defined() ? score.hidden || beyond : beyond;
    separate_mask_ &= !Internal::expr_uses_var(hidden, product);

    query_rows_(d, qi, qt, h, b) = cast<float>(inputs_.tensor(its_.query)(d, read_query(qi), h, b)) * query_sign_;
    query_(qi, d, qt, h, b) = query_rows_(d, qi, qt, h, b);
    rd_ = RDom(0, request_.depths.depth, "rd");
    const Expr key = cast<float>(inputs_.tensor(its_.key)(rd_, read_key(ki), inputs_.key_head(h), b));
    product_(qi, ki, kb, qt, h, b) = 0.0f;  // (query in block, key in block, key block, query block, head, batch)
    product_(qi, ki, kb, qt, h, b) += query_(qi, rd_, qt, h, b) * key;
    real = substitute(product, product_(qi, ki, kb, qt, h, b), real);
    hidden = substitute(product, product_(qi, ki, kb, qt, h, b), hidden);

    if (!separate_mask_) {
        scores_(qi, ki, kb, qt, h, b) = choose_whole(hidden, lowest, real);
        return;
    }
    // A pass of its own over the blocks that are not known to be visible throughout.
    masked_ = RDom(0, cut_.key_block, "masked");
    masked_.where(visits_(kb, qt, h, b) != cast<uint8_t>(2));
    const Expr hidden_there = substitute(std::map<std::string, Expr>{{ki.name(), masked_.x}}, hidden);
    scores_(qi, ki, kb, qt, h, b) = real;
    scores_(qi, masked_, kb, qt, h, b) = select(hidden_there, lowest, scores_(qi, masked_, kb, qt, h, b));
}

void attention::define_weights() {
    // Algorithm
    rk_ = RDom(0, cut_.key_block, "rk");
    highest_(qi, kb, qt, h, b) = lowest_score;  // (query in block, key block, query block, head, batch)
    highest_(qi, kb, qt, h, b) = max(highest_(qi, kb, qt, h, b), scores_(qi, rk_, kb, qt, h, b));
    weights_(qi, ki, kb, qt, h, b) =
        exp2_of_nonpositive((scores_(qi, ki, kb, qt, h, b) - highest_(qi, kb, qt, h, b)) * (scale_ * log2_of_e));
    sum_(qi, kb, qt, h, b) = 0.0f;
    sum_(qi, kb, qt, h, b) += weights_(qi, rk_, kb, qt, h, b);
    if (!chunk_) return;
    const Expr depth = min(d, request_.depths.value_depth - 1);  // the last chunk may be longer than what is left
    const Expr value = cast<float>(inputs_.tensor(its_.value)(depth, read_key(rk_), inputs_.key_head(h), b));
    accumulated_(qi, d, kb, qt, h, b) = 0.0f;  // (query in block, value depth, key block, query block, head, batch)
    accumulated_(qi, d, kb, qt, h, b) += weights_(qi, rk_, kb, qt, h, b) * value;
    weighted_(qi, d, kb, qt, h, b) = accumulated_(qi, d, kb, qt, h, b);
}

void attention::define_state() {
    // Algorithm
    blocks_ = RDom(0, (inputs_.key_length + cut_.key_block - 1) / cut_.key_block, "blocks");
    blocks_.where(visits_(blocks_, qt, h, b) != cast<uint8_t>(0));
    // (query in block, chunk, query block, head, batch): chunk accumulators, maximum, sum
    std::vector<Expr> initial(chunk_, 0.0f), next;
    initial.insert(initial.end(), {lowest_score, 0.0f});
    state_(qi, dc, qt, h, b) = Tuple(initial);
    const FuncRef old = state_(qi, dc, qt, h, b);
    const Expr before = old[chunk_], here = highest_(qi, blocks_, qt, h, b);
    // Of the two factors one is 1.
    const Expr factor = exp2_of_nonpositive(-abs(before - here) * (scale_ * log2_of_e));
    const Expr keep = select(before >= here, 1.0f, factor), take = select(here >= before, 1.0f, factor);
    for (int j = 0; j < chunk_; ++j) next.push_back(old[j] * keep + weighted_(qi, dc * chunk_ + j, blocks_, qt, h, b) * take);
    next.push_back(max(before, here));
    next.push_back(old[chunk_ + 1] * keep + sum_(qi, blocks_, qt, h, b) * take);
    state_(qi, dc, qt, h, b) = Tuple(next);
}

void attention::define_outputs() {
    // Algorithm
    const FuncRef last = state_(qi, 0, qt, h, b);
    const Expr sum = last[chunk_ + 1];
    inverse_(qi, qt, h, b) = select(sum == 0.0f, 0.0f, 1.0f / sum);  // 0 for a row without a visible key
    row_(qi, qt, h, b) = or_negative_infinity(sum > 0.0f, last[chunk_] * scale_ + log(max(sum, 1e-30f)));
    const Expr in_block = q % cut_.query_block, block = q / cut_.query_block;
    if (chunk_) {
        const FuncRef state = state_(in_block, d / chunk_, block, h, b);
        std::vector<Expr> accumulators;
        for (int j = 0; j < chunk_; ++j) accumulators.push_back(state[j]);
        const Expr inverse = inverse_(in_block, block, h, b);
        normal_(q, d, h, b) = select(inverse == 0.0f, 0.0f, mux(d % chunk_, accumulators) * inverse);
    }
    // One function for all outputs, so that one loop over tasks makes them: rows repeat along the value depth, with stride 0.
    std::vector<Expr> made;
    for (const plan::made what : its_.outputs)
        made.push_back(what == plan::made::weighted_sum ? cast(halide_type(request_.types.output), normal_(q, d, h, b))
                                                        : row_(in_block, block, h, b));
    if (made.size() == 1)
        outputs_(d, q, h, b) = made[0];
    else
        outputs_(d, q, h, b) = Tuple(made);
}

void attention::schedule_task() {
    // Schedule
    const int lanes = cut_.lanes, block = cut_.query_block;
    const int turned = std::gcd(lanes, request_.depths.depth);
    keys_.compute_at(outputs_, task);
    last_key_.compute_at(outputs_, task);
    visits_.compute_at(outputs_, task).bound_extent(qt, 1).vectorize(kb, lanes, TailStrategy::RoundUp);
    query_.compute_at(outputs_, task).bound_extent(qi, block).bound_extent(qt, 1);
    if (turned >= 4) {  // rows as they lie, turned a square at a time
        query_.split(d, d, dx, turned).split(qi, qi, qv, lanes).reorder(qv, dx, d, qi).vectorize(qv).unroll(dx);
        query_rows_.compute_at(query_, d).vectorize(d, turned).unroll(qi);
    } else {
        query_.vectorize(qi, lanes);
    }
    for (Func& kept : kept_of_queries_) kept.compute_at(outputs_, task).bound_extent(qi, block).bound_extent(qt, 1).vectorize(qi, lanes);
    for (Func& kept : kept_of_keys_) kept.compute_at(state_, blocks_).bound_extent(ki, cut_.key_block).bound_extent(kb, 1);
    for (Func& kept : kept_of_task_) kept.compute_at(outputs_, task);
}

void attention::schedule_scores() {
    // Schedule
    const int lanes = cut_.lanes, tile = cut_.query_tile;
    const auto in_tile = [&](Func& f) {
        f.compute_at(state_, qi).bound_extent(qi, tile).bound_extent(qt, 1).bound_extent(kb, 1).vectorize(qi, lanes).unroll(qi);
    };
    in_tile(scores_);
    scores_.hoist_storage(outputs_, task).bound_extent(ki, cut_.key_block).split(ki, ki, kx, cut_.key_tile).reorder(qi, kx, ki).unroll(kx);
    if (separate_mask_) scores_.update().reorder(qi, masked_).vectorize(qi, lanes).unroll(qi);
    product_.compute_at(scores_, ki).bound_extent(qi, tile).bound_extent(ki, cut_.key_tile).bound_extent(qt, 1).bound_extent(kb, 1);
    product_.vectorize(qi, lanes).unroll(qi).unroll(ki);
    product_.update().reorder(qi, ki, rd_).vectorize(qi, lanes).unroll(qi).unroll(ki).unroll(rd_, cut_.depth_unroll);
    for (Func* row : {&highest_, &sum_}) {
        in_tile(*row);
        row->update().reorder(qi, rk_).vectorize(qi, lanes).unroll(qi);
    }
    in_tile(weights_);
    weights_.hoist_storage(outputs_, task).bound_extent(ki, cut_.key_block);
}

void attention::schedule_state() {
    // Schedule
    const int lanes = cut_.lanes;
    state_.compute_at(outputs_, task).bound_extent(qi, cut_.query_block).bound_extent(qt, 1).vectorize(qi, lanes);
    state_.update()
        .reorder(qi, dc, blocks_)
        .split(qi, qi, qv, cut_.query_tile)
        .reorder(qv, dc, qi, blocks_)
        .vectorize(qv, lanes)
        .unroll(qv);
    state_.update().never_partition(std::vector<VarOrRVar>{blocks_});  // one loop, for skip_blocks to guard
    if (!chunk_) return;
    weighted_.compute_at(state_, dc).bound_extent(qt, 1).bound_extent(kb, 1).split(d, d, dx, cut_.value_tile).reorder(qi, dx, d);
    weighted_.vectorize(qi, lanes).unroll(qi).unroll(dx);
    accumulated_.compute_at(weighted_, d).bound_extent(qt, 1).bound_extent(kb, 1).vectorize(qi, lanes).unroll(qi).unroll(d);
    accumulated_.update().reorder(qi, d, rk_).vectorize(qi, lanes).unroll(qi).unroll(d);
}

void attention::schedule_outputs() {
    // Schedule
    const TailStrategy guard = TailStrategy::GuardWithIf;
    const int lanes = cut_.lanes, value_depth = request_.depths.value_depth, turned = std::gcd(lanes, std::gcd(value_depth, chunk_));
    const std::vector<OutputImageParam> buffers = outputs_.output_buffers();
    for (std::size_t i = 0; i < buffers.size(); ++i) {
        OutputImageParam buffer = buffers[i];
        buffer.dim(0).set_stride(its_.outputs[i] == plan::made::log_sum_exp ? 0 : 1);
        if (i > 0) continue;  // further buffers have the extents of the first
        buffer.dim(0).set_bounds(0, value_depth);
        for (int dim = 1; dim < 4; ++dim) buffer.dim(dim).set_min(0);
    }
    outputs_.bound(d, 0, value_depth).split(q, qo, qi, cut_.query_block, guard);
    for (Func* row : {&inverse_, &row_})
        row->compute_at(outputs_, task).bound_extent(qi, cut_.query_block).bound_extent(qt, 1).vectorize(qi, lanes);
    if (!chunk_) {
        outputs_.reorder(d, qi, qo, h, b);
    } else if (turned >= 4) {  // turned a square at a time, then written by rows
        outputs_.split(qi, qi, qv, lanes, guard).split(d, d, dj, chunk_, guard).split(dj, dj, dx, turned);
        outputs_.reorder(dx, qv, dj, d, qi, qo, h, b).vectorize(dx).unroll(dj);
        normal_.compute_at(outputs_, dj)
            .bound_extent(d, turned)
            .reorder_storage(d, q)
            .reorder(q, d)
            .vectorize(q, lanes, TailStrategy::RoundUp)
            .unroll(d);
    } else {
        outputs_.split(d, d, dj, chunk_, guard).reorder(dj, d, qi, qo, h, b).unroll(dj);
    }
    outputs_.fuse(qo, h, task).fuse(task, b, task).parallel(task);
}

/// The same decisions as an output of their own.
Pipeline attention::pipeline_of_visits() {
>>>>>>> 52bd7f0 (Coverage: conditions are decided in one shape, however they are spelt)
    // Algorithm
    Func blocks("blocks");
    blocks(f.kb, f.qt, f.h, f.b) = f.its.has_core() ? f.visit(f.visible(f.its.scores)) : cast<uint8_t>(0);

    // Schedule
    for (int dim = 0; dim < 4; ++dim) blocks.output_buffer().dim(dim).set_min(0);
    return Pipeline(blocks);
}

}  // namespace

Module lowered_kernel::module(const std::string& symbol, const Target& target) const {
    Pipeline compiled = attention;
    const Module made = compiled.compile_to_module(arguments, symbol, target);
    Module ordered(made.name(), made.target());
    for (const auto& buffer : made.buffers()) ordered.append(buffer);
    for (Internal::LoweredFunc function : made.functions()) {
        if (function.name == symbol) {
            const std::size_t inputs = function.args.size() - order.size();
            const std::vector<Internal::LoweredArgument> outputs(function.args.begin() + static_cast<std::ptrdiff_t>(inputs), function.args.end());
            for (std::size_t i = 0; i < order.size(); ++i) function.args[inputs + i] = outputs[static_cast<std::size_t>(order[i])];
        }
        ordered.append(function);
    }
    return ordered;
}

lowered_kernel lower(const kernel_request& request) {
    check(request.schedule, request.depths.depth);
    const plan its = plan_of(request.graph);
    const kernel_frame frame(request, its);
    std::vector<Func> outputs;
    std::vector<std::pair<std::string, std::string>> guarded;

    std::optional<row_state> state;
    if (its.needs_state()) state.emplace(frame);
    finish rows(frame, state ? &*state : nullptr);
    if (!rows.empty()) outputs.push_back(rows.outputs);
    std::vector<std::unique_ptr<pair_outputs>> pairs;
    using shape = pair_outputs::shape;
    for (const shape of : {shape::pairs, shape::head_means, shape::columns})
        if (pair_outputs::wanted(its, of)) outputs.push_back(pairs.emplace_back(std::make_unique<pair_outputs>(frame, rows, of))->outputs);

    if (!rows.empty()) rows.schedule();
    if (state) guarded.push_back(state->guarded_loop());
    for (const auto& each : pairs) {
        each->schedule();
        guarded.push_back(each->guarded_loop());
    }
    Pipeline attention(outputs);
    for (const auto& [loop, table] : guarded) attention.add_custom_lowering_pass(new skip_blocks(loop, table));
    attention.add_custom_lowering_pass(new allow_empty_inputs);

    // Where each of the listing's outputs, and then the hidden rows, stand among the functions' values.
    std::vector<int> order, hidden;
    int first = 0;
    const auto place_all = [&](auto belongs, int extra) {
        for (std::size_t i = 0; i < its.outputs.size(); ++i)
            if (belongs(its.outputs[i])) order[i] = first++;
        for (int i = 0; i < extra; ++i) hidden.push_back(first++);
    };
    order.resize(its.outputs.size());
    const auto of_rows = [](kind what) { return what == kind::output || what == kind::row; };
    place_all(of_rows, its.hidden_rows);
    for (const shape of : {shape::pairs, shape::head_means, shape::columns})
        place_all([&](kind what) { return !of_rows(what) && pair_outputs::shape_of(what) == of; }, 0);
    order.insert(order.end(), hidden.begin(), hidden.end());
    return {frame.inputs.arguments(), attention, order, pipeline_of_visits(frame)};
}

}  // namespace attune::generators
