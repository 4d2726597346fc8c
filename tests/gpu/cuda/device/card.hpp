#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace ptx {

/// The properties of a device of one architecture.
struct card {
    std::string_view name;  ///< sm_90a
    int major, minor;       ///< compute capability
    int multiprocessors;
    std::size_t shared_bytes;  ///< that a block may ask for
    bool warpgroups;           ///< wgmma
};

inline constexpr std::size_t shared_without_asking = 48u << 10;

/// sm_80, sm_86, sm_89, sm_90, sm_90a, sm_100 or sm_120. Throws std::invalid_argument with those names.
const card& card_of(std::string_view name);
/// The one that PTX_CARD names; sm_90a.
const card& card_of_environment();
/// Why a module for `target` does not run on it; empty if it does.
std::string why_not(const card& on, std::string_view target);

}  // namespace ptx
