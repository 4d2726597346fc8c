// Decode over several ranks, as threads of one process, against one call of the reference over all keys.
#include "../shards/variants.hpp"
#include "calls.hpp"
#include "local_transport.hpp"
#include "on_ranks.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <mutex>
#include <random>
#include <set>
#include <string>

using namespace attune;

namespace {

constexpr int numbers_of_ranks[] = {1, 2, 3, 4, 7};

double scattered(int from, int to, std::size_t bytes, int index) {
    return static_cast<double>((static_cast<std::size_t>(from * 7 + to * 13 + index * 29) + bytes) % 11) * 1e-3;
}

/// Keys at random, some ranks without any.
std::vector<std::vector<std::int32_t>> drawn_positions(std::int64_t keys, int ranks) {
    std::mt19937 random(static_cast<unsigned>(ranks));
    std::vector<std::vector<std::int32_t>> of_rank(static_cast<std::size_t>(ranks));
    for (std::int32_t t = 0; t < keys; ++t) of_rank[random() % of_rank.size() / 2 * 2].push_back(t);
    for (auto& each : of_rank) std::ranges::shuffle(each, random);
    return of_rank;
}

struct checked {
    double worst = 0;
    bool as_planned = true;
    std::int64_t sent = 0;
};

template <const auto& Whole, const auto& Shard>
checked differences(const support::shape& shape, const std::vector<std::int32_t>& lengths = {}) {
    const graph_ir of_whole = dsl::ir_of<Whole>, shard = dsl::ir_of<Shard>;
    const whole_call whole(of_whole, shape, 7, lengths);
    checked all;
    using enum mpi::arrangement;
    for (const int ranks : numbers_of_ranks)
        for (const auto how : {best, contiguous, zigzag, striped, own}) {
            const auto drawn = drawn_positions(shape.keys, ranks);
            std::mutex one;
            on_ranks(ranks, {.delay = scattered, .eager = 100}, [&](std::unique_ptr<mpi::transport> carrier) {
                mpi::context world(std::move(carrier));
                mpi::planning what = decode_of(shape);
                what.layout = how;
                if (how == own) what.positions = drawn[static_cast<std::size_t>(world.rank())];
                const mpi::layout plan = mpi::detail::plan(world, what, to_plan<Shard>(whole.call, {}), {.threads = 1});
                arguments_of_rank mine(whole.call, of_whole, shard, whole.expected, plan.positions(), true);
                const mpi::traffic done =
                    mpi::detail::run(world, plan, detail::table_of<Shard>(), mine.all, {.threads = 1}, true);
                const std::lock_guard lock(one);
                const mpi::exchange_plan& planned = plan.graphs()[0];
                all.as_planned =
                    all.as_planned && done == mpi::traffic{planned.bytes_sent(), planned.bytes_received(),
                                                           planned.messages_sent(), planned.messages_received()};
                all.worst = std::max(all.worst, mine.largest_difference());
                all.sent += done.bytes_sent;
            });
        }
    return all;
}

template <const auto& Whole, const auto& Shard>
void check(const char* name, const support::shape& shape, const std::vector<std::int32_t>& lengths = {}) {
    const checked all = differences<Whole, Shard>(shape, lengths);
    std::printf("%s, %lld queries: largest error %.1e, %lld bytes sent\n", name, static_cast<long long>(shape.queries),
                all.worst, static_cast<long long>(all.sent));
    CHECK(all.worst < 2e-5);
    CHECK(all.as_planned);
    CHECK(all.sent > 0);
}

}  // namespace

TEST_CASE("decode over 1 to 7 ranks comes to one call, and sends states as planned") {
    support::shape shape{.batches = 2, .heads = 4, .key_heads = 2, .queries = 1, .keys = 900};
    check<sharded::windowed, sharded::windowed_shard>("window, slopes, sinks", shape);
    check<sharded::windowed, sharded::windowed_shard>("with lengths", shape, {900, 77});
    check<sharded::windowed, sharded::windowed_shard>("with an empty sequence", shape, {0, 301});
    shape.queries = 16;
    check<sharded::windowed, sharded::windowed_shard>("window, slopes, sinks", shape);
    shape.queries = 3, shape.keys = 5;  // fewer keys than ranks
    check<sharded::windowed, sharded::windowed_shard>("window, slopes, sinks", shape);
    shape.keys = 0;
    check<sharded::windowed, sharded::windowed_shard>("no keys", shape);
    shape.keys = 333;
    check<sharded::documents, sharded::documents_shard>("documents, causal from the front", shape);
    check<sharded::sigmoid_attention, sharded::sigmoid_shard>("causal sigmoids", shape);
}

