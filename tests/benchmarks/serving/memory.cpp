#include "memory.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <new>
#include <random>
#include <thread>

namespace bench {

memory::memory(attune::element_type type, std::vector<std::int64_t> shape) : type_(type), shape_(std::move(shape)) {
    std::size_t count = 1;
    for (const std::int64_t extent : shape_) count *= static_cast<std::size_t>(extent);
    size_ = count * attune::bytes_of(type);
    data_.reset(static_cast<std::byte*>(::operator new[](std::max<std::size_t>(size_, 1), std::align_val_t(64))));
    std::minstd_rand random(1);
    const auto real = [&] { return static_cast<float>(random() % 2048) / 1024.0f - 1.0f; };
    switch (type) {
        case attune::element_type::f32:
            for (float& x : as<float>()) x = real();
            break;
        case attune::element_type::bf16:
            for (std::uint16_t& x : as<std::uint16_t>()) x = std::uint16_t(std::bit_cast<std::uint32_t>(real()) >> 16);
            break;
        case attune::element_type::i32:
            for (std::int32_t& x : as<std::int32_t>()) x = 0;
            break;
        default:
            for (std::uint8_t& x : as<std::uint8_t>()) x = std::uint8_t(random() % 256);
    }
}

namespace {

std::atomic<std::uint64_t> sink;

/// Sums lines [from, to) of the pieces, counted through.
void read(std::span<const std::span<const std::byte>> pieces, std::size_t from, std::size_t to) {
    constexpr std::size_t words = 8, line = words * sizeof(std::uint64_t);
    std::uint64_t sums[words] = {};
    std::size_t at = 0;
    for (const std::span<const std::byte> piece : pieces) {
        const std::size_t lines = piece.size() / line, first = std::clamp(from, at, at + lines) - at,
                          last = std::clamp(to, at, at + lines) - at;
        const auto* const data = reinterpret_cast<const std::uint64_t*>(piece.data());
        for (std::size_t i = first; i < last; ++i)
            for (std::size_t j = 0; j < words; ++j) sums[j] += data[i * words + j];
        at += lines;
    }
    for (const std::uint64_t sum : sums) sink.fetch_add(sum, std::memory_order_relaxed);
}

}  // namespace

double seconds_to_read(std::span<const std::span<const std::byte>> pieces, int threads) {
    std::size_t lines = 0;
    for (const auto& piece : pieces) lines += piece.size() / 64;
    const auto part = [&](int i) { return lines * static_cast<std::size_t>(i) / static_cast<std::size_t>(threads); };
    std::atomic<int> ready{0}, done{0};
    std::atomic<bool> go{false};
    std::vector<std::thread> others;
    for (int i = 1; i < threads; ++i)
        others.emplace_back([&, i] {
            ++ready;
            while (!go) {
            }
            read(pieces, part(i), part(i + 1));
            ++done;
        });
    while (ready < threads - 1) {
    }
    const auto start = std::chrono::steady_clock::now();
    go = true;
    read(pieces, part(0), part(1));
    while (done < threads - 1) {
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    for (std::thread& each : others) each.join();
    return seconds;
}

}  // namespace bench
