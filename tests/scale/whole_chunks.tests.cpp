// The answers about two chunks as a whole, against all of their pairs one by one. No kernels are needed.
#include <attune/dsl.hpp>
#include <attune/mpi/whole_chunks.hpp>

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <functional>
#include <random>
#include <vector>

using namespace attune;

namespace whole {
using namespace attune::dsl;

template <class Condition> constexpr auto masked_by(Condition condition) {
    constexpr auto scores = q * t(k) * rsqrt(depth);
    return shard(outputs(out = softmax(mask(scores, condition)) * v, lse = log_sum_exp(mask(scores, condition))));
}
inline constexpr auto document = input<"document", i32>(position);
inline constexpr auto of_batch = input<"of_batch", i64>(batch, position);
inline constexpr auto is_global = input<"is_global", boolean>(key);
inline constexpr auto level = input<"level", u8>(query);
inline constexpr auto reach = input<"reach", i16>(head);
inline constexpr auto by_document = input<"by_document", i32>(axis<"documents">);
inline constexpr auto dense = input<"dense", boolean>(query, key);
inline constexpr auto size = scalar<"size", i32>;

inline constexpr auto no_mask = shard(outputs(out = softmax(q * t(k)) * v, lse = log_sum_exp(q * t(k))));
inline constexpr auto is_causal = masked_by(causal);
inline constexpr auto not_causal = masked_by(!causal);
inline constexpr auto window_of_70 = masked_by(causal && window(70, 0));
inline constexpr auto window_of_size = masked_by(causal && q_idx - kv_idx < size);
inline constexpr auto documents = masked_by(document(q_idx) == document(kv_idx));
inline constexpr auto no_later = masked_by(document(kv_idx) <= document(q_idx));
inline constexpr auto earlier = masked_by(document(kv_idx) < document(q_idx));
inline constexpr auto no_earlier = masked_by(document(kv_idx) >= document(q_idx));
inline constexpr auto later = masked_by(document(kv_idx) > document(q_idx));
inline constexpr auto others = masked_by(document(kv_idx) != document(q_idx));
inline constexpr auto documents_of_batch = masked_by(of_batch(b, q_idx) == of_batch(b, kv_idx) && causal);
inline constexpr auto global_or_window = masked_by(is_global(kv_idx) || window(30, 30));
inline constexpr auto local_blocks = masked_by(q_idx / 128 == kv_idx / 128);
inline constexpr auto strided = masked_by((q_idx - kv_idx) % 200 < 50);
inline constexpr auto levels = masked_by(level(q_idx) >= kv_idx % 3 || abs(q_idx - kv_idx) < 40);
inline constexpr auto reaches = masked_by(causal && q_idx - kv_idx <= reach(h));
inline constexpr auto by_table = masked_by(by_document(document(q_idx)) > kv_idx);
inline constexpr auto of_pairs = masked_by(dense(q_idx, kv_idx) && causal);
inline constexpr auto bits = masked_by(((q_idx >> 7) ^ (kv_idx >> 7)) == 0 || (kv_idx & 512) == 0);
inline constexpr auto around = masked_by(q_idx * 5000000 + kv_idx * 3000000 < 0);
inline constexpr auto chosen =
    masked_by(where(q_idx < 500, kv_idx < 100, max(q_idx, kv_idx) - min(q_idx, kv_idx) < 60));
inline constexpr auto shifted = masked_by((kv_idx << 22) > (q_idx << 22));
inline constexpr auto by_heads = masked_by(kv_idx < heads * 100);
inline constexpr auto by_key_heads = masked_by(kv_idx < key_heads * 100);
inline constexpr auto by_batches = masked_by(kv_idx < batches * 100);
inline constexpr auto hidden_scores = q * t(k) + where(causal, 0.0, -inf);
inline constexpr auto by_scores = shard(outputs(out = softmax(hidden_scores) * v, lse = log_sum_exp(hidden_scores)));
inline constexpr auto bounded_scores =
    shard(outputs(out = softmax(tanh(hidden_scores)) * v, lse = log_sum_exp(tanh(hidden_scores))));
}  // namespace whole

namespace {

constexpr std::int64_t tokens = 1000, batches = 2, heads = 2;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

struct tables {
    std::vector<std::int32_t> document = std::vector<std::int32_t>(tokens), by_document;
    std::vector<std::int64_t> of_batch = std::vector<std::int64_t>(batches * tokens);
    std::vector<std::uint8_t> global = std::vector<std::uint8_t>(tokens), level = global, dense;
    std::vector<std::int16_t> reach{20, 300};

