// The limits of a plan and of a call over ranks: the last number that is taken, and the first that is refused.
#include "../shards/variants.hpp"
#include "calls.hpp"
#include "local_transport.hpp"
#include "plan/planning_parts.hpp"

#include <attune/mpi/memory.hpp>
#include <attune/mpi/stages.hpp>
#include <attune/mpi/work.hpp>

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace attune;

namespace {

/// The sentence of one rank's refusal; "" if it is not refused.
std::string said_to_one(const std::function<void(mpi::context&)>& work) {
    std::string said;
    mpi::run_local(1, {}, [&](std::unique_ptr<mpi::transport> carrier) {
        mpi::context world(std::move(carrier));
        try {
            work(world);
        } catch (const error& refusal) {
            said = refusal.what();
        }
    });
    return said;
}

std::string said_of_plan(const mpi::planning& what, const options& how = {.threads = 1}) {
    return said_to_one([&](mpi::context& world) {
        const std::vector<mpi::detail::graph_to_plan> graphs{{detail::table_of<sharded::windowed_shard>(), {}}};
        mpi::detail::plan(world, what, graphs, how);
    });
}

void refuses_plan(const mpi::planning& what, std::string_view sentence, const options& how = {.threads = 1}) {
    const std::string said = said_of_plan(what, how);
    INFO(said << " where expected: " << sentence);
    CHECK(said.find(sentence) != std::string::npos);
}

using given_arguments = std::vector<detail::named_argument>;

detail::named_argument& of_name(given_arguments& given, std::string_view name) {
    return *std::ranges::find(given, name, &detail::named_argument::name);
}

/// A call of one rank, of which something is changed.
template <const auto& Whole, const auto& Shard>
std::string said_of_call(const std::vector<std::string>& deciding,
                         const std::function<void(mpi::planning&, given_arguments&)>& change,
                         const options& how = {.threads = 1}) {
    const support::shape shape{.heads = 2, .key_heads = 1, .queries = 30, .keys = 30};
    const whole_call whole(dsl::ir_of<Whole>, shape, 3);
    return said_to_one([&](mpi::context& world) {
        mpi::planning what = planning_of(shape);
        std::vector<std::int32_t> all(30);
        for (std::size_t t = 0; t < all.size(); ++t) all[t] = static_cast<std::int32_t>(t);
        arguments_of_rank mine(whole.call, dsl::ir_of<Whole>, dsl::ir_of<Shard>, whole.expected, all);
        change(what, mine.all);
        const mpi::layout plan = mpi::detail::plan(world, what, to_plan<Shard>(whole.call, deciding), {.threads = 1});
        mpi::detail::run(world, plan, detail::table_of<Shard>(), mine.all, how);
    });
}
std::string said_of_documents(const std::function<void(mpi::planning&, given_arguments&)>& change) {
    return said_of_call<sharded::documents, sharded::documents_shard>({"document"}, change);
}

}  // namespace

TEST_CASE("plans at their limits are made") {
    CHECK(said_of_plan({.tokens = 5}).empty());
    CHECK(said_of_plan({.tokens = 0}).empty());
    CHECK(said_of_plan({.tokens = 5, .stages = mpi::detail::most_stages}).empty());
    CHECK(said_of_plan({.batches = 2, .heads = 4, .key_heads = 2, .tokens = 5}).empty());
    const double weight = 0.5;
    CHECK(said_of_plan({.tokens = 5, .weights = std::span(&weight, 1)}).empty());
    const std::vector<std::int32_t> own{1, 0};
    CHECK(said_of_plan({.tokens = 2, .layout = mpi::arrangement::own, .positions = own}).empty());
}

TEST_CASE("a plan has 2^31 - 1 tokens at most") {
    constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
    CHECK_NOTHROW(mpi::detail::check({.tokens = most}, {}));
    CHECK_THROWS_AS(mpi::detail::check({.tokens = most + 1}, {}), error);
}

