#include <algorithm>
#include <attune/mpi/context.hpp>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "local_transport.hpp"
#include "on_ranks.hpp"

namespace {

using namespace attune::mpi;

/// The outcome of each rank's calls.
struct outcome {
    std::string thrown, afterwards;
    double seconds{};
};

struct trial {
    int ranks{2}, calls{3};
    local_script script{};
    options how{};
    int throws = any_rank;  ///< this rank throws in its second call, after a message
};

/// Calls of two stages: each rank sends to the next two, of which one message is short, and receives of the two
/// before.
void make_calls(context& world, const trial& t, std::vector<std::weak_ptr<const void>>& owners) {
    constexpr std::size_t bytes[] = {100, 10000};
    for (int call = 0; call < t.calls; ++call) {
        world.agree("run of my::alibi", [](statement& s) { s.add("formula", "my::alibi", "one build"); });
        world.guard([&] {
            const int ranks = world.size(), mine = world.rank();
            std::vector<std::shared_ptr<std::vector<std::byte>>> got;
            std::vector<request> open;
            for (int stage = 0; stage < std::min(2, ranks - 1); ++stage) {
                const int from = (mine + ranks - 1 - stage) % ranks, to = (mine + 1 + stage) % ranks;
                got.push_back(std::make_shared<std::vector<std::byte>>(bytes[stage]));
                const auto sent = std::make_shared<std::vector<std::byte>>(bytes[stage], std::byte(mine));
                owners.insert(owners.end(), {got.back(), sent});
                open.push_back(world.receive({*got.back(), got.back()}, from, stage, "keys"));
                open.push_back(world.send({*sent, sent}, to, stage, "keys"));
                if (call == 1 && mine == t.throws)
                    throw std::runtime_error("attune: expected memory, got none; try less");
            }
            for (const request each : open) world.wait(each);
            for (std::size_t stage = 0; stage < got.size(); ++stage) {
                const auto from = static_cast<std::size_t>(mine + ranks) - 1 - stage;
                expect(std::all_of(got[stage]->begin(), got[stage]->end(), [&](std::byte each) {
                    return each == std::byte(from % static_cast<std::size_t>(ranks));
                }));
            }
        });
    }
}

std::vector<outcome> outcomes(const trial& t) {
    std::vector<outcome> all(static_cast<std::size_t>(t.ranks));
    std::vector<std::weak_ptr<const void>> owners;
    std::mutex lock;
    on_ranks(t.ranks, t.script, [&](std::unique_ptr<transport> carrier) {
        std::vector<std::weak_ptr<const void>> mine_owned;
        const auto noted = [&](void*) {
            const std::lock_guard guard(lock);
            owners.insert(owners.end(), mine_owned.begin(), mine_owned.end());
        };
        const std::unique_ptr<void, decltype(noted)> at_end(&lock, noted);  // of a rank that dies, too
        context world(std::move(carrier), t.how);
        outcome& mine = all[static_cast<std::size_t>(world.rank())];
        try {
            make_calls(world, t, mine_owned);
        } catch (const context_failure& e) {
            mine.thrown = e.what();
            mine.seconds = world.carrier().now();
            try {
                world.agree("another", [](statement&) {});
            } catch (const attune::error& later) {
                mine.afterwards = later.what();
            }
        }
    });
    for (const auto& each : owners) CHECK(each.expired());
    return all;
}

bool all_succeed(const std::vector<outcome>& all) {
    return std::all_of(all.begin(), all.end(), [](const outcome& each) { return each.thrown.empty(); });
}

/// Each rank but `dead` throws one sentence, which is returned.
std::string one_sentence(const std::vector<outcome>& all, int dead) {
    std::set<std::string> sentences;
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
        if (static_cast<int>(rank) == dead) continue;
        sentences.insert(all[rank].thrown);
        CHECK(all[rank].afterwards.starts_with(
            "attune: expected a context in which every call succeeded, got one in which a call failed ("));
        CHECK(all[rank].afterwards.find(all[rank].thrown) != std::string::npos);
    }
    CHECK(sentences.size() == 1);
    return *sentences.begin();
}

}  // namespace

