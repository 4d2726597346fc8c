#include "peak.hpp"

#include <attune/runtime/cpu.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <stdexcept>
#include <thread>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif
#if defined(__linux__)
#include <sched.h>
#endif

namespace attune::support {
namespace {

// Tenths of a millisecond: long beside the start of a thread that waits, short beside another program's turn on a CPU.
// A product of tiles takes 16 cycles.
long rounds_of(const instruction& what) { return 1800000 / what.sums / (what.lanes > 16 ? 16 : 1); }

// Twelve independent chains hide the latency of an FMA, sixteen where more are under way; the sums are kept so that
// nothing is optimised away. Nor do sanitizers look at them.
#define ATTUNE_CHAINS __attribute__((no_sanitize("address", "thread", "undefined")))
#if defined(__x86_64__)
ATTUNE_CHAINS float chains_128(long count) {  // the level has no FMA: a product and a sum
    __m128 sums[12];
    const __m128 x = _mm_set1_ps(1.0001f), y = _mm_set1_ps(1e-6f);
    for (auto& s : sums) s = y;
    for (long i = 0; i < count; ++i)
        for (auto& s : sums) s = _mm_add_ps(_mm_mul_ps(s, x), y);
    __m128 all = y;
    for (auto& s : sums) all = _mm_add_ps(all, s);
    return _mm_cvtss_f32(all);
}
ATTUNE_CHAINS __attribute__((target("avx2,fma"))) float chains_256(long count) {
    __m256 sums[12];
    const __m256 x = _mm256_set1_ps(1.0001f), y = _mm256_set1_ps(1e-6f);
    for (auto& s : sums) s = y;
    for (long i = 0; i < count; ++i)
        for (auto& s : sums) s = _mm256_fmadd_ps(s, x, y);
    __m256 all = y;
    for (auto& s : sums) all = _mm256_add_ps(all, s);
    return _mm256_cvtss_f32(all);
}
ATTUNE_CHAINS __attribute__((target("avx512f"))) float chains_512(long count) {
    __m512 sums[12];
    const __m512 x = _mm512_set1_ps(1.0001f), y = _mm512_set1_ps(1e-6f);
    for (auto& s : sums) s = y;
    for (long i = 0; i < count; ++i)
        for (auto& s : sums) s = _mm512_fmadd_ps(s, x, y);
    __m512 all = y;
    for (auto& s : sums) all = _mm512_add_ps(all, s);
    return _mm512_cvtss_f32(all);
}
ATTUNE_CHAINS __attribute__((target("avx512bf16,avx512f"))) float chains_of_pairs(long count) {
    __m512 sums[16];
    const __m512bh x = (__m512bh)_mm512_set1_epi32(0x3f803f80);  // 1
    const __m512bh y = (__m512bh)_mm512_set1_epi32(0x3a833a83);  // about 0.001
    for (auto& s : sums) s = _mm512_set1_ps(1e-6f);
    for (long i = 0; i < count; ++i)
        for (auto& s : sums) s = _mm512_dpbf16_ps(s, x, y);
    __m512 all = _mm512_set1_ps(1e-6f);
    for (auto& s : sums) all = _mm512_add_ps(all, s);
    return _mm512_cvtss_f32(all);
}
ATTUNE_CHAINS __attribute__((target("amx-tile,amx-bf16,avx512f"))) float chains_of_tiles(long count) {
    struct {  // Intel's manual, LDTILECFG
        std::uint8_t palette = 1, start_row = 0, reserved[14]{};
        std::uint16_t bytes_of_row[16]{};
        std::uint8_t rows[16]{};
    } shapes;
    for (int i = 0; i < 8; ++i) shapes.bytes_of_row[i] = 64, shapes.rows[i] = 16;
    alignas(64) static const std::uint16_t tile[512]{};
    alignas(64) float sums[256];
    _tile_loadconfig(&shapes);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_loadd(4, tile, 64);
    _tile_loadd(5, tile, 64);
    _tile_loadd(6, tile, 64);
    _tile_loadd(7, tile, 64);
    for (long i = 0; i < count; ++i) {
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, sums, 64);
    _tile_release();
    return sums[0];
}
#elif defined(__aarch64__)
ATTUNE_CHAINS float chains_128(long count) {
    float32x4_t sums[16];
    const float32x4_t x = vdupq_n_f32(1.0001f), y = vdupq_n_f32(1e-6f);
    for (auto& s : sums) s = y;
    for (long i = 0; i < count; ++i)
        for (auto& s : sums) s = vfmaq_f32(y, s, x);
    float32x4_t all = y;
    for (auto& s : sums) all = vaddq_f32(all, s);
    return vgetq_lane_f32(all, 0);
}
#else
ATTUNE_CHAINS float chains_of_one(long count) {
    float sums[12];
    for (float& s : sums) s = 1e-6f;
    for (long i = 0; i < count; ++i)
        for (float& s : sums) s = s * 1.0001f + 1e-6f;
    float all = 0;
    for (float s : sums) all += s;
    return all;
}
#endif

constexpr instruction known[] = {
#if defined(__x86_64__)
    {"tdpbf16ps", "x86-64-v4-amx", 256, 32, 4, chains_of_tiles},
    {"vdpbf16ps", "x86-64-v4-bf16", 16, 2, 16, chains_of_pairs},
    {"multiply-add", "x86-64-v4", 16, 1, 12, chains_512},
    {"multiply-add", "x86-64-v3", 8, 1, 12, chains_256},
    {"multiply-add", "", 4, 1, 12, chains_128},
#elif defined(__aarch64__)
    {"multiply-add", "", 4, 1, 16, chains_128},
#else
    {"multiply-add", "", 1, 1, 12, chains_of_one},
#endif
};

std::atomic<float> sink;  // threads leave here what they computed, so that it is not left out

double now_in_seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Threads that sleep between bursts, as calls run there.
class team {
public:
    explicit team(int threads) {
        for (int i = 1; i < threads; ++i) others_.emplace_back([this] { serve(); });
    }
    team(const team&) = delete;
    ~team() {
        what_ = nullptr;
        wake();
        for (std::thread& each : others_) each.join();
    }