TEST_CASE("where there is no memory for what ranks send, that is said") {
    CHECK_NOTHROW(mpi::detail::memory_of(0));
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    SKIP("the sanitizer ends a program that asks for so much");
#endif
    CHECK_THROWS_AS(mpi::detail::memory_of(std::size_t{1} << 62), std::bad_alloc);
}

TEST_CASE("plans beyond their limits are refused") {
    for (const auto& [what, got] :
         {std::pair(mpi::planning{.batches = 0, .tokens = 5}, "batches 0, heads 1, key_heads 1"),
          {{.heads = 0, .tokens = 5}, "batches 1, heads 0, key_heads 1"},
          {{.key_heads = 0, .tokens = 5}, "batches 1, heads 1, key_heads 0"},
          {{.heads = 3, .key_heads = 2, .tokens = 5}, "batches 1, heads 3, key_heads 2"}})
        refuses_plan(what, std::string("expected batch elements, and heads that share key heads evenly, got ") + got);
    for (const std::int64_t tokens : {std::int64_t{-1}, std::int64_t{1} << 40})
        refuses_plan({.tokens = tokens}, "expected tokens of all ranks together, at most 2147483647, got ");
    for (const int stages : {-1, mpi::detail::most_stages + 1})
        refuses_plan({.tokens = 5, .stages = stages}, "expected 0 to 8 stages, got " + std::to_string(stages));
    const double weights[] = {1, 2};
    refuses_plan({.tokens = 5, .weights = weights}, "expected a weight for each of 1 graphs, got 2");
    const std::vector<std::int32_t> below{0, -1}, beyond{0, 2};
    refuses_plan({.tokens = 2, .layout = mpi::arrangement::own, .positions = below},
                 "expected each position from 0 to 1 on one rank, got -1 on 0");
    refuses_plan({.tokens = 2, .layout = mpi::arrangement::own, .positions = beyond}, "got 2 on 0");
    for (const mpi::rates& speed : {mpi::rates{.read = 0}, {.read = -1}})
        refuses_plan({.tokens = 5, .speed = speed}, "expected finite rates of at least 0, and bytes, merged and read");
}

TEST_CASE("plans of decode have one query or more, no stages, and the caller's positions in order where bits count") {
    CHECK(said_of_plan({.tokens = 5, .queries = 1}).empty());
    refuses_plan({.tokens = 5, .queries = 1, .stages = 1}, "expected no stages in a plan of decode");
    const std::vector<std::int32_t> ascending{0, 1}, descending{1, 0};
    mpi::planning own{.tokens = 2, .queries = 1, .layout = mpi::arrangement::own, .positions = ascending};
    CHECK(said_of_plan(own, {.deterministic = true}).empty());
    own.positions = descending;
    CHECK(said_of_plan(own).empty());
    refuses_plan(own, "expected ascending positions for options::deterministic", {.deterministic = true});
    const std::string said = said_to_one([](mpi::context& world) {
        const auto& table = detail::table_of<sharded::windowed_shard>();
        const support::shape shape{.queries = 1, .keys = 5};
        const whole_call whole(dsl::ir_of<sharded::windowed>, shape, 3);
        const mpi::layout plan = mpi::detail::plan(world, {.tokens = 5, .queries = 1},
                                                   to_plan<sharded::windowed_shard>(whole.call, {}), {.threads = 1});
        arguments_of_rank mine(whole.call, dsl::ir_of<sharded::windowed>, dsl::ir_of<sharded::windowed_shard>,
                               whole.expected, plan.positions(), true);
        mpi::detail::prepare(world, plan, table, mine.all, {.deterministic = true});
    });
    INFO(said);
    CHECK(said.find("expected a plan that was made with options::deterministic") != std::string::npos);
}

