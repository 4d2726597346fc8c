#include "base/text.hpp"
#include "call/bind/bind.hpp"

#include <attune/dsl/shard.hpp>
#include <attune/mpi/inputs.hpp>
#include <attune/mpi/rows.hpp>
#include <attune/mpi/whole_chunks.hpp>
#include <attune/mpi/work.hpp>
#include <attune/runtime/detail/choice.hpp>
#include <attune/runtime/error.hpp>

#include <algorithm>
#include <limits>
#include <list>
#include <numeric>

namespace attune::mpi::detail {
namespace {

using attune::detail::fail, attune::detail::say;

// Units of a block that is wholly visible, and of one at an edge: its sub-blocks there are skipped, the others masked.
constexpr std::uint64_t units_of_whole = 4, units_at_edge = 3;
constexpr std::int64_t most_elements = 1 << 30;  // of a tensor of one question; kernels count them in 32 bits

/// The positions of some chunks, each filled up with its last one to whole tiles: a tile has positions of one chunk.
std::vector<std::int32_t> in_tiles(const chunks& tokens, std::span<const int> which, int tile) {
    std::vector<std::int32_t> filled;
    for (const int c : which) {
        const auto own = tokens.positions(c);
        filled.insert(filled.end(), own.begin(), own.end());
        while (!own.empty() && filled.size() % static_cast<std::size_t>(tile) != 0) filled.push_back(own.back());
    }
    return filled;
}

/// A call about which only its blocks are asked: q, k, v and whatever decides nothing are the same number everywhere.
class question {
public:
    question(const kernel_table& table, const kernel& chosen, const deciders& decide, const planning& of,
             std::span<const named_argument> given)
        : graph_(table.graph), chosen_(chosen), decide_(decide), of_(of), given_(given) {}

    std::vector<named_argument> arguments(const std::vector<std::int32_t>& queries,
                                          const std::vector<std::int32_t>& keys) {
        using namespace dsl::of_shard;
        held_.clear(), queries_ = &queries, keys_ = &keys;
        all_ = static_cast<std::int32_t>(of_.tokens);
        std::vector<named_argument> call;
        for (std::size_t i = 0; i < graph_.inputs.size(); ++i) {
            const input_declaration& input = graph_.inputs[i];
            named_argument& a = call.emplace_back(named_argument{.name = input.name});
            const auto passed = std::ranges::find(given_, input.name, &named_argument::name);
            if (passed != given_.end() && decide_.inputs[i])
                a = cut(input, *passed);
            else if (input.name == query_positions.label)
                a.view = tensor(queries.data(), {std::ssize(queries)});
            else if (input.name == key_positions.label)
                a.view = tensor(keys.data(), {std::ssize(keys)});
            else if (input.name == lengths.label)
                a.view = tensor(&all_, {1});
            else if (input.is_scalar)
                a.is = named_argument::form::integer,
                a.integer = input.name == all_queries.label || input.name == all_keys.label ? of_.tokens
                            : input.name == all_heads.label                                 ? of_.heads
                            : input.name == all_key_heads.label                             ? of_.key_heads
                                                                                            : 0;
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
                if (const axis_kind axis = input.axes[a].kind; axis != along)
                    of_row *= axis == axis_kind::query || axis == axis_kind::key ? of_.tokens : extent(axis);
            if (axis_of(input, along)) largest = std::max(largest, of_row);
        }
        return most_elements / largest;
    }

private:
    const graph_ir& graph_;
    const kernel& chosen_;
    const deciders& decide_;
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

/// A sum that wrapped around to 0 would leave keys out.
void add_units(std::uint32_t& to, std::uint64_t units) {
    to = static_cast<std::uint32_t>(std::min<std::uint64_t>(to + units, std::numeric_limits<std::uint32_t>::max()));
}

void check_given(const graph_ir& graph, const deciders& decide, std::span<const named_argument> given) {
    for (std::size_t i = 0; i < graph.inputs.size(); ++i)
        if (decide.inputs[i] && role_of(graph, graph.inputs[i]) != role::supplied &&
            std::ranges::find(given, graph.inputs[i].name, &named_argument::name) == given.end())
            fail(say(graph.inputs[i].name, " in the plan, because it decides what is visible"), "none",
                 say("plan<...>(..., ", graph.inputs[i].name, " = ...), of all tokens"));
}

/// Calls of one kernel alone: which one is called does not depend on how much is asked at once.
class asked_kernel {
public:
    asked_kernel(const kernel_table& table, const kernel& chosen, question& ask, const chunks& tokens,
                 const attune::options& how)
        : table_(table), chosen_(chosen), ask_(ask), tokens_(tokens), how_(how) {
        table_.kernels = std::span(&chosen, 1);
    }

    int tiles_of_queries(int chunk) const { return tiles_of(chunk, chosen_.query_block); }
    int tiles_of_keys(int chunk) const { return tiles_of(chunk, chosen_.key_block); }

