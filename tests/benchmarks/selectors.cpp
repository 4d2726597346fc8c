// Calls that choose the blocks of keys that their queries see, beside plain causal calls of the same tensors; compiled
// in process, and timed interleaved. What choosing takes is what a call that chooses the same and shows one block takes
// beyond a call that shows this block and chooses nothing.
//
//     attune_selectors --keys 16384 --share 0.25 [--queries 16384 1] [--heads 2 --key-heads 2] [--alike 256]
//
// Queries are random, and neighbours have nothing in common: those of a tile name nearly every block between them. With
// --alike N each is correlated with the one before it, by exp(-1 / N).
#include "serving/memory.hpp"

#include "commands/schedule_option.hpp"
#include "tuner/jit_kernel.hpp"

#include <attune/catalogue/selectors.hpp>
#include <attune/runtime.hpp>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

namespace {

using namespace attune::dsl;
namespace catalogue = attune::catalogue;
using bench::memory;

constexpr int size = 64;  // keys of a block
inline constexpr auto count = scalar<"count", i32>;
inline constexpr auto share = scalar<"share", f32>;
// What stands for the blocks of a cache that grows is kept beside it.
inline constexpr auto means = input<"means", f32>(batch, key_head, axis<"block">, depth);
inline constexpr auto low = input<"low", f32>(batch, key_head, axis<"block">, depth);
inline constexpr auto high = input<"high", f32>(batch, key_head, axis<"block">, depth);

constexpr auto under(expression auto condition) { return softmax(mask(q * t(k) * rsqrt(depth), condition)) * v; }
inline constexpr auto first_block = kv_idx < size;
inline constexpr auto plain = under(causal_bottom_right);
inline constexpr auto plain_alone = under(first_block && causal_bottom_right);

inline constexpr auto means_of_call = catalogue::mean_of_keys(k, size, depth);
inline constexpr auto pooled_seen =
    catalogue::pooled_blocks(catalogue::mean_of_queries(q, size), means_of_call, size, count);
inline constexpr auto moba_seen = catalogue::moba(q, means_of_call, size, count);
inline constexpr auto nsa_seen = catalogue::nsa_selection(q, means_of_call, size, count);
inline constexpr auto xattention_seen = catalogue::xattention(q, k, size, 16, share);
inline constexpr auto quest_kept_seen = catalogue::quest(q, low, high, size, count);
inline constexpr auto nsa_kept_seen = catalogue::nsa_selection(q, means, size, count);

// Each, and the same of the first block alone.
inline constexpr auto pooled = under(pooled_seen);
inline constexpr auto pooled_alone = under(first_block && pooled_seen);
inline constexpr auto moba = under(moba_seen);
inline constexpr auto moba_alone = under(first_block && moba_seen);
inline constexpr auto nsa = under(nsa_seen);
inline constexpr auto nsa_alone = under(first_block && nsa_seen);
inline constexpr auto xattention = under(xattention_seen);
inline constexpr auto xattention_alone = under(first_block && xattention_seen);
inline constexpr auto quest_kept = under(quest_kept_seen);
inline constexpr auto quest_kept_alone = under(first_block && quest_kept_seen);
inline constexpr auto nsa_kept = under(nsa_kept_seen);
inline constexpr auto nsa_kept_alone = under(first_block && nsa_kept_seen);

struct selector {
    const char* name;
    attune::graph_ir whole, alone;
};
const selector selectors[] = {{"pooled_blocks", ir_of<pooled>, ir_of<pooled_alone>},
                              {"moba", ir_of<moba>, ir_of<moba_alone>},
                              {"nsa_selection", ir_of<nsa>, ir_of<nsa_alone>},
                              {"xattention", ir_of<xattention>, ir_of<xattention_alone>},
                              {"quest, of a kept cache", ir_of<quest_kept>, ir_of<quest_kept_alone>},
                              {"nsa_selection, of a kept cache", ir_of<nsa_kept>, ir_of<nsa_kept_alone>}};

struct question {
    std::int64_t keys = 16384, heads = 2, key_heads = 2, depth = 64;
    std::vector<std::int64_t> queries{16384, 1};
    double share = 0.25, alike = 0;
    std::string cut, only;
    int repeats = 5;
};

/// The queries see this many blocks beside their own for a share of the pairs that a causal call sees.
int blocks_for(const question& asked, std::int64_t queries) {
    const std::int64_t blocks = (asked.keys + size - 1) / size;
    double all = 0, least = 0;
    for (std::int64_t own = std::max<std::int64_t>(asked.keys - queries, 0) / size; own < blocks; ++own)
        all += double(own + 1);
    for (int some = 0;; ++some) {
        least = 0;
        for (std::int64_t own = std::max<std::int64_t>(asked.keys - queries, 0) / size; own < blocks; ++own)
            least += double(std::min<std::int64_t>(own, some) + 1);
        if (least >= asked.share * all || some >= blocks) return some;
    }
}

class timed {
public:
    timed(const char* name, const attune::graph_ir& ir, const question& asked, std::int64_t queries,
          const std::string& level)
        : of_{name, ir}, kernel_(list_of(of_, asked, queries, level)) {}

