#include "peak.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace attune::support {
namespace {

constexpr long rounds = 3000000;  // some milliseconds: the start of a thread must not count

// Twelve independent chains hide the latency of an FMA; the sums are kept so that nothing is optimised away.
#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) float chains_256() {
    __m256 sums[12];
    const __m256 x = _mm256_set1_ps(1.0001f), y = _mm256_set1_ps(1e-6f);
    for (auto& s : sums) s = y;
    for (long i = 0; i < rounds; ++i)
        for (auto& s : sums) s = _mm256_fmadd_ps(s, x, y);
    __m256 all = y;
    for (auto& s : sums) all = _mm256_add_ps(all, s);
    return _mm256_cvtss_f32(all);
}
__attribute__((target("avx512f"))) float chains_512() {
    __m512 sums[12];
    const __m512 x = _mm512_set1_ps(1.0001f), y = _mm512_set1_ps(1e-6f);
    for (auto& s : sums) s = y;
    for (long i = 0; i < rounds; ++i)
        for (auto& s : sums) s = _mm512_fmadd_ps(s, x, y);
    __m512 all = y;
    for (auto& s : sums) all = _mm512_add_ps(all, s);
    return _mm512_cvtss_f32(all);
}
#endif
float chains_scalar() {
    float sums[12];
    for (float& s : sums) s = 1e-6f;
    for (long i = 0; i < rounds; ++i)
        for (float& s : sums) s = s * 1.0001f + 1e-6f;
    float all = 0;
    for (float s : sums) all += s;
    return all;
}

struct level {
    float (*chains)();
    int lanes;
};

level level_of([[maybe_unused]] std::string_view target) {
#if defined(__x86_64__)
    if (target.starts_with("x86-64-v4")) return {chains_512, 16};
    if (target == "x86-64-v3") return {chains_256, 8};
#endif
    return {chains_scalar, 4};
}

std::atomic<float> sink;  // threads leave here what they computed, so that it is not left out

}  // namespace

double fma_peak_gigaflops(int threads, std::string_view target) {
    static std::map<std::pair<int, std::string>, double> known;
    double& rate = known[{threads, std::string(target)}];
    if (rate > 0) return rate;
    const level l = level_of(target);
    for (int attempt = 0; attempt < 8; ++attempt) {
        const auto start = std::chrono::steady_clock::now();
        std::vector<std::thread> others;
        for (int i = 1; i < threads; ++i) others.emplace_back([&] { sink = l.chains(); });
        sink = l.chains();
        for (auto& t : others) t.join();
        const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        rate = std::max(rate, 2.0 * 12 * l.lanes * double(rounds) * threads / seconds * 1e-9);
    }
    return rate;
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
            const std::size_t lines = piece.size() / (words * sizeof(std::uint64_t)), all = static_cast<std::size_t>(threads);
            const std::size_t from = lines * static_cast<std::size_t>(thread) / all, to = lines * static_cast<std::size_t>(thread + 1) / all;
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
                while (round < at) {}
                read(i);
                ++done;
            }
        });
    std::vector<double> seconds;
    for (int at = 1; at <= repeats + 1; ++at) {
        const auto start = std::chrono::steady_clock::now();
        round = at;
        read(0);
        while (done < at * (threads - 1)) {}
        if (at > 1) seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    for (std::thread& each : others) each.join();
    return seconds;
}

}  // namespace attune::support
