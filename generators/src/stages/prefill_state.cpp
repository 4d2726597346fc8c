#include "stages/prefill_state.hpp"

#include "expr/math.hpp"
#include "stages/kept_number.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace attune::generators::inline stages {
using namespace Halide;

prefill_state::prefill_state(const kernel_frame& frame)
    : scores_at(frame, "", frame.keys().scores), parts(frame), depths(frame), f_(frame) {
    // If no block is known to be full without looking, the mask is applied where scores are made.
    masks_apart = parts.may_be_whole && !scores_at.masked_by_product && !f_.request.on_gpu();
    define_scores();
    define_weights();
    define_state();
}

void prefill_state::define_scores() {
    // Algorithm
    const std::vector<Var> pair = scores_at.pair();
    if (!masks_apart) {
        scores(pair) = choose_whole(scores_at.masked, lowest, scores_at.real);
        return;
    }
    // A separate pass over the sub-blocks that are not known to be full.
    masked = RDom({{0, parts.keys()}, {0, parts.count()}}, "masked");
    masked.where(parts.may_mask(masked.y));
    const Expr key = masked.y * parts.keys() + masked.x,
               hidden = Internal::graph_substitute(f_.ki.name(), key, scores_at.masked);
    scores(pair) = scores_at.real;
    const std::vector<Expr> there = score_tile::pair_of(f_, f_.qi, key);
    scores(there) = select(hidden, lowest, scores(there));
}

void prefill_state::define_weights() {
    // Algorithm
    rk = RDom(0, f_.cut.key_block, "rk");
    const std::vector<Var> row{f_.qi, f_.kb, f_.qt, f_.h, f_.b};
    const std::vector<Expr> of_row(row.begin(), row.end()), along = score_tile::pair_of(f_, f_.qi, rk);
    const auto reduced = [&](const std::string& name, const Func& of_pairs, bool maximum) {
        Func all(name);
        all(row) = !maximum ? Expr(0.0f) : Expr(is_softmax(f_.core) ? lowest_score : lowest);
        all(row) = maximum ? larger_score(f_.core, all(of_row), of_pairs(along)) : all(of_row) + of_pairs(along);
        return all;
    };
    // Rounded before they are added up, so that a row's weights sum to one.
    const auto rounded = [this](const Expr& weight) {
        if (!f_.keys().values || !is_of_bf16(f_.keys().values->how)) return weight;
        Expr bits = reinterpret<std::uint32_t>(weight);
        // Held below the last NaN, which would otherwise be rounded up to a number. NaNs with a sign are held too; no
        // weight has a sign.
        if (!f_.request.finite) bits = min(bits, Expr(0x7fff7fffu));
        return reinterpret<float>((bits + Expr(0x8000u)) & Expr(0xffff0000u));
    };
    weights = weights_of_block(f_, scores_at, scores, reduced, rounded);
    if (chunk()) values.emplace(f_, scores_at, parts, weights);
}

std::vector<Func> prefill_state::kept_weights() const {
    std::vector<Func> all = weights.of_pairs(f_.core);
    if (values && values->tiled()) all.erase(all.begin());
    return all;
}

void prefill_state::define_state() {
    // Algorithm
    blocks = RDom(0, f_.key_blocks(), "blocks");
    blocks.where(parts.visits_of_block(blocks, f_.qt, f_.h, f_.b) != cast<uint8_t>(0));
    const Expr block = blocks.x;
    layout = state_layout(f_.core, chunk(), weights);
    state(f_.qi, dc, f_.qt, f_.h, f_.b) = Tuple(layout.initial);
    const FuncRef before = state(f_.qi, dc, f_.qt, f_.h, f_.b);
    std::vector<Expr> next = layout.with_block(
        f_.core, weights, scores_at.scale, before, [&](const Func& f) { return f(f_.qi, block, f_.qt, f_.h, f_.b); },
        [&](int j) { return values->weighted(f_.qi, dc * chunk() + j, block, f_.qt, f_.h, f_.b); });
    // Halide reuses shared memory after its last use in the program's text, although the loop over the blocks comes
    // back to it. Numbers that were computed before the loop are therefore used once more at the loop's end, to no
    // effect.
    if (f_.request.on_gpu())
        next[0] += select(number_at(before, 0) > std::numeric_limits<float>::max(), scores_at.of_query(0), 0.0f);
    state(f_.qi, dc, f_.qt, f_.h, f_.b) = Tuple(next);
    if (!f_.request.on_gpu() || layout.beside_accumulators() == 0) return;
    // The state lies in each thread's registers. Numbers that other threads need are copied to memory that all can
    // read.
    std::vector<Expr> shared;
    for (int i = chunk(); i < layout.size(); ++i) shared.push_back(number_at(before, i));
    final_state(dc, f_.qi, f_.qt, f_.h, f_.b) = Tuple(shared);
}

namespace {

/// Element i of the state of a row's chunk.
Expr element(const Func& state, const std::vector<Expr>& row, const Expr& chunk, int i) {
    return number_at(state(row[0], chunk, row[1], row[2], row[3]), i);
}

}  // namespace

Expr prefill_state::of_row(int i, const std::vector<Expr>& row) const {
    if (!final_state.defined()) return element(state, row, 0, i);
    return number_at(final_state(0, row[0], row[1], row[2], row[3]), i - chunk());
}
Expr prefill_state::maximum_of(const std::vector<Expr>& row) const { return of_row(layout.maximum_at, row); }
Expr prefill_state::sum_of(const std::vector<Expr>& row) const { return of_row(layout.sum_at, row); }
Expr prefill_state::summed_of(int node, const std::vector<Expr>& row) const {
    return of_row(layout.place_of(node, f_.core), row);
}
Expr prefill_state::accumulated_of(const std::vector<Expr>& row, const Expr& d) const {
    const auto [size, count, together] = depths;
    const bool whole = together == size;
    const Expr which = whole ? d / size : d / together % count,
               place = whole ? d % size : d / (together * count) * together + d % together;
    std::vector<Expr> of_chunk;
    for (int j = 0; j < size; ++j) of_chunk.push_back(element(state, row, which, j));
    return one_of(of_chunk, place);
}

}  // namespace attune::generators::inline stages
