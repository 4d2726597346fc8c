#include <attune/dsl/shard.hpp>
#include <attune/ir/gradient_outputs.hpp>
#include <attune/mpi/cost.hpp>
#include <attune/mpi/inputs.hpp>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

namespace attune::mpi::detail {
namespace {

struct of_rank {
    double flops{}, received{}, sent{};
    double joined{};  ///< tokens that see keys of other ranks
    int messages{};
};

using attune::detail::named_argument;

std::optional<std::int64_t> extent_of_whole(std::string_view axis, const planning& of) {
    if (axis == dsl::of_shard::all_queries.label || axis == dsl::of_shard::all_keys.label) return of.tokens;
    if (axis == dsl::of_shard::all_heads.label) return of.heads;
    return axis == dsl::of_shard::all_key_heads.label ? std::optional(of.key_heads) : std::nullopt;
}

/// The elements of a tensor for each of its tokens.
double elements_of(const input_declaration& input, const planning& of, std::span<const named_argument> given) {
    double count = 1;
    for (std::size_t a = 0; a < input.rank; ++a) {
        const auto passed = std::ranges::find(given, input.name, &named_argument::name);
        switch (input.axes[a].kind) {
            case axis_kind::batch: count *= static_cast<double>(of.batches); break;
            case axis_kind::head: count *= static_cast<double>(of.heads); break;
            case axis_kind::key_head: count *= static_cast<double>(of.key_heads); break;
            case axis_kind::depth: count *= of.depth; break;
            case axis_kind::value_depth: count *= of.value_depth; break;
            case axis_kind::free:  // what a shard has whole of queries, keys or heads, or a table of its own
                if (const auto whole = extent_of_whole(input.axes[a].name, of))
                    count *= static_cast<double>(*whole);
                else if (passed != given.end())
                    count *= static_cast<double>(passed->view.extent(static_cast<int>(a)));
                break;
            case axis_kind::query:
            case axis_kind::key:
            case axis_kind::position: break;
        }
    }
    return count;
}

std::vector<of_rank> of_ranks(const work_table& graph, const chunks& tokens, const std::vector<int>& owner, int ranks,
                              const bytes_of_token& bytes) {
    std::vector<of_rank> all(static_cast<std::size_t>(ranks));
    const rank_work work(graph, owner, ranks);
    for (int q = 0; q < graph.count; ++q) {
        const auto row = graph.row(q);
        const int own = owner[static_cast<std::size_t>(q)];
        bool of_others = false;
        for (std::size_t k = 0; k < row.size(); ++k) of_others |= row[k] != 0 && owner[k] != own;
        if (of_others) all[static_cast<std::size_t>(own)].joined += static_cast<double>(tokens.tokens(q));
    }
    for (int r = 0; r < ranks; ++r) {
        of_rank& here = all[static_cast<std::size_t>(r)];
        const auto units = work.row(r);
        std::uint64_t sum = 0;
        for (int c = 0; c < graph.count; ++c) {
            const std::uint32_t of_chunk = units[static_cast<std::size_t>(c)];
            const int from = owner[static_cast<std::size_t>(c)];
            sum += of_chunk;
            if (of_chunk == 0 || from == r) continue;
            const auto size = static_cast<double>(tokens.tokens(c));
            of_rank& there = all[static_cast<std::size_t>(from)];
            here.received += size * bytes.keys, there.sent += size * bytes.keys, ++here.messages;
            here.sent += size * bytes.returned, there.received += size * bytes.returned;
        }
        here.flops = graph.flops * static_cast<double>(sum);
    }
    return all;
}

}  // namespace

namespace {

bytes_of_token bytes_where(const graph_ir& shard, const planning& of, std::span<const named_argument> given,
                           bool (*counts)(const input_declaration& input)) {
    const auto size_of = [&](const input_declaration& input, element_type otherwise) {
        if (!counts(input)) return 0.0;
        return elements_of(input, of, given) *
               attune::bytes_of(input.element == element_type::any ? of.element : otherwise);
    };
    bytes_of_token all;
    for (const input_declaration& input : shard.inputs) {
        const role is = role_of(shard, input);
        if (is == role::travels) all.keys += size_of(input, input.element);
        if (is == role::travels || is == role::own_rows) all.rows_in += size_of(input, input.element);
        for (const output_declaration& output : shard.outputs)
            if (before_of(shard, output.name) == &input) {
                all.results += 2 * size_of(input, input.element);
                all.rows_out += size_of(input, input.element);
            }
    }
    if (!makes_gradients(shard)) return all;
    for (const output_declaration& output : shard.outputs) {
        const input_declaration& of_tensor = tensor_of_gradient(shard, output);
        if (role_of(shard, of_tensor) == role::travels) all.returned += size_of(of_tensor, element_type::f32);
        if (role_of(shard, of_tensor) == role::own_rows) all.results += 2 * size_of(of_tensor, element_type::f32);
    }
    return all;
}

}  // namespace

bytes_of_token bytes_of(const graph_ir& shard, const planning& of, std::span<const named_argument> given) {
    return bytes_where(shard, of, given, [](const input_declaration&) { return true; });
}

bytes_of_token bytes_without_heads(const graph_ir& shard, const planning& of, std::span<const named_argument> given) {
    return bytes_where(shard, of, given, [](const input_declaration& input) {
        return !axis_of(input, axis_kind::head) && !axis_of(input, axis_kind::key_head);
    });
}

bytes_of_token bytes_of_token::of_part(int parts, const bytes_of_token& without_heads) const {
    bytes_of_token part = *this;
    for (double bytes_of_token::* const each :
         {&bytes_of_token::keys, &bytes_of_token::results, &bytes_of_token::returned, &bytes_of_token::rows_in,
          &bytes_of_token::rows_out})
        part.*each = without_heads.*each + (this->*each - without_heads.*each) / parts;
    return part;
}

cost cost_of(const work_table& graph, const chunks& tokens, const std::vector<int>& owner, int ranks,
             const bytes_of_token& bytes, const rates& speed, int stages) {
    const std::vector<of_rank> all = of_ranks(graph, tokens, owner, ranks, bytes);
    cost best{};
    double most = 0, mean = 0;
    for (const of_rank& r : all) most = std::max(most, r.flops), mean += r.flops / ranks, best.received += r.received;
    best.balance = mean > 0 ? most / mean : 1;
    best.computing = most / speed.flops;
    best.ring = static_cast<double>(tokens.tokens()) * (ranks - 1) * (bytes.keys + bytes.returned);
    for (int k = stages ? stages : 1; k <= (stages ? stages : most_stages); ++k) {
        double slowest = 0;
        for (const of_rank& r : all) {
            const double c = r.flops / speed.flops;
            const double m = std::max(r.received, r.sent) / speed.bytes + r.messages * speed.latency;
            best.sending = std::max(best.sending, m);
            // Chunks that are only sent need no stages.
            const double joining = k * r.joined * bytes.results / speed.merged;
            slowest = std::max(slowest, std::max(c, m) + (r.received > 0 ? std::min(c, m) / k : 0) + joining);
        }
        if (best.stages == 0 || slowest < best.seconds) best.seconds = slowest, best.stages = k;
    }
    best.seconds += 2 * speed.latency * std::log2(ranks);
    return best;
}

cost cost_of_head_parts(int parts, const work_table& graph, const chunks& tokens, const std::vector<int>& owner,
                        int ranks, const bytes_of_token& bytes, rates speed, int stages) {
    speed.flops *= parts;  // of each part of the work
    cost made = cost_of(graph, tokens, owner, ranks, bytes, speed, stages);
    // All of it before the first key is looked at, and after the last.
    const double of_rank = static_cast<double>(tokens.tokens()) / (ranks * parts) * (parts - 1) *
                           (bytes.rows_in + bytes.rows_out),
                 exchange = of_rank / speed.bytes + 2 * (parts - 1) * speed.latency;
    made.seconds += exchange, made.sending += exchange;
    made.received = parts * made.received + ranks * parts * of_rank;
    made.ring = static_cast<double>(tokens.tokens()) * (ranks * parts - 1) * parts * bytes.keys;
    made.head_parts = parts;
    return made;
}

}  // namespace attune::mpi::detail
