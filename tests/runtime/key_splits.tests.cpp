// The numbers that a call passes to a kernel of decode, and its threads: by the keys in use, not by the slots.
#include "by_hand.hpp"
#include "execution/call_threads.hpp"
#include "execution/pool.hpp"

#include <attune/runtime/explain.hpp>

#include <catch2/catch_test_macros.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <thread>
#include <utility>

namespace {

using namespace by_hand;

/// The last numbers of a kernel, and the threads that it was given for its tasks; one if the caller does them all.
struct told {
    std::int32_t splits, longest;
    int threads;
    bool operator==(const told&) const = default;
};
told last;

int run_tasks(void** arguments) {
    const auto number = [&](int at) { return *static_cast<const std::int32_t*>(arguments[at]); };
    last = {number(4), number(5), 1};  // behind the user context, q, k and kv_lengths
    const auto nothing = [](void*, int, std::uint8_t*) { return 0; };
    return halide_do_par_for(*static_cast<void**>(arguments[0]), nothing, 0, 64, nullptr);
}

const attune::parallel_for notes_threads = [](int count, int threads, const std::function<void(int)>& task) {
    for (int i = 0; i < count; ++i) task(i);
    last.threads = threads;  // last: the tasks may be kernels, which note theirs
};

/// Four heads over two key heads, blocks of 32 keys, 16 splits at most.
class decode_call {
public:
    explicit decode_call(std::int64_t slots, std::vector<std::int32_t> lengths = {}, std::int64_t queries = 1)
        : lengths_(std::move(lengths)),
          batches_(std::max<std::int64_t>(static_cast<std::int64_t>(lengths_.size()), 1)),
          q_(static_cast<std::size_t>(batches_ * 4 * queries * 8)),
          k_(static_cast<std::size_t>(batches_ * 2 * slots * 8)),
          lse_(static_cast<std::size_t>(batches_ * 4 * queries)) {
        const node_id query = graph_.q(), key = graph_.k();
        graph_.output("lse", graph_.add(operation::log_sum_exp, kind::row, {graph_.scores(query, key)}));
        kernels_ = kernels_of(graph_);
        kernels_[0].call = run_tasks, kernels_[0].key_splits = 16, kernels_[0].splits.of_row = 100;
        given_ = {view("q", attune::tensor(q_.data(), {batches_, 4, queries, 8})),
                  view("k", attune::tensor(k_.data(), {batches_, 2, slots, 8})),
                  view("lse", attune::tensor(lse_.data(), {batches_, 4, queries}))};
        if (!lengths_.empty()) give("kv_lengths", attune::tensor(lengths_.data(), {batches_}));
    }
    decode_call(const decode_call&) = delete;

    void give(std::string_view name, attune::tensor t) { given_.push_back(view(name, t)); }
    attune::kernel& kernel() { return kernels_[0]; }
    std::vector<std::int32_t>& lengths() { return lengths_; }
    arguments& given() { return given_; }
    attune::kernel_table table() const {
        return {.version = attune::kernel_table_version,
                .variant = "by::hand",
                .graph = graph_.graph_ir(),
                .kernels = kernels_};
    }
    told run(bool deterministic = false) const {
        const attune::kernel_table made = table();
        attune::detail::call(made, given_, {.threads = 4, .deterministic = deterministic, .pool = &notes_threads});
        return last;
    }
    attune::explanation explain() const {
        const attune::kernel_table made = table();
        return attune::detail::explain(made, given_, {.threads = 4});
    }

private:
    graph graph_;
    std::vector<attune::kernel> kernels_;
    std::vector<std::int32_t> lengths_;
    std::int64_t batches_;
    std::vector<float> q_, k_, lse_;
    arguments given_;
};

}  // namespace

