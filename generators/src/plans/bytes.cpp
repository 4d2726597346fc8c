#include "analysis/narrow_rows.hpp"
#include "kernel/tensor_schedule.hpp"
#include "plans/parts.hpp"

#include <algorithm>
#include <numeric>

/// The bytes of a kernel, each buffer by its name. Bounds: Halide allocates less where a number is a constant.
namespace attune::generators::inline plans {
namespace {

// Upper bounds of what the stages keep (tests/kernels/scratch.tests.cpp holds kernels to them).
constexpr int maximum_and_sum = 2;      ///< beside the accumulators of a row
constexpr int numbers_of_row = 4;       ///< beside its outputs, behind the pass over the keys
constexpr int copies_of_row = 3;        ///< of each of these numbers, and of the outputs
constexpr int place_of_row = 2;         ///< in decode: its query and its head
constexpr int users_of_kept = 3;        ///< of a kept number: the scores, the rows of keys and those of values
constexpr int bytes_of_kept = 4 + 1;    ///< one f32 or i32, and a byte that masks it
constexpr int blocks_of_head_mean = 4;  ///< of queries, whose pairs a mean over the heads adds up together
constexpr int allocations_of_decode = 32;

/// Positions behind the last of each channel, so that channels fall into different sets of the cache.
int padding_of_panel(int lanes) { return 2 * lanes; }

/// Pairs whose sums are in registers in the second pass.
int pairs_of_tile(int lanes) { return 12 * 2 * lanes; }

/// Weights of a core that are neither softmax's own nor a maximum's: each is kept beside them, and summed.
int modified_weights(const plan& core) {
    return static_cast<int>(core.summed_weights.size()) + (core.weights >= 0 && core.weights != core.statistic_node);
}

/// The numbers of a schedule that decide how much is kept. A GPU's threads keep as much as a CPU's single lane would.
struct kept_sizes {
    int query_block{}, key_block{}, query_tile{}, lanes{1}, keys_of_step{1}, key_tile{}, value_tile{}, chunk{1},
        pairing{1};
};

kept_sizes sizes_of(const schedule& s) {
    return std::visit(
        [blocks = blocks_of(s)](const auto& cut) {
            kept_sizes all{.query_block = blocks.query_block, .key_block = blocks.key_block};
            if constexpr (requires { cut.query_tile; }) all.query_tile = cut.query_tile;
            if constexpr (requires { cut.lanes; }) all.lanes = cut.lanes;
            if constexpr (requires { cut.value_tile; }) all.value_tile = cut.value_tile;
            if constexpr (requires { cut.chunk; }) all.chunk = cut.chunk;
            if constexpr (requires { cut.pairing; }) all.pairing = cut.pairing;
            if constexpr (requires { cut.key_tile; }) all.key_tile = cut.key_tile;
            if constexpr (requires { cut.keys_of_step(); }) all.keys_of_step = cut.keys_of_step();
            return all;
        },
        s);
}

/// The bytes of numbers that are hoisted for each query or key of a block, for one user.
std::size_t hoisted_bytes(const graph_facts& facts, const kept_sizes& cut) {
    const auto& [graph, depends, core, hides, no_decode, gradient, of_heads, sizes, wraps, infinities] = facts;
    std::vector<int> roots, known{core.contraction};
    for (const further_contraction& further : core.further) known.push_back(further.node);
    for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
        const instruction& node = graph.nodes[n];
        const bool computed =
            node.op == operation::queries || node.op == operation::keys || node.op == operation::values;
        if (computed) roots.push_back(node.arguments[0]);
        if (node.kind == kind::scores || node.kind == kind::weights || node.kind == kind::output ||
            node.kind == kind::row)
            roots.push_back(static_cast<int>(n));
    }
    const auto kept = hoistable(graph, depends, roots, known);
    return (kept.size() + 1) * bytes_of_kept * static_cast<std::size_t>(cut.query_block + cut.key_block);
}

/// The buffers of softmax(q * t(k)) * v.
std::vector<buffer> plain_buffers(const schedule& s, const depth_pair& depths) {
    const kept_sizes cut = sizes_of(s);
    const int chunks = (depths.value_depth + cut.chunk - 1) / cut.chunk;
    const int kept = cut.pairing == bf16_of_tile ? 1 : 2;  // of tiles the weights are words, which are counted there
    return {{"state", floats(cut.query_block, chunks * (cut.chunk + maximum_and_sum))},
            {"queries", floats(cut.query_block, depths.depth)},
            {"rows", floats(cut.query_block, maximum_and_sum)},
            {"scores and weights", floats(cut.query_tile, kept * cut.key_block)},
            {"sums of values", floats(cut.query_tile, cut.chunk + maximum_and_sum)},
            {"transposed", floats(cut.lanes, cut.lanes + cut.query_block)}};
}

/// Adds up what one thread keeps in prefill.
class prefill_buffers {
public:
    prefill_buffers(const kernel_plan& planned, const kernel_request& request)
        : planned_(planned), request_(request), cut_(sizes_of(request.schedule)) {}

