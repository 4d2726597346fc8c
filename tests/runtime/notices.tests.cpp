// What a process is told once on stderr: of formulas that count from the first key, and fewer queries than keys in use.
#include "call/run/notices.hpp"
#include "by_hand.hpp"

#include <catch2/catch_test_macros.hpp>

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

namespace {

using namespace by_hand;

/// What is written to stderr while it lives.
class heard {
public:
    heard() : file_(std::tmpfile()), before_(dup(STDERR_FILENO)) {
        std::fflush(stderr);
        dup2(fileno(file_), STDERR_FILENO);
    }
    heard(const heard&) = delete;
    ~heard() {
        std::fflush(stderr);
        dup2(before_, STDERR_FILENO);
        close(before_);
        std::fclose(file_);
    }
    std::string text() const {
        std::fflush(stderr);
        std::string all(4096, '\0');
        all.resize(static_cast<std::size_t>(pread(fileno(file_), all.data(), all.size(), 0)));
        return all;
    }

private:
    std::FILE* file_;
    int before_;
};

constexpr const char* top_left[] = {"empty rows: a row without a visible key is 0",
                                    "alignment: top-left: query i sees no key after i"};
constexpr const char* bottom_right[] = {"alignment: bottom-right: the last query meets the last key in use"};
constexpr const char* one_over_64 =
    "attune: a call of by::hand has fewer queries than keys (1 and 64): causal counts both from the first, so no query "
    "sees a key after 0; if the queries are the last ones, as over a cache, write causal_bottom_right (said once; "
    "ATTUNE_NOTICES=0 keeps it back)\n";

/// Two sequences of one head: so many queries over so many keys.
class causal_call {
public:
    causal_call(std::int64_t queries, std::int64_t keys, std::vector<std::int32_t> lengths = {})
        : lengths_(std::move(lengths)),
          q_(static_cast<std::size_t>(2 * queries * 8)),
          k_(static_cast<std::size_t>(2 * keys * 8)),
          lse_(static_cast<std::size_t>(2 * queries)) {
        const node_id query = graph_.q(), key = graph_.k();
        graph_.output("lse", graph_.add(operation::log_sum_exp, kind::row, {graph_.scores(query, key)}));
        kernels_ = kernels_of(graph_);
        given_ = {view("q", attune::tensor(q_.data(), {2, 1, queries, 8})),
                  view("k", attune::tensor(k_.data(), {2, 1, keys, 8})),
                  view("lse", attune::tensor(lse_.data(), {2, 1, queries}))};
        if (!lengths_.empty()) given_.push_back(view("kv_lengths", attune::tensor(lengths_.data(), {2})));
        table_ = {.version = attune::kernel_table_version,
                  .variant = "by::hand",
                  .graph = graph_.graph_ir(),
                  .kernels = kernels_,
                  .notes = {.conventions = top_left}};
    }
    causal_call(const causal_call&) = delete;

    attune::kernel_table& table() { return table_; }
    arguments& given() { return given_; }
    void run() const {
        called = &graph_;
        attune::detail::call(table_, given_, {});
    }
    /// What the first such call of a process says.
    std::string said() const {
        attune::detail::was_noticed = false;
        const heard of;
        run();
        return of.text();
    }
    const graph& formula() const { return graph_; }

private:
    graph graph_;
    std::vector<attune::kernel> kernels_;
    std::vector<std::int32_t> lengths_;
    std::vector<float> q_, k_, lse_;
    arguments given_;
    attune::kernel_table table_{};
};

}  // namespace

TEST_CASE("fewer queries than keys that count from the first key are noticed, once a process", "[notices]") {
    const causal_call of(1, 64), others(3, 64);
    CHECK(of.said() == one_over_64);
    const heard again;
    of.run();
    others.run();
    CHECK(again.text().empty());
}

TEST_CASE("a prepared call notices it when it is first made", "[notices]") {
    causal_call of(1, 64, {64, 3});
    called = &of.formula();
    attune::detail::was_noticed = false;
    const heard all;
    const auto prepared = attune::detail::prepare(of.table(), of.given(), {});
    CHECK(all.text().empty());
    attune::detail::call(*prepared);
    attune::detail::call(*prepared);
    CHECK(all.text() == one_over_64);
}

TEST_CASE("whole prompts, keys in use that are the queries' own, and other formulas are not noticed", "[notices]") {
    CHECK(causal_call(64, 64).said().empty());
    CHECK(causal_call(64, 32).said().empty());
    CHECK(causal_call(0, 64).said().empty());
    CHECK(causal_call(5, 64, {5, 2}).said().empty());  // a first chunk, into a cache
    CHECK(causal_call(5, 64, {6, 2}).said().find("fewer queries than keys (5 and 6): ") != std::string::npos);
    causal_call of(1, 64);
    of.table().notes.conventions = bottom_right;
    CHECK(of.said().empty());
    of.table().notes.conventions = {};
    CHECK(of.said().empty());
}

TEST_CASE("packed sequences of which the longest has all keys are not noticed, but those over a cache are",
          "[notices]") {
    std::vector<std::int32_t> starts{0, 64, 69};
    std::vector<float> q(69 * 8), lse(69);
    const auto packed = [&](causal_call& of) {
        of.given()[0] = view("q", attune::tensor(q.data(), {1, 1, starts[2], 8}));
        of.given()[2] = view("lse", attune::tensor(lse.data(), {1, 1, starts[2]}));
        of.given().push_back(view("cu_seqlens_q", attune::tensor(starts.data(), {3})));
        return of.said();
    };
    causal_call padded(64, 64), own(64, 64, {64, 5}), cached(64, 64, {64, 40}), short_ones(5, 64);
    CHECK(packed(padded).empty());
    CHECK(packed(own).empty());
    CHECK(packed(cached).find("fewer queries than keys (5 and 40): ") != std::string::npos);
    starts = {0, 1, 6};
    CHECK(packed(short_ones).find("fewer queries than keys (1 and 64): ") != std::string::npos);
}

TEST_CASE("ATTUNE_NOTICES=0 keeps notices back", "[notices]") {
    const causal_call of(1, 64);
    setenv("ATTUNE_NOTICES", "0", 1);
    CHECK(of.said().empty());
    setenv("ATTUNE_NOTICES", "1", 1);
    CHECK(of.said() == one_over_64);
    unsetenv("ATTUNE_NOTICES");
}
