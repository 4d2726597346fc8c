// Keys that each query chooses, token by token, as a given index says (DeepSeek V3.2, 2,048 of all), beside causal
// calls of the same tensors that see every key; compiled in process, and timed interleaved.
//
//     attune_chosen_keys --keys 32768 --chosen 2048 [--heads 16 --key-heads 1] [--queries 1 128] [--agree 1 0.5 0]
//
// A query that reads its own choice is a batch element. With several queries, 16 neighbours are read together as well:
// the batch element is a tile of 16, its index has every key that one of them chose, and a bit says for whom it counts.
// --agree is the share of a query's choice that all 16 have in common; the others are drawn by each.
//
// A single query also chooses in the call, by an indexer of f32 with heads of its own (--indexer-heads, of depth
// --indexer-depth), whose choice all heads share. What choosing takes is what a call that chooses the same and shows a
// few keys takes beyond one that shows these and chooses nothing.
#include "serving/memory.hpp"

#include "tuner/jit_kernel.hpp"

#include <attune/catalogue/selectors.hpp>
#include <attune/runtime.hpp>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace {

using namespace attune::dsl;
using bench::memory;

inline constexpr auto chosen = input<"chosen", i32>(batch, axis<"place">);
inline constexpr auto members = input<"members", i32>(batch, axis<"place">);
inline constexpr auto count = extent<1>(chosen);
inline constexpr auto all_keys = softmax(mask(q * t(k) * rsqrt(depth), causal_bottom_right)) * v;

/// By an indexer.
inline constexpr auto q_index = input<"q_index", f32>(batch, axis<"indexer_head">, query, axis<"indexer_depth">);
inline constexpr auto k_index = input<"k_index", f32>(batch, key, axis<"indexer_depth">);
inline constexpr auto w_index = input<"w_index", f32>(batch, query, axis<"indexer_head">);
inline constexpr auto indexed = attune::catalogue::indexed_keys(q_index, k_index, w_index, extent<1>(q_index),
                                                                extent<3>(q_index), scalar<"count", i32>);
inline constexpr auto few = kv_idx < 16;
constexpr auto under(expression auto seen) { return softmax(mask(q * t(k) * rsqrt(depth), seen)) * v; }
inline constexpr auto in_call = under(indexed);
inline constexpr auto in_call_of_few = under(few && indexed);
inline constexpr auto few_keys = under(few && causal_bottom_right);

/// Of a pool of one element type.
template <auto Element> struct of_pool {
    static constexpr auto k_pool = input<"k_pool", Element>(axis<"slot">, key_head, depth);
    static constexpr auto v_pool = input<"v_pool", Element>(axis<"slot">, key_head, value_depth);
    static constexpr auto chosen_values = values(v_pool(chosen(b, kv_idx), h, d_idx), count);
    static constexpr auto scores = q * t(keys(k_pool(chosen(b, kv_idx), h, d_idx), count)) * rsqrt(depth);
    static constexpr auto own = softmax(scores) * chosen_values;
    static constexpr auto joint = softmax(mask(scores, ((members(b, kv_idx) >> q_idx) & 1) == 1)) * chosen_values;
};

constexpr std::int64_t tile = 16;  // queries that are read together

struct question {
    std::int64_t keys = 32768, chosen = 2048, heads = 16, key_heads = 1, depth = 128, indexer_heads = 64,
                 indexer_depth = 128;
    std::vector<std::int64_t> queries{1, 128};
    std::vector<double> agree{1, 0.5, 0.25, 0};
    std::string dtype = "f32";
    int repeats = 5;
    bool json = false;
};

