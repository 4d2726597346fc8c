#include "call/bind/bind.hpp"
#include "base/text.hpp"
#include "call/bind/slot.hpp"
#include "call/shape/projections.hpp"
#include "execution/device_call.hpp"
#include "execution/threads.hpp"

#include <attune/ir/block_axes.hpp>
#include <attune/ir/recurrence.hpp>
#include <attune/ir/stores.hpp>
#include <attune/runtime/error.hpp>

#include <HalideRuntime.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <new>
#include <utility>

namespace attune::detail {

namespace {

constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();

halide_type_t halide_type(element_type e) {
    switch (e) {
        case element_type::f32: return {halide_type_float, 32, 1};
        case element_type::f16: return {halide_type_float, 16, 1};
        case element_type::bf16: return {halide_type_bfloat, 16, 1};
        case element_type::i32: return {halide_type_int, 32, 1};
        case element_type::i8: return {halide_type_int, 8, 1};
        case element_type::i64: return {halide_type_int, 64, 1};
        case element_type::i16: return {halide_type_int, 16, 1};
        case element_type::u8:
        case element_type::f8_e4m3:
        case element_type::f8_e5m2:
        case element_type::boolean: return {halide_type_uint, 8, 1};  // Halide's own bool would look at one bit
        case element_type::f64:
        case element_type::any: break;
    }
    return {halide_type_handle, 64, 1};
}

/// The memory of empty tensors: kernels clamp their reads to where an element could be, so memory has to be there.
/// Longer than any depth.
alignas(128) std::array<std::uint8_t, 16384> nothing{};

/// The step along an axis that the kernel sees `seen` long. Kernels insist on 1 along a depth. In a tensor without
/// elements every step is 0, except along an axis that may be a depth: the other axes may be longer than `nothing`.
std::int64_t stride_of(const tensor& t, int axis, std::int64_t seen) {
    const std::int64_t own = t.extent(axis);
    const bool innermost = axis == t.rank() - 1, empty = t.empty();
    if (own > 1 && !empty) return t.stride(axis);
    const bool fits = !empty || own * attune::bytes_of(t.type()) <= static_cast<std::int64_t>(nothing.size());
    return innermost && own == seen && fits ? 1 : 0;
}

/// Fills a slot, with extents as the kernel sees them: where the tensor has 1 and the call has more, the stride is 0.
template <class Logical>
void set_buffer(halide_buffer_t& buffer, halide_dimension_t* dimensions, std::string_view name, const tensor& t,
                Logical logical) {
    const bool empty = t.empty();
    buffer.host = empty ? nothing.data() : static_cast<std::uint8_t*>(const_cast<void*>(t.data()));
    if (!empty && t.where() != memory::host)
        buffer.device = reinterpret_cast<std::uintptr_t>(std::exchange(buffer.host, nullptr));
    buffer.type = halide_type(t.type());
    buffer.dimensions = t.rank();
    buffer.dim = dimensions;
    std::int64_t elements = 1;
    for (int axis = 0; axis < t.rank(); ++axis) {
        const std::int64_t seen = logical(axis);
        dimensions[t.rank() - 1 - axis] = {0, static_cast<std::int32_t>(seen),
                                           static_cast<std::int32_t>(stride_of(t, axis, seen))};
        elements *= seen;  // below 2^62: refused as soon as it is above 2^31
        if (elements > most)
            fail(say("at most ", most, " elements in ", name, ", axes of extent 1 that broadcast counted in full"),
                 say("more in ", shown(name, t)), "fewer batch elements or heads a call");
    }
}

/// Whether the runtime calls the kernel once for each chunk of a state. The gradient of a recurrence is one call.
bool goes_by_chunks(const graph_ir& graph) {
    return has_recurrences(graph.nodes) && !is_gradient_of_recurrence(graph.nodes);
}

}  // namespace

bound_call::bound_call(const kernel_table& table, std::span<const named_argument> arguments, const options& how,
                       outputs wanted, bool explain, std::int64_t first_batch, std::int64_t first_query)
    : table_(table),
      given_(memory_),
      shape_(),
      threads_(threads_of(how.threads)),
      slots_(&memory_),
      argv_(&memory_),
      how_(how),
      indices_(memory_) {
    given_ = match(table, arguments, wanted == outputs::needed, memory_);
    shape_ = agree(table.graph, given_);
    shape_.first_batch = first_batch, shape_.first_query = first_query;
    state_depths(shape_, table.graph, given_);
    choose_kernel(how, explain);
    settle(shape_, table.graph, given_, chosen().depth, chosen().value_depth);
    check_stored(table.graph, given_, shape_);
    check_outputs(table.graph, given_, shape_, choice_.chosen->output);
    if (is_device(chosen().target)) check_copied(table.graph, given_);
    if (has_recurrences(table.graph.nodes)) check_recurrence();
    how_.deterministic = is_deterministic(how);
    bind_inputs();
    bind_outputs();
    check_sizes();
    indices_.find({table.graph, shape_, given_}, is_checked(how));
}

bound_call::~bound_call() = default;

void bound_call::check_values(const matched_arguments& given) const {
    if (given.kv_lengths && given.kv_lengths->view.where() == memory::host) check_lengths(table_.graph, given, shape_);
    check_wide_integers(table_.graph, shape_, given);
    indices_.look({table_.graph, shape_, given});
}

void bound_call::bind_inputs() {
    const graph_ir& graph = table_.graph;
    const std::size_t count = graph.inputs.size();
    slots_.resize(count + 1 + graph.outputs.size());
    argv_.reserve(slots_.size() + 2);
    argv_.push_back(nullptr);  // the user context: hooks.cpp
    for (std::size_t i = 0; i < count; ++i) {
        const input_declaration& d = graph.inputs[i];
        slot& s = slots_[i];
        if (d.is_scalar) {
            s.value = scalar_of(d, *given_.inputs[i]);
            argv_.push_back(&s.value);
            continue;
        }
        const tensor& t = given_.inputs[i]->view;
        set_buffer(s.buffer, s.dimensions.data(), d.name, t, [&](int axis) {
            return shape_.logical(i, d.axes[static_cast<std::size_t>(axis)].kind, t.extent(axis));
        });
        if (has_blocks(d)) s.dimensions[1].stride = d.axes[d.rank - 1u].length;  // also where there is one block
        argv_.push_back(&s.buffer);
    }
    all_keys_ = static_cast<std::int32_t>(shape_[axis_kind::key]);
    const std::int64_t one[] = {1};
    const tensor everything(&all_keys_, one);
    slot& lengths = slots_[count];
    set_buffer(lengths.buffer, lengths.dimensions.data(), "kv_lengths",
               given_.kv_lengths ? given_.kv_lengths->view : everything, [&](int) { return shape_[axis_kind::batch]; });
    if (!given_.kv_lengths) lengths.dimensions[0].stride = 0;
    argv_.push_back(&lengths.buffer);
    most_splits_ = chosen().key_splits;
    if (most_splits_) argv_.push_back(&most_splits_), argv_.push_back(&all_keys_);
}

void bound_call::bind_outputs() {
    const graph_ir& graph = table_.graph;
    for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
        if (!given_.outputs[i]) continue;  // explain and blocks: the kernel does not run
        slot& s = slots_[graph.inputs.size() + 1 + i];
        const tensor& t = given_.outputs[i]->view;
        const bool row = kind_of(graph, graph.outputs[i]) == kind::row;
        set_buffer(s.buffer, s.dimensions.data() + row, graph.outputs[i].name, t,
                   [&](int axis) { return t.extent(axis); });
        if (row) s.repeat_along_depth(chosen().value_depth);
        argv_.push_back(&s.buffer);
    }
}