    std::vector<buffer> read() {
        const plan& core = request_.core();
        if (!core.has_core()) {
            add("rows",
                floats(2 * cut_.query_block, static_cast<int>(request_.graph().outputs.size()) + numbers_of_row));
            return all_;
        }
        for (const key_pass* each : planned_.passes_over_keys())
            add_pass(*each, *core.cores()[static_cast<std::size_t>(each->core)]);
        for (const pair_outputs& each : planned_.pairs) add_pairs(each);
        add("kept numbers", users_of_kept * hoisted_bytes(*request_.facts, cut_));
        return all_;
    }

private:
    void add(std::string_view what, std::size_t bytes) {
        const auto before = std::ranges::find(all_, what, &buffer::what);
        if (before != all_.end())
            before->bytes += bytes;
        else if (bytes > 0)
            all_.push_back({what, bytes});
    }

    bool is_formed(int tensor) const { return tensor >= 0 && request_.graph().nodes[tensor].op != operation::input; }
    /// Elements that are read by broadcast are converted first.
    bool is_converted(int tensor, element_type type) const {
        return tensor >= 0 && !is_formed(tensor) && bytes_of(type) < 4;
    }

    void add_formed(const plan& core) {
        const int depth = request_.depths.depth;
        if (is_formed(core.query)) add("formed queries", floats(cut_.query_block, depth));
        if (is_formed(core.key)) add("formed keys", floats(cut_.key_block, depth));
    }

    void add_pass(const key_pass& pass, const plan& core) {
        const auto [depth, value_depth] = request_.depths;
        const element_types& types = request_.types;
        const multiplication& how = pass.scores.how;
        for (const buffer& each : plain_buffers(request_.schedule, request_.depths)) add(each.what, each.bytes);
        add_formed(core);
        const bool in_f32 = !is_of_bf16(how);
        if (is_formed(core.value) || (in_f32 && is_converted(core.value, types.value)))
            add("values", floats(cut_.key_block, value_depth));
        if (in_f32 && is_converted(core.key, types.key)) add("converted keys", floats(cut_.key_block, depth));
        const int beside = padding_of_panel(cut_.lanes) + cut_.query_tile;
        if (made_by<bf16_pairs>(how)) add("pairs of bf16", floats(cut_.key_block, value_depth + beside) / 2);
        if (made_by<bf16_tiles>(how))
            add("tiles of bf16", floats(cut_.key_block, value_depth + depth + beside) / 2 +
                                     floats(cut_.query_block, depth) + floats(cut_.query_tile, cut_.key_tile));
        const int keys_of_word = pass.values ? std::max(integers_at_a_time(pass.values->how), 1) : 1;
        if (multiplies_integers(pass))
            add("codes of weights", floats(cut_.query_tile, keys_of_word > 1 ? cut_.key_block / keys_of_word + 1 : 0) +
                                        floats(cut_.query_block, 1) + bytes_of_rounding);
        if (multiplies_integers(pass) && is_of_tiles(how))
            add("tiles of bytes", floats(cut_.query_tile, cut_.key_tile + cut_.chunk));
        // Modified weights lie in a tile of their own, and have sums.
        add("modified weights",
            floats(modified_weights(core), cut_.query_tile * cut_.key_block +
                                               2 * cut_.query_block * (value_depth / cut_.chunk + maximum_and_sum)));
        add("rows", floats(cut_.query_block, copies_of_row * (static_cast<int>(core.outputs.size()) + numbers_of_row)));
        add("transposed",
            pass.scores.turned.size() * (floats(cut_.query_tile, cut_.key_block) + floats(cut_.lanes, cut_.lanes)));
    }