    tables() : dense(tokens * tokens) {
        std::mt19937 random(4);
        for (std::int64_t t = 1; t < tokens; ++t) {
            document[at(t)] = document[at(t - 1)] + (random() % 150 == 0);
            for (std::int64_t b = 0; b < batches; ++b)
                of_batch[at(b * tokens + t)] = of_batch[at(b * tokens + t - 1)] - (random() % 150 == 0);
            global[at(t)] = random() % 400 == 0, level[at(t)] = static_cast<std::uint8_t>(t / 400);
        }
        for (int d = 0; d <= document.back(); ++d) by_document.push_back(static_cast<std::int32_t>(random() % tokens));
        for (auto& each : dense) each = random() % 2;
    }
    std::vector<detail::named_argument> arguments() const {
        return {{.name = "document", .view = tensor(document.data(), {tokens})},
                {.name = "by_document", .view = tensor(by_document.data(), {std::ssize(by_document)})},
                {.name = "of_batch", .view = tensor(of_batch.data(), {batches, tokens})},
                {.name = "is_global",
                 .view = tensor(element_type::boolean, static_cast<const void*>(global.data()),
                                std::vector<std::int64_t>{tokens})},
                {.name = "level", .view = tensor(level.data(), {tokens})},
                {.name = "reach", .view = tensor(reach.data(), {heads})},
                {.name = "dense",
                 .view = tensor(element_type::boolean, static_cast<const void*>(dense.data()),
                                std::vector<std::int64_t>{tokens, tokens})},
                {.name = "size", .is = detail::named_argument::form::integer, .integer = 90}};
    }
};

using condition = std::function<bool(std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t k)>;

/// The answers are true, for chunks of tokens in order and for others; of chunks in order there are so many answers.
void check(const graph_ir& graph, double share, const condition& visible, std::vector<detail::named_argument> given,
           std::int64_t last = tokens) {
    const mpi::detail::deciders decide = mpi::detail::deciders_of(graph, last != tokens);
    const mpi::planning of{.batches = decide.by_batch ? batches : 1,
                           .heads = decide.by_head ? heads : 1,
                           .key_heads = 1,
                           .tokens = tokens};
    mpi::chunks in_order = mpi::cut(tokens, 10), shuffled = in_order;
    std::mt19937 random(11);
    std::ranges::shuffle(shuffled.order, random);
    for (const mpi::chunks& all : {in_order, shuffled}) {
        const int first = 3;
        mpi::detail::whole_chunks whole(graph, decide, of, given, all, first, all.count());
        int said = 0;
        bool right = true;
        for (int q = first; q < all.count(); ++q)
            for (int k = 0; k < all.count(); ++k) {
                const auto planes = whole.visible(q, k);
                if (!planes) continue;
                ++said;
                int complete = 0;
                for (std::int64_t b = 0; b < of.batches; ++b)
                    for (std::int64_t h = 0; h < of.heads; ++h) {
                        std::int64_t seen = 0;
                        for (const std::int32_t query : all.positions(q))
                            for (const std::int32_t key : all.positions(k))
                                seen += key < last && visible(b, h, query, key);
                        complete += seen == all.tokens(q) * all.tokens(k);
                        right = right && (seen == 0 || seen == all.tokens(q) * all.tokens(k));
                    }
                right = right && complete == *planes;
            }
        INFO(graph.text << ": said of " << said);
        CHECK(right);
        if (all.order == in_order.order) CHECK(said >= share * all.count() * (all.count() - first));
    }
}

}  // namespace

