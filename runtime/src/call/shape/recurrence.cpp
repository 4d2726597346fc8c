#include "call/shape/recurrence.hpp"
#include "execution/workspace.hpp"

#include <attune/ir/builder.hpp>
#include <attune/runtime/detail/kernel_table.hpp>

#include <algorithm>
#include <array>

/// A recurrence's loop over its chunks. Each chunk goes on from where the last one left the state, in place.
namespace attune::detail {
namespace {

constexpr std::size_t most_places = 1 + dsl::detail::max_inputs + 1 + 3 + 1 + dsl::detail::max_outputs + 1;
constexpr int rank_of_rows = 4;

/// The state before the first token where there is none: a row of zeros stands for all.
alignas(128) std::array<float, 4096> zeros{};

struct state_buffer {
    halide_buffer_t buffer{};
    std::array<halide_dimension_t, 2> dimensions{};

    state_buffer(float* data, std::int64_t row, const recurrent_call& call) {
        dimensions = {{{0, call.value_depth, 1}, {0, call.depth, static_cast<std::int32_t>(row)}}};
        buffer.host = reinterpret_cast<std::uint8_t*>(data);
        buffer.type = {halide_type_float, 32, 1};
        buffer.dimensions = 2, buffer.dim = dimensions.data();
    }
};

/// Some tokens of an output, of one batch element and of the heads that read one state.
struct row_buffer {
    halide_buffer_t buffer{};
    std::array<halide_dimension_t, rank_of_rows> dimensions{};

    void cut(const halide_buffer_t& whole, std::int32_t first, std::int32_t tokens, std::int32_t head,
             std::int32_t heads, std::int32_t batch) {
        buffer = whole;
        std::copy_n(whole.dim, rank_of_rows, dimensions.begin());
        buffer.dim = dimensions.data();
        dimensions[1].min = first, dimensions[1].extent = tokens;
        dimensions[2].min = head, dimensions[2].extent = heads;
        dimensions[3].min = batch, dimensions[3].extent = 1;
        const std::int64_t steps = std::int64_t{dimensions[1].stride} * first +
                                   std::int64_t{dimensions[2].stride} * head +
                                   std::int64_t{dimensions[3].stride} * batch;
        buffer.host += steps * buffer.type.bytes();
    }
};

/// All chunks of one state.
int run_state(const recurrent_call& call, void* user_context, std::int32_t batch, std::int32_t head) {
    scratch own;
    const bool is_asked_for = call.after.data != nullptr;
    float* const to = is_asked_for ? call.after.data + batch * call.after.batch + head * call.after.head
                                   : static_cast<float*>(own.take(sizeof(float) * static_cast<std::size_t>(call.depth) *
                                                                  static_cast<std::size_t>(call.value_depth)));
    if (to == nullptr) return halide_error_code_out_of_memory;
    const bool is_given = call.before.data != nullptr;
    state_buffer first(is_given ? call.before.data + batch * call.before.batch + head * call.before.head : zeros.data(),
                       is_given ? call.before.row : 0, call),
        kept(to, is_asked_for ? call.after.row : call.value_depth, call);

    std::array<void*, most_places> argv{};
    std::array<row_buffer, dsl::detail::max_outputs> rows{};
    std::int32_t token = 0;
    void* context = user_context;
    void** next = std::copy(call.inputs.begin(), call.inputs.end(), argv.begin());
    argv[0] = &context;
    for (std::int32_t* each : {&batch, &head, &token}) *next++ = each;
    void** const before = next++;
    for (std::size_t i = 0; i < call.rows.size(); ++i) *next++ = &rows[i].buffer;
    *next = &kept.buffer;

    *before = &first.buffer;
    std::int64_t done = 0;  // beyond 32 bits where the last chunk ends
    do {                    // a sequence without tokens has one chunk of none, which moves its state
        token = static_cast<std::int32_t>(done);
        const auto tokens = static_cast<std::int32_t>(std::min(call.tokens_of_chunk, call.tokens - done));
        for (std::size_t i = 0; i < call.rows.size(); ++i)
            rows[i].cut(*call.rows[i], token, tokens, static_cast<std::int32_t>(head * call.group),
                        static_cast<std::int32_t>(call.group), batch);
        if (const int code = call.chunk(argv.data()); code != 0) return code;
        *before = &kept.buffer;
        done += call.tokens_of_chunk;
    } while (done < call.tokens);
    return 0;
}

}  // namespace

int run_recurrence(void** arguments) {
    const auto& call = *static_cast<const recurrent_call*>(arguments[1]);
    const auto task = [](void* user_context, int index, std::uint8_t* closure) {
        const auto& of = *reinterpret_cast<const recurrent_call*>(closure);
        return run_state(of, user_context, static_cast<std::int32_t>(index / of.heads),
                         static_cast<std::int32_t>(index % of.heads));
    };
    void* const user_context = *static_cast<void**>(arguments[0]);
    // No more than an output has elements, which are counted in 32 bits.
    return halide_do_par_for(user_context, task, 0, static_cast<int>(call.batches * call.heads),
                             reinterpret_cast<std::uint8_t*>(const_cast<recurrent_call*>(&call)));
}

}  // namespace attune::detail