namespace {

/// The bits of all outputs, which are the same on all ranks.
std::vector<float> results(int ranks, mpi::arrangement how, const whole_call& whole, const support::shape& shape,
                           bool deterministic) {
    const graph_ir of_whole = dsl::ir_of<sharded::windowed>, shard = dsl::ir_of<sharded::windowed_shard>;
    std::vector<std::vector<float>> got(static_cast<std::size_t>(ranks));
    on_ranks(ranks, {.delay = scattered}, [&](std::unique_ptr<mpi::transport> carrier) {
        mpi::context world(std::move(carrier));
        mpi::planning what = decode_of(shape);
        what.layout = how;
        const attune::options by{.threads = 1 + world.rank() % 2, .deterministic = deterministic};
        const mpi::layout plan = mpi::detail::plan(world, what, to_plan<sharded::windowed_shard>(whole.call, {}), by);
        arguments_of_rank mine(whole.call, of_whole, shard, whole.expected, plan.positions(), true);
        const mpi::traffic done =
            mpi::detail::run(world, plan, detail::table_of<sharded::windowed_shard>(), mine.all, by, true);
        expect(done.bytes_sent == plan.graphs()[0].bytes_sent());
        expect(mine.largest_difference() < 2e-5);
        for (const auto& each : mine.outputs())
            got[static_cast<std::size_t>(world.rank())].insert(got[static_cast<std::size_t>(world.rank())].end(),
                                                               each.begin(), each.end());
    });
    for (const auto& each : got) CHECK(std::memcmp(each.data(), got[0].data(), got[0].size() * sizeof(float)) == 0);
    return got[0];
}

}  // namespace

TEST_CASE("all ranks get the same bits, and with options::deterministic the same of any number of ranks") {
    const support::shape shape{.batches = 2, .heads = 4, .key_heads = 2, .queries = 2, .keys = 2900};
    for (const std::vector<std::int32_t>& lengths : {std::vector<std::int32_t>{}, {2811, 513}}) {
        whole_call whole(dsl::ir_of<sharded::windowed>, shape, 9, lengths);
        const std::vector<float> alone = results(1, mpi::arrangement::best, whole, shape, true);
        for (const int ranks : numbers_of_ranks)
            for (const auto how : {mpi::arrangement::best, mpi::arrangement::striped, mpi::arrangement::zigzag}) {
                CAPTURE(ranks, static_cast<int>(how));
                const std::vector<float> got = results(ranks, how, whole, shape, true);
                CHECK(std::memcmp(got.data(), alone.data(), alone.size() * sizeof(float)) == 0);
                results(ranks, how, whole, shape, false);
            }
    }
}

namespace {

constexpr support::shape small{.heads = 2, .key_heads = 1, .queries = 2, .keys = 90};
using given_arguments = std::vector<detail::named_argument>;

detail::named_argument& of_name(given_arguments& given, std::string_view name) {
    return *std::ranges::find(given, name, &detail::named_argument::name);
}

/// The sentence that both of two ranks throw; then the ranks make a call that is right.
std::string refusal_of(
    const std::function<void(mpi::context&, const mpi::planning&, const mpi::layout&, given_arguments&)>& wrong) {
    const graph_ir of_whole = dsl::ir_of<sharded::windowed>, shard = dsl::ir_of<sharded::windowed_shard>;
    const whole_call whole(of_whole, small, 3);
    std::string thrown[2];
    on_ranks(2, {}, [&](std::unique_ptr<mpi::transport> carrier) {
        mpi::context world(std::move(carrier));
        const mpi::planning what = decode_of(small);
        const mpi::layout good = mpi::detail::plan(world, what, to_plan<sharded::windowed_shard>(whole.call, {}), {});
        arguments_of_rank mine(whole.call, of_whole, shard, whole.expected, good.positions(), true);
        const given_arguments right = mine.all;
        try {
            wrong(world, what, good, mine.all);
        } catch (const error& refusal) {
            thrown[world.rank()] = refusal.what();
        }
        mpi::detail::run(world, good, detail::table_of<sharded::windowed_shard>(), right, {.threads = 1});
        expect(mine.largest_difference() < 2e-5);
    });
    CHECK(thrown[0] == thrown[1]);
    return thrown[0];
}

void has(const std::string& sentence, std::string_view part) {
    INFO(sentence);
    CHECK(sentence.find(part) != std::string::npos);
}

}  // namespace