TEST_CASE("with options::deterministic a rank of one token is asked about, and one of none is not") {
    const auto said_to = [](int ranks, std::int64_t tokens) {
        std::string said;
        std::mutex one;
        mpi::run_local(ranks, {}, [&](std::unique_ptr<mpi::transport> carrier) {
            mpi::context world(std::move(carrier));
            const std::vector<mpi::detail::graph_to_plan> graphs{{detail::table_of<sharded::windowed_shard>(), {}}};
            try {
                mpi::detail::plan(world, {.tokens = tokens}, graphs, {.threads = 1, .deterministic = true});
            } catch (const error& refusal) {
                const std::lock_guard lock(one);
                said = refusal.what();
            }
        });
        return said;
    };
    CHECK(said_to(4, 3).empty());
    CHECK(said_to(17, 17).find("got 1 on rank 0, for which another kernel is") != std::string::npos);
}

TEST_CASE("a call as it was planned is made, and its refusals name what is not so") {
    CHECK(said_of_documents([](auto&, auto&) {}).empty());
    const std::string said = said_of_call<sharded::documents, sharded::documents_shard>(
        {"document"}, [](auto&, auto&) {}, {.deterministic = true});
    CHECK(said.find("expected a plan that was made with options::deterministic, got one") != std::string::npos);
    const auto refuses = [](std::string_view sentence, const auto& change) {
        const std::string said = said_of_documents(change);
        INFO(said << " where expected: " << sentence);
        CHECK(said.find(sentence) != std::string::npos);
    };
    refuses("expected q in host memory, got ", [](mpi::planning&, given_arguments& given) {
        tensor& q = of_name(given, "q").view;
        q = q.in(memory::cuda);
    });
    refuses("expected head extent 4 in q, as planned, got ", [](mpi::planning& what, auto&) { what.heads = 4; });
    refuses("expected batch extent 2 in q, as planned, got ", [](mpi::planning& what, auto&) { what.batches = 2; });
    refuses("expected document as planned, got none; try passing document = ...",
            [](mpi::planning&, given_arguments& given) {
                std::erase_if(given, [](const auto& each) { return each.name == "document"; });
            });
    refuses("expected a tensor for the output lse of sharded::documents_shard, got none",
            [](mpi::planning&, given_arguments& given) {
                of_name(given, "lse") = {.name = "lse", .is = detail::named_argument::form::real, .real = 1};
            });
}

TEST_CASE("a variant that is no shard has no plan, and a plan of other ranks makes no call") {
    kernel_table table = detail::table_of<sharded::documents_shard>();  // no kernel is called
    const graph_ir graph = dsl::ir_of<sharded::documents>;
    table.graph = graph, table.variant = "sharded::documents";
    for (const std::int64_t queries : {0, 1}) {
        const std::string said = said_to_one([&](mpi::context& world) {
            const std::vector<mpi::detail::graph_to_plan> graphs{{table, {}}};
            mpi::detail::plan(world, {.tokens = 30, .queries = queries}, graphs, {.threads = 1});
        });
        INFO(said);
        CHECK(said.find("expected a shard, which knows the positions of its keys, got sharded::documents; try ") !=
              std::string::npos);
    }
    kernel_table nothing = table;
    nothing.graph.fingerprint = 0;
    const auto run_with_plan_of = [&](mpi::context& world, int rank, int ranks) {
        const mpi::layout of_others({.tokens = 30, .queries = 1}, rank, ranks, mpi::cut(30, ranks), {}, false,
                                    std::vector<mpi::exchange_plan>(1));
        mpi::detail::run(world, of_others, nothing, {}, {.threads = 1});
    };
    for (const int rank : {0, 1}) {
        const std::string said = said_to_one([&](mpi::context& world) { run_with_plan_of(world, rank, 2); });
        INFO(said);
        CHECK(said.find("expected a plan of rank 0 of 1, got one of rank " + std::to_string(rank) + " of 2; try ") !=
              std::string::npos);
    }
    std::string said[2];  // each rank with the other's
    mpi::run_local(2, {}, [&](std::unique_ptr<mpi::transport> carrier) {
        mpi::context world(std::move(carrier));
        try {
            run_with_plan_of(world, 1 - world.rank(), 2);
        } catch (const error& refusal) {
            said[world.rank()] = refusal.what();
        }
    });
    for (const std::string& each : said) {
        INFO(each);
        CHECK(each.find("expected a plan of rank 0 of 2, got one of rank 1 of 2; try ") != std::string::npos);
    }
}

