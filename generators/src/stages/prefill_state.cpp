#include "stages/prefill_state.hpp"

#include "expr/math.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace attune::generators::inline stages {
using namespace Halide;

namespace {

std::vector<Var> element_of_sum(const kernel_frame& f) { return {f.qi, f.d, f.kb, f.qt, f.h, f.b}; }

}  // namespace

prefill_state::prefill_state(const kernel_frame& frame)
    : scores_at(frame, "", frame.keys().scores),
      parts(frame),
      f_(frame),
      chunk_(frame.keys().values ? frame.keys().values->chunk : 0) {
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
        if (!pairs_of_bf16()) return weight;
        Expr bits = reinterpret<std::uint32_t>(weight);
        // Below the last NaN, which would otherwise be rounded up to a number; so are those with a sign. No weight has.
        if (!f_.request.finite) bits = min(bits, Expr(0x7fff7fffu));
        return reinterpret<float>((bits + Expr(0x8000u)) & Expr(0xffff0000u));
    };
    weights = weights_of_block(f_, scores_at, scores, reduced, rounded);
    if (tiled()) define_words();
    if (!chunk_) return;
    if (pairs_of_bf16())
        define_pairs();
    else
        define_values();
    const std::vector<Var> at = element_of_sum(f_);
    if (!tiled()) weighted(at) = accumulated(at);
    if (!of_masked) return;
    RDom guarded_block(0, 1, "guarded_block");  // the block itself, so that it can have a condition
    guarded_block.where(of_masked->matter());
    weighted(at) = guarded(f_.qi, f_.d, f_.kb + guarded_block, f_.qt, f_.h, f_.b);
}

void prefill_state::define_values() {
    // Algorithm
    values = scores_at.rows_of(f_.core.value, false, "values");
    if (f_.request.on_gpu()) {  // where all keys of a block are added up: beyond the last one stands 0, whatever that
                                // one's values are
        const Func read = values;
        values = Func("values_in_use");
        values(f_.d, f_.ki, f_.kb, f_.h, f_.b) =
            select(f_.key_at(f_.ki) < f_.inputs.keys_in_use(f_.b), read(f_.d, f_.ki, f_.kb, f_.h, f_.b), 0.0f);
    }
    const Expr depth = min(depth_of(f_.d), f_.value_depth() - 1);  // the last chunk may be longer than what is left
    const auto add_values = [&](Func& sum, const RDom& keys, bool look) {
        const Expr weight = weights.weighing(score_tile::pair_of(f_, f_.qi, keys)),
                   value = values(depth, keys, f_.kb, f_.h, f_.b);
        const std::vector<Var> at = element_of_sum(f_);
        sum(at) = 0.0f;
        sum(at) += weight * (look ? masked_values::unless_masked(weight, value) : value);
    };
    added = RDom(0, f_.cut.key_block, "added");
    if (!f_.request.on_gpu()) {
        of_masked.emplace(f_, parts, [&](const Expr& d, const Expr& key) { return values(d, key, f_.kb, f_.h, f_.b); });
        added.where(!of_masked->matter());
    }
    // On a GPU each pair is looked at, and no block before.
    add_values(accumulated, added, planned().check == value_check::each_pair);
    if (!of_masked) return;
    looked_at = RDom(0, f_.cut.key_block, "looked_at");
    looked_at.where(of_masked->matter());
    add_values(guarded, looked_at, true);
}

int prefill_state::depths_together() const {
    constexpr int of_a_load = 4;
    return f_.request.on_gpu() && chunk_ % of_a_load == 0 ? std::min(of_a_load, chunk_) : chunk_;
}

/// The value depth of an element of the chunks, one chunk after the other.
Expr prefill_state::depth_of(const Expr& element) const {
    const int together = depths_together();
    if (together == chunk_) return element;
    const Expr chunk = element / chunk_, in_chunk = element % chunk_;
    return in_chunk / together * (together * chunks()) + chunk * together + in_chunk % together;
}

std::vector<Func> prefill_state::kept_weights() const {
    std::vector<Func> all = weights.of_pairs(f_.core);
    if (tiled()) all.erase(all.begin());
    return all;
}

/// The weights of two keys as a word, and their sum: weights of f32 would take as much of the first-level cache as the
/// scores do.
void prefill_state::define_words() {
    // Algorithm
    const Var k2("k2");
    const auto bits = [&](int which) {
        return reinterpret<std::uint32_t>(weights.weights(score_tile::pair_of(f_, f_.qi, 2 * k2 + which)));
    };
    weight_pairs(f_.qi, k2, f_.kb, f_.qt, f_.h, f_.b) = bits(0) >> 16 | bits(1);
    words = RDom({{0, 2}, {0, f_.cut.key_block / 2}}, "words");
    weights.sum = Func("sum");
    weights.sum(f_.qi, f_.kb, f_.qt, f_.h, f_.b) = 0.0f;
    weights.sum(f_.qi, f_.kb, f_.qt, f_.h, f_.b) +=
        cast<float>(half_of(weight_pairs(f_.qi, words.y, f_.kb, f_.qt, f_.h, f_.b), words.x));
}

