#include <array>
#include <attune/mpi/context.hpp>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "local_transport.hpp"
#include "on_ranks.hpp"
#include "pieces.hpp"

namespace {

using namespace attune::mpi;

std::vector<std::byte> filled(std::size_t bytes, int with) { return std::vector<std::byte>(bytes, std::byte(with)); }

void finish(transport& carrier, request asked) {
    for (int times = 0; !carrier.test(asked); ++times) carrier.idle(times, carrier.now() + 60);
}

/// Scattered delays that are the same in each run.
double scattered(int from, int to, std::size_t bytes, int index) {
    const auto u = [](int i) { return static_cast<std::uint32_t>(i); };
    const auto mixed = (u(from) * 73856093u ^ u(to) * 19349663u ^ u(index) * 83492791u) + bytes;
    return static_cast<double>(mixed * 2654435761u % 1000) * 1e-3;
}

}  // namespace

TEST_CASE("messages are sent and received in pieces") {
    for (const std::size_t eager : {std::size_t{0}, std::size_t{1} << 20})
        on_ranks(3, {.eager = eager}, [](std::unique_ptr<transport> carrier) {
            context world(std::move(carrier));
            attune::testing::exchange_pieces(world, 35), attune::testing::exchange_pieces(world, 70000);
        });
}

TEST_CASE("messages with one tag keep their order, others overtake") {
    local_script script{.delay = [](int, int, std::size_t, int index) { return index == 0 ? 1.0 : 0.0; }};
    for (const bool jumps : {true, false}) {
        script.clock_jumps = jumps;
        if (!jumps) script.delay = [](int, int, std::size_t, int index) { return index == 0 ? 0.02 : 0.0; };
        on_ranks(2, script, [&](std::unique_ptr<transport> carrier) {
            const std::array<std::byte, 3> values{std::byte(1), std::byte(2), std::byte(3)};
            if (carrier->rank() == 0) {
                const std::span all(values);
                finish(*carrier, carrier->send({all.subspan(0, 1)}, 1, 7));
                finish(*carrier, carrier->send({all.subspan(1, 1)}, 1, 7));
                finish(*carrier, carrier->send({all.subspan(2, 1)}, 1, 8));
            } else {
                std::array<std::byte, 3> got{};
                const std::span all(got);
                const request first = carrier->receive({all.subspan(0, 1)}, 0, 7);
                const request second = carrier->receive({all.subspan(1, 1)}, any_rank, 7);
                finish(*carrier, carrier->receive({all.subspan(2, 1)}, 0, 8));
                const double overtaking = carrier->now();
                expect(!carrier->test(second));
                finish(*carrier, second);
                expect(carrier->test(first));
                expect(carrier->now() > overtaking);
                expect(got == values);
            }
        });
    }
}

TEST_CASE("a long message is over for its sender when it is received") {
    on_ranks(2, {.eager = 16}, [&](std::unique_ptr<transport> carrier) {
        const auto data = filled(17, 5);
        if (carrier->rank() == 0) {
            const request short_one = carrier->send({std::span(data).first(16)}, 1, 1);
            const request long_one = carrier->send({data}, 1, 2);
            expect(carrier->test(short_one));
            while (carrier->now() < 1) carrier->idle(0, 1);
            expect(!carrier->test(long_one));
            finish(*carrier, long_one);
            expect(carrier->now() >= 2);
        } else {
            while (carrier->now() < 2) carrier->idle(0, 2);
            std::vector<std::byte> got(17);
            finish(*carrier, carrier->receive({got}, 0, 2));
            expect(got == data);
        }
    });
}

TEST_CASE("a message of another length is an error") {
    on_ranks(2, {}, [&](std::unique_ptr<transport> carrier) {
        std::vector<std::byte> data(carrier->rank() == 0 ? 10 : 12);
        if (carrier->rank() == 0) return finish(*carrier, carrier->send({data}, 1, 1));
        std::string said;
        try {
            finish(*carrier, carrier->receive({data}, 0, 1));
        } catch (const attune::error& e) {
            said = e.what();
        }
        expect(said == "attune: expected 12 bytes of rank 0, got 10; try the same calls on every rank");
    });
}

TEST_CASE("ranks that wait for each other without a deadline are told so") {
    std::vector<std::string> said(3);
    on_ranks(3, {}, [&](std::unique_ptr<transport> carrier) {
        context world(std::move(carrier), {.timeout = 0});
        const auto rank = static_cast<std::size_t>(world.rank());
        std::vector<std::byte> got(1);
        try {
            world.begin("run");
            const request never = world.receive({got}, (world.rank() + 1) % 3, 0, "keys");
            world.wait(never);
        } catch (const context_failure& e) {
            said[rank] = e.what();
        }
    });
    for (const std::string& each : said) {
        CHECK(each == said[0]);
        CHECK(each.find("got ranks that all wait for each other") != std::string::npos);
    }
}

TEST_CASE("all to all in any order of arrival") {
    for (const int ranks : {2, 3, 7, 16})
        for (const bool jumps : {true, false}) {
            CAPTURE(ranks, jumps);
            local_script script{.delay = scattered, .eager = 100, .clock_jumps = jumps};
            if (!jumps) script.delay = [](auto... all) { return 1e-3 * scattered(all...); };
            on_ranks(ranks, script, [&](std::unique_ptr<transport> carrier) {
                context world(std::move(carrier));
                const int mine = world.rank();
                for (int call = 0; call < 3; ++call) {
                    world.begin("run");
                    std::map<int, std::vector<std::byte>> got, sent;
                    std::vector<request> open;
                    for (int other = 0; other < ranks; ++other) {
                        if (other == mine) continue;
                        const auto bytes = [](int from, int to) {
                            return static_cast<std::size_t>(10 + 40 * from + to);
                        };
                        sent[other] = filled(bytes(mine, other), mine * 16 + other + call);
                        got[other].resize(bytes(other, mine));
                        open.push_back(world.receive({got[other]}, other, 1, "keys"));
                        open.push_back(world.send({sent[other]}, other, 1, "keys"));
                    }
                    for (const request each : open) world.wait(each);
                    for (const auto& [other, data] : got) expect(data == filled(data.size(), other * 16 + mine + call));
                }
            });
        }
}
