#include "gpu/tensor_prefill.hpp"

#include "gpu/shared_schedules.hpp"
#include "gpu/skipped_blocks.hpp"
#include "passes/copies_ahead.hpp"
#include "passes/fragment_passes.hpp"

#include <algorithm>
#include <span>
#include <string>
#include <vector>

namespace attune::generators::inline gpu {
using namespace Halide;

namespace {

constexpr int warp = 32;
constexpr int words_of_load = 4;  ///< 16 bytes

/// The loops of a GPU: a block of threads has a block of queries of one (batch, head), a warp some of its rows, and
/// goes through the blocks of keys one after another. Keys and values lie in shared memory, all else in registers, but
/// for queries that would take too many.
class tensor_loops {
public:
    tensor_loops(const gpu_tensor_prefill& cut, const kernel_frame& f, tensor_state& state)
        : f_(f), cut_(cut), state_(state) {}

    void schedule(epilogue& rows);

private:
    void schedule_state(const LoopLevel& task);
    void schedule_queries(const LoopLevel& task);
    void schedule_keys(const LoopLevel& block);
    void schedule_fragments(const LoopLevel& thread);
    void one_a_thread(Func f, const Var& i, int extent);
    void copied(Func& rows, int words, const LoopLevel& block);
    void copied_in_parts(Func& rows, int words, const LoopLevel& block);
    Func& of_task(Func& f, const LoopLevel& task);
    Stage of_threads(Stage stage);
    void in_table(Func& f, const Var& i);
    Func& in_registers(Func& f, const LoopLevel& thread);