/// A shard whose registry was built by another version.
namespace of_another_version {
using namespace attune::dsl;
inline constexpr auto whole = sharded::attention(mask(sharded::scores, window(3, 3)));
inline constexpr auto part = shard(whole);
kernel_table made{};
}  // namespace of_another_version

template <>
const kernel_table& attune::kernels_of<of_another_version::part, attune::dsl::fingerprint<of_another_version::part>>() {
    return of_another_version::made;
}

namespace {

constexpr int other_versions[] = {kernel_table_version - 1, kernel_table_version + 1};

/// Nothing else of the table is read: an empty graph would be refused in other words.
kernel_table of_version(kernel_table like, int version, const graph_ir& graph = {}) {
    like.version = version, like.graph = graph;
    return like;
}

void names_version(const std::string& said, std::string_view variant, int version) {
    INFO(said);
    CHECK(said.find("expected kernels of " + std::string(variant) + " built for layout " +
                    std::to_string(kernel_table_version) + ", got layout " + std::to_string(version) +
                    "; try building the variant again") != std::string::npos);
}

}  // namespace

TEST_CASE("a plan refuses kernels of another version by name") {
    const auto& forward = detail::table_of<sharded::windowed_shard>();
    for (const kernel_table& like : {forward, detail::table_of<sharded::windowed_gradient_shard>()})
        for (const graph_ir& graph : {graph_ir{}, like.graph})  // decode has no gradients, which is said later
            for (const std::int64_t queries : {0, 1})
                for (const int version : other_versions) {
                    const kernel_table other = of_version(like, version, graph);
                    const std::string said = said_to_one([&](mpi::context& world) {
                        const std::vector<mpi::detail::graph_to_plan> graphs{{forward, {}}, {other, {}}};
                        mpi::detail::plan(world, {.tokens = 30, .queries = queries}, graphs, {.threads = 1});
                    });
                    names_version(said, like.variant, version);
                }
}

TEST_CASE("run and prepare refuse kernels of another version by name") {
    const auto& table = detail::table_of<sharded::windowed_shard>();
    for (const std::int64_t queries : {0, 1})
        for (const int version : other_versions)
            for (const bool prepares : {false, true}) {
                const kernel_table other = of_version(table, version);
                const std::string said = said_to_one([&](mpi::context& world) {
                    const std::vector<mpi::detail::graph_to_plan> graphs{{table, {}}};
                    const auto plan =
                        mpi::detail::plan(world, {.tokens = 30, .queries = queries}, graphs, {.threads = 1});
                    prepares ? void(mpi::detail::prepare(world, plan, other, {}, {.threads = 1}))
                             : void(mpi::detail::run(world, plan, other, {}, {.threads = 1}));
                });
                names_version(said, table.variant, version);
            }
}

TEST_CASE("a variant of another version is refused before its inputs are looked for") {
    kernel_table& made = of_another_version::made;
    made.variant = "of_another_version::part";
    const float slope = 0.05f;
    for (const int version : other_versions) {
        made.version = version;
        const std::string said = said_to_one([&](mpi::context& world) {
            mpi::plan<of_another_version::part>(world, {.tokens = 30}, sharded::slopes = tensor(&slope, {1}));
        });
        names_version(said, made.variant, version);
    }
}

TEST_CASE("a call over ranks refuses strides and extents beyond 2^31 - 1 with the number") {
    constexpr std::int64_t beyond = std::int64_t{1} << 31;
    const auto refuses = [](std::string_view sentence, tensor::extent_list shape, tensor::extent_list strides) {
        const std::string said = said_of_documents([&](mpi::planning&, given_arguments& given) {
            tensor& k = of_name(given, "k").view;
            k = tensor(static_cast<const float*>(k.data()), shape, strides);
        });
        INFO(said);
        CHECK(said.find(sentence) != std::string::npos);
    };
    refuses("a stride of at most 2147483647 elements along key of k, got 2147483648", {1, 1, 30, 32},
            {32, 32, beyond, 1});
    refuses("an extent from 0 to 2147483647 along key of k, got 2147483648", {1, 1, beyond, 32}, {0, 0, 0, 1});
}

