// One rank of a job, under tests/scale/run: what it is to do is its first argument. What it throws it adds to the file
// of its second, a line each: an MPI may forward nothing of a job in which a process died, and says things of its own.
#include <fcntl.h>
#include <unistd.h>

#include <attune/mpi.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "../shards/variants.hpp"
#include "over_mpi.hpp"
#include "pieces.hpp"
#include "ranks.hpp"

namespace {

using namespace attune::mpi;
using attune::testing::exchange_pieces;

int file = -1;

/// One line, whole, as several ranks write at once.
void print(std::string_view line) {
    const std::string all = std::string(line) + "\n";
    expect(::write(file, all.data(), all.size()) == static_cast<ssize_t>(all.size()));
}

template <class Work> void print_thrown(Work&& work) {
    try {
        work();
        print("nothing thrown");
    } catch (const attune::error& e) {
        print(e.what());
    }
}

std::vector<int> numbers(std::size_t count, int from, int to) {
    std::vector<int> all(count);
    std::iota(all.begin(), all.end(), 1000 * from + to);
    return all;
}

/// Everybody's bytes, in the order of the ranks.
void gather(context& world, std::size_t count) {
    const std::vector<int> own = numbers(count, world.rank(), 0);
    std::vector<int> all(count * static_cast<std::size_t>(world.size())), expected;
    const auto bytes = world.gather(std::as_bytes(std::span(own)), "numbers");
    expect(bytes.size() == all.size() * sizeof(int));
    if (!all.empty()) std::memcpy(all.data(), bytes.data(), bytes.size());
    for (int rank = 0; rank < world.size(); ++rank) {
        const std::vector<int> of_rank = numbers(count, rank, 0);
        expected.insert(expected.end(), of_rank.begin(), of_rank.end());
    }
    expect(all == expected);
}

/// Everybody's to everybody, short and long ones, twice under way at a time.
void exchange(context& world, std::size_t count) {
    world.agree("run of my::alibi", [&](statement& s) { s.add("count", std::to_string(count), "one count"); });
    world.guard([&] {
        const int ranks = world.size(), mine = world.rank();
        std::vector<std::vector<int>> sent, got;
        std::vector<request> open;
        for (int other = 0; other < ranks; ++other)
            for (const std::size_t each : {count, std::size_t{3}, std::size_t{0}}) {
                sent.push_back(numbers(each, mine, other));
                got.emplace_back(each);
                open.push_back(world.receive({std::as_writable_bytes(std::span(got.back()))}, other, 1, "keys"));
                open.push_back(world.send({std::as_bytes(std::span(sent.back()))}, other, 1, "keys"));
            }
        for (const request each : open) world.wait(each);
        for (std::size_t i = 0; i < got.size(); ++i)
            expect(got[i] == numbers(got[i].size(), static_cast<int>(i / 3), mine));
    });
}

context cut_into(std::size_t piece) { return context(transport_of<MPI_Comm>::make(MPI_COMM_WORLD, {}, piece)); }

void messages() {
    context world(MPI_COMM_WORLD), other(MPI_COMM_WORLD), cut = cut_into(1000);
    for (int call = 0; call < 3; ++call) {
        exchange(world, 100000);
        exchange(other, 10);
        exchange(cut, 12345);
        exchange_pieces(world, 35), exchange_pieces(world, 70000), exchange_pieces(cut, 70000);
        for (const std::size_t count : {12345, 0}) gather(cut, count), gather(world, count);
    }
    context made_later = cut_into(7);
    exchange(made_later, 100), exchange_pieces(made_later, 35);
    print("exchanged");
}

void many() {
    context world(MPI_COMM_WORLD);
    for (int call = 0; call < 1000; ++call) exchange(world, 50);
    print("exchanged");
}

/// Over 2 GiB of all ranks together, and of each over the 1 GiB that one piece has.
void long_gather(context& world) {
    const std::size_t bytes = (std::size_t{1} << 30) + (std::size_t{64} << 20) + 12345, apart = 4096;
    std::vector<std::byte> mine(bytes);
    const auto at = [](std::size_t i, int rank) {
        return static_cast<std::byte>((i / 4096 + 7 * static_cast<std::size_t>(rank)) % 251);
    };
    for (std::size_t i = 0; i < bytes; i += apart) mine[i] = at(i, world.rank());
    const std::vector<std::byte> all = world.gather(mine, "numbers");
    expect(all.size() == bytes * static_cast<std::size_t>(world.size()));
    for (int rank = 0; rank < world.size(); ++rank)
        for (std::size_t i = 0; i < bytes; i += apart)
            expect(all[static_cast<std::size_t>(rank) * bytes + i] == at(i, rank));
}

/// Over 2 GiB in one message, of one byte each 4 KB.
void long_message() {
    context world(MPI_COMM_WORLD, {.timeout = 600});  // gigabytes are copied, perhaps beside other work
    const std::size_t bytes = (std::size_t{2} << 30) + 12345, apart = 4096;
    world.begin("run");
    world.guard([&] {
        std::vector<std::byte> data(bytes);
        if (world.rank() == 0)
            for (std::size_t i = 0; i < bytes; i += apart) data[i] = static_cast<std::byte>(i / apart % 251);
        if (world.rank() < 2)
            world.wait(world.rank() == 0 ? world.send({data}, 1, 0, "keys") : world.receive({data}, 0, 0, "keys"));
        for (std::size_t i = 0; world.rank() == 1 && i < bytes; i += apart)
            expect(data[i] == static_cast<std::byte>(i / apart % 251));
    });
    long_gather(world);
    print("exchanged");
}

void wrong() {
    context world(MPI_COMM_WORLD);
    const bool last = world.rank() + 1 == world.size();
    print_thrown([&] { exchange(world, last ? 20 : 10); });
    print_thrown([&] {
        world.agree("run of my::alibi", [&](statement&) {
            if (last) attune::detail::fail("k", "none", "run(..., k = K)");
        });
    });
    exchange(world, 100);  // the context goes on
    print_thrown([&] {
        world.begin("run");
        world.guard([&] {
            if (last) attune::detail::fail("memory", "none", "less");
            std::vector<std::byte> got(10);
            world.wait(world.receive({got}, world.size() - 1, 0, "keys"));
        });
    });
    print_thrown([&] { exchange(world, 100); });  // this one does not
    context next(MPI_COMM_WORLD);
    exchange(next, 100);
    std::vector<std::byte> data(world.rank() == 0 ? 10 : 12);
    print_thrown([&] {
        next.begin("run");
        next.guard([&] {
            if (next.rank() < 2)
                next.wait(next.rank() == 0 ? next.send({data}, 1, 0, "keys") : next.receive({data}, 0, 0, "keys"));
            next.gather(std::span(data).first(1), "the end");
        });
    });
}

/// The last rank is killed: `before` a call, or in it.
[[noreturn]] void killed(bool before) {
    context world(MPI_COMM_WORLD, {.timeout = 2});
    const int dead = world.size() - 1;
    exchange(world, 100);
    const double began = world.carrier().now();
    print_thrown([&] {
        if (before && world.rank() == dead) std::raise(SIGKILL);
        world.agree("run of my::alibi", [](statement&) {});
        world.guard([&] {
            if (world.rank() == dead) std::raise(SIGKILL);
            std::vector<std::byte> got(1 << 20), sent(1 << 20);
            const request wanted = world.receive({got}, dead, 0, "keys"),
                          given = world.send({sent}, dead, 1, "queries");
            world.wait(wanted);
            world.wait(given);
        });
    });
    expect(world.carrier().now() - began < 3);
    ::_exit(0);  // MPI_Finalize would wait for the dead
}

/// Contexts are made and ended where MPI does not run, or not for threads.
void misplaced() {
    print_thrown([] { context early(MPI_COMM_WORLD); });
    MPI_Init(nullptr, nullptr);
    print_thrown([] { context single(MPI_COMM_WORLD); });
    MPI_Finalize();
    print_thrown([] { context late(MPI_COMM_WORLD); });
}

void after_the_end() {
    print_thrown([] { context none(MPI_COMM_NULL); });
    for (const std::size_t piece : {std::size_t{0}, std::size_t{std::numeric_limits<int>::max()} + 1})
        print_thrown([&] { cut_into(piece); });
    std::optional<context> world;
    world.emplace(MPI_COMM_WORLD);
    exchange(*world, 10);
    MPI_Finalize();
    print_thrown([&] { exchange(*world, 10); });
    world.reset();
}

using attune::testing::compute, attune::support::shape;

void decode() {
    context world(MPI_COMM_WORLD);
    for (const std::int64_t queries : {1, 2, 16})
        compute<sharded::windowed, sharded::windowed_shard>(
            world, {.batches = 2, .heads = 4, .key_heads = 2, .queries = queries, .keys = 3000}, {}, {3000, 1200});
    print("decoded");
}

void prefill() {
    context world(MPI_COMM_WORLD);
    const shape of{.batches = 2, .heads = 4, .key_heads = 2, .queries = 700, .keys = 700};
    compute<sharded::windowed, sharded::windowed_shard>(world, of);
    compute<sharded::windowed, sharded::windowed_shard>(world, of, {}, {700, 311});
    compute<sharded::documents, sharded::documents_shard>(world, of, {"document"});
    compute<sharded::sigmoid_attention, sharded::sigmoid_shard>(world, of);
    print("prefilled");
}

/// Of the ranks, as many as two and four divide share heads.
void heads() {
    context world(MPI_COMM_WORLD);
    const shape of{.batches = 2, .heads = 8, .key_heads = 4, .queries = 700, .keys = 700};
    for (const int parts : {1, 2, 4}) {
        if (world.size() % parts != 0) continue;
        compute<sharded::windowed, sharded::windowed_shard>(world, of, {}, {700, 311}, parts);
        compute<sharded::documents, sharded::documents_shard>(world, of, {"document"}, {}, parts);
    }
    print("shared");
}

void gradients() {
    using attune::testing::compute_gradient;
    context world(MPI_COMM_WORLD);
    const shape of{.batches = 2, .heads = 4, .key_heads = 2, .queries = 230, .keys = 230};
    compute_gradient<sharded::windowed, sharded::windowed_gradient, sharded::windowed_gradient_shard>(world, of);
    compute_gradient<sharded::documents, sharded::documents_gradient, sharded::documents_gradient_shard>(world, of,
                                                                                                         {"document"});
    compute_gradient<sharded::sigmoid_attention, sharded::sigmoid_gradient, sharded::sigmoid_gradient_shard>(world, of);
    print("added up");
}

}  // namespace

int main(int, char** arguments) {
    const std::string_view what = arguments[1];
    file = ::open(arguments[2], O_WRONLY | O_APPEND | O_CREAT, 0644);
    if (what == "misplaced") return misplaced(), 0;
    int provided = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
    try {
        if (what == "after_the_end") return after_the_end(), 0;
        if (what == "messages") messages();
        if (what == "many") many();
        if (what == "long") long_message();
        if (what == "decode") decode();
        if (what == "prefill") prefill();
        if (what == "heads") heads();
        if (what == "gradients") gradients();
        if (what == "wrong") wrong();
        if (what == "killed_in_call") killed(false);
        if (what == "killed_before") killed(true);
    } catch (const std::exception& e) {
        print(std::string("FAILED  ") + e.what());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
}