std::size_t bound_call::saved_bytes() const {
    std::array<std::int64_t, 4> extents{chosen().saved_rows};
    std::size_t rank = 1;
    for (const axis_kind axis : {axis_kind::batch, axis_kind::head, axis_kind::query}) extents[rank++] = shape_[axis];
    const std::int64_t output[] = {chosen().saved_outputs, shape_[axis_kind::batch], shape_[axis_kind::head],
                                   shape_[axis_kind::query], chosen().value_depth};
    return static_cast<std::size_t>(bytes_of(extents, element_type::f32) + bytes_of(output, element_type::f32));
}

std::size_t bound_call::sum_bytes() const {
    const kernel& k = chosen();
    if (k.sums.parts == 0) return 0;
    const auto blocks = [](std::int64_t length, int block) { return (length + block - 1) / block; };
    const std::int64_t of_queries = blocks(shape_[axis_kind::query], k.query_block),
                       keys = blocks(shape_[axis_kind::key], k.key_block) * k.key_block,
                       key_heads = std::max<std::int64_t>(shape_[axis_kind::key_head], 1),
                       parts = std::clamp<std::int64_t>(of_queries / k.sums.blocks_of_part, 1,
                                                        blocks(k.sums.parts, static_cast<int>(key_heads))),
                       queries = (of_queries + parts - 1) / parts * k.query_block,
                       group = std::max<std::int64_t>(shape_[axis_kind::head] / key_heads, 1);
    const auto bytes = [](std::int64_t rows, std::size_t each) { return static_cast<std::size_t>(rows) * each; };
    return static_cast<std::size_t>(shape_[axis_kind::batch] * key_heads * parts) *
           (bytes(queries * group, k.sums.of_query) + bytes(keys * group, k.sums.of_key) +
            bytes(keys, k.sums.of_key_head));
}