TEST_CASE("what is said of whole chunks is true of all of their pairs") {
    const tables t;
    const auto given = t.arguments();
    const auto document = [&](std::int64_t p) { return t.document[at(p)]; };
    const auto causal = [](auto, auto, auto q, auto k) { return k <= q; };
    check(dsl::ir_of<whole::no_mask>, 1, [](auto, auto, auto, auto) { return true; }, given);
    check(dsl::ir_of<whole::is_causal>, 0.9, causal, given);
    check(dsl::ir_of<whole::by_scores>, 0.9, causal, given);
    check(dsl::ir_of<whole::bounded_scores>, 1, [](auto, auto, auto, auto) { return true; }, given);
    check(dsl::ir_of<whole::not_causal>, 0.9, [](auto, auto, auto q, auto k) { return k > q; }, given);
    check(
        dsl::ir_of<whole::window_of_70>, 0.8, [](auto, auto, auto q, auto k) { return k <= q && q - k <= 70; }, given);
    check(
        dsl::ir_of<whole::window_of_size>, 0.8, [](auto, auto, auto q, auto k) { return k <= q && q - k < 90; }, given);
    check(
        dsl::ir_of<whole::documents>, 0.7, [&](auto, auto, auto q, auto k) { return document(q) == document(k); },
        given);
    check(
        dsl::ir_of<whole::no_later>, 0.7, [&](auto, auto, auto q, auto k) { return document(k) <= document(q); },
        given);
    check(
        dsl::ir_of<whole::earlier>, 0.7, [&](auto, auto, auto q, auto k) { return document(k) < document(q); }, given);
    check(
        dsl::ir_of<whole::no_earlier>, 0.7, [&](auto, auto, auto q, auto k) { return document(k) >= document(q); },
        given);
    check(dsl::ir_of<whole::later>, 0.7, [&](auto, auto, auto q, auto k) { return document(k) > document(q); }, given);
    check(
        dsl::ir_of<whole::others>, 0.7, [&](auto, auto, auto q, auto k) { return document(k) != document(q); }, given);
    check(
        dsl::ir_of<whole::documents_of_batch>, 0.7,
        [&](auto b, auto, auto q, auto k) {
            return k <= q && t.of_batch[at(b * tokens + q)] == t.of_batch[at(b * tokens + k)];
        },
        given);
    check(
        dsl::ir_of<whole::global_or_window>, 0.7,
        [&](auto, auto, auto q, auto k) { return t.global[at(k)] || std::abs(q - k) <= 30; }, given);
    check(dsl::ir_of<whole::local_blocks>, 0.7, [](auto, auto, auto q, auto k) { return q / 128 == k / 128; }, given);
    check(
        dsl::ir_of<whole::strided>, 0, [](auto, auto, auto q, auto k) { return ((q - k) % 200 + 200) % 200 < 50; },
        given);
    check(
        dsl::ir_of<whole::levels>, 0.2,
        [&](auto, auto, auto q, auto k) { return t.level[at(q)] >= k % 3 || std::abs(q - k) < 40; }, given);
    check(
        dsl::ir_of<whole::reaches>, 0.4,
        [&](auto, auto h, auto q, auto k) { return k <= q && q - k <= t.reach[at(h)]; }, given);
    check(
        dsl::ir_of<whole::by_table>, 0.5,
        [&](auto, auto, auto q, auto k) { return t.by_document[at(document(q))] > k; }, given);
    check(
        dsl::ir_of<whole::of_pairs>, 0.4,
        [&](auto, auto, auto q, auto k) { return k <= q && t.dense[at(q * tokens + k)]; }, given);
    check(
        dsl::ir_of<whole::bits>, 0.1,
        [](auto, auto, auto q, auto k) { return ((q >> 7) ^ (k >> 7)) == 0 || (k & 512) == 0; }, given);
    check(
        dsl::ir_of<whole::around>, 0.02,
        [](auto, auto, auto q, auto k) { return static_cast<std::int32_t>(q * 5000000 + k * 3000000) < 0; }, given);
    check(
        dsl::ir_of<whole::shifted>, 0,
        [](auto, auto, auto q, auto k) {
            return static_cast<std::int32_t>(k << 22) > static_cast<std::int32_t>(q << 22);
        },
        given);
    check(
        dsl::ir_of<whole::chosen>, 0.8,
        [](auto, auto, auto q, auto k) { return q < 500 ? k < 100 : std::abs(q - k) < 60; }, given);
}

TEST_CASE("keys end where lengths say, and of what is not as it should be nothing is said") {
    const tables t;
    auto given = t.arguments();
    const std::vector<std::int32_t> lengths{430, 430};
    given.push_back({.name = "lengths", .view = tensor(lengths.data(), {2})});
    check(dsl::ir_of<whole::is_causal>, 0.8, [](auto, auto, auto q, auto k) { return k <= q; }, given, 430);

    const auto says = [](std::vector<detail::named_argument> arguments) {
        const graph_ir& graph = dsl::ir_of<whole::by_table>;
        const mpi::planning of{.tokens = tokens};
        const mpi::chunks all = mpi::cut(tokens, 10);
        const mpi::detail::deciders decide = mpi::detail::deciders_of(graph, false);
        mpi::detail::whole_chunks whole(graph, decide, of, arguments, all, 0, all.count());
        int said = 0;
        for (int q = 0; q < all.count(); ++q)
            for (int k = 0; k < all.count(); ++k) said += whole.visible(q, k).has_value();
        return said;
    };
    CHECK(says(t.arguments()) > 0);
    auto short_one = t.arguments(), beyond = short_one, others = short_one;
    short_one[0].view = tensor(t.document.data(), {tokens - 1});
    beyond[1].view = tensor(t.by_document.data(), {std::ssize(t.by_document) - 1});
    others[0].view = tensor(t.of_batch.data(), {tokens});
    CHECK(says(short_one) == 0);
    CHECK(says(beyond) == 0);
    CHECK(says(others) == 0);
    CHECK(says({}) == 0);
}

TEST_CASE("a mask that counts heads or batch elements depends on how many there are") {
    CHECK(mpi::detail::deciders_of(dsl::ir_of<whole::by_heads>, false).by_head);
    CHECK(mpi::detail::deciders_of(dsl::ir_of<whole::by_key_heads>, false).by_head);
    CHECK(mpi::detail::deciders_of(dsl::ir_of<whole::by_batches>, false).by_batch);
    CHECK_FALSE(mpi::detail::deciders_of(dsl::ir_of<whole::is_causal>, false).by_head);
    CHECK_FALSE(mpi::detail::deciders_of(dsl::ir_of<whole::is_causal>, false).by_batch);
}