    double best_of(int bursts, const instruction& what) {
        const int others = static_cast<int>(others_.size());
        const long rounds = rounds_of(what);
        double seconds = std::numeric_limits<double>::infinity();
        what_ = &what, bursts_ = bursts, ready_ = 0, go_ = 0, done_ = 0;
        cpu_ = current_cpu();
        wake();
        for (int at = 1; at <= bursts; ++at) {
            while (ready_ < at * others) std::this_thread::yield();
            const double start = now_in_seconds();
            go_ = at;
            sink = what.chains(rounds);
            while (done_ < at * others) {
            }
            seconds = std::min(seconds, now_in_seconds() - start);
        }
        return what.flops(rounds) * (others + 1) / seconds * 1e-9;
    }

private:
    static int current_cpu() {
#if defined(__linux__)
        return sched_getcpu();
#else
        return -1;
#endif
    }
    /// Linux may wake a thread on the CPU of the one that wakes it, and leave both there while others idle.
    static void leave_cpu([[maybe_unused]] int cpu) {
#if defined(__linux__)
        cpu_set_t usable;
        CPU_ZERO(&usable);
        if (cpu < 0 || cpu >= CPU_SETSIZE || sched_getaffinity(0, sizeof usable, &usable) != 0) return;
        if (CPU_COUNT(&usable) < 2) return;
        cpu_set_t rest = usable;
        CPU_CLR(cpu, &rest);
        if (sched_setaffinity(0, sizeof rest, &rest) == 0) sched_setaffinity(0, sizeof usable, &usable);
#endif
    }
    void wake() {
        ++turn_;
        turn_.notify_all();
    }
    void serve() {
        for (int turn = 0;;) {
            turn_.wait(turn);
            ++turn;
            const instruction* const what = what_;
            if (!what) return;
            if (cpu_ >= 0 && current_cpu() == cpu_) leave_cpu(cpu_);
            const int bursts = bursts_;
            for (int at = 1; at <= bursts; ++at) {
                ++ready_;
                while (go_ < at) {
                }
                sink = what->chains(rounds_of(*what));
                ++done_;
            }
        }
    }

