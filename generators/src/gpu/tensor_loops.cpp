#include "gpu/tensor_loops.hpp"

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

constexpr int words_of_load = 4;  ///< 16 bytes

/// Inputs that have elements in every call with queries, even without keys.
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

/// One element of a row a thread, or several in turn.
void tensor_loops::one_a_thread(Func f, const Var& i, int extent) {
    const TailStrategy guard = TailStrategy::GuardWithIf;
    f.bound_extent(i, extent)
        .split(i, rest, i, warp * cut_.warps, guard)
        .split(i, state_.w, lane, warp, guard)
        .reorder(rest, lane, state_.w)
        .gpu_threads(lane, state_.w);
}

/// A function that each thread keeps for its own rows. All its dimensions are known to be as long as the block.
Func& tensor_loops::of_task(Func& f, const LoopLevel& task) {
    tensor_state& s = state_;
    return f.compute_at(task)
        .bound_extent(s.gi, 8)
        .bound_extent(s.ti, 4)
        .bound_extent(s.w, cut_.warps)
        .bound_extent(s.mt, cut_.tiles)
        .bound_extent(f_.qt, 1);
}

/// A table in shared memory, beside rows that warpgroups read: those begin at multiples of 1024 bytes as long as every
/// table does.
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

/// A function of one block of keys in one thread, all of it written out.
Func& tensor_loops::in_registers(Func& f, const LoopLevel& thread) {
    return f.compute_at(thread).bound_extent(f_.kb, 1).bound_extent(f_.qt, 1).unroll(state_.mt);
}

/// Rows that all threads copy or compute, 16 bytes each at a time; the caller says how the words of 16 bytes are made.
/// Behind a row there is room for 16 bytes: eight rows at the same place then lie in different banks.
Stage tensor_loops::copied(Func& rows, int words, const LoopLevel& block) {
    const TailStrategy guard = TailStrategy::GuardWithIf;
    const Var chunk("chunk"), some("some");
    const Var& word = state_.word;
    rows.compute_at(block)
        .store_in(MemoryType::GPUShared)
        .bound_extent(word, words)
        .bound_extent(f_.ki, cut_.key_block)
        .bound_extent(f_.kb, 1)
        .align_storage(word, words + words_of_load);
    return rows.split(word, chunk, word, words_of_load)
        .fuse(chunk, f_.ki, rest)
        .split(rest, some, rest, warp * cut_.warps, guard)
        .split(rest, state_.w, lane, warp)
        .reorder(word, some, lane, state_.w)
        .unroll(some)
        .gpu_threads(lane, state_.w);
}

/// The same for rows that warpgroups read: a piece of 16 bytes lies at its number xor the row's, so that no room is
/// needed behind a row.
Stage tensor_loops::copied_in_parts(Func& rows, int words, const LoopLevel& block) {
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
    return rows.fuse(piece, f_.ki, rest)
        .fuse(rest, part, rest)
        .split(rest, some, rest, warp * cut_.warps, TailStrategy::GuardWithIf)
        .split(rest, state_.w, lane, warp)
        .reorder(word, some, lane, state_.w)
        .unroll(some)
        .gpu_threads(lane, state_.w);
}

/// The loop over the blocks of keys that one table covers.
passes::stage_loop tensor_loops::visited() const {
    const passes::stage_loop blocks(state_.state, state_.blocks.x);
    return state_.split ? blocks : blocks.part("visited");
}

void tensor_loops::schedule_row(Func f, const LoopLevel& task) {
    // Schedule
    f.compute_at(task).bound_extent(f_.qt, 1);
    in_table(f, f_.qi);
    one_a_thread(f, f_.qi, cut_.query_block());
}

void tensor_loops::schedule_state(const LoopLevel& task) {
    // Schedule
    tensor_state& s = state_;
    RVar visited("visited"), decided("decided");
    of_task(s.state, task).bound_extent(s.rh, 2).reorder(s.rh, s.mt, s.ti, s.gi, s.w).unroll(s.rh).unroll(s.mt);
    of_threads(s.state);
    s.state.store_in(MemoryType::Register);
    if (s.left.defined()) {
        of_task(s.left, task).bound_extent(s.rh, 2).reorder(s.rh, s.mt, s.ti, s.gi, s.w).unroll(s.rh).unroll(s.mt);
        of_threads(s.left);
        s.left.store_in(MemoryType::GPUShared);
    }
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
    Stage update = s.state.update();
    if (s.split) {
        s.state.bound_extent(split_ranges::sp, 1);
        visited = s.blocks.x, decided = s.blocks.y;
    } else {
        update.split(s.blocks.x, decided, visited, decided_at_once, TailStrategy::GuardWithIf);
    }
    update.reorder(s.rh, s.mt, s.ti, s.gi, s.w, visited, decided)
        .unroll(s.rh)
        .unroll(s.mt)
        .never_partition(std::vector<VarOrRVar>{visited, decided});  // one loop, for skip_blocks to guard
    of_threads(update);
    const LoopLevel together(s.state, decided);
    s.parts.visits_of_block.compute_at(together).bound_extent(f_.qt, 1);
    in_table(s.parts.visits_of_block, f_.kb);
    one_a_thread(s.parts.visits_of_block, f_.kb, decided_at_once);
    if (s.split) {
        schedule_of_group(s.parts.parts_of_group);
        schedule_ranges(*s.split, task, together, decided_at_once, warp);
    }
    schedule_queries(task);
    schedule_keys(LoopLevel(s.state, visited));
    schedule_fragments(LoopLevel(s.state, lane));
}

