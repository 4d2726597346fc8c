#include "plans/parts.hpp"

#include <algorithm>
#include <utility>

/// Which passes rewrite a kernel's statement, in their order.
namespace attune::generators::inline plans {
namespace {

/// An assumption that a pass makes about the statement that it is given.
struct assumption {
    std::string_view pass, assumes;
};
constexpr assumption assumptions[] = {
    {"trim_tail_rows", "a task's index, modulo the blocks of queries, is its block; blocks are whole tiles"},
    {"skip_blocks", "the loop is not partitioned, and a byte of a table guards the innermost stores"},
    {"skip_blocks_on_gpu", "all threads of a block read the same byte, the only bytes in shared memory"},
    {"prefetch_rows", "positions that memory holds are read ahead from tables that reach so far"},
    {"multiply_tiles", "plain loops; rows and columns are multiples of 16, the bytes of the summed index of 64"},
    {"interleave_stores", "stores of every second word, or every fourth byte, follow each other"},
    {"multiply_bytes", "16 bits hold every sum of two products of bytes"},
    {"private_state", "a thread reads only what it wrote itself"},
    {"fragment_registers", "a thread reads only what it wrote itself, and calls name the state before a block"},
    {"stores_under_one_condition", "one condition guards all stores of masked scores, one all of rescaled sums"},
    {"distances_apart", "positions are i32 that do not wrap around"},
    {"words_of_rows", "rows begin at multiples of 16 bytes"},
    {"loads_before_loop", "what is read of inputs lies there whether or not a block is visited"},
    {"copies_ahead", "keys and values have buffers of their own in shared memory"},
    {"last_queries_first", "blocks of queries are independent"},
    {"marked_tasks", "a task's marks are in its own rows of the first output, which it writes after a barrier"},
    {"bounded_loop", "the predicates compare the loop's variable"},
    {"halves_as_words", "what is computed with bf16 and f16 is f32"},
    {"allow_empty_inputs", "positions are clamped to 0 at least"},
    {"transpose_squares", "squares of 4, 8 or 16 numbers of 32 bits lie in registers"},
    {"words_for_vulkan", "it is the last one that sees kernels of Vulkan"},
    {"words_for_opencl", "it is the last one that sees kernels of OpenCL"},
    {"named_choices", "it is the last one that sees kernels of CUDA"},
    {"scratch_on_heap", "the size of what a task allocates is constant, or a number of the call"},
};

std::string_view assumed_by(std::string_view pass) {
    return std::ranges::find(assumptions, pass, &assumption::pass)->assumes;
}

class pass_list {
public:
    pass_list(const kernel_plan& plan, const kernel_request& request) : plan_(plan), request_(request) {}

    std::vector<pass_plan> read() {
        std::visit([this](const auto& body) { add(body); }, plan_.body);
        add("allow_empty_inputs", "");
        if (!plan_.on_gpu && !std::holds_alternative<chunk_plan>(plan_.body)) add("transpose_squares", "");
        const std::string_view device = request_.target->name;
        add_of_module(!plan_.on_gpu        ? "scratch_on_heap"
                      : device == "vulkan" ? "words_for_vulkan"
                      : device == "opencl" ? "words_for_opencl"
                                           : "named_choices");
        return std::move(all_);
    }

private:
    void add(std::string_view name, std::string on) { all_.push_back({name, std::move(on), assumed_by(name)}); }
    void add_of_module(std::string_view name) { all_.push_back({name, {}, assumed_by(name), true}); }

    void add(const prefill_plan& body) {
        if (plan_.on_gpu) return add_of_threads(body);
        const bool has_rows = !plan_.saved.empty() || std::ranges::any_of(plan_.outputs, [](const output_plan& output) {
            return output.by == maker::rows;
        });
        if (has_rows && !body.cores.empty()) add("trim_tail_rows", "queries of a task");
        for (const key_pass& each : body.cores) {
            add("skip_blocks", of_core("state.blocks", each));
            if (each.scores.fetched) add("prefetch_rows", of_core("keys of scores", each));
            if (each.values && is_of_tiles(each.values->how) && request_.target->bf16_tiles)
                add("multiply_tiles",
                    of_core(multiplies_integers(each) ? "dots, accumulated" : "product, weighted", each));
        }
        if (std::ranges::any_of(body.cores, multiplies_integers)) add("multiply_bytes", "");
        for (const pair_outputs& each : plan_.pairs)
            add("skip_blocks", each.shape == pair_shape::pairs        ? "pairs_tile"
                               : each.shape == pair_shape::head_means ? "means_tile"
                                                                      : "columns_tile");
    }