    const kernel_frame& f_;
    const gpu_tensor_prefill& cut_;
    tensor_state& state_;
    const Var lane{"lane"}, rest{"rest"};
};

/// One element of a row a thread, or several in turn.
void tensor_loops::one_a_thread(Func f, const Var& i, int extent) {
    const TailStrategy guard = TailStrategy::GuardWithIf;
    f.bound_extent(i, extent)
        .split(i, rest, i, warp * cut_.warps, guard)
        .split(i, state_.w, lane, warp, guard)
        .reorder(rest, lane, state_.w)
        .gpu_threads(lane, state_.w);
}

/// What each thread keeps of its own rows: in all its dimensions known to be as long as the block.
Func& tensor_loops::of_task(Func& f, const LoopLevel& task) {
    tensor_state& s = state_;
    return f.compute_at(task)
        .bound_extent(s.gi, 8)
        .bound_extent(s.ti, 4)
        .bound_extent(s.w, cut_.warps)
        .bound_extent(s.mt, cut_.tiles)
        .bound_extent(f_.qt, 1);
}

/// In shared memory, beside rows that warpgroups read: those begin at multiples of 1024 bytes, as long as all else
/// does.
void tensor_loops::in_table(Func& f, const Var& i) {
    constexpr int rows_begin_at = 1024;
    f.store_in(MemoryType::GPUShared);
    int least = rows_begin_at;
    for (const Type& type : f.types()) least = std::min(least, type.bytes());
    if (state_.of_warpgroups) f.align_storage(i, rows_begin_at / least);
}

Stage tensor_loops::of_threads(Stage stage) {
    return stage.fuse(state_.ti, state_.gi, lane).gpu_threads(lane, state_.w);
}

/// Of a block of keys and of one thread, all of it written out.
Func& tensor_loops::in_registers(Func& f, const LoopLevel& thread) {
    return f.compute_at(thread).bound_extent(f_.kb, 1).bound_extent(f_.qt, 1).unroll(state_.mt);
}

/// Rows that all threads copy, 16 bytes each at a time. Behind a row there is room for 16 bytes: eight rows at the same
/// place then lie in different banks.
void tensor_loops::copied(Func& rows, int words, const LoopLevel& block) {
    const TailStrategy guard = TailStrategy::GuardWithIf;
    const Var chunk("chunk"), some("some");
    const Var& word = state_.word;
    rows.compute_at(block)
        .store_in(MemoryType::GPUShared)
        .bound_extent(word, words)
        .bound_extent(f_.ki, cut_.key_block)
        .bound_extent(f_.kb, 1)
        .align_storage(word, words + words_of_load);
    rows.split(word, chunk, word, words_of_load)
        .fuse(chunk, f_.ki, rest)
        .split(rest, some, rest, warp * cut_.warps, guard)
        .split(rest, state_.w, lane, warp)
        .reorder(word, some, lane, state_.w)
        .vectorize(word)
        .unroll(some)
        .gpu_threads(lane, state_.w);
}

/// The same where warpgroups read them: pieces of 16 bytes lie at their number xor the row's, so that no room is needed
/// behind a row.
void tensor_loops::copied_in_parts(Func& rows, int words, const LoopLevel& block) {
    const Var some("some");
    const Var &word = state_.word, &piece = state_.piece, &part = state_.part;
    constexpr int pieces = 8;  // of a row's part
    rows.compute_at(block)
        .store_in(MemoryType::GPUShared)
        .bound_extent(word, words_of_load)
        .bound_extent(piece, pieces)
        .bound_extent(f_.ki, cut_.key_block)
        .bound_extent(part, words / (pieces * words_of_load))
        .bound_extent(f_.kb, 1);
    rows.fuse(piece, f_.ki, rest)
        .fuse(rest, part, rest)
        .split(rest, some, rest, warp * cut_.warps, TailStrategy::GuardWithIf)
        .split(rest, state_.w, lane, warp)
        .reorder(word, some, lane, state_.w)
        .vectorize(word)
        .unroll(some)
        .gpu_threads(lane, state_.w);
}

void tensor_loops::schedule(epilogue& rows) {
    // Schedule
    const TailStrategy guard = TailStrategy::GuardWithIf;
    tensor_state& s = state_;
    const Var &d = f_.d, &q = f_.q, &h = f_.h, &b = f_.b, qo("qo"), e("e");
    Func& outputs = rows.outputs;
    bind_outputs(rows, f_);
    outputs.split(q, qo, q, cut_.query_block(), guard)
        .split(q, s.w, q, 16 * cut_.tiles)
        .split(q, s.mt, q, 16)
        .split(q, s.rh, s.gi, 8);
    outputs.split(d, s.nt, d, 8).split(d, s.ti, e, 2).fuse(s.ti, s.gi, lane);
    outputs.reorder(e, s.nt, s.rh, s.mt, lane, s.w, qo, h, b)
        .gpu_blocks(qo, h, b)
        .gpu_threads(lane, s.w)
        .unroll(e)
        .unroll(s.nt)
        .unroll(s.rh)
        .unroll(s.mt);
    const LoopLevel task(outputs, qo);
    for (Func row : rows.of_rows()) {
        row.compute_at(task).bound_extent(f_.qt, 1);
        in_table(row, f_.qi);
        one_a_thread(row, f_.qi, cut_.query_block());
    }
    schedule_state(task);
}

void tensor_loops::schedule_state(const LoopLevel& task) {
    // Schedule
    tensor_state& s = state_;
    const RVar visited("visited"), decided("decided");
    for (Func* each : {&s.state, &s.left}) {
        of_task(*each, task).bound_extent(s.rh, 2).reorder(s.rh, s.mt, s.ti, s.gi, s.w).unroll(s.rh).unroll(s.mt);
        of_threads(*each);
    }
    s.state.store_in(MemoryType::Register);
    if (s.spoilt.defined()) {
        s.spoilt.compute_at(task)
            .bound_extent(s.gi, 8)
            .bound_extent(s.ti, 4)
            .bound_extent(s.w, cut_.warps)
            .bound_extent(f_.qt, 1)
            .store_in(MemoryType::Register)
            .reorder(s.ti, s.gi, s.w);
        of_threads(s.spoilt);
    }
    s.left.store_in(MemoryType::GPUShared);
    Stage update = s.state.update();
    update.split(s.blocks.x, decided, visited, decided_at_once, TailStrategy::GuardWithIf)
        .reorder(s.rh, s.mt, s.ti, s.gi, s.w, visited, decided)
        .unroll(s.rh)
        .unroll(s.mt)
        .never_partition(std::vector<VarOrRVar>{visited, decided});  // one loop, for skip_blocks to guard
    of_threads(update);
    s.parts.visits_of_block.compute_at(LoopLevel(s.state, decided)).bound_extent(f_.qt, 1);
    in_table(s.parts.visits_of_block, f_.kb);
    one_a_thread(s.parts.visits_of_block, f_.kb, decided_at_once);
    schedule_queries(task);
    schedule_keys(LoopLevel(s.state, visited));
    schedule_fragments(LoopLevel(s.state, lane));
}

void tensor_loops::schedule_queries(const LoopLevel& task) {
    // Schedule
    tensor_state& s = state_;
    for (Func& kept : s.scores_at.hoisted_of_queries) {
        kept.compute_at(task).bound_extent(f_.qt, 1);
        in_table(kept, f_.qi);
        one_a_thread(kept, f_.qi, cut_.query_block());
    }
    of_task(s.query_words, task).reorder(s.r, s.ks, s.mt, s.ti, s.gi, s.w).unroll(s.r).unroll(s.ks).unroll(s.mt);
    of_threads(s.query_words);
    if (!s.queries_in_memory) {
        s.query_words.store_in(MemoryType::Register);
        return;
    }
    // Each thread reads what it wrote, 16 bytes that neighbour those of other threads.
    s.query_words.store_in(MemoryType::GPUShared)
        .bound_extent(s.r, 4)
        .reorder_storage(s.r, s.ti, s.gi, s.ks, s.mt, s.w, f_.qt, f_.h, f_.b);
    s.query_reads.compute_at(s.products, s.channels.x)
        .bound_extent(f_.qt, 1)
        .vectorize(s.r, 4)
        .unroll(s.ks)
        .unroll(s.mt);
}

/// What serves all queries of a block of keys.
void tensor_loops::schedule_keys(const LoopLevel& block) {
    // Schedule
    for (Func& kept : state_.scores_at.hoisted_of_keys) {
        kept.compute_at(block).bound_extent(f_.kb, 1);
        in_table(kept, f_.ki);
        one_a_thread(kept, f_.ki, cut_.key_block);
    }
    for (const auto& [rows, channels] :
         {std::pair(&state_.key_rows, f_.depth()), std::pair(&state_.value_rows, f_.value_depth())})
        state_.of_warpgroups ? copied_in_parts(*rows, channels / 2, block) : copied(*rows, channels / 2, block);
}

void tensor_loops::schedule_fragments(const LoopLevel& thread) {
    // Schedule
    tensor_state& s = state_;
    const auto fragments = [&](Func& f) -> Func& { return in_registers(f, thread).unroll(s.r).unroll(s.nt); };
    const auto of_rows = [&](Func& f) -> Func& { return in_registers(f, thread).unroll(s.rh); };
    const auto words = [&](Func& f, Func& of, const RVar& step) {
        f.compute_at(of, step).bound_extent(f_.kb, 1).unroll(s.i).unroll(s.j).unroll(s.ks);
    };
    fragments(s.products);
    if (!s.of_warpgroups) {
        s.products.update().reorder(s.mt, s.nt, s.channels.x).unroll(s.mt).unroll(s.nt).unroll(s.channels.x);
        words(s.key_words, s.products, s.channels.x);
    }
    fragments(s.scores);
    if (s.masks_apart)
        s.scores.update().reorder(s.r, s.nt, s.mt, s.masked.x).unroll(s.r).unroll(s.nt).unroll(s.mt).unroll(s.masked.x);
    for (Func* each : {&s.of_thread, &s.of_pair, &s.seen, &s.shrunk, &s.highest, &s.keep, &s.offset}) of_rows(*each);
    if (!s.of_warpgroups) s.grown.compute_at(thread).bound_extent(f_.kb, 1).bound_extent(f_.qt, 1);
    s.of_thread.update().reorder(s.rk.x, s.rk.y, s.rh, s.mt).unroll(s.rk.x).unroll(s.rk.y).unroll(s.rh).unroll(s.mt);
    fragments(s.weights);
    if (s.weighing.defined()) fragments(s.weighing);
    in_registers(s.packed, thread).unroll(s.r).unroll(s.ks);
    if (s.sums_by_products) {
        in_registers(s.sums, thread).unroll(s.r);
        s.sums.update().reorder(s.mt, s.summed_keys.x).unroll(s.mt).unroll(s.summed_keys.x);
    } else {
        of_rows(s.sums);
        s.sums.update().reorder(s.rk.x, s.rk.y, s.rh, s.mt).unroll(s.rk.x).unroll(s.rk.y).unroll(s.rh).unroll(s.mt);
    }
    fragments(s.added);
    if (s.of_warpgroups) {
        fragments(s.before_added);
        return;
    }
    s.added.update().reorder(s.r, s.nt, s.mt, s.rescaled.x).unroll(s.r).unroll(s.nt).unroll(s.mt).unroll(s.rescaled.x);
    s.added.update(1).reorder(s.mt, s.nt, s.keys.x).unroll(s.mt).unroll(s.nt).unroll(s.keys.x);
    words(s.value_words, s.added, s.keys.x);
}

/// Inputs that have elements in every call with queries: with or without keys.
std::vector<std::string> read_by_tasks(const kernel_frame& f) {
    std::vector<std::string> all{"input_kv_lengths"};
    const std::span<const input_declaration> inputs = f.graph().inputs;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        const auto has_elements = [](const axis_declaration& axis) {
            return axis.kind == axis_kind::batch || axis.kind == axis_kind::head || axis.kind == axis_kind::key_head ||
                   axis.kind == axis_kind::query;
        };
        const std::span axes(inputs[i].axes.data(), inputs[i].rank);
        if (!inputs[i].is_scalar && std::ranges::all_of(axes, has_elements))
            all.push_back(f.inputs.tensor(static_cast<int>(i)).name());
    }
    return all;
}

}  // namespace