class timed {
public:
    timed(const char* name, const attune::graph_ir& ir, const question& asked, bool decodes, const std::string& level)
        : of_{name, ir},
          kernel_(attune::generators::kernels_of({&of_, 1}, {.targets = {level},
                                                             .dtypes = {asked.dtype},
                                                             .depths = {std::to_string(asked.depth)},
                                                             .shapes = {decodes ? "decode" : "prefill"}})[0]) {}
    void run(const std::vector<attune::detail::named_argument>& given) {
        const auto start = std::chrono::steady_clock::now();
        attune::detail::call(kernel_.table(), given, {});
        seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    double median() const {
        std::vector<double> all(seconds.begin() + 1, seconds.end());  // the first call warms caches
        std::ranges::nth_element(all, all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2));
        return all[all.size() / 2];
    }
    std::vector<double> seconds;

private:
    attune::generators::variant of_;
    attune::generators::jit_kernel kernel_;
};

/// What every query of a tile chooses, the queries one after the other.
std::vector<std::vector<std::int32_t>> choices(const question& asked, std::int64_t queries, double agree) {
    std::mt19937 random{20261130};
    std::vector<std::int32_t> all(static_cast<std::size_t>(asked.keys));
    std::iota(all.begin(), all.end(), 0);
    const auto number = static_cast<std::ptrdiff_t>(std::min(asked.chosen, asked.keys));
    const auto common = static_cast<std::ptrdiff_t>(agree * static_cast<double>(number));
    std::vector<std::vector<std::int32_t>> result;
    for (std::int64_t query = 0; query < queries; ++query) {
        if (query % tile == 0) std::ranges::shuffle(all, random);
        std::vector<std::int32_t> rest(all.begin() + common, all.end()), own(all.begin(), all.begin() + common);
        std::ranges::sample(rest, std::back_inserter(own), number - common, random);
        std::ranges::sort(own);
        result.push_back(std::move(own));
    }
    return result;
}

/// The index of a call: a row for each batch element, filled to the longest, and how many of each row count.
struct index {
    std::int64_t width;
    std::vector<std::int32_t> chosen, members, lengths;
};

index joined(const std::vector<std::vector<std::int32_t>>& each, std::int64_t together) {
    std::vector<std::vector<std::pair<std::int32_t, std::int32_t>>> rows;
    for (std::size_t first = 0; first < each.size(); first += static_cast<std::size_t>(together)) {
        std::vector<std::pair<std::int32_t, std::int32_t>> row;
        for (std::size_t i = first; i < std::min(each.size(), first + static_cast<std::size_t>(together)); ++i)
            for (const std::int32_t key : each[i]) row.emplace_back(key, 1 << (i - first));
        std::ranges::sort(row);
        std::size_t kept = 0;
        for (const auto& [key, bit] : row)
            if (kept > 0 && row[kept - 1].first == key)
                row[kept - 1].second |= bit;
            else
                row[kept++] = {key, bit};
        row.resize(kept);
        rows.push_back(std::move(row));
    }
    index made{.width = 0, .chosen = {}, .members = {}, .lengths = {}};
    for (const auto& row : rows) made.width = std::max(made.width, static_cast<std::int64_t>(row.size()));
    for (const auto& row : rows) {
        made.lengths.push_back(static_cast<std::int32_t>(row.size()));
        for (std::int64_t i = 0; i < made.width; ++i) {
            const bool in_use = i < static_cast<std::int64_t>(row.size());
            made.chosen.push_back(in_use ? row[static_cast<std::size_t>(i)].first : 0);
            made.members.push_back(in_use ? row[static_cast<std::size_t>(i)].second : 0);
        }
    }
    return made;
}

class measurement {
public:
    measurement(const question& asked, std::int64_t queries, const std::string& level)
        : asked_(asked),
          queries_(queries),
          level_(level),
          q_(type(), {1, asked.heads, queries, asked.depth}),
          k_(type(), {1, asked.key_heads, asked.keys, asked.depth}),
          v_(type(), {1, asked.key_heads, asked.keys, asked.depth}),
          o_(type(), {1, asked.heads, queries, asked.depth}),
          q_index_(attune::element_type::f32, {1, asked.indexer_heads, queries, asked.indexer_depth}),
          k_index_(attune::element_type::f32, {1, asked.keys, asked.indexer_depth}),
          w_index_(attune::element_type::f32, {1, queries, asked.indexer_heads}) {}

