#pragma once
#include <string_view>

namespace attune::generators::inline ptx {

/// The instruction that replaces calls of a name that nobody defines.
struct instruction {
    std::string_view name;  ///< of the call; with several results each has a call of its own, `name` and _d0, _d1, ...
    int results, operands;
    bool of_warp;  ///< all threads of a warp execute it together
    /// `%0`, `%1` are the results, `$0`, `$1` the operands.
    std::string_view text;
    /// The operand that is an address of shared memory. The call gets the word that lies there; the address is taken
    /// from the load of that word.
    int address = -1;
    /// Four warps execute it together. Its results are too many for names: a call's first operand is the number of its
    /// result, and `$0` is the one behind it. The address is a constant, a multiple of 1024.
    bool of_warpgroup{};
};

/// The instruction of a name without its _d0; null if there is none.
const instruction* instruction_named(std::string_view name);

inline constexpr std::string_view prefix = "attune_";  ///< of all names
inline constexpr std::string_view commit_copies = "attune_async_commit";

}  // namespace attune::generators::inline ptx