TEST_CASE("splits and threads of decode follow the keys in use, however many slots there are", "[splits]") {
    for (const std::int64_t slots : {4096, 8192}) {
        CHECK(decode_call(slots, {0}).run() == told{1, 0, 1});
        CHECK(decode_call(slots, {32}).run() == told{1, 32, 1});
        CHECK(decode_call(slots, {512}).run() == told{8, 512, 1});
        CHECK(decode_call(slots, {4000}).run() == told{16, 4000, 1});
        CHECK(decode_call(slots, {32, 512}).run() == told{8, 512, 1});
    }
    CHECK(decode_call(64).run() == told{1, 64, 1});
    CHECK(decode_call(8192).run() == told{16, 8192, 2});
    CHECK(decode_call(16384).run() == told{16, 16384, 4});
}

TEST_CASE("a prepared call of decode looks at its lengths each time", "[splits]") {
    decode_call of(8192, {32});
    const attune::kernel_table table = of.table();
    const auto prepared = attune::detail::prepare(table, of.given(), {.threads = 4, .pool = &notes_threads});
    attune::detail::call(*prepared);
    CHECK(last == told{1, 32, 1});
    of.lengths()[0] = 8192;
    attune::detail::call(*prepared);
    CHECK(last == told{16, 8192, 2});
}

TEST_CASE("deterministic decode has as many splits as its kernel makes, whatever the lengths are", "[splits]") {
    CHECK(decode_call(8192, {32}).run(true) == told{16, 32, 1});
    CHECK(decode_call(64).run(true) == told{16, 64, 1});
}

TEST_CASE("keys that a formula hides are neither shared out nor work for threads", "[splits]") {
    decode_call of(16384, {16000});
    of.kernel().visible_keys = {.constant = 68};
    CHECK(of.run() == told{1, 16000, 1});
    of.kernel().visible_keys = {.constant = 8192};
    CHECK(of.run() == told{16, 16000, 2});
}

TEST_CASE("explain says the splits, their memory and the threads of the keys in use", "[splits][explain]") {
    const attune::explanation few = decode_call(8192, {32}).explain(), all = decode_call(8192, {8192}).explain();
    CHECK((few.key_splits == 1 && few.threads == 1 && few.split_bytes == 100 * 2 * 2));
    CHECK((all.key_splits == 16 && all.threads == 2 && all.split_bytes == 100 * 2 * 2 * 16));
}

TEST_CASE("kernels that run at once share the threads that all of them are worth", "[splits][packed]") {
    decode_call of(4096, {3200, 3200});
    std::vector<std::int32_t> starts{0, 1, 3};  // one query and two
    std::vector<float> queries(4 * 3 * 8), rows(4 * 3);
    of.given()[0] = view("q", attune::tensor(queries.data(), {1, 4, 3, 8}));
    of.given()[2] = view("lse", attune::tensor(rows.data(), {1, 4, 3}));
    of.give("cu_seqlens_q", attune::tensor(starts.data(), {3}));
    CHECK(of.run().threads == 2);
    of.lengths() = {80, 80};
    CHECK(of.run().threads == 1);
}

TEST_CASE("a call that follows another one at once is shared with threads sooner", "[splits]") {
    using attune::detail::call_threads;
    constexpr std::int64_t work = 1'000'000;
    const auto of_next = [](std::int64_t size, int threads, bool are_attunes) {
        return call_threads(size, threads, are_attunes).count();
    };
    const auto rest = [] { std::this_thread::sleep_for(100 * attune::detail::pool::time_awake); };
    // A busy machine may part any two calls, but not a thousand pairs of them.
    bool was_shared = false;
    for (int i = 0; i < 1000 && !was_shared; ++i) of_next(work, 4, true), was_shared = of_next(work, 4, true) == 2;
    CHECK(was_shared);
    for (int i = 0; i < 10; ++i) {
        rest();
        CHECK(of_next(work, 4, true) == 1);     // its threads sleep
        CHECK(of_next(work, 4, false) == 1);    // an application's: nothing is known of them
        CHECK(of_next(work, 1, true) == 1);     // there is but one
        CHECK(of_next(700'000, 4, true) == 1);  // too short in any case
        CHECK(of_next(16 * work, 4, true) == 4);
    }
    CHECK(attune::detail::threads_worth(work, 4) == 1);
    CHECK(attune::detail::threads_worth(2 * work, 4) == 2);
}