/// A kernel has its sums, and each tensor that it computes in full, in one piece of memory, whose bytes it counts in 32
/// bits.
void bound_call::check_sizes() const {
    if (nothing_to_do()) return;
    if (chosen().sums.parts != 0 && is_device(chosen().target) && shape_[axis_kind::key] == 0)  // no memory for sums
        fail("a key at least in a gradient on a GPU", "none", "a CPU");
    if (sum_bytes() > static_cast<std::size_t>(most))
        fail(say("at most ", most, " bytes of sums that the gradient's kernel keeps for itself"), say(sum_bytes()),
             "fewer batch elements or heads a call");
    if (chosen().product_positions == 0) return;
    const std::size_t computed = cost_of_computed(shape_, table_.graph, given_, chosen()).largest_bytes;
    if (computed > static_cast<std::size_t>(most))
        fail(say("at most ", most, " bytes of each tensor that the kernel computes in full, and of its factors"),
             say(computed), "fewer batch elements or positions a call");
}

void bound_call::lend(lent& to, run_arguments with) const {
    const auto saved = static_cast<std::size_t>(chosen().saved_rows), kept = saved + chosen().saved_outputs,
               places = with.argv.size() + kept;
    void* const memory = to.memory.take(places * sizeof(void*) + kept * sizeof(slot));
    if (!memory) throw std::bad_alloc();
    to.kept = {static_cast<slot*>(memory), kept};
    std::ranges::uninitialized_value_construct(to.kept);
    to.argv = {reinterpret_cast<void**>(to.kept.data() + kept), places};
    std::ranges::uninitialized_copy(with.argv, to.argv);
    if (most_splits_) count_keys(with.given, to.of_keys, to.argv);
    if (kept == 0) return;

    std::array<std::int64_t, 3> extents{};
    std::size_t rank = 0;
    for (const axis_kind axis : {axis_kind::batch, axis_kind::head, axis_kind::query}) extents[rank++] = shape_[axis];
    auto* rows = static_cast<float*>(to.rows.take(saved_bytes()));
    if (!rows)
        fail(say("memory for ", saved_bytes(), " bytes of rows that the kernel keeps for itself"), "none",
             "fewer batch elements or heads a call");
    for (std::size_t i = 0; i < kept; ++i) to.argv[with.argv.size() + i] = &to.kept[i].buffer;
    for (slot& s : to.kept.first(saved)) {
        const tensor view(rows, extents);
        set_buffer(s.buffer, s.dimensions.data() + 1, "the rows that the kernel keeps", view,
                   [&](int axis) { return view.extent(axis); });
        s.repeat_along_depth(chosen().value_depth);
        rows += extents[0] * extents[1] * extents[2];
    }
    if (chosen().saved_outputs == 0) return;
    // The heads of a position side by side, as projections read them.
    const std::int64_t depth = chosen().value_depth, shape[] = {extents[0], extents[1], extents[2], depth};
    const std::int64_t strides[] = {extents[2] * extents[1] * depth, depth, extents[1] * depth, 1};
    slot& s = to.kept.back();
    const tensor view(rows, shape, strides);
    set_buffer(s.buffer, s.dimensions.data(), "the output that the kernel keeps", view,
               [&](int axis) { return view.extent(axis); });
}

bool bound_call::nothing_to_do() const {
    if (shape_[axis_kind::batch] == 0 || shape_[axis_kind::head] == 0) return true;
    const auto& outputs = table_.graph.outputs;
    if (is_gradient_of_recurrence(table_.graph.nodes)) return false;  // that of first states, without tokens, too
    return shape_[axis_kind::query] == 0 && std::ranges::none_of(outputs, [&](const output_declaration& output) {
               const kind is = kind_of(table_.graph, output);
               return is == kind::precomputed || is == kind::last_state;  // of keys, say; a state moves without tokens
           });
}

void** bound_call::arguments_of_stores(std::span<void* const> bound, scratch& memory) const {
    const std::size_t inputs = inputs_of_kernel();
    auto** const argv = static_cast<void**>(memory.take((inputs + table_.graph.stores.size()) * sizeof(void*)));
    if (!argv) throw std::bad_alloc();
    void** next = std::copy_n(bound.begin(), inputs, argv);
    each_stored(table_.graph, [&](std::size_t input) { *next++ = bound[1 + input]; });
    return argv;
}

