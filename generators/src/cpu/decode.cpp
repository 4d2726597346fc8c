#include "cpu/decode.hpp"

#include "expr/math.hpp"
#include "stages/kept_number.hpp"

#include <functional>

namespace attune::generators::inline cpu {
using namespace Halide;

namespace {

decode_state::chunking chunking_of(const kernel_frame& f) {
    const int width = f.keys().values ? f.keys().values->vector : 1, vectors_a_chunk = f.keys().row.accumulators;
    return {width, vectors_a_chunk, vectors_a_chunk == 0 ? 1 : f.value_depth() / width / vectors_a_chunk};
}

}  // namespace

decode_state::decode_state(const kernel_frame& frame)
    : parts(frame), scores_at(frame, "", frame.keys().scores), reduced(frame), depths(chunking_of(frame)), f_(frame) {
    scores(scores_at.pair()) = choose_whole(scores_at.masked, lowest, scores_at.real);
    define_ranges();
    weights = weights_of_block(f_, scores_at, scores, std::ref(reduced));
    if (f_.keys().values) values.emplace(f_, scores_at, parts, weights, reduced);
    define_state();
}

Expr decode_state::blocks_in_use() const {
    return (f_.inputs.most_keys_in_use.value() + f_.cut.key_block - 1) / f_.cut.key_block;
}

/// A split is a contiguous range of the blocks from the first to the last visited one, so that the blocks that a mask
/// or a length leaves are shared out evenly. The ranges depend on the visible blocks and on the number of splits, not
/// on how many keys there is room for. Blocks behind the last key in use are passed over: in a short conversation they
/// would take longer than the keys.
void decode_state::define_ranges() {
    // Algorithm
    const Expr count_of_blocks = blocks_in_use(), splits_wanted = f_.inputs.key_splits, none = cast<uint8_t>(0);
    const std::vector<Var> stack{f_.qt, f_.h, f_.b};
    Func &span = ranges.span, &range = ranges.range;
    const RDom every_block(0, count_of_blocks, "every_block");
    const Expr seen = parts.visits_of_block(every_block, f_.qt, f_.h, f_.b) != none;
    span(stack) = Tuple(count_of_blocks, 0);
    const FuncRef ends = span(stack);
    span(stack) = Tuple(select(seen, min(ends[0], every_block), ends[0]), select(seen, every_block + 1, ends[1]));
    const Expr first = ends[0], count = max(ends[1] - first, 0);
    range(sp, f_.qt, f_.h, f_.b) = Tuple(first + count * sp / splits_wanted, first + count * (sp + 1) / splits_wanted);
    const FuncRef bounds = range(sp, f_.qt, f_.h, f_.b);
    ranges.visits_of_split(f_.kb, sp, f_.qt, f_.h, f_.b) =
        select(bounds[0] <= f_.kb && f_.kb < bounds[1], parts.visits_of_block(f_.kb, f_.qt, f_.h, f_.b), none);
}

void decode_state::define_state() {
    // Algorithm
    blocks = RDom(0, blocks_in_use(), "blocks");
    const Expr block = blocks.x;
    blocks.where(ranges.visits_of_split(blocks, sp, f_.qt, f_.h, f_.b) != cast<uint8_t>(0));
    layout = state_layout(f_.core, depths.vectors_a_chunk, weights);
    const Var& l = row_reductions::l;
    const std::vector<Var> at{l, dc, f_.qi, sp, f_.qt, f_.h, f_.b};
    state(at) = Tuple(layout.initial);
    state(at) = Tuple(layout.with_block(
        f_.core, weights, scores_at.scale, state(at), [&](const Func& f) { return f(f_.qi, block, f_.qt, f_.h, f_.b); },
        [&](int j) {
            const Expr depth = (dc * depths.vectors_a_chunk + j) * depths.width + l;
            return values->accumulated(depth, f_.qi, block, f_.qt, f_.h, f_.b);
        }));
}

void decode_state::share_tasks(std::deque<decode_state>& cores, const std::vector<int>& tasks) {
    for (std::size_t first = 0; first < cores.size(); ++first) {
        std::vector<decode_state*> sharing;
        for (std::size_t i = first; i < cores.size(); ++i)
            if (tasks[i] == static_cast<int>(first)) sharing.push_back(&cores[i]);
        if (!sharing.empty()) define_splits(sharing);
    }
    for (decode_state& each : cores) each.define_merge();
}

/// The partial results of a task, for all cores in one piece of memory: (lane of element of chunk, row, split, query
/// block, key head, batch).
void decode_state::define_splits(const std::vector<decode_state*>& sharing) {
    // Algorithm
    std::vector<Expr> of_cores;
    for (const decode_state* its : sharing) {
        const kernel_frame& f = its->f_;
        const int width = its->depths.width, size = its->layout.size();
        const FuncRef here = its->state(x % width, x / (width * size), f.qi, sp, f.qt, f.h, f.b);
        std::vector<Expr> elements;
        for (int i = 0; i < size; ++i) elements.push_back(number_at(here, i));
        of_cores.push_back(one_of(elements, x / width % size));
    }
    const kernel_frame& f = sharing.front()->f_;
    Func partial("partial");
    partial(x, f.qi, sp, f.qt, f.h, f.b) = Tuple(of_cores);
    for (std::size_t i = 0; i < sharing.size(); ++i)
        sharing[i]->merge.partial = partial, sharing[i]->merge.place = static_cast<int>(i);
}

Expr decode_state::of_split(const Expr& lane, const Expr& chunk, int i, const Expr& split,
                            const std::vector<Expr>& row) const {
    const kernel_frame::stacked_row at = f_.stacked_row_of(row);
    const Expr element = lane + depths.width * (i + layout.size() * chunk);
    return number_at(merge.partial(element, at.row, split, at.query_block, at.key_head, at.batch), merge.place);
}

void decode_state::define_merge() {
    // Algorithm
    auto& [partial, place, top, merged, splits] = merge;
    splits = RDom(0, f_.inputs.key_splits, "splits");
    const Var& l = row_reductions::l;
    const std::vector<Var> row{f_.qi, f_.qt, f_.h, f_.b}, at{l, dc, f_.qi, f_.qt, f_.h, f_.b};
    const std::vector<Expr> of_row(row.begin(), row.end());
    Expr factor = 1.0f;
    if (layout.maximum_at >= 0) {
        top(row) = is_softmax(f_.core) ? lowest_score : lowest;
        top(row) = larger_score(f_.core, top(row), of_split(0, 0, layout.maximum_at, splits, of_row));
        if (is_softmax(f_.core))
            factor = weight_of_split(of_split(l, dc, layout.maximum_at, splits, of_row), top(row), scores_at.scale);
    }
    merged(at) = Tuple(std::vector<Expr>(static_cast<std::size_t>(layout.size()), 0.0f));
    std::vector<Expr> next;
    for (int i = 0; i < layout.size(); ++i)
        next.push_back(number_at(merged(at), i) +
                       (i == layout.maximum_at ? Expr(0.0f) : of_split(l, dc, i, splits, of_row) * factor));
    merged(at) = Tuple(next);
}

Expr decode_state::merged_at(const Expr& lane, const Expr& chunk, int i, const std::vector<Expr>& row) const {
    return number_at(merge.merged(lane, chunk, row[0], row[1], row[2], row[3]), i);
}

Expr decode_state::maximum_of(const std::vector<Expr>& row) const { return merge.top(row); }
Expr decode_state::sum_of(const std::vector<Expr>& row) const { return merged_at(0, 0, layout.sum_at, row); }
Expr decode_state::summed_of(int node, const std::vector<Expr>& row) const {
    return merged_at(0, 0, layout.place_of(node, f_.core), row);
}
Expr decode_state::accumulated_of(const std::vector<Expr>& row, const Expr& d) const {
    const auto [width, vectors_a_chunk, chunks] = depths;
    std::vector<Expr> of_chunk;
    for (int j = 0; j < vectors_a_chunk; ++j)
        of_chunk.push_back(merged_at(d % width, d / (width * vectors_a_chunk), j, row));
    return one_of(of_chunk, d / width % vectors_a_chunk);
}

}  // namespace attune::generators::inline cpu
