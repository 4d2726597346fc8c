#pragma once
#include "card.hpp"
#include "counts.hpp"
#include "execution.hpp"

#include <map>
#include <span>
#include <string>
#include <string_view>

namespace ptx {

struct launch_options {
    extent grid, block;
    std::size_t shared_bytes = 0;  ///< besides what the kernel declares
    shared_checks checks;
    bool counts = false;
    int host_threads = 0;                 ///< 0: as many as there are
    const allocations* memory = nullptr;  ///< null: kernels may touch any address
};

/// The kernels of a text of PTX, which run on the host's threads: blocks beside each other, the warps of a block one
/// after the other from barrier to barrier, a warp's 32 threads by the host's vectors.
class module {
public:
    /// Throws std::runtime_error if the text has what this device does not know.
    explicit module(std::string_view text, const card& on = card_of("sm_90a"));
    /// Null if there is none of that name.
    const program* entry(const std::string& name) const;

private:
    std::map<std::string, program> entries_;
};

/// Runs a kernel; each parameter is read from where `arguments` points to. Throws a fault for what a device would not
/// do, or not do alike each time.
counts launch(const program& kernel, const launch_options& how, std::span<void* const> arguments);

}  // namespace ptx