void apply(const gpu_tensor_prefill& cut, kernel_stages& all, tensor_state* state, remade_tasks* again,
           Pipeline& attention) {
    const kernel_frame& f = all.frame;
    tensor_loops(cut, f, *state).schedule(all.rows);
    std::vector<std::string> of_threads{state->state.name()}, tensors;
    if (!state->queries_in_memory) of_threads.push_back(state->query_words.name());
    if (state->spoilt.defined()) of_threads.push_back(state->spoilt.name());
    for (const int tensor : {f.core.query, f.core.key, f.core.value})
        tensors.push_back(f.inputs.tensor(input_of_rows(f.graph(), tensor)).name());
    const Func& outputs = all.rows.outputs;
    for (int i = 0; i < outputs.outputs(); ++i)
        if (outputs.types()[static_cast<std::size_t>(i)].bits() == 16)
            tensors.push_back(outputs.outputs() == 1 ? outputs.name() : outputs.name() + "." + std::to_string(i));
    attention.add_custom_lowering_pass(new fragment_registers(of_threads));
    const stage_loop visited = stage_loop(state->state, state->blocks.x).part("visited");
    attention.add_custom_lowering_pass(new skip_blocks_on_gpu(visited));
    attention.add_custom_lowering_pass(new stores_under_one_condition({state->scores.name(), state->added.name()}));
    attention.add_custom_lowering_pass(new distances_apart(state->scores.name()));
    attention.add_custom_lowering_pass(new words_of_rows(tensors));
    attention.add_custom_lowering_pass(new loads_before_loop(visited, read_by_tasks(f)));
    attention.add_custom_lowering_pass(new copies_ahead(visited, {.keys = state->key_rows.name(),
                                                                  .values = state->value_rows.name(),
                                                                  .sums = state->added.name(),
                                                                  .read_by_products = state->of_warpgroups}));
    if (f.request.facts->hides == masking::some)
        attention.add_custom_lowering_pass(new last_queries_first(stage_loop(outputs, f.q, -1).part("qo")));
    if (again) again->apply(all.rows, cut.rows_of_tile * cut.tiles, attention);
    attention.add_custom_lowering_pass(new halves_as_words);
}

}  // namespace attune::generators::inline gpu