TEST_CASE("each death is the same sentence on all survivors, by the deadline") {
    for (const int ranks : {2, 3, 4, 5, 7, 8, 11, 16}) {
        const int messages = 2 * (1 + std::min(2, ranks - 1));  // of a rank in two calls
        for (int dead = 0; dead < ranks; ++dead)
            for (int at = 0; at < messages; ++at) {
                CAPTURE(ranks, dead, at);
                const auto all = outcomes({.ranks = ranks, .script = {.dies = dead, .dies_at = at}});
                const std::string sentence = one_sentence(all, dead);
                const std::string name = std::to_string(dead);
                const std::string longer = "; try a longer timeout if it lives";
                const std::set<std::string> expected{
                    "attune: expected keys of rank " + name + " within 60 s, got none" + longer,
                    "attune: expected rank " + name + " to take keys within 60 s, got no sign of it" + longer,
                    "attune: expected rank " + name + " in run of my::alibi within 60 s, got nothing of it" + longer +
                        ", and the same calls on every rank"};
                CAPTURE(sentence);
                CHECK(expected.contains(sentence));
                for (const outcome& each : all) CHECK(each.seconds < 61);
            }
        CHECK(all_succeed(outcomes({.ranks = ranks})));  // the next context
        CHECK(all_succeed(outcomes({.ranks = ranks, .script = {.dies = 0, .dies_at = messages / 2 * 3}})));
    }
}

TEST_CASE("deaths among delayed messages") {
    const auto delay = [](int from, int to, std::size_t, int index) {
        return 0.01 * ((from * 7 + to * 3 + index * 5) % 11);
    };
    for (const int ranks : {3, 6})
        for (int dead = 0; dead < ranks; ++dead)
            for (int at = 0; at < 6; ++at) {
                CAPTURE(ranks, dead, at);
                const auto all = outcomes({.ranks = ranks, .script = {.delay = delay, .dies = dead, .dies_at = at}});
                CHECK(one_sentence(all, dead).find("rank " + std::to_string(dead)) != std::string::npos);
                for (const outcome& each : all) CHECK(each.seconds < 62);
            }
}

TEST_CASE("by the system's clock, too") {
    const auto began = std::chrono::steady_clock::now();
    const local_script script{.dies = 1, .dies_at = 2, .clock_jumps = false};
    const auto all = outcomes({.ranks = 4, .script = script, .how = {.timeout = 0.3, .grace = 1}});
    CHECK(one_sentence(all, 1).find(" rank 1 ") != std::string::npos);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    CHECK(took.count() >= 0.3);
    CHECK(took.count() < 10);  // under a sanitizer, on a busy machine
}

TEST_CASE("what one rank throws, all throw") {
    for (const int ranks : {2, 3, 8})
        for (int rank = 0; rank < ranks; ++rank) {
            CAPTURE(ranks, rank);
            const auto all = outcomes({.ranks = ranks, .throws = rank});
            CHECK(one_sentence(all, any_rank) ==
                  "attune: on rank " + std::to_string(rank) + ": expected memory, got none; try less");
            for (const outcome& each : all) CHECK(each.seconds < 1);  // nobody waits for the deadline
        }
}

TEST_CASE("a rank that is ahead and fails there leaves the call of a slower one alone") {
    const auto late = [](int, int, std::size_t bytes, int) { return bytes == 100 ? 1.0 : 0.0; };  // keys, not notices
    std::vector<std::string> thrown(2);
    bool first_is_over = false;
    on_ranks(2, {.delay = late, .eager = 1000}, [&](std::unique_ptr<transport> carrier) {
        context world(std::move(carrier));
        std::vector<std::byte> data(100, std::byte(1 - world.rank()));
        world.begin("run");
        world.guard([&] {
            world.wait(world.rank() == 0 ? world.send({data}, 1, 0, "keys") : world.receive({data}, 0, 0, "keys"));
        });
        if (world.rank() == 1) first_is_over = data[99] == std::byte(1) && world.carrier().now() >= 1;
        try {
            world.begin("run");
            world.guard([&] {
                if (world.rank() == 0) throw std::runtime_error("attune: expected memory, got none; try less");
                world.wait(world.receive({data}, 0, 0, "keys"));
            });
        } catch (const context_failure& e) {
            thrown[static_cast<std::size_t>(world.rank())] = e.what();
        }
    });
    CHECK(first_is_over);
    for (const std::string& each : thrown) CHECK(each == "attune: on rank 0: expected memory, got none; try less");
}

