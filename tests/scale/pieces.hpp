#pragma once
#include <attune/mpi/context.hpp>

#include <cstddef>
#include <span>
#include <vector>

#include "ranks.hpp"

namespace attune::testing {

/// Messages to the next rank, of pieces of so many bytes that lie elsewhere there. What is between them stays.
inline void exchange_pieces(mpi::context& world, std::size_t length) {
    constexpr std::size_t pieces = 3;
    const int next = (world.rank() + 1) % world.size(), before = (world.rank() + world.size() - 1) % world.size();
    const auto spread = [&](int rank, std::size_t apart) {
        std::vector<std::byte> all(pieces * apart);
        for (std::size_t i = 0; i < pieces * length; ++i)
            all[i / length * apart + i % length] =
                static_cast<std::byte>((1 + 7 * static_cast<std::size_t>(rank) + i) % 251);
        return all;
    };
    for (const std::size_t sent_apart : {length, 2 * length}) {
        const std::size_t got_apart = length + 9;
        const std::vector<std::byte> sent = spread(world.rank(), sent_apart);
        std::vector<std::byte> got(pieces * got_apart);
        world.begin("run");
        world.guard([&] {
            const mpi::request asked =
                world.receive({std::span(got).first(length), {}, pieces, got_apart}, before, 0, "keys");
            const mpi::request given =
                world.send({std::span(sent).first(length), {}, pieces, sent_apart}, next, 0, "keys");
            world.wait(asked);
            world.wait(given);
        });
        expect(got == spread(before, got_apart));
    }
}

}  // namespace attune::testing
