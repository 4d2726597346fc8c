#pragma once
#include "passes/skip_blocks.hpp"

#include <stdexcept>
#include <string>
#include <utility>

namespace attune::generators::inline gpu {

inline constexpr int decided_at_once = 32;  ///< blocks that are decided on together, one a thread

/// Blocks of keys that are passed over by all threads of a block. What is not found is an error, for nothing but time
/// would tell: masked blocks would be computed and then dropped. (A number of blocks that is known at run time only is
/// a loop always.)
class skip_blocks_on_gpu : public skip_blocks {
public:
    /// The table of visits has lost its name in shared memory, where nothing else is of bytes that a loop's predicate
    /// would ask for. All threads of a block agree on what it says, so that they may wait for each other inside.
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