TEST_CASE("a sentence that is too long to be told ends with dots, between two characters") {
    for (const std::string word : {"a", "\u20ac", "\U0001d70e"})
        for (const std::size_t ahead : {0, 1, 2, 3}) {
            CAPTURE(word, ahead);
            std::string sentence(ahead, '-');
            while (sentence.size() < 487) sentence += word;
            const auto told = [&](const std::string& said) {
                std::vector<std::string> all(2);
                on_ranks(2, {}, [&](std::unique_ptr<transport> carrier) {
                    context world(std::move(carrier));
                    const auto rank = static_cast<std::size_t>(world.rank());
                    try {
                        world.guard([&] {
                            if (rank == 1) throw std::runtime_error(said);
                            std::vector<std::byte> got(1);
                            world.wait(world.receive({got}, 1, 0, "keys"));
                        });
                    } catch (const context_failure& e) {
                        all[rank] = e.what();
                    }
                });
                CHECK(all[0] == all[1]);
                return all[0];
            };
            const std::string head = "attune: on rank 1: ", whole = sentence.substr(0, sentence.size() - word.size());
            CHECK(told(whole) == head + whole);
            if (sentence.size() == 487) CHECK(told(sentence) == head + sentence);
            const std::string cut = told(sentence + word);
            CHECK(cut.size() <= head.size() + 487);
            CHECK(cut.size() > head.size() + 487 - word.size());
            CHECK(cut.ends_with("..."));
            const std::string_view kept = std::string_view(cut).substr(0, cut.size() - 3);
            CHECK((kept == head + sentence.substr(0, kept.size() - head.size()) &&
                   kept.substr(head.size() + ahead).size() % word.size() == 0));
        }
}

TEST_CASE("a rank that is late is named where nobody died") {
    // Rank 2 makes no second call, and lives: its context is there until all others have failed.
    std::vector<std::string> said(4);
    on_ranks(4, {}, [&](std::unique_ptr<transport> carrier) {
        context world(std::move(carrier), {.timeout = 5});
        std::vector<std::byte> got(1), sent(1);
        world.begin("run");
        if (world.rank() == 2) {
            while (world.carrier().now() < 20) world.carrier().idle(0, 20);
        }
        try {
            world.guard([&] {
                const request wanted = world.receive({got}, (world.rank() + 1) % 4, 0, "keys");
                const request given = world.send({sent}, (world.rank() + 3) % 4, 0, "keys");
                world.wait(wanted);
                world.wait(given);
            });
            world.agree("another", [](statement&) {});
        } catch (const attune::error& e) {
            said[static_cast<std::size_t>(world.rank())] = e.what();
        }
    });
    CHECK(said[1] == "attune: expected keys of rank 2 within 5 s, got none; try a longer timeout if it lives");
    CHECK(said[0] == said[1]);
    CHECK(said[3] == said[1]);
    CHECK(!said[2].empty());
}

TEST_CASE("a rank that waits for nothing hears of a failure as it lets messages get on") {
    for (const bool throws : {true, false}) {
        std::vector<std::string> said(3);
        on_ranks(3, {}, [&](std::unique_ptr<transport> carrier) {
            context world(std::move(carrier), {.timeout = 5});
            std::vector<std::byte> got(1);
            world.begin("run");
            try {
                world.guard([&] {
                    if (world.rank() == 1 && throws)
                        throw std::runtime_error("attune: expected memory, got none; try less");
                    if (world.rank() == 1) world.wait(world.receive({got}, 0, 0, "keys"));
                    for (const double until = world.carrier().now() + 20; world.carrier().now() < until;) {
                        world.carrier().idle(0, until);
                        world.progress();
                    }
                });
            } catch (const context_failure& e) {
                said[static_cast<std::size_t>(world.rank())] = e.what();
                expect(world.carrier().now() < 6);
            }
        });
        CHECK(said[0] == (throws ? "attune: on rank 1: expected memory, got none; try less"
                                 : "attune: expected keys of rank 0 within 5 s, got none; try a longer timeout if it "
                                   "lives"));
        CHECK((said[1] == said[0] && said[2] == said[0]));
    }
}

TEST_CASE("contexts fail by themselves") {
    const auto fails = [](auto&& work) {
        try {
            work();
        } catch (const context_failure&) {
            return true;
        }
        return false;
    };
    on_ranks(2, {}, [&](std::unique_ptr<transport> carrier) {
        const int rank = carrier->rank();
        context broken(std::move(carrier));
        std::vector<std::byte> byte(1);
        expect(fails([&] { broken.guard([&] { throw std::runtime_error("attune: rank's own"); }); }));
        expect(fails([&] { broken.begin("again"); }));
        expect(fails([&] { broken.gather({}, "nothing"); }));
        expect(fails([&] { broken.send({byte}, 1 - rank, 0, "keys"); }));
        expect(fails([&] { broken.receive({byte}, 1 - rank, 0, "keys"); }));
        expect(fails([&] { broken.fail("once more"); }));
    });
    CHECK(all_succeed(outcomes({.ranks = 2})));
}
