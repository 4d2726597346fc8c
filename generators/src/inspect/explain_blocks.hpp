#pragma once
#include "inspect/explain_cost.hpp"

#include <string>
#include <vector>

namespace attune::generators::inline inspect {

/// The effect of one part of a mask on the blocks of a kernel. A pair is visible if all parts hold, so a block is
/// skipped if any part says so.
struct block_reason {
    std::string condition;  ///< as the language spells it
    bool skips{};           ///< whether blocks without a visible pair are found
    bool unmasked{};        ///< whether blocks with only visible pairs are found
    std::string how;  ///< by "intervals", "tables" (least and greatest element of each tile, found once in each call)
                      ///< or "nothing"
    std::string why;  ///< a sentence
};

/// "skips: ..." or "skips nothing: ...".
std::string sentence_of(const block_reason& reason);

/// For each part of the mask, by the code that decides in a kernel (block_mask.hpp). Empty if nothing is masked.
std::vector<block_reason> block_reasons(const kernel_request& request);

/// The tables of a call, all together: one copy, whatever the number of threads.
cost bytes_of_tables(const kernel_request& request, const call_sizes& call);

}  // namespace attune::generators::inline inspect
