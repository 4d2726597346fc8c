#include "base/text.hpp"

#include <attune/dsl/shard.hpp>
#include <attune/mpi/inputs.hpp>
#include <attune/mpi/rows.hpp>
#include <attune/mpi/work.hpp>
#include <attune/runtime/detail/choice.hpp>
#include <attune/runtime/error.hpp>

#include <algorithm>
#include <limits>
#include <list>
#include <numeric>
#include <optional>

namespace attune::mpi::detail {
namespace {

using attune::detail::fail, attune::detail::say;

constexpr std::int64_t most_elements = 1 << 30;  // of a tensor of one question; kernels count them in 32 bits

/// The positions of some chunks, each filled up with its last one to whole tiles: a tile has positions of one chunk.
std::vector<std::int32_t> in_tiles(const chunks& tokens, int first, int last, int tile) {
    std::vector<std::int32_t> filled;
    for (int c = first; c < last; ++c) {
        const auto own = tokens.positions(c);
        filled.insert(filled.end(), own.begin(), own.end());
        while (!own.empty() && filled.size() % static_cast<std::size_t>(tile) != 0) filled.push_back(own.back());
    }
    return filled;
}

/// A call about which only its blocks are asked: q, k, v and whatever decides nothing are the same number everywhere.
class question {
public:
    question(const kernel_table& table, const kernel& chosen, const planning& of, std::span<const named_argument> given)
        : graph_(table.graph), chosen_(chosen), of_(of), given_(given) {}

    std::vector<named_argument> arguments(const std::vector<std::int32_t>& queries,
                                          const std::vector<std::int32_t>& keys) {
        using namespace dsl::of_shard;
        held_.clear(), queries_ = &queries, keys_ = &keys;
        all_ = static_cast<std::int32_t>(of_.tokens);
        std::vector<named_argument> call;
        for (const input_declaration& input : graph_.inputs) {
            named_argument& a = call.emplace_back(named_argument{.name = input.name});
            const auto passed = std::ranges::find(given_, input.name, &named_argument::name);
            if (passed != given_.end())
                a = cut(input, *passed);
            else if (input.name == query_positions.label)
                a.view = tensor(queries.data(), {std::ssize(queries)});
            else if (input.name == key_positions.label)
                a.view = tensor(keys.data(), {std::ssize(keys)});
            else if (input.name == lengths.label)
                a.view = tensor(&all_, {1});
            else if (input.is_scalar)
                a.is = named_argument::form::integer,
                a.integer = input.name == all_queries.label || input.name == all_keys.label ? of_.tokens : 0;
            else
                a.view = anything(input);
        }
        return call;
    }

    /// The most queries, or keys, with which every tensor is small enough.
    std::int64_t most_rows(axis_kind along) const {
        std::int64_t largest = 1;
        for (const input_declaration& input : graph_.inputs) {
            std::int64_t of_row = 1;
            for (std::size_t a = 0; a < input.rank; ++a)
                if (input.axes[a].kind != along) of_row *= extent(input.axes[a].kind);
            if (axis_of(input, along)) largest = std::max(largest, of_row);
        }
        return most_elements / largest;
    }

private:
    const graph_ir& graph_;
    const kernel& chosen_;
    const planning& of_;
    std::span<const named_argument> given_;
    const std::vector<std::int32_t>*queries_{}, *keys_{};
    std::int32_t all_{};
    std::list<std::vector<std::byte>> held_;

