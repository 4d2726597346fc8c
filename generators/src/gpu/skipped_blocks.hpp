#pragma once
#include "passes/skip_blocks.hpp"

#include <stdexcept>
#include <string>
#include <utility>

namespace attune::generators::inline gpu {

inline constexpr int decided_at_once = 32;  ///< blocks that are decided on together, one a thread

/// Makes all threads of a block pass over blocks of keys. It is an error if the loop is not found, since only the time
/// would show it: masked blocks would be computed and then dropped. (If the number of blocks is known only at run time,
/// there is always a loop.)
class skip_blocks_on_gpu : public skip_blocks {
public:
    /// The table of visits has lost its name in shared memory; it is the only table of bytes there that a loop's
    /// predicate asks. All threads of a block read the same entry, so that they may wait for each other inside.
    explicit skip_blocks_on_gpu(const stage_loop& loop)
        : skip_blocks(loop, [](const Halide::Internal::Load& load) { return load.type == Halide::UInt(8); }),
          loop_(loop) {}

    using skip_blocks::mutate;
    Halide::Internal::Stmt mutate(const Halide::Internal::Stmt& s) override {
        const bool whole = !std::exchange(inside_, true);
        if (whole) found_ = false;
        Halide::Internal::Stmt result = skip_blocks::mutate(s);
        if (!whole) return result;
        inside_ = false;
        if (!found_) throw std::runtime_error("a device's kernel has no loop " + loop_.name());
        return result;
    }

protected:
    using skip_blocks::visit;
    Halide::Internal::Stmt visit(const Halide::Internal::For* loop) override {
        found_ = found_ || loop_.is(loop->name);
        return skip_blocks::visit(loop);
    }

private:
    stage_loop loop_;
    bool inside_{}, found_{};
};

}  // namespace attune::generators::inline gpu