    /// The second pass: keys transposed, the queries' rows, a block of each output, and the tile that is added to it.
    void add_pairs(const pair_outputs& of) {
        const int depth = request_.depths.depth, made = static_cast<int>(of.nodes.size()),
                  blocks = of.shape == pair_shape::head_means ? blocks_of_head_mean : 1;
        add_formed(request_.core());
        add("outputs of pairs", floats(cut_.key_block + padding_of_panel(cut_.lanes), depth) +
                                    floats(cut_.query_block, depth) + floats(cut_.query_block, maximum_and_sum) +
                                    floats(made * blocks, cut_.key_block * cut_.query_block) +
                                    floats(made + 1, pairs_of_tile(cut_.lanes)) + floats(cut_.lanes, cut_.key_block));
    }

    const kernel_plan& planned_;
    const kernel_request& request_;
    const kept_sizes cut_;
    std::vector<buffer> all_;
};

/// The buffers of a block of threads in prefill by tensor cores: rows of keys and values as they lie, each with padding
/// that keeps the banks of shared memory apart. All else is fragments; four threads share each of their rows. Nothing
/// is converted to f32.
std::vector<buffer> tensor_buffers(const gpu_tensor_prefill& cut, const kernel_request& request) {
    constexpr int threads_of_row = 4, statistics = 5;
    const plan& core = request.core();
    const auto [depth, value_depth] = request.depths;
    const int queries = cut.query_block();
    const auto rows = [](int count, int channels, element_type type, int behind) {
        return static_cast<std::size_t>(count) *
               static_cast<std::size_t>(channels * static_cast<int>(bytes_of(type)) + behind);
    };
    const element_types& types = request.types;
    const int behind = request.target->warpgroups ? 0 : tensor_row_alignment;
    const std::size_t modified = core.weights == core.statistic_node ? 0 : floats(queries, cut.key_block);
    return {{"state", floats(queries, value_depth + maximum_and_sum * threads_of_row)},
            {"queries", rows(queries, depth, types.query, 0)},
            {"keys", rows(cut.key_block, depth, types.key, behind)},
            {"values", rows(cut.key_block, value_depth, types.value, behind)},
            {"scores", floats(queries, cut.key_block)},
            {"weights", modified + rows(queries, cut.key_block, types.value, 0)},
            {"rows", floats(queries, threads_of_row * (statistics + maximum_and_sum) +
                                         copies_of_row * (static_cast<int>(core.outputs.size()) + numbers_of_row))},
            {"kept numbers", hoisted_bytes(*request.facts, {.query_block = queries, .key_block = cut.key_block})}};
}

/// Tiles of weights times the factors that channels share: of blocks of channels one tile each, and their digits.
int scaled_weights(const kernel_request& request, const plan& core) {
    if (core.value < 0) return 0;
    const auto narrow = blocked_rows_of(request.graph(), request.facts->depends, core.value);
    if (!narrow || narrow->block == 0) return narrow ? 1 : 0;
    return integers_of_values(request, core) > 0 ? 1 + 2 * (request.depths.value_depth / narrow->block) : 0;
}

/// Whether a scale belongs to each block of a key's channels.
bool has_blocks_of_keys(const kernel_request& request, const plan& core) {
    if (core.key < 0) return false;
    const auto narrow = blocked_rows_of(request.graph(), request.facts->depends, core.key);
    return narrow && narrow->block > 0;
}

/// In decode: the bytes that one thread allocates for each row, and the bytes that are kept of each row for each split.
/// Else 0.
struct row_memory {
    std::size_t scratch_bytes{}, part_bytes{};
};
row_memory row_memory_of(const kernel_request& request) {
    const auto& [facts, types, depths, target, schedule, finite, tf32_products] = request;
    if (!decodes(schedule)) return {};
    const kept_sizes cut = sizes_of(schedule);
    const auto size = [](int numbers) { return floats(numbers, 1); };
    row_memory each;
    for (const plan* core : facts->core.cores()) {
        const int scaled = scaled_weights(request, *core), modified = modified_weights(*core);
        if (request.on_gpu()) {  // a block of threads keeps its numbers in the device's shared memory
            each.part_bytes += uses_tensor_cores(schedule)
                                   ? size(depths.value_depth + gpu_tensor_decode::numbers_beside_sums)
                                   : size((core->weights >= 0 ? depths.value_depth : 0) + maximum_and_sum + modified);
            continue;
        }
        const int vector = core->weights >= 0 ? cut.lanes : 1,  // at most: a chunk is a vector or more
            chunks = core->weights >= 0 ? depths.value_depth / vector + 1 : 1;
        const int state = depths.value_depth + vector * chunks * (maximum_and_sum + modified);
        each.part_bytes += size(state);
        const int tiles = 2 + modified + scaled;  // scores, weights, and others: each has a vector of partial results
        const int of_blocks = has_blocks_of_keys(request, *core) ? depths.depth / 2 : 0;  // what lowest codes add
        each.scratch_bytes += size(depths.depth + of_blocks + tiles * (cut.key_block + cut.lanes + maximum_and_sum) +
                                   depths.value_depth + state + place_of_row) +
                              users_of_kept * hoisted_bytes(*facts, cut) / static_cast<std::size_t>(cut.key_block);
    }
    return each;
}

/// In decode: tiles of keys and values that are formed, rows that fill the last tile, and allocations rounded up.
std::vector<buffer> decode_buffers(const kernel_request& request, const row_memory& row) {
    const kept_sizes cut = sizes_of(request.schedule);
    const std::size_t cores = request.core().cores().size();
    const int tile = cut.keys_of_step * request.depths.depth + cut.value_tile * request.depths.value_depth +
                     cut.keys_of_step * cut.lanes * cut.query_tile;
    const bool in_blocks = std::ranges::any_of(request.core().cores(),
                                               [&](const plan* core) { return scaled_weights(request, *core) > 1; }),
               keys_in_blocks = std::ranges::any_of(
                   request.core().cores(), [&](const plan* core) { return has_blocks_of_keys(request, *core); });
    const int scales = (in_blocks ? cut.key_block * request.depths.value_depth / coded_channels : 0) +
                       (keys_in_blocks ? cut.keys_of_step * request.depths.depth / coded_channels : 0);  // at most
    return {{"rows of the last tile", static_cast<std::size_t>(cut.query_tile - 1) * row.scratch_bytes},
            {"tiles", cores * floats(tile + scales, 1)},
            {"kept numbers", cores * users_of_kept * hoisted_bytes(*request.facts, cut)},
            {"rounding", cores * allocations_of_decode * bytes_of_rounding}};
}

std::size_t sum_of(const std::vector<buffer>& all) {
    return std::accumulate(all.begin(), all.end(), std::size_t{},
                           [](std::size_t sum, const buffer& each) { return sum + each.bytes; });
}

}  // namespace