void tensor_loops::schedule_queries(const LoopLevel& task) {
    // Schedule
    tensor_state& s = state_;
    for (const Func& kept : s.scores_at.hoisted_of_queries) schedule_row(kept, task);
    of_task(s.query_words, task).reorder(s.r, s.ks, s.mt, s.ti, s.gi, s.w).unroll(s.r).unroll(s.ks).unroll(s.mt);
    of_threads(s.query_words);
    if (!s.queries_in_memory()) {
        s.query_words.store_in(MemoryType::Register);
        return;
    }
    // Each thread reads what it wrote, 16 bytes that neighbour those of other threads.
    s.query_words.store_in(MemoryType::GPUShared)
        .bound_extent(s.r, 4)
        .reorder_storage(s.r, s.ti, s.gi, s.ks, s.mt, s.w, f_.qt, f_.h, f_.b);
    s.query_reads.compute_at(s.products, s.channels.y)
        .bound_extent(f_.qt, 1)
        .vectorize(s.r, 4)
        .unroll(s.ks)
        .unroll(s.mt);
}

/// Functions that serve all queries of a block of keys.
void tensor_loops::schedule_keys(const LoopLevel& block) {
    // Schedule
    for (Func& kept : state_.scores_at.hoisted_of_keys) {
        kept.compute_at(block).bound_extent(f_.kb, 1);
        in_table(kept, f_.ki);
        one_a_thread(kept, f_.ki, cut_.key_block);
    }
    for (const auto& [rows, words, tensor] : {std::tuple(&state_.key_rows, state_.words_of_key(), f_.core.key),
                                              std::tuple(&state_.value_rows, state_.words_of_value(), f_.core.value)}) {
        Stage copies = state_.of_warpgroups ? copied_in_parts(*rows, words, block) : copied(*rows, words, block);
        input_of_rows(f_.graph(), tensor) >= 0 ? copies.vectorize(state_.word) : copies.unroll(state_.word);
    }
}

void tensor_loops::schedule_fragments(const LoopLevel& thread) {
    // Schedule
    tensor_state& s = state_;
    const auto fragments = [&](Func& f) -> Func& { return in_registers(f, thread).unroll(s.r).unroll(s.nt); };
    const auto of_rows = [&](Func& f) -> Func& { return in_registers(f, thread).unroll(s.rh); };
    const auto words = [&](Func& f, Func& of, const RVar& step) {
        f.compute_at(of, step).bound_extent(f_.kb, 1).unroll(s.i).unroll(s.j).unroll(s.ks);
    };
    const auto summed = [&](Stage stage, std::vector<VarOrRVar> order, const RDom& over) {
        order.insert(order.end(), {over.x, over.y});
        stage.reorder(order);
        for (const VarOrRVar& each : order) stage.unroll(each);
    };
    fragments(s.products);
    if (!s.of_warpgroups) {
        summed(s.products.update(), {s.mt, s.nt}, s.channels);
        words(s.key_words, s.products, s.channels.y);
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
        summed(s.sums.update(), {s.mt}, s.summed_keys);
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
    summed(s.added.update(1), {s.mt, s.nt}, s.keys);
    words(s.value_words, s.added, s.keys.y);
}

void tensor_loops::add_passes(const Func& outputs, Pipeline& attention) const {
    const tensor_state& s = state_;
    std::vector<std::string> of_threads{s.state.name()}, tensors;
    if (!s.queries_in_memory()) of_threads.push_back(s.query_words.name());
    if (s.spoilt.defined()) of_threads.push_back(s.spoilt.name());
    for (const int tensor : {f_.core.query, f_.core.key, f_.core.value})
        if (const int input = input_of_rows(f_.graph(), tensor);
            input >= 0 && f_.inputs.tensor(input).type().bits() == 16)
            tensors.push_back(f_.inputs.tensor(input).name());
    for (int i = 0; i < outputs.outputs(); ++i)
        if (outputs.types()[static_cast<std::size_t>(i)].bits() == 16)
            tensors.push_back(outputs.outputs() == 1 ? outputs.name() : outputs.name() + "." + std::to_string(i));
    attention.add_custom_lowering_pass(new fragment_registers(of_threads));
    if (s.split) attention.add_custom_lowering_pass(new bounded_loop(stage_loop(s.state, s.blocks.y)));
    attention.add_custom_lowering_pass(new skip_blocks_on_gpu(visited()));
    attention.add_custom_lowering_pass(new stores_under_one_condition({s.scores.name(), s.added.name()}));
    attention.add_custom_lowering_pass(new distances_apart(s.scores.name()));
    attention.add_custom_lowering_pass(new words_of_rows(tensors));
    attention.add_custom_lowering_pass(new loads_before_loop(visited(), read_by_tasks(f_)));
    attention.add_custom_lowering_pass(new copies_ahead(visited(), {.keys = s.key_rows.name(),
                                                                    .values = s.value_rows.name(),
                                                                    .sums = s.added.name(),
                                                                    .read_by_products = s.of_warpgroups}));
}

}  // namespace attune::generators::inline gpu