    double seconds(const std::vector<attune::detail::named_argument>& all) {
        const auto given = read_of(all);
        const auto start = std::chrono::steady_clock::now();
        attune::detail::call(kernel_.table(), given, {});
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }
    std::vector<double> all;

private:
    std::vector<attune::detail::named_argument> read_of(const std::vector<attune::detail::named_argument>& all) const {
        std::vector<attune::detail::named_argument> given;
        for (const auto& each : all)
            if (reads(each.name)) given.push_back(each);
        return given;
    }
    bool reads(std::string_view name) const {
        return name == "out" || std::ranges::any_of(of_.graph.inputs, [&](const auto& d) { return d.name == name; });
    }
    static attune::generators::listed_kernel list_of(const attune::generators::variant& of, const question& asked,
                                                     std::int64_t queries, const std::string& level) {
        auto list = attune::generators::kernels_of({&of, 1}, {.targets = {level},
                                                              .dtypes = {"f32"},
                                                              .depths = {std::to_string(asked.depth)},
                                                              .shapes = {queries > 16 ? "prefill" : "decode"}});
        if (queries > 16) list[0].request.schedule = attune::generators::schedule_with(list[0].request, asked.cut);
        return list[0];
    }
    attune::generators::variant of_;
    attune::generators::jit_kernel kernel_;
};

double median(std::vector<double> of) {
    std::ranges::sort(of);
    return of[of.size() / 2];
}

/// Each row is correlated with the one before it, and as long on average as it was.
void make_alike(memory& rows, const question& asked, double length) {
    const auto along = static_cast<float>(std::exp(-1.0 / length)), anew = std::sqrt(1 - along * along);
    const auto all = rows.as<float>();
    const auto depth = static_cast<std::size_t>(asked.depth),
               of_head = all.size() / static_cast<std::size_t>(asked.heads);
    for (std::size_t i = depth; i < all.size(); ++i)
        if (i % of_head >= depth) all[i] = along * all[i - depth] + anew * all[i];
}

void measure(const question& asked, std::int64_t queries, const std::string& level) {
    const std::int64_t blocks = (asked.keys + size - 1) / size;
    const auto f32_of = [](std::int64_t heads, std::int64_t length, std::int64_t channels) {
        return memory(attune::element_type::f32, {1, heads, length, channels});
    };
    memory Q = f32_of(asked.heads, queries, asked.depth), K = f32_of(asked.key_heads, asked.keys, asked.depth),
           V = f32_of(asked.key_heads, asked.keys, asked.depth), O = f32_of(asked.heads, queries, asked.depth),
           kept = f32_of(asked.key_heads, blocks, asked.depth);
    if (asked.alike > 0) make_alike(Q, asked, asked.alike);
    const int chosen = blocks_for(asked, queries);
    using form = attune::detail::named_argument::form;
    const std::vector<attune::detail::named_argument> given{{.name = "q", .view = Q.view()},
                                                            {.name = "k", .view = K.view()},
                                                            {.name = "v", .view = V.view()},
                                                            {.name = "means", .view = kept.view()},
                                                            {.name = "low", .view = kept.view()},
                                                            {.name = "high", .view = kept.view()},
                                                            {.name = "count", .is = form::integer, .integer = chosen},
                                                            {.name = "share", .is = form::real, .real = asked.share},
                                                            {.name = "out", .view = O.view()}};
    timed causal("bench::causal", ir_of<plain>, asked, queries, level),
        one("bench::one", ir_of<plain_alone>, asked, queries, level);
    fmt::print("\n{} queries, {} keys, {} blocks of {} chosen beside the own one\n{:<32} {:>10} {:>14} {:>10} {:>12}\n",
               queries, asked.keys, chosen, size, "", "ms", "causal / it", "choosing", "of the time");
    for (const selector& each : selectors) {
        if (std::string(each.name).find(asked.only) == std::string::npos) continue;
        timed whole(each.name, each.whole, asked, queries, level), alone(each.name, each.alone, asked, queries, level);
        for (int i = -1; i < asked.repeats; ++i)
            for (timed* turn : {&causal, &whole, &alone, &one})
                if (const double once = turn->seconds(given); i >= 0) turn->all.push_back(once);
        const double a = median(causal.all), s = median(whole.all), c = median(alone.all) - median(one.all);
        fmt::print("{:<32} {:>10.3f} {:>14.2f} {:>10.3f} {:>11.0f}%\n", each.name, s * 1e3, a / s, c * 1e3,
                   100 * c / s);
        std::fflush(stdout);
    }
    fmt::print("{:<32} {:>10.3f}\n", "causal", median(causal.all) * 1e3);
}

}  // namespace

int main(int argc, char** argv) {
    question asked;
    CLI::App app{"Times calls that choose blocks of keys beside plain causal ones, and what choosing takes."};
    app.add_option("--keys", asked.keys)->capture_default_str();
    app.add_option("--queries", asked.queries, "the last so many keys' own; up to 16 by the kernel for decode")
        ->capture_default_str();
    app.add_option("--heads", asked.heads)->capture_default_str();
    app.add_option("--key-heads", asked.key_heads)->capture_default_str();
    app.add_option("--depth", asked.depth)->capture_default_str();
    app.add_option("--share", asked.share, "of a causal call's blocks that are seen; of the sum, of xattention")
        ->capture_default_str();
    app.add_option("--alike", asked.alike, "over how many queries they remain alike; 0: each is drawn by itself")
        ->capture_default_str();
    app.add_option("--only", asked.only, "selectors whose name has this");
    app.add_option("--schedule", asked.cut, "another schedule for prefill: a JSON object with some of its fields");
    app.add_option("--repeats", asked.repeats)->capture_default_str();
    CLI11_PARSE(app, argc, argv);
    std::string level;
    for (const attune::generators::level& each : attune::generators::levels())
        if (level.empty() && attune::runs(each.name) && !each.is_for_bf16()) level = each.name;
    fmt::print("{}, {} threads; {} heads over {}, depth {}, f32\n", level, attune::threads(), asked.heads,
               asked.key_heads, asked.depth);
    for (const std::int64_t queries : asked.queries) measure(asked, queries, level);
}