/// Weights and values with those of two neighbouring keys beside each other.
void prefill_state::define_pairs() {
    // Algorithm
    const Var j("j"), k2("k2");
    const bool tiled = this->tiled();
    added = RDom({{0, 2}, {0, f_.cut.key_block / 2}}, "added");
    const Expr depth = min(f_.d, f_.value_depth() - 1);
    const auto element = [&](const Expr& d, const Expr& key) {
        return scores_at.element_of(f_.core.value, false, d, key);
    };
    if (tiled) {
        value_rows(f_.d, k2, f_.kb, f_.h, f_.b) = word_of(element(f_.d, 2 * k2), element(f_.d, 2 * k2 + 1));
        value_pairs(k2, f_.d, f_.kb, f_.h, f_.b) = value_rows(f_.d, k2, f_.kb, f_.h, f_.b);
    } else {
        const Expr bits = reinterpret<std::uint32_t>(weights.weights(score_tile::pair_of(f_, f_.qi, 2 * k2 + j)));
        weight_pairs(j, f_.qi, k2, f_.kb, f_.qt, f_.h, f_.b) = reinterpret(BFloat(16), cast<std::uint16_t>(bits >> 16));
        value_pairs(j, f_.d, k2, f_.kb, f_.h, f_.b) = element(f_.d, 2 * k2 + j);
    }
    of_masked.emplace(f_, parts, [&](const Expr& d, const Expr& key) {
        return cast<float>(tiled ? element(d, key) : Expr(value_pairs(key % 2, d, key / 2, f_.kb, f_.h, f_.b)));
    });
    const auto add_values = [&](Func& sum, const RDom& keys, bool look) {
        const Expr of_pair = cast<float>(tiled ? half_of(weight_pairs(f_.qi, keys.y, f_.kb, f_.qt, f_.h, f_.b), keys.x)
                                               : Expr(weight_pairs(keys.x, f_.qi, keys.y, f_.kb, f_.qt, f_.h, f_.b)));
        const Expr value = cast<float>(tiled ? half_of(value_pairs(keys.y, f_.d, f_.kb, f_.h, f_.b), keys.x)
                                             : Expr(value_pairs(keys.x, depth, keys.y, f_.kb, f_.h, f_.b)));
        const std::vector<Var> at = element_of_sum(f_);
        sum(at) = 0.0f;
        sum(at) += of_pair * (look ? masked_values::unless_masked(of_pair, value) : value);
    };
    added.where(!of_masked->matter());
    add_values(tiled ? weighted : accumulated, added, false);  // tiles are written to memory
    looked_at = RDom({{0, 2}, {0, f_.cut.key_block / 2}}, "looked_at");
    looked_at.where(of_masked->matter());
    add_values(guarded, looked_at, true);
}

void prefill_state::define_state() {
    // Algorithm
    blocks = RDom(0, f_.key_blocks(), "blocks");
    blocks.where(parts.visits_of_block(blocks, f_.qt, f_.h, f_.b) != cast<uint8_t>(0));
    const Expr block = blocks.x;
    layout = state_layout(f_.core, chunk_, weights);
    state(f_.qi, dc, f_.qt, f_.h, f_.b) = Tuple(layout.initial);
    const FuncRef ref = state(f_.qi, dc, f_.qt, f_.h, f_.b);
    const auto old = [&](int i) { return layout.size() == 1 ? Expr(ref) : Expr(ref[i]); };
    std::vector<Expr> next = state_with_block(
        f_.core, layout, weights, scores_at.scale, old,
        [&](const Func& f) { return f(f_.qi, block, f_.qt, f_.h, f_.b); },
        [&](int j) { return weighted(f_.qi, dc * chunk_ + j, block, f_.qt, f_.h, f_.b); });
    // Halide reuses shared memory after its last use in the program's text, although the loop over the blocks comes
    // back to it. So what was computed before the loop is used once more at the loop's end, to no effect.
    if (f_.request.on_gpu())
        next[0] = next[0] + select(old(0) > std::numeric_limits<float>::max(), scores_at.of_query(0), 0.0f);
    state(f_.qi, dc, f_.qt, f_.h, f_.b) = Tuple(next);
    if (!f_.request.on_gpu() || layout.beside_accumulators() == 0) return;
    // The state lies in each thread's registers. What other threads need of it is copied to where all can read.
    std::vector<Expr> shared;
    for (int i = chunk_; i < layout.size(); ++i) shared.push_back(old(i));
    final_state(dc, f_.qi, f_.qt, f_.h, f_.b) = Tuple(shared);
}

namespace {

/// Element i of the state of a row's chunk.
Expr element(const Func& state, const std::vector<Expr>& row, const Expr& chunk, int i) {
    const FuncRef at = state(row[0], chunk, row[1], row[2], row[3]);
    return state.outputs() == 1 ? Expr(at) : Expr(at[i]);
}

}  // namespace

Expr prefill_state::of_row(int i, const std::vector<Expr>& row) const {
    if (!final_state.defined()) return element(state, row, 0, i);
    const FuncRef at = final_state(0, row[0], row[1], row[2], row[3]);
    return final_state.outputs() == 1 ? Expr(at) : Expr(at[i - chunk_]);
}
Expr prefill_state::maximum_of(const std::vector<Expr>& row) const { return of_row(layout.maximum_at, row); }
Expr prefill_state::sum_of(const std::vector<Expr>& row) const { return of_row(layout.sum_at, row); }
Expr prefill_state::summed_of(int node, const std::vector<Expr>& row) const {
    return of_row(layout.place_of(node, f_.core), row);
}
Expr prefill_state::accumulated_of(const std::vector<Expr>& row, const Expr& d) const {
    const int together = depths_together();
    const bool whole = together == chunk_;
    const Expr which = whole ? d / chunk_ : d / together % chunks(),
               place = whole ? d % chunk_ : d / (together * chunks()) * together + d % together;
    std::vector<Expr> chunk;
    for (int j = 0; j < chunk_; ++j) chunk.push_back(element(state, row, which, j));
    return chunk_ == 1 ? chunk[0] : mux(place, chunk);
}

}  // namespace attune::generators::inline stages