void bound_call::store(std::span<void* const> bound, int threads) const {
    if (!chosen().stores || is_device(chosen().target)) return;  // a device's: run_on_device
    scratch memory;
    table_.invoke(chosen().stores, arguments_of_stores(bound, memory), threads, tasks(), nullptr);
}

void bound_call::run(run_arguments with, int threads) const {
    if (goes_by_chunks(table_.graph)) return run_recurrence(with, threads);
    lent own;
    lend(own, with);
    store(with.argv, threads);  // once there is memory for what follows
    if (is_device(chosen().target)) return run_on_device(own, threads, launched::all, true);
    const call_threads worth(work(with.given), threads, has_own_threads(tasks()));
    table_.invoke(chosen().call, own.argv.data(), worth.count(), tasks(), nullptr);
}

void bound_call::run_together(std::span<const bound_call* const> calls, int threads) {
    if (calls.size() == 1 || goes_by_chunks(calls.front()->table_.graph)) {
        for (const bound_call* each : calls) each->run(threads);
        return;
    }
    scratch_memory blocks;
    std::pmr::vector<lent> with(calls.size(), &blocks);
    if (is_device(calls.front()->chosen().target)) {
        for (std::size_t i = 0; i < calls.size(); ++i) calls[i]->lend(with[i], {calls[i]->given_, calls[i]->argv_});
        if (!calls.front()->table_.graph.stores.empty())
            for (std::size_t i = 0; i < calls.size(); ++i)
                calls[i]->run_on_device(with[i], threads, launched::stores, false);
        for (std::size_t i = 0; i < calls.size(); ++i)
            calls[i]->run_on_device(with[i], threads, launched::reads, i + 1 == calls.size());
        return;
    }
    std::pmr::vector<kernel_launch> launches(calls.size(), &blocks);
    for (std::size_t i = 0; i < calls.size(); ++i) {
        calls[i]->lend(with[i], {calls[i]->given_, calls[i]->argv_});
        launches[i] = {calls[i]->chosen().call, with[i].argv.data()};
    }
    for (const bound_call* each : calls) each->store(each->argv_, threads);
    const bound_call& any = *calls.front();
    std::int64_t all = 0;
    for (const bound_call* each : calls) all = std::min(all + each->work(each->given_), endless_work);
    any.table_.invoke_together(launches, threads_worth(all, threads), any.tasks());
}

void bound_call::run_all(std::span<const bound_call* const> calls, int threads) {
    scratch_memory blocks;
    std::pmr::vector<const bound_call*> some(&blocks);
    some.reserve(calls.size());
    for (const bound_call* each : calls)
        if (each->nothing_to_do())
            each->write_empty_sums();
        else
            some.push_back(each);
    if (!some.empty()) run_together(some, threads);
}

block_map bound_call::blocks() {
    const auto count = [&](axis_kind axis) { return static_cast<int>(shape_[axis]); };
    const auto tiles = [](int length, int tile) { return static_cast<int>((std::int64_t{length} + tile - 1) / tile); };
    block_map map{.batches = count(axis_kind::batch),
                  .heads = count(axis_kind::head),
                  .query_block = chosen().query_block,
                  .key_block = chosen().key_block};
    map.query_blocks = tiles(count(axis_kind::query), map.query_block);
    map.key_blocks = tiles(count(axis_kind::key), map.key_block);
    const std::int64_t shape[] = {map.batches, map.heads, map.query_blocks, map.key_blocks};
    std::int64_t total = 1;
    for (const auto extent : shape)
        if ((total *= extent) > most)
            fail(say("at most ", most, " blocks"), list_of(shape), "asking for fewer batch elements or heads");
    map.blocks.assign(static_cast<std::size_t>(total), 1);
    if (total == 0 || !chosen().blocks) return map;
    if (where_ != memory::host)
        fail("inputs in host memory, to say which blocks are visited", say("tensors in memory of ", target_of(where_)),
             "copies of them");

    const tensor view(map.blocks.data(), shape);
    slot s;
    set_buffer(s.buffer, s.dimensions.data(), "blocks", view, [&](int axis) { return view.extent(axis); });
    std::vector<void*> arguments(argv_.begin(), argv_.begin() + static_cast<std::ptrdiff_t>(inputs_of_kernel()));
    arguments.push_back(&s.buffer);
    table_.invoke(chosen().blocks, arguments.data(), threads_, tasks(), &table_bytes_);
    return map;
}

}  // namespace attune::detail