    nlohmann::json run() {
        timed all("bench::all_keys", ir_of<all_keys>, asked_, queries_ <= tile, level_);
        timed own("bench::own_choice", halves() ? ir_of<of_pool<bf16>::own> : ir_of<of_pool<f32>::own>, asked_, true,
                  level_);
        nlohmann::json rows;
        for (const double agree : queries_ == 1 ? std::vector<double>{0} : asked_.agree) {
            const auto each = choices(asked_, queries_, agree);
            index alone = joined(each, 1), together = joined(each, tile);
            all.seconds.clear(), own.seconds.clear();
            nlohmann::json row{{"queries", queries_}, {"agree", agree}};
            if (queries_ == 1) {
                timed whole("bench::in_call", ir_of<in_call>, asked_, true, level_),
                    some("bench::in_call_of_few", ir_of<in_call_of_few>, asked_, true, level_),
                    none("bench::few_keys", ir_of<few_keys>, asked_, true, level_);
                in_turns({{&all, of_all()},
                          {&own, of(alone, 1)},
                          {&whole, of_indexer()},
                          {&some, of_indexer()},
                          {&none, of_all()}});
                row["in the call"] = whole.median() * 1e3;
                row["of it choosing"] = (some.median() - none.median()) * 1e3;
            } else {
                timed joint("bench::joint_choice", halves() ? ir_of<of_pool<bf16>::joint> : ir_of<of_pool<f32>::joint>,
                            asked_, false, level_);
                in_turns({{&all, of_all()}, {&own, of(alone, 1)}, {&joint, of(together, tile)}});
                row["16 together"] = joint.median() * 1e3;
                row["keys of 16"] = together.width;
            }
            row["all"] = all.median() * 1e3, row["own"] = own.median() * 1e3;
            rows.push_back(row);
        }
        return rows;
    }

private:
    using arguments = std::vector<attune::detail::named_argument>;
    bool halves() const { return asked_.dtype == "bf16"; }
    attune::element_type type() const { return halves() ? attune::element_type::bf16 : attune::element_type::f32; }
    void in_turns(const std::vector<std::pair<timed*, arguments>>& of) const {
        for (int i = 0; i <= asked_.repeats; ++i)
            for (const auto& [each, given] : of) each->run(given);
    }
    arguments of_all() {
        return {{.name = "q", .view = q_.view()},
                {.name = "k", .view = k_.view()},
                {.name = "v", .view = v_.view()},
                {.name = "out", .view = o_.view()}};
    }
    arguments of_indexer() {
        arguments result = of_all();
        result.push_back({.name = "q_index", .view = q_index_.view()});
        result.push_back({.name = "k_index", .view = k_index_.view()});
        result.push_back({.name = "w_index", .view = w_index_.view()});
        result.push_back(
            {.name = "count", .is = attune::detail::named_argument::form::integer, .integer = asked_.chosen});
        return result;
    }
    /// The same memory, as a batch of tiles over a pool of slots.
    arguments of(index& given, std::int64_t together) {
        const std::int64_t tiles = queries_ / together, d = asked_.depth;
        const auto rows = [&](memory& m) {
            return attune::tensor(type(), m.as<std::byte>().data(), std::vector{tiles, asked_.heads, together, d},
                                  std::vector{together * d, queries_ * d, d, std::int64_t{1}});
        };
        const auto pool = [&](memory& m) {
            return attune::tensor(type(), m.as<std::byte>().data(), std::vector{asked_.keys, asked_.key_heads, d},
                                  std::vector{d, asked_.keys * d, std::int64_t{1}});
        };
        arguments result{{.name = "q", .view = rows(q_)},
                         {.name = "k_pool", .view = pool(k_)},
                         {.name = "v_pool", .view = pool(v_)},
                         {.name = "chosen", .view = attune::tensor(given.chosen.data(), {tiles, given.width})},
                         {.name = "kv_lengths", .view = attune::tensor(given.lengths.data(), {tiles})},
                         {.name = "out", .view = rows(o_)}};
        if (together > 1)
            result.push_back({.name = "members", .view = attune::tensor(given.members.data(), {tiles, given.width})});
        return result;
    }