TEST_CASE("what one rank cannot decode, all refuse, and they go on") {
    const auto& table = detail::table_of<sharded::windowed_shard>();
    const auto planned = [](mpi::context& world, const mpi::planning& what, const options& how = {}) {
        const mpi::detail::graph_to_plan graphs[] = {{detail::table_of<sharded::windowed_shard>(), {}}};
        return mpi::detail::plan(world, what, graphs, how);
    };
    const auto refuses_plan = [&](std::string_view sentence, const auto& change) {
        has(refusal_of([&](mpi::context& world, mpi::planning what, auto&, auto&) {
                if (world.rank() == 1) change(what);
                planned(world, what);
            }),
            sentence);
    };
    refuses_plan("one number of queries on all ranks, got 2 on 0 and 3 on 1", [](auto& what) { what.queries = 3; });
    refuses_plan("one number of queries on all ranks, got 2 on 0 and none on 1", [](auto& what) { what.queries = 0; });
    refuses_plan("on rank 1: expected queries of decode, or 0 for those of the tokens, got -1",
                 [](auto& what) { what.queries = -1; });
    refuses_plan("on rank 1: expected no stages in a plan of decode, where no keys are sent, got 2",
                 [](auto& what) { what.stages = 2; });
    refuses_plan(
        "on rank 1: expected a layout of decode that is contiguous, zigzag, striped or the caller's own, got "
        "documents whole; try",
        [](auto& what) { what.layout = mpi::arrangement::documents; });
    const auto refuses_call = [&](std::string_view sentence, const auto& change) {
        has(refusal_of([&](mpi::context& world, auto&, const mpi::layout& plan, given_arguments& given) {
                if (world.rank() == 1) change(given);
                mpi::detail::run(world, plan, table, given, {});
            }),
            sentence);
    };
    refuses_call("on rank 1: expected a tensor for the output lse", [](given_arguments& given) {
        std::erase_if(given, [](const auto& each) { return each.name == "lse"; });
    });
    refuses_call("on rank 1: expected", [](given_arguments& given) {  // another number of keys than the plan's
        tensor& k = of_name(given, "k").view;
        k = mpi::detail::rows_of(k, 2, 0, k.extent(2) - 1);
    });
    refuses_call("on rank 1: expected a pointer to the elements of out, got null", [](given_arguments& given) {
        tensor& o = of_name(given, "out").view;
        o = tensor(static_cast<float*>(nullptr), o.shape());
    });
    refuses_call("on rank 1: expected value depth 32 in out, as planned, got f32 (1, 2, 2, 16); try",
                 [](given_arguments& given) {
                     tensor& o = of_name(given, "out").view;
                     o = tensor(static_cast<float*>(o.mutable_data()), {1, 2, 2, 16});
                 });
    has(refusal_of([&](mpi::context& world, const mpi::planning&, const mpi::layout& plan, given_arguments& given) {
            mpi::detail::run(world, plan, table, given, {.deterministic = true});
        }),
        "expected a plan that was made with options::deterministic, got one without it; try plan<");
    std::vector<std::int32_t> own[2];
    for (std::int32_t t = 0; t < 90; ++t) own[t % 2].push_back(t);
    has(refusal_of([&](mpi::context& world, mpi::planning what, auto&, auto&) {
            what.layout = mpi::arrangement::own, what.positions = own[world.rank()];
            planned(world, what, {.deterministic = true});
        }),
        "expected ascending positions for options::deterministic, and each 256 from a multiple of that on on one rank, "
        "got 1 on 1 and 0 on 0; try");
}