std::size_t plain_scratch_bytes(const schedule& s, const depth_pair& depths) {
    return sum_of(plain_buffers(s, depths));
}

kernel_bytes bytes_of(const kernel_plan& planned, const kernel_request& request) {
    const row_memory row = row_memory_of(request);
    kernel_bytes bytes{
        .of_row = row.scratch_bytes, .of_split_row = row.part_bytes, .sums = sum_memory_of(planned, request)};
    if (const auto* cut = std::get_if<cpu_gradient>(&request.schedule)) {
        bytes.buffers = buffers_of(*cut, request);
        bytes.buffers.push_back({"kept numbers", users_of_kept * hoisted_bytes(*request.facts, sizes_of(*cut))});
    } else if (const auto* passes = std::get_if<gpu_gradient>(&request.schedule)) {
        bytes.buffers = buffers_of(*passes, request);
    } else if (uses_tensor_cores(request.schedule)) {
        bytes.buffers = tensor_buffers(tensor_blocks_of(request.schedule), request);
    } else if (const auto* chunk = std::get_if<cpu_recurrence>(&request.schedule)) {
        bytes.buffers = buffers_of(*chunk, request);
    } else {
        bytes.buffers =
            decodes(request.schedule) ? decode_buffers(request, row) : prefill_buffers(planned, request).read();
    }
    std::erase_if(bytes.buffers, [](const buffer& each) { return each.bytes == 0; });
    bytes.of_thread = sum_of(bytes.buffers);
    return bytes;
}

}  // namespace attune::generators::inline plans
