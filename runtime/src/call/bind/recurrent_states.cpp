#include "base/text.hpp"
#include "call/bind/bind.hpp"
#include "call/bind/slot.hpp"
#include "call/shape/recurrence.hpp"

#include <attune/ir/recurrence.hpp>
#include <attune/runtime/error.hpp>

#include <algorithm>

/// Where the states of a call of a recurrence lie.
namespace attune::detail {
namespace {

/// Steps are those of the tensor, and 0 along an axis of extent 1: it broadcasts.
states_view states_in(const tensor& t) {
    const auto step = [&](int axis) { return t.extent(axis) > 1 ? t.stride(axis) : 0; };
    return {static_cast<float*>(const_cast<void*>(t.data())), step(0), step(1), step(2)};
}

}  // namespace

void bound_call::check_recurrence() const {
    if (given_.kv_lengths)
        fail(say("a call of ", table_.variant, " without kv_lengths: a recurrence has no keys in a cache"),
             "kv_lengths", "cu_seqlens_q for sequences of different lengths");
}

void bound_call::run_recurrence(run_arguments with, int threads) const {
    const graph_ir& graph = table_.graph;
    const node_id recurrence = recurrence_of(graph.nodes);
    const recurrence_arguments of = arguments_of(node_of(graph, recurrence));
    recurrent_call call{};
    if (is_a_state_as_passed(graph, recurrence)) {
        const std::int16_t input = node_of(graph, node_of(graph, of.initial).arguments[0]).input;
        call.before = states_in(with.given.inputs[static_cast<std::size_t>(input)]->view);
    }
    std::array<const halide_buffer_t*, dsl::detail::max_outputs> rows{};
    std::size_t count = 0;
    const std::size_t first_output = with.argv.size() - graph.outputs.size();
    for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
        if (kind_of(graph, graph.outputs[i]) == kind::last_state)
            call.after = states_in(with.given.outputs[i]->view);
        else
            rows[count++] = static_cast<const halide_buffer_t*>(with.argv[first_output + i]);
    }
    const bool of_key_heads = has_states_of_key_heads(graph, recurrence);
    call.chunk = chosen().call;
    call.inputs = with.argv.first(graph.inputs.size() + 2);
    call.rows = std::span<const halide_buffer_t* const>(rows).first(count);
    call.batches = shape_[axis_kind::batch];
    call.heads = shape_[of_key_heads ? axis_kind::key_head : axis_kind::head];
    call.group = shape_[axis_kind::head] / std::max<std::int64_t>(call.heads, 1);
    call.tokens = shape_[axis_kind::query], call.tokens_of_chunk = chosen().query_block;
    call.depth = chosen().depth, call.value_depth = chosen().value_depth;
    if (call.tokens == 0 && call.before.data && call.before == call.after) return;  // a slot of a pool that rests
    void* arguments[] = {nullptr, &call};
    const call_threads worth(work(with.given), threads, has_own_threads(tasks()));
    table_.invoke(table_.recurrence, arguments, worth.count(), tasks(), nullptr);
}

}  // namespace attune::detail