    const question& asked_;
    std::int64_t queries_;
    const std::string& level_;
    memory q_, k_, v_, o_, q_index_, k_index_, w_index_;
};

}  // namespace

int main(int argc, char** argv) {
    question asked;
    CLI::App app{"Times calls whose queries see the keys that an index gives them, beside causal calls over all keys."};
    app.add_option("--keys", asked.keys)->capture_default_str();
    app.add_option("--chosen", asked.chosen, "keys a query")->capture_default_str();
    app.add_option("--queries", asked.queries, "the last so many keys' own: 1, or a multiple of 16")
        ->capture_default_str();
    app.add_option("--heads", asked.heads)->capture_default_str();
    app.add_option("--key-heads", asked.key_heads)->capture_default_str();
    app.add_option("--depth", asked.depth)->capture_default_str();
    app.add_option("--indexer-heads", asked.indexer_heads)->capture_default_str();
    app.add_option("--indexer-depth", asked.indexer_depth)->capture_default_str();
    app.add_option("--dtype", asked.dtype, "f32 or bf16")->check(CLI::IsMember({"f32", "bf16"}))->capture_default_str();
    app.add_option("--agree", asked.agree, "shares of a choice that 16 neighbours have in common")
        ->check(CLI::Range(0.0, 1.0))
        ->capture_default_str();
    app.add_option("--repeats", asked.repeats)->capture_default_str();
    app.add_flag("--json", asked.json, "the rows as JSON, in milliseconds");
    CLI11_PARSE(app, argc, argv);
    for (const std::int64_t queries : asked.queries)
        if (queries != 1 && queries % tile != 0) {
            fmt::print(stderr, "expected --queries of 1 or multiples of {}, got {}\n", tile, queries);
            return 2;
        }
    std::string level;
    for (const attune::generators::level& each : attune::generators::levels())
        if (level.empty() && attune::runs(each.name) && !each.is_for_bf16()) level = each.name;
    nlohmann::json all;
    for (const std::int64_t queries : asked.queries)
        for (const auto& row : measurement(asked, queries, level).run()) all.push_back(row);
    if (asked.json) return fmt::print("{}\n", all.dump(1)), 0;
    fmt::print(
        "{}, {} threads; {} heads over {}, depth {}, {}; {} of {} keys a query\n{:>8} {:>6} {:>10} {:>12} {:>14} "
        "{:>10}\n",
        level, attune::threads(), asked.heads, asked.key_heads, asked.depth, asked.dtype, asked.chosen, asked.keys,
        "queries", "agree", "all, ms", "all / own", "all / 16 joint", "keys of 16");
    for (const auto& row : all) {
        const double whole = row["all"];
        fmt::print("{:>8} {:>6} {:>10.3f} {:>12.2f}", row["queries"].get<int>(), row["agree"].get<double>(), whole,
                   whole / row["own"].get<double>());
        if (row.contains("16 together"))
            fmt::print(" {:>14.2f} {:>10}", whole / row["16 together"].get<double>(), row["keys of 16"].get<int>());
        if (row.contains("in the call"))
            fmt::print("   chosen in the call: {:.3f} ms, {:.3f} ms of it choosing; all / it {:.2f}",
                       row["in the call"].get<double>(), row["of it choosing"].get<double>(),
                       whole / row["in the call"].get<double>());
        fmt::print("\n");
    }
}