    const instruction* what_ = nullptr;
    int bursts_ = 0, cpu_ = -1;
    std::atomic<int> turn_{0}, ready_{0}, go_{0}, done_{0};
    std::vector<std::thread> others_;
};

}  // namespace

const instruction& instruction_of(std::string_view level, std::string_view schedule) {
    const auto said = nlohmann::json::parse(schedule, nullptr, false);
    const int pairs = said.is_object() ? said.value("pairing", 1) : 1;
    const auto of = [&](const instruction& each) { return level.starts_with(each.level) && each.pairs == pairs; };
    const auto* const at = std::ranges::find_if(known, of);
    if (at == std::end(known))
        throw std::runtime_error(
            "expected a pairing of 1, of 2 at the level x86-64-v4-bf16, or of 32 at x86-64-v4-amx, got " +
            std::to_string(pairs) + " at " + std::string(level));
    return *at;
}

double burst_gigaflops(const instruction& what, int threads) {
    if (!what.level.empty() && !runs(what.level))
        throw std::runtime_error("expected a CPU of the level " + std::string(what.level) + ", this one lacks " +
                                 missing_for(what.level));
    static std::map<int, std::unique_ptr<team>> teams;
    auto& found = teams[threads];
    if (!found) found = std::make_unique<team>(threads);
    return found->best_of(4, what);
}

double peaks::again(const instruction& what, int threads) {
    double& best = best_[{&what, threads}];
    return best = std::max(best, measure_(what, threads));
}

double peaks::share(double gigaflops, const instruction& what, int threads) {
    double& best = best_[{&what, threads}];
    for (int more = 0; more < 32 && best < gigaflops; ++more) again(what, threads);
    return gigaflops / best;
}

std::string remark(double share, const instruction& what) {
    std::string said = what.pairs > 1 ? "peak of " + std::string(what.name) + ", softmax is f32" : "";
    if (share > 1) said += std::string(said.empty() ? "" : "; ") + "above the measured peak: the machine was busy";
    return said;
}

std::vector<double> seconds_beside(const std::function<void()>& burst, const std::function<void()>& call, int repeats,
                                   const std::function<double()>& now) {
    const std::function<double()> clock = now ? now : now_in_seconds;
    std::vector<double> seconds;
    double since = 0;
    for (int i = 0; i < repeats; ++i) {
        if (since >= 0.02) burst(), since = 0;
        const double start = clock();
        call();
        seconds.push_back(clock() - start);
        since += seconds.back();
    }
    burst();
    return seconds;
}

double read_gigabytes(int threads) {
    constexpr std::size_t streams = 4, words = std::size_t(8) << 20;  // a thread reads four streams of 64 MB
    const std::vector<std::uint64_t> memory(streams * words * static_cast<std::size_t>(threads), 1);
    const auto read = [&](int thread) {
        const std::uint64_t* const from = memory.data() + static_cast<std::size_t>(thread) * streams * words;
        std::uint64_t sums[streams] = {};
        for (std::size_t at = 0; at < words; at += 8)
            for (std::size_t s = 0; s < streams; ++s)
                for (std::size_t i = 0; i < 8; ++i) sums[s] += from[s * words + at + i];
        sink = static_cast<float>(sums[0] + sums[1] + sums[2] + sums[3]);
    };
    double rate = 0;
    for (int attempt = 0; attempt < 5; ++attempt) {
        const auto start = std::chrono::steady_clock::now();
        std::vector<std::thread> others;
        for (int i = 1; i < threads; ++i) others.emplace_back(read, i);
        read(0);
        for (auto& t : others) t.join();
        const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        rate = std::max(rate, static_cast<double>(memory.size() * sizeof(std::uint64_t)) / seconds * 1e-9);
    }
    return rate;
}

std::vector<double> seconds_to_read(std::span<const std::span<const std::byte>> pieces, int threads, int repeats) {
    const auto read = [&](int thread) {
        constexpr std::size_t words = 8;  // of a line of the cache, each summed by itself so that vectors of them are
        std::uint64_t sums[words] = {};
        for (const std::span<const std::byte> piece : pieces) {
            const std::size_t lines = piece.size() / (words * sizeof(std::uint64_t)),
                              all = static_cast<std::size_t>(threads);
            const std::size_t from = lines * static_cast<std::size_t>(thread) / all,
                              to = lines * static_cast<std::size_t>(thread + 1) / all;
            const auto* const data = reinterpret_cast<const std::uint64_t*>(piece.data());
            for (std::size_t line = from; line < to; ++line)
                for (std::size_t i = 0; i < words; ++i) sums[i] += data[line * words + i];
        }
        float all = 0;
        for (const std::uint64_t sum : sums) all += static_cast<float>(sum);
        sink = all;
    };
    std::atomic<int> round{0}, done{0};
    std::vector<std::thread> others;
    for (int i = 1; i < threads; ++i)
        others.emplace_back([&, i] {
            for (int at = 1; at <= repeats + 1; ++at) {
                while (round < at) {
                }
                read(i);
                ++done;
            }
        });
    std::vector<double> seconds;
    for (int at = 1; at <= repeats + 1; ++at) {
        const auto start = std::chrono::steady_clock::now();
        round = at;
        read(0);
        while (done < at * (threads - 1)) {
        }
        if (at > 1) seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    for (std::thread& each : others) each.join();
    return seconds;
}

}  // namespace attune::support