    /// Adds the states of the blocks of some query chunks and some key chunks. `row(q)`: of a query chunk's units.
    template <class Row> void add(std::span<const int> queries, std::span<const int> keys, const Row& row) {
        for (auto q = queries; !q.empty();) {
            const auto now = first_of(q, axis_kind::query);
            const auto positions = in_tiles(tokens_, now, chosen_.query_block);
            for (auto k = keys; !k.empty();) {
                const auto of_now = first_of(k, axis_kind::key);
                const auto key_positions = in_tiles(tokens_, of_now, chosen_.key_block);
                add(attune::detail::blocks(table_, ask_.arguments(positions, key_positions), how_), now, of_now, row);
                k = k.subspan(of_now.size());
            }
            q = q.subspan(now.size());
        }
    }

private:
    int tiles_of(int chunk, int tile) const { return static_cast<int>((tokens_.tokens(chunk) + tile - 1) / tile); }

    /// As many as one question can be about.
    std::span<const int> first_of(std::span<const int> chunks, axis_kind along) const {
        const std::int64_t room = ask_.most_rows(along);
        std::size_t end = 0;
        for (std::int64_t size = 0; end < chunks.size() && (end == 0 || size + tokens_.tokens(chunks[end]) <= room);)
            size += tokens_.tokens(chunks[end++]);
        return chunks.first(end);
    }

    template <class Row>
    void add(const block_map& map, std::span<const int> queries, std::span<const int> keys, const Row& row) const {
        std::vector<int> chunk_of_key;
        for (const int c : keys) chunk_of_key.insert(chunk_of_key.end(), static_cast<std::size_t>(tiles_of_keys(c)), c);
        const std::uint8_t* state = map.blocks.data();
        for (int plane = 0; plane < map.batches * map.heads; ++plane)
            for (const int q : queries) {
                const std::span<std::uint32_t> units = row(q);
                for (int tile = tiles_of_queries(q); tile > 0; --tile)
                    for (const int c : chunk_of_key)
                        if (const std::uint8_t seen = *state++; seen != 0)
                            add_units(units[static_cast<std::size_t>(c)], seen == 2 ? units_of_whole : units_at_edge);
            }
    }

    kernel_table table_;
    const kernel& chosen_;
    question& ask_;
    const chunks& tokens_;
    const attune::options& how_;
};

}  // namespace

const kernel& kernel_of(const kernel_table& table, const kernel& like, std::int64_t queries,
                        const attune::options& how) {
    std::string_view by;
    attune::detail::kernel_request of{.query = like.query, .key = like.key, .value = like.value, .output = like.output};
    of.depth = like.depth, of.value_depth = like.value_depth, of.queries = queries;
    of.target = attune::detail::forced_target(how, by), of.forced_by = by;
    return *attune::detail::choose(table, of, this_cpu(), false).chosen;
}

const kernel& kernel_for(const kernel_table& table, planning& of, const attune::options& how) {
    attune::detail::check_version(table);
    check_is_shard(table.graph, table.variant);
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
                   int first, int last, const attune::options& how, bool by_kernels_alone) {
    const kernel& chosen = kernel_for(table, of, how);
    const bool with_lengths =
        std::ranges::find(given, dsl::of_shard::lengths.label, &named_argument::name) != given.end();
    const deciders decide = deciders_of(table.graph, with_lengths);
    check_given(table.graph, decide, given);
    const std::int64_t alike = (decide.by_head ? 1 : of.heads) * (decide.by_batch ? 1 : of.batches);
    if (!decide.by_head) of.heads = of.key_heads = 1;
    if (!decide.by_batch) of.batches = 1;

    const kernel& asked = kernel_of(table, chosen, of.tokens, how);
    question ask(table, chosen, decide, of, given);
    asked_kernel kernels(table, asked, ask, tokens, how);
    whole_chunks whole(table.graph, decide, of, given, tokens, first, last);
    work_table made{tokens.count(), 0, {}};
    made.flops = 2.0 * static_cast<double>(alike) * asked.query_block * asked.key_block * asked.depths_of_pair /
                 static_cast<double>(units_of_whole);
    const auto width = static_cast<std::size_t>(made.count);
    made.units.assign(static_cast<std::size_t>(last - first) * width, 0);
    const auto row = [&](int q) {
        return std::span(made.units).subspan(static_cast<std::size_t>(q - first) * width, width);
    };
    // Query chunks about which the same is open are asked about together.
    std::vector<int> together, open;
    for (int q = first; q < last; ++q) {
        std::vector<int> open_here;
        for (int k = 0; k < made.count; ++k)
            if (const auto planes = by_kernels_alone ? std::nullopt : whole.visible(q, k))
                add_units(row(q)[static_cast<std::size_t>(k)],
                          units_of_whole * static_cast<std::uint64_t>(*planes) *
                              static_cast<std::uint64_t>(kernels.tiles_of_queries(q) * kernels.tiles_of_keys(k)));
            else
                open_here.push_back(k);
        if (open_here != open) {
            kernels.add(together, open, row);
            together.clear(), open = std::move(open_here);
        }
        together.push_back(q);
    }
    kernels.add(together, open, row);
    return made;
}

}  // namespace attune::mpi::detail