    /// What is given of all tokens has the rows of the question. Of a position there are as many as the question has
    /// rows.
    named_argument cut(const input_declaration& input, named_argument a) {
        if (a.is != named_argument::form::view || a.view.rank() != input.rank) return a;  // refused where it is bound
        for (int axis = 0; axis < input.rank; ++axis) {
            const axis_kind along = input.axes[static_cast<std::size_t>(axis)].kind;
            const std::int64_t extent = a.view.extent(axis);
            if (along == axis_kind::position && extent >= of_.tokens && extent > 0)
                fill_up(a.view, axis);
            else if ((along == axis_kind::query || along == axis_kind::key) && (extent != 1 || of_.tokens == 1)) {
                if (extent != of_.tokens)
                    fail(say("all ", of_.tokens, " tokens in ", input.name, ", which decides what is visible"),
                         a.view.description(), "the whole tensor, on each rank");
                copy(a.view, axis, along == axis_kind::query ? *queries_ : *keys_);
            }
        }
        return a;
    }
    void copy(tensor& view, int axis, std::span<const std::int32_t> rows) {
        std::vector<std::byte>& memory = held_.emplace_back(rows.size() * bytes_of_row(view, axis));
        copy_rows(view, axis, rows, memory.data());
        view = of_rows(view, axis, std::ssize(rows), memory.data());
    }
    void fill_up(tensor& view, int axis) {
        const std::size_t rows = std::max(queries_->size(), keys_->size());
        if (static_cast<std::size_t>(view.extent(axis)) >= rows) return;
        std::vector<std::int32_t> all(rows, static_cast<std::int32_t>(view.extent(axis) - 1));
        std::iota(all.begin(), all.begin() + view.extent(axis), 0);
        copy(view, axis, all);
    }