TEST_CASE("each death in decode is the same sentence on all survivors, by the deadline") {
    const graph_ir of_whole = dsl::ir_of<sharded::windowed>, shard = dsl::ir_of<sharded::windowed_shard>;
    const whole_call whole(of_whole, small, 3);
    for (const int ranks : {2, 3, 5})
        for (int dead = 0; dead < ranks; ++dead)
            for (int at = 0; at < 8; ++at) {
                CAPTURE(ranks, dead, at);
                std::set<std::string> thrown;
                int survivors = 0, succeeded = 0;
                std::mutex one;
                on_ranks(ranks, {.dies = dead, .dies_at = at}, [&](std::unique_ptr<mpi::transport> carrier) {
                    mpi::context world(std::move(carrier));
                    std::string sentence;
                    try {
                        const mpi::layout plan = mpi::detail::plan(
                            world, decode_of(small), to_plan<sharded::windowed_shard>(whole.call, {}), {});
                        arguments_of_rank mine(whole.call, of_whole, shard, whole.expected, plan.positions(), true);
                        for (int call = 0; call < 4; ++call)
                            mpi::detail::run(world, plan, detail::table_of<sharded::windowed_shard>(), mine.all,
                                             {.threads = 1});
                    } catch (const mpi::context_failure& failure) {
                        sentence = failure.what();
                        expect(world.carrier().now() < 61);
                    }
                    const std::lock_guard lock(one);
                    if (world.rank() == dead) return;
                    ++survivors;
                    if (sentence.empty())
                        ++succeeded;
                    else
                        thrown.insert(sentence);
                });
                CHECK(survivors == ranks - 1);
                CHECK(succeeded == 0);
                REQUIRE(thrown.size() == 1);
                CHECK(thrown.begin()->find("rank " + std::to_string(dead)) != std::string::npos);
            }
}

TEST_CASE("a cache grows between the calls of a prepared decode") {
    using namespace attune::dsl;
    support::shape shape{.batches = 2, .heads = 4, .key_heads = 2, .queries = 1, .keys = 600};
    const graph_ir of_whole = ir_of<sharded::windowed>, shard = ir_of<sharded::windowed_shard>;
    constexpr std::int32_t lengths[] = {1, 255, 256, 257, 600};
    std::list<whole_call> steps;
    for (const std::int32_t length : lengths) steps.emplace_back(of_whole, shape, 4u, std::vector{length, length / 2});
    for (const int ranks : {1, 3})
        on_ranks(ranks, {}, [&](std::unique_ptr<mpi::transport> carrier) {
            mpi::context world(std::move(carrier));
            const mpi::layout plan = mpi::plan<sharded::windowed_shard>(world, decode_of(shape));
            std::list<arguments_of_rank> of_steps;
            for (const whole_call& each : steps)
                of_steps.emplace_back(each.call, of_whole, shard, each.expected, plan.positions(), true);
            arguments_of_rank mine(steps.front().call, of_whole, shard, steps.front().expected, plan.positions(), true);
            std::vector<std::int32_t> in_use(2);
            const auto view = [&](std::string_view name) { return of_name(mine.all, name).view; };
            const auto call = mpi::prepare<sharded::windowed_shard>(
                world, plan, q = view("q"), k = view("k"), v = view("v"), sharded::by_key = view("by_key"),
                sharded::slopes = view("slopes"), sharded::sinks = view("sinks"),
                of_shard::lengths = tensor(in_use.data(), {2}), out = view("out"), lse = view("lse"),
                attune::options{.threads = 1});
            for (const std::int32_t* length = lengths; const arguments_of_rank& now : of_steps) {
                mine.hold_those_of(now);  // keys beyond the lengths are NaN
                in_use = {*length, *length / 2}, ++length;
                call();
                expect(mine.largest_difference() < 2e-5);
            }
        });
}

TEST_CASE("a plan of decode says what it sends") {
    on_ranks(3, {}, [](std::unique_ptr<mpi::transport> carrier) {
        mpi::context world(std::move(carrier));
        const mpi::layout plan =
            mpi::plan<sharded::windowed_shard>(world, {.heads = 8, .key_heads = 2, .tokens = 3000, .queries = 2});
        const std::string said = plan.explain().text();
        for (const char* part : {"striped", "2 queries on every rank", "a state is 2.11 KB", "what a ring sends"})
            if (said.find(part) == std::string::npos) throw std::logic_error(said);
        expect(plan.graphs()[0].predicted.seconds > 0 && plan.graphs()[0].predicted.received == 4 * 2112);
    });
}
