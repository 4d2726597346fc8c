#pragma once
#include <attune/ir/element_type.hpp>

#include <cstdint>
#include <string>
#include <vector>

/// The timed cases: the one table that attune_benchmark and compare.py go by.
namespace bench {

struct benchmark_case {
    std::string name;     ///< "causal/S2048/D64/f32"
    std::string variant;  ///< of variants.hpp
    attune::element_type element;
    std::int64_t batch, heads, key_heads, queries, keys, depth;
    std::int64_t used = keys;  ///< of the keys; of a chat the others are slots that nothing is in yet

    /// Pairs that are visible in all batch elements, heads and softmaxes together.
    std::int64_t visible_pairs() const;
    double flops() const { return 4.0 * static_cast<double>(visible_pairs() * depth); }
    /// The tensors of queries, keys and values and the output, each once.
    double bytes() const;
};

const std::vector<benchmark_case>& cases();

/// Lengths of the documents that fill a sequence of 4096, and the keys in use of a batch element of the padded case.
inline constexpr std::int64_t document_lengths[] = {1027, 765, 643, 509, 451, 349, 227, 125};
inline constexpr std::int64_t keys_in_use(std::int64_t b, std::int64_t keys) {
    return keys / 2 + 37 * b % (keys / 2 + 1);
}
inline constexpr std::int64_t window_keys = 256;  ///< keys, the query's own among them
/// Keys of a block that is chosen, how many blocks a query chooses, and the keys of nsa's window.
inline constexpr std::int64_t block_keys = 64, moba_blocks = 7, nsa_blocks = 5, nsa_window = 128;

}  // namespace bench