    void add_of_threads(const prefill_plan& body) {
        if (!body.cores.empty() && made_by<warp_fragments>(body.cores.front().scores.how)) {
            add("fragment_registers", "state");
            add("skip_blocks_on_gpu", "state.blocks");
            add_of_fragments();
            if (request_.facts->hides == masking::some) add("last_queries_first", "outputs");
            if (!body.again) return add("halves_as_words", "");
            add("marked_tasks", "outputs");
        }
        for (const key_pass& each : body.cores) {
            add("private_state", of_core("state", each));
            add("skip_blocks_on_gpu", of_core("state.blocks", each));
        }
        add("halves_as_words", "");
    }

    /// The passes after fragment_registers: they make loops of products by tensor cores.
    void add_of_fragments() {
        add("stores_under_one_condition", "scores, added");
        add("distances_apart", "scores");
        add("words_of_rows", "q, k, v, outputs");
        add("loads_before_loop", "state.blocks");
        add("copies_ahead", "key_rows, value_rows");
    }

    void add(const decode_plan& body) {
        if (plan_.on_gpu && made_by<warp_fragments>(body.cores.front().scores.how)) {
            add("fragment_registers", "state");
            add("bounded_loop", "state.blocks");
            add("skip_blocks_on_gpu", "state.blocks");
            add_of_fragments();
            if (!body.again) return add("halves_as_words", "");
            add("marked_tasks", "outputs");
            add("private_state", "state");
            add("skip_blocks_on_gpu", "state.blocks");
            return add("halves_as_words", "");
        }
        if (plan_.on_gpu) {
            for (const key_pass& each : body.cores) {
                add("private_state", of_core("state", each));
                add("bounded_loop", of_core("state.blocks", each));
                add("skip_blocks", of_core("state.blocks", each));
            }
            return add("halves_as_words", "");
        }
        for (const key_pass& each : body.cores) {
            add("skip_blocks", of_core("state.blocks", each));
            if (each.scores.fetched) add("prefetch_rows", of_core("keys of scores", each));
            if (each.values && each.values->fetched) add("prefetch_rows", of_core("values", each));
            if (each.values && each.values->fetched && each.values->keys_of_one_row > 0)
                add("prefetch_rows", of_core("values of one row", each));
        }
        if (std::ranges::none_of(body.cores, multiplies_integers)) return;
        add("interleave_stores", "");
        add("multiply_bytes", "");
    }

    void add(const sweep_plan& body) {
        if (body.sums > 0) add("skip_blocks", "sums");
        for (int i = 0; i < body.by_pair; ++i) add("skip_blocks", "gradient by pairs");
    }

    void add(const side_passes_plan& body) {
        for (const side_plan& side : body.sides) add("private_state", name_of(side));
        for (const side_plan& side : body.sides) add("skip_blocks", name_of(side));
        add("halves_as_words", "");
    }
    static std::string name_of(const side_plan& side) {
        return side.of_queries ? "sums of queries" : side.adds_heads ? "sums of keys" : "sums of keys of each head";
    }

    void add(const chunk_plan& body) {
        for (const chunk_plan::fetched_rows& each : body.fetched) add("prefetch_rows", std::string(each.are));
    }

    std::string of_core(std::string what, const key_pass& of) const {
        return request_.core().others.empty() ? what : what + " of softmax " + std::to_string(of.core + 1);
    }

    const kernel_plan& plan_;
    const kernel_request& request_;
    std::vector<pass_plan> all_;
};

}  // namespace

std::vector<pass_plan> passes_of(const kernel_plan& plan, const kernel_request& request) {
    return pass_list(plan, request).read();
}

}  // namespace attune::generators::inline plans
