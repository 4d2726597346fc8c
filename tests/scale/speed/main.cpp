// The times of calls over two ranks, beside one process with two threads and beside the model: under tests/scale/run 2
// scale_speed. Rank 0 calls the variant, and its shard as the only rank of a context, with both threads, while rank 1
// sleeps; then both call over ranks, with a thread each. In turns, medians.
#include "variants.hpp"

#include <attune/mpi.hpp>
#include <attune/mpi/exchange.hpp>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace attune;
using attune::dsl::k, attune::dsl::lse, attune::dsl::out, attune::dsl::q, attune::dsl::v;
namespace of_shard = attune::dsl::of_shard;

constexpr int depth = 64;

struct asked {
    std::int64_t tokens = 8192, heads = 8, key_heads = 8;
    int rounds = 7, stages = 0, head_parts = 0;
    std::string mask;
    mpi::arrangement layout = mpi::arrangement::best;
};

double seconds_of(auto&& work) {
    const auto began = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

double median(std::vector<double> all) {
    std::ranges::sort(all);
    return all[all.size() / 2];
}

/// Waits for all ranks without taking a core.
void meet_asleep() {
    MPI_Request all{};
    MPI_Ibarrier(MPI_COMM_WORLD, &all);
    for (int over = 0; !over;) {
        MPI_Test(&all, &over, MPI_STATUS_IGNORE);
        if (!over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

double slowest(double seconds) {
    double most = 0;
    MPI_Allreduce(&seconds, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return most;
}

/// Of both ranks at once, the median of the slower one's.
double together(int times, auto&& work) {
    std::vector<double> all;
    for (int i = 0; i < times; ++i) {
        MPI_Barrier(MPI_COMM_WORLD);
        all.push_back(slowest(seconds_of(work)));
    }
    return median(all);
}

struct memory {
    memory(std::int64_t heads, std::int64_t rows, std::int64_t width)
        : numbers(static_cast<std::size_t>(heads * rows * width)), shape{1, heads, rows, width} {}
    tensor view() { return {numbers.data(), shape}; }
    tensor row_view() { return {numbers.data(), std::span(shape).first(3)}; }
    std::vector<float> numbers;
    std::vector<std::int64_t> shape;
};

/// A whole call, on each rank.
struct whole_call {
    explicit whole_call(const asked& of)
        : q(of.heads, of.tokens, depth),
          k(of.key_heads, of.tokens, depth),
          v(of.key_heads, of.tokens, depth),
          out(of.heads, of.tokens, depth),
          before(of.heads, of.tokens, depth),
          lse(of.heads, of.tokens, 1),
          lse_before(of.heads, of.tokens, 1) {
        std::mt19937 random(5);
        std::normal_distribution<float> normal;
        for (memory* each : {&q, &k, &v}) std::ranges::generate(each->numbers, [&] { return normal(random); });
        std::ranges::fill(lse_before.numbers, -std::numeric_limits<float>::infinity());
    }
    memory q, k, v, out, before, lse, lse_before;
};

/// One rank's rows.
memory rows_of(const memory& all, std::span<const std::int32_t> which) {
    memory made(all.shape[1], std::ssize(which), all.shape[3]);
    const auto width = static_cast<std::size_t>(all.shape[3]), from = static_cast<std::size_t>(all.shape[2]);
    for (std::size_t h = 0; h < static_cast<std::size_t>(all.shape[1]); ++h)
        for (std::size_t i = 0; i < which.size(); ++i)
            std::copy_n(all.numbers.begin() +
                            static_cast<std::ptrdiff_t>((h * from + static_cast<std::size_t>(which[i])) * width),
                        width, made.numbers.begin() + static_cast<std::ptrdiff_t>((h * which.size() + i) * width));
    return made;
}

double largest_difference(const memory& a, const memory& b) {
    double most = 0;
    for (std::size_t i = 0; i < b.numbers.size(); ++i)
        most = std::max(most, std::abs(static_cast<double>(a.numbers[i] - b.numbers[i])));
    return most;
}

/// The shard of all queries and the first `keys` keys.
template <const auto& Shard>
auto of_first(whole_call& of, const std::vector<std::int32_t>& positions, std::int32_t& length, std::int64_t keys) {
    const auto some = [&](memory& m) {
        const std::int64_t shape[] = {1, m.shape[1], keys, depth}, strides[] = {0, m.shape[2] * depth, depth, 1};
        return tensor(m.numbers.data(), shape, strides);
    };
    return attune::prepare<Shard>(q = of.q.view(), k = some(of.k), v = some(of.v),
                                  of_shard::query_positions = tensor(positions.data(), {std::ssize(positions)}),
                                  of_shard::key_positions = tensor(positions.data(), {keys}),
                                  of_shard::lengths = tensor(&length, {1}), dsl::before(out) = of.before.view(),
                                  dsl::before(lse) = of.lse_before.row_view(), out = of.out.view(),
                                  lse = of.lse.row_view(), attune::options{.threads = 1});
}

/// The rates of this machine's ranks.
mpi::rates measured_rates(mpi::context& world, const asked& of) {
    whole_call all(of);
    std::vector<std::int32_t> positions(static_cast<std::size_t>(of.tokens));
    std::iota(positions.begin(), positions.end(), 0);
    auto length = static_cast<std::int32_t>(of.tokens);
    mpi::rates speed;
    const mpi::planning what{.heads = of.heads, .key_heads = of.key_heads, .tokens = of.tokens};
    const mpi::layout plan = mpi::plan<timed::causal_shard>(world, what, attune::options{.threads = 1});
    const auto whole = of_first<timed::causal_shard>(all, positions, length, of.tokens),
               few = of_first<timed::causal_shard>(all, positions, length, 16);
    speed.flops = plan.graphs()[0].all_work / together(3, [&] { whole(); });
    speed.merged = plan.graphs()[0].bytes.results * static_cast<double>(of.tokens) / together(5, [&] { few(); });
    const auto exchange = [&](std::size_t bytes) {
        std::vector<std::byte> sent(bytes), got(bytes);
        return together(9, [&] {
            world.begin("a message");
            const mpi::request in = world.receive({got}, 1 - world.rank(), 0, "bytes"),
                               gone = world.send({sent}, 1 - world.rank(), 0, "bytes");
            world.wait(in), world.wait(gone);
        });
    };
    constexpr std::size_t long_message = std::size_t{8} << 20;
    speed.latency = exchange(1), speed.bytes = static_cast<double>(long_message) / exchange(long_message);
    return speed;
}

template <const auto& Whole, const auto& Shard, class... More>
void time(mpi::context& world, const asked& of, const mpi::rates& speed, const char* name, const More&... more) {
    if (!of.mask.empty() && of.mask != name) return;
    whole_call all(of);
    const auto plain =
        attune::prepare<Whole>(q = all.q.view(), k = all.k.view(), v = all.v.view(), out = all.out.view(),
                               lse = all.lse.row_view(), more..., attune::options{.threads = 2});
    mpi::planning what{.heads = of.heads, .key_heads = of.key_heads, .tokens = of.tokens, .speed = speed};
    mpi::context alone(MPI_COMM_SELF);
    const auto shard = mpi::prepare<Shard>(alone, mpi::plan<Shard>(alone, what, more...), q = all.q.view(),
                                           k = all.k.view(), v = all.v.view(), out = all.before.view(),
                                           lse = all.lse_before.row_view(), more..., attune::options{.threads = 2});
    what.layout = of.layout, what.stages = of.stages, what.head_parts = of.head_parts;
    const mpi::layout plan = mpi::plan<Shard>(world, what, attune::options{.threads = 1}, more...);
    memory own_q = rows_of(all.q, plan.positions()), own_k = rows_of(all.k, plan.positions()),
           own_v = rows_of(all.v, plan.positions());
    memory own_out(of.heads, std::ssize(plan.positions()), depth), own_lse(of.heads, std::ssize(plan.positions()), 1);
    const auto over =
        mpi::prepare<Shard>(world, plan, q = own_q.view(), k = own_k.view(), v = own_v.view(), out = own_out.view(),
                            lse = own_lse.row_view(), more..., attune::options{.threads = 1});

    plain(), shard();
    const mpi::traffic sent = over();
    const double off = std::max(largest_difference(all.before, all.out),
                                largest_difference(own_out, rows_of(all.out, plan.positions())));
    if (!(slowest(off) < 1e-4)) throw std::runtime_error(fmt::format("{} over ranks differs by {:.1e}", name, off));

    std::vector<double> whole, by_shard, over_ranks;
    for (int round = 0; round < of.rounds; ++round) {
        meet_asleep();
        if (world.rank() == 0)
            whole.push_back(seconds_of([&] { plain(); })), by_shard.push_back(seconds_of([&] { shard(); }));
        meet_asleep();
        over_ranks.push_back(together(1, [&] { over(); }));
    }
    if (world.rank() != 0) return;
    const double a = median(whole), b = median(by_shard), c = median(over_ranks),
                 model = plan.graphs()[0].predicted.seconds;
    fmt::print(
        "| {} | {:.1f} | {:.1f} | {:.1f} % | {:.1f} | {:.1f} % | {:.1f} | {:+.1f} % | {}, {} share heads, {} stages, "
        "{:.1f} MB sent |\n",
        name, 1e3 * a, 1e3 * b, 100 * a / b, 1e3 * c, 100 * a / c, 1e3 * model, 100 * (model / c - 1),
        mpi::name_of(plan.chosen()), plan.head_parts(), plan.graphs()[0].predicted.stages,
        static_cast<double>(sent.bytes_sent) / 1e6);
    std::fflush(stdout);
}

void time_all(mpi::context& world, const asked& of) {
    const mpi::rates speed = measured_rates(world, of);
    if (world.rank() == 0)
        fmt::print(
            "{} tokens, {} heads over {} of depth {}, f32. A rank: {:.1f} GFLOP/s, {:.2f} GB/s each way, {:.0f} us a "
            "message, {:.1f} GB/s of results merged.\n\n"
            "| | one call, 2 threads, ms | its shard | of its speed | 2 ranks x 1 thread, ms | of its speed | "
            "predicted, ms | off by | layout of rank 0 |\n"
            "| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
            of.tokens, of.heads, of.key_heads, depth, speed.flops / 1e9, speed.bytes / 1e9, 1e6 * speed.latency,
            speed.merged / 1e9);
    std::vector<float> slopes;
    for (std::int64_t h = 1; h <= of.heads; ++h)
        slopes.push_back(std::exp2(-8.0f * static_cast<float>(h) / static_cast<float>(of.heads)));
    std::vector<std::int32_t> document;
    std::mt19937 random(7);
    std::lognormal_distribution<double> length(std::log(static_cast<double>(of.tokens) / 8), 0.7);
    for (std::int32_t d = 0; std::ssize(document) < of.tokens; ++d)
        document.resize(static_cast<std::size_t>(std::min<std::int64_t>(
                            of.tokens, std::ssize(document) + 1 + static_cast<std::int64_t>(length(random)))),
                        d);
    time<timed::causal_attention, timed::causal_shard>(world, of, speed, "causal");
    time<timed::alibi, timed::alibi_shard>(world, of, speed, "alibi",
                                           timed::slopes = tensor(slopes.data(), {of.heads}));
    time<timed::documents, timed::documents_shard>(world, of, speed, "documents",
                                                   timed::document = tensor(document.data(), {of.tokens}));
    time<timed::windowed, timed::windowed_shard>(world, of, speed, "window");
}

std::map<std::string, mpi::arrangement> names_of_layouts() {
    using enum mpi::arrangement;
    std::map<std::string, mpi::arrangement> all;
    for (const auto each : {contiguous, zigzag, striped, documents, affinity, greedy, ports})
        all[std::string(mpi::name_of(each))] = each;
    return all;
}

}  // namespace

int main(int count, char** arguments) {
    asked of;
    CLI::App app("What calls over two ranks take, beside one process with two threads.");
    app.add_option("--tokens", of.tokens, "of the whole sequence")->check(CLI::PositiveNumber)->capture_default_str();
    app.add_option("--heads", of.heads, "of queries")->check(CLI::PositiveNumber)->capture_default_str();
    app.add_option("--key-heads", of.key_heads, "of keys and values")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    app.add_option("--rounds", of.rounds, "of which medians are printed")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    app.add_option("--mask", of.mask, "causal, alibi, documents or window alone");
    app.add_option("--layout", of.layout, "instead of what the plan finds best")
        ->transform(CLI::CheckedTransformer(names_of_layouts()));
    app.add_option("--stages", of.stages, "likewise");
    app.add_option("--head-parts", of.head_parts, "ranks that share heads, likewise");
    CLI11_PARSE(app, count, arguments);
    int provided = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
    try {
        mpi::context world(MPI_COMM_WORLD);
        if (world.size() != 2)
            throw std::runtime_error(fmt::format("expected 2 ranks, got {}; try tests/scale/run 2 ...", world.size()));
        time_all(world, of);
    } catch (const std::exception& e) {
        fmt::print(stderr, "{}\n", e.what());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
}
