#include <attune/mpi/agree.hpp>
#include <attune/mpi/context.hpp>
#include <catch2/catch_test_macros.hpp>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#include "local_transport.hpp"
#include "on_ranks.hpp"

namespace {

using namespace attune::mpi;

statement said(const char* shape, const char* call = "run of my::alibi") {
    statement s(call);
    s.add("formula", "my::alibi", "one build on all ranks");
    s.add("shape of k", shape, "tensors of one shape on all ranks");
    return s;
}

std::string sentence(const std::vector<statement>& all) { return disagreement(all).value_or("they agree"); }

/// The sentence that each of so many ranks throws, by rank; "nothing".
template <class Work> std::vector<std::string> thrown(int ranks, Work&& work) {
    std::vector<std::string> all(static_cast<std::size_t>(ranks));
    std::mutex lock;
    on_ranks(ranks, {}, [&](std::unique_ptr<transport> carrier) {
        context world(std::move(carrier));
        std::string mine = "nothing";
        try {
            work(world);
        } catch (const attune::error& e) {
            mine = e.what();
        }
        const std::lock_guard guard(lock);
        all[static_cast<std::size_t>(world.rank())] = mine;
    });
    return all;
}

}  // namespace

TEST_CASE("ranks are listed by runs") {
    const auto listed = [](std::vector<int> ranks) { return list_of_ranks(ranks); };
    CHECK(listed({0}) == "0");
    CHECK(listed({0, 3}) == "0 and 3");
    CHECK(listed({0, 1}) == "0 and 1");
    CHECK(listed({0, 1, 2, 3, 7}) == "0 to 3 and 7");
    CHECK(listed({0, 2, 4, 6, 8, 10, 11}) == "0, 2, 4, 6 and 3 others");
}

TEST_CASE("a statement is the same after a journey") {
    statement one = said("f32 (1, 8)");
    one.refuse("attune: expected x, got y; try z");
    const statement other = statement::of(one.bytes());
    CHECK(other.bytes() == one.bytes());
    CHECK(other.fingerprint() == one.fingerprint());
    CHECK(said("f32 (1, 8)").fingerprint() != said("f32 (1, 9)").fingerprint());
    CHECK(other.refuses());
}

TEST_CASE("what ranks say differently is named, with who says what") {
    const auto a = said("f32 (1, 8, 4096, 64)"), b = said("f32 (1, 8, 4000, 64)");
    CHECK(sentence({a, a, a}) == "they agree");
    CHECK(
        sentence({a, a, a, b}) ==
        "attune: expected one shape of k on all ranks, got f32 (1, 8, 4096, 64) on 0 to 2 and f32 (1, 8, 4000, 64) on "
        "3; try tensors of one shape on all ranks");

    const auto c = said("f32 (1)"), d = said("f32 (2)"), e = said("f32 (3)");
    CHECK(sentence({c, d, a, e, b}).find("got f32 (1) on 0, f32 (2) on 1, f32 (1, 8, 4096, 64) on 2 and 2 others;") !=
          std::string::npos);

    auto more = a;
    more.add("input slopes", "f32 (8)", "the same inputs on all ranks");
    CHECK(sentence({a, more}) ==
          "attune: expected one input slopes on all ranks, got none on 0 and f32 (8) on 1; try the same inputs on all "
          "ranks");

    CHECK(sentence({a, said("f32 (1)", "run of my::window")}) ==
          "attune: expected one call on all ranks, got run of my::alibi on 0 and run of my::window on 1; try the same "
          "calls in the same order on every rank");
}

TEST_CASE("a rank's own refusal is thrown by all") {
    const auto a = said("f32 (1, 8)");
    auto b = said("f32 (1, 9)");
    b.refuse("attune: expected k of 4 axes, got 3; try a batch of 1");
    CHECK(sentence({a, b, a}) == "attune: on rank 1: expected k of 4 axes, got 3; try a batch of 1");
    CHECK(sentence({a, b, b}) == "attune: on ranks 1 and 2: expected k of 4 axes, got 3; try a batch of 1");
    CHECK(sentence({b, b}) == "attune: expected k of 4 axes, got 3; try a batch of 1");
}

TEST_CASE("all ranks throw the same sentence, and the context goes on") {
    for (const int ranks : {1, 2, 3, 8}) {
        CAPTURE(ranks);
        const auto all = thrown(ranks, [](context& world) {
            const auto call = [&](bool odd, bool refuses) {
                world.agree("run of my::alibi", [&](statement& s) {
                    if (refuses) attune::detail::fail("k", "none", "run(..., k = K)");
                    s.add("shape of k", odd ? "f32 (2)" : "f32 (1)", "tensors of one shape on all ranks");
                });
            };
            const bool last = world.rank() + 1 == world.size();
            call(false, false);
            std::string first;
            try {
                call(last, false);
            } catch (const attune::error& e) {
                first = e.what();
            }
            call(false, false);
            try {
                call(false, last);
            } catch (const attune::error& e) {
                first += e.what();
            }
            call(false, false);
            attune::detail::fail(first, "", "");
        });
        for (const std::string& each : all) CHECK(each == all[0]);
        if (ranks == 1) continue;
        CHECK(all[0].find("got f32 (1) on 0") != std::string::npos);
        CHECK(all[0].find(" and f32 (2) on " + std::to_string(ranks - 1)) != std::string::npos);
        CHECK(all[0].find("on rank " + std::to_string(ranks - 1) + ": expected k, got none") != std::string::npos);
    }
}

TEST_CASE("calls that one rank made and another did not are named") {
    const auto all = thrown(3, [](context& world) {
        if (world.rank() == 1) world.begin("a prepared call");
        try {
            world.agree(said("f32 (1)"));
        } catch (const attune::error& e) {
            world.agree(said("f32 (1)"));  // as many calls on all ranks again
            throw;
        }
    });
    for (const std::string& each : all)
        CHECK(
            each ==
            "attune: expected one call on all ranks, got run of my::alibi (its call 1) on 0 and 2 and run of my::alibi "
            "(its call 2) on 1; try the same calls in the same order on every rank");
}

TEST_CASE("ranks that say the same in another order all hear of it") {
    const auto all = thrown(3, [](context& world) {
        statement mine("run of my::alibi");
        const bool last = world.rank() == 2;
        mine.add(last ? "b" : "a", "1", "x");
        mine.add(last ? "a" : "b", "1", "x");
        world.agree(std::move(mine));
    });
    for (const std::string& each : all)
        CHECK(
            each ==
            "attune: expected the same of run of my::alibi from all ranks, in the same order, got the same in another "
            "order; try one build on all ranks");
}

TEST_CASE("bytes are gathered by rank") {
    for (const int ranks : {1, 2, 5})
        on_ranks(ranks, {}, [&](std::unique_ptr<transport> carrier) {
            context world(std::move(carrier));
            const std::vector<std::byte> mine(3, std::byte(world.rank() + 1));
            const auto all = world.gather(mine, "threes");
            expect(all.size() == 3 * static_cast<std::size_t>(ranks));
            for (std::size_t i = 0; i < all.size(); ++i) expect(all[i] == std::byte(i / 3 + 1));
        });
}

TEST_CASE("times that are no times are refused") {
    for (const options how : {options{.timeout = -1}, options{.grace = -0.5}})
        on_ranks(1, {}, [&](std::unique_ptr<transport> carrier) {
            std::string said;
            try {
                context world(std::move(carrier), how);
            } catch (const attune::error& e) {
                said = e.what();
            }
            expect(said.starts_with("attune: expected a timeout and a grace of at least 0 s, got "));
        });
}