TEST_CASE("what decides who needs which keys is looked at before it is read") {
    const auto refuses = [](std::string_view sentence, const tensor& table) {
        const std::string said =
            said_of_documents([&](mpi::planning&, given_arguments& given) { of_name(given, "document").view = table; });
        INFO(said << " where expected: " << sentence);
        CHECK(said.find(sentence) != std::string::npos);
        for (const std::int64_t queries : {0, 1}) {
            const std::string planned = said_to_one([&](mpi::context& world) {
                const std::vector<mpi::detail::graph_to_plan> graphs{
                    {detail::table_of<sharded::documents_shard>(), {{.name = "document", .view = table}}}};
                mpi::detail::plan(world, {.tokens = 30, .queries = queries}, graphs, {.threads = 1});
            });
            INFO(planned << " where expected: " << sentence);
            CHECK(planned.find(sentence) != std::string::npos);
        }
    };
    static const std::int32_t numbers[31]{};
    const std::int64_t tokens[] = {30}, two_axes[] = {30, 1}, fewer_than_none[] = {-1};
    const auto of = [](const void* data, std::span<const std::int64_t> shape) {
        return tensor(element_type::i32, data, shape);
    };
    refuses("a pointer to the elements of document", of(nullptr, tokens));
    refuses("document at an address that is a multiple of 4", of(std::as_bytes(std::span(numbers)).data() + 1, tokens));
    refuses("document with 1 axis", of(numbers, two_axes));
    refuses("an extent from 0 to 2147483647 along position of document", of(numbers, fewer_than_none));
    refuses("document in host memory", of(numbers, tokens).in(memory::cuda));
}

TEST_CASE("what is one for all heads is no other extent than planned, but for q, k and v") {
    static const float slope = 0.05f;
    CHECK(said_of_call<sharded::windowed, sharded::windowed_shard>({}, [](mpi::planning&, given_arguments& given) {
              of_name(given, "slopes").view = tensor(&slope, {1});
          }).empty());
    static const std::vector<float> row(30 * 32);
    const std::string said = said_of_call<sharded::windowed, sharded::windowed_shard>(
        {},
        [](mpi::planning&, given_arguments& given) { of_name(given, "q").view = tensor(row.data(), {1, 1, 30, 32}); });
    INFO(said);
    CHECK(said.find("expected head extent 2 in q, as planned, got ") != std::string::npos);
}

/// By a tensor of keys.
namespace kept_keys {
using namespace attune::dsl;
inline constexpr auto kept = input<"kept", i32>(key);
inline constexpr auto whole = sharded::attention(mask(sharded::scores, kept(kv_idx) == 1));
inline constexpr auto part = shard(whole);
}  // namespace kept_keys

TEST_CASE("a tensor of keys that decides what is visible is given of all tokens, no fewer and no more") {
    kernel_table table = detail::table_of<sharded::sigmoid_shard>();  // no kernel is called
    const graph_ir graph = dsl::ir_of<kept_keys::part>;
    table.graph = graph;
    const mpi::chunks tokens = mpi::cut(100, 2);
    for (const std::int64_t extent : {50, 99, 101}) {
        const std::vector<std::int32_t> kept(static_cast<std::size_t>(extent));
        const given_arguments given{{.name = "kept", .view = tensor(kept.data(), {extent})}};
        CHECK_THROWS_AS(mpi::detail::work_of(table, {.tokens = 100}, given, tokens, 0, tokens.count(), {}), error);
        try {
            mpi::detail::work_of(table, {.tokens = 100}, given, tokens, 0, tokens.count(), {});
        } catch (const error& refusal) {
            const std::string said = refusal.what();
            INFO(said);
            CHECK(said.starts_with("attune: expected all 100 tokens in kept, which decides what is visible, got "));
        }
    }
}
