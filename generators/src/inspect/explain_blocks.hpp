#pragma once
#include "inspect/explain_cost.hpp"

#include <string>
#include <vector>

namespace attune::generators {

/// What one part of a mask does for the blocks of a kernel. The parts hold together: a block is skipped where any of
/// them says so.
struct block_reason {
    std::string condition;  ///< as the language spells it
    bool skips{};           ///< whether blocks without a visible pair are found
    bool unmasked{};        ///< whether blocks of visible pairs alone are found
    std::string how;        ///< by "intervals", "tables" (extremes a tile, made once a call) or "nothing"
    std::string why;        ///< a sentence
};

/// "skips: ..." or "skips nothing: ...".
std::string sentence_of(const block_reason& reason);

/// Asked of what decides in a kernel (block_mask.hpp), one part of the mask at a time. Empty where nothing is masked.
std::vector<block_reason> block_reasons(const kernel_request& request);

/// The tables of a call, all together: one copy, whatever the number of threads.
cost bytes_of_tables(const kernel_request& request, const call_sizes& call);

}  // namespace attune::generators