    element_type type_of(const input_declaration& input) const {
        if (input.element != element_type::any) return input.element;
        return input.name == "q"   ? chosen_.query
               : input.name == "k" ? chosen_.key
               : input.name == "v" ? chosen_.value
                                   : chosen_.output;
    }
    std::int64_t extent(axis_kind axis) const {
        switch (axis) {
            case axis_kind::batch: return of_.batches;
            case axis_kind::head: return of_.heads;
            case axis_kind::key_head: return of_.key_heads;
            case axis_kind::query: return queries_ ? std::ssize(*queries_) : 1;
            case axis_kind::key: return keys_ ? std::ssize(*keys_) : 1;
            case axis_kind::depth: return chosen_.depth;
            case axis_kind::value_depth: return chosen_.value_depth;
            case axis_kind::position:
            case axis_kind::free: break;
        }
        return of_.tokens;
    }
    tensor anything(const input_declaration& input) {
        std::vector<std::int64_t> extents, strides(input.rank, 0);
        for (std::size_t a = 0; a < input.rank; ++a) extents.push_back(extent(input.axes[a].kind));
        std::size_t elements = 1;
        if (has_dense_rows(input)) strides.back() = 1, elements = static_cast<std::size_t>(extents.back());
        const element_type type = type_of(input);
        const auto& memory = held_.emplace_back(elements * static_cast<std::size_t>(bytes_of(type)));
        return {type, static_cast<const void*>(memory.data()), extents, strides};
    }
};

void check_given(const graph_ir& graph, const deciders& decide, std::span<const named_argument> given) {
    for (std::size_t i = 0; i < graph.inputs.size(); ++i)
        if (decide.inputs[i] && role_of(graph, graph.inputs[i]) != role::supplied &&
            std::ranges::find(given, graph.inputs[i].name, &named_argument::name) == given.end())
            fail(say(graph.inputs[i].name, " in the plan, because it decides what is visible"), "none",
                 say("plan<...>(..., ", graph.inputs[i].name, " = ...), of all tokens"));
}

struct tiles {
    int queries, keys;
};

/// Adds the states of the blocks of some query chunks, from `query` on, and some key chunks, from `key` on.
void add(const block_map& map, const chunks& tokens, int query, int query_end, int key, int key_end, int first,
         work_table& to) {
    const auto tiles_of = [&](int chunk, int tile) {
        return static_cast<int>((tokens.tokens(chunk) + tile - 1) / tile);
    };
    std::vector<int> chunk_of_key;
    for (int c = key; c < key_end; ++c)
        chunk_of_key.insert(chunk_of_key.end(), static_cast<std::size_t>(tiles_of(c, map.key_block)), c);
    const std::uint8_t* state = map.blocks.data();
    for (int plane = 0; plane < map.batches * map.heads; ++plane)
        for (int q = query; q < query_end; ++q) {
            std::uint32_t* const row = to.units.data() + static_cast<std::ptrdiff_t>(q - first) * to.count;
            for (int tile = tiles_of(q, map.query_block); tile > 0; --tile)
                for (const int c : chunk_of_key)
                    if (const std::uint32_t units = *state++;
                        row[c] <= std::numeric_limits<std::uint32_t>::max() - units)
                        row[c] += units;  // a sum that wrapped around to 0 would leave keys out
        }
}

/// Nothing where another kernel than the one with these tiles would be called; then its tiles are put there.
std::optional<work_table> ask(const kernel_table& table, question& asked, const chunks& tokens, int first, int last,
                              tiles& tile, const attune::options& how) {
    work_table made{tokens.count(), 0, {}};
    made.units.assign(static_cast<std::size_t>(last - first) * static_cast<std::size_t>(made.count), 0);
    const auto end_of_question = [&](int from, int to, std::int64_t room) {
        int end = from;
        for (std::int64_t size = 0; end < to && (end == from || size + tokens.tokens(end) <= room);)
            size += tokens.tokens(end++);
        return end;
    };
    for (int q = first, q_end = 0; q < last; q = q_end) {
        q_end = end_of_question(q, last, asked.most_rows(axis_kind::query));
        const auto queries = in_tiles(tokens, q, q_end, tile.queries);
        for (int k = 0, k_end = 0; k < made.count; k = k_end) {
            k_end = end_of_question(k, made.count, asked.most_rows(axis_kind::key));
            const auto keys = in_tiles(tokens, k, k_end, tile.keys);
            const block_map map = attune::detail::blocks(table, asked.arguments(queries, keys), how);
            if (map.query_block != tile.queries || map.key_block != tile.keys) {
                tile = {map.query_block, map.key_block};
                return std::nullopt;
            }
            add(map, tokens, q, q_end, k, k_end, first, made);
        }
    }
    return made;
}

}  // namespace

const kernel& kernel_for(const kernel_table& table, planning& of, const attune::options& how) {
    attune::detail::check_version(table);
    for (const kernel& k : table.kernels) {
        if ((of.depth != 0 && of.depth != k.depth) || (of.value_depth != 0 && of.value_depth != k.value_depth) ||
            (of.element != element_type::any && of.element != k.key) || attune::detail::is_device(k.target) ||
            (!how.target.empty() && how.target != k.target) ||
            !attune::detail::missing_here(table, k, this_cpu()).empty())
            continue;
        of.depth = k.depth, of.value_depth = k.value_depth, of.element = k.key;
        return k;
    }
    fail(say("a kernel of ", table.variant, " for depth ", of.depth, " and elements of ", name_of(of.element)),
         "none that runs here", "compiling one, or leaving depth and element out of the plan");
}

work_table work_of(const kernel_table& table, planning of, std::span<const named_argument> given, const chunks& tokens,
                   int first, int last, const attune::options& how) {
    const kernel& chosen = kernel_for(table, of, how);
    const bool with_lengths =
        std::ranges::find(given, dsl::of_shard::lengths.label, &named_argument::name) != given.end();
    const deciders decide = deciders_of(table.graph, with_lengths);
    check_given(table.graph, decide, given);
    const std::int64_t alike = (decide.by_head ? 1 : of.heads) * (decide.by_batch ? 1 : of.batches);
    if (!decide.by_head) of.heads = of.key_heads = 1;
    if (!decide.by_batch) of.batches = 1;

    tiles of_kernel{chosen.query_block, chosen.key_block};
    question asked(table, chosen, of, given);
    while (true)
        if (auto made = ask(table, asked, tokens, first, last, of_kernel, how)) {
            made->flops = static_cast<double>(alike) * of_kernel.queries * of_kernel.keys * chosen.depths_of_pair;
            return *made;
        }
}

}  // namespace attune::mpi::detail
