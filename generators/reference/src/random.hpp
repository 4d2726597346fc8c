#pragma once
#include <array>
#include <cmath>
#include <cstdint>

namespace attune::reference {

/// Philox 4x32 with ten rounds (Salmon et al. 2011): four random words of a counter and a key.
inline std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> c, std::uint32_t key_0, std::uint32_t key_1) {
    for (int round = 0; round < 10; ++round) {
        const std::uint64_t x = std::uint64_t{0xD2511F53} * c[0], y = std::uint64_t{0xCD9E8D57} * c[2];
        c = {static_cast<std::uint32_t>(y >> 32) ^ c[1] ^ key_0, static_cast<std::uint32_t>(y),
             static_cast<std::uint32_t>(x >> 32) ^ c[3] ^ key_1, static_cast<std::uint32_t>(x)};
        key_0 += 0x9E3779B9, key_1 += 0xBB67AE85;
    }
    return c;
}

/// Whether dropout with probability p keeps the pair (b, h, q, key). The seed's lower half and upper half are the key.
inline bool keeps(double p, std::int32_t seed, std::int32_t upper_half, const std::array<std::int64_t, 4>& pair) {
    const auto word = [](std::int64_t x) { return static_cast<std::uint32_t>(x); };
    const auto& [b, h, q, key] = pair;
    const auto words = philox({word(key / 4), word(q), word(h), word(b)}, word(seed), word(upper_half));
    return words[static_cast<std::size_t>(key % 4)] >= std::round(p * 4294967296.0);
}

}  // namespace attune::reference
