#pragma once
#include <Halide.h>

#include <string>
#include <utility>
#include <vector>

namespace attune::generators {

/// Lowering pass: what a tensor's loads in a loop's body read `ahead` iterations of an outer loop later is asked for
/// before the body, a line of the cache at a time.
///
/// Halide's own prefetch fetches the box that bounds what is read, which is the whole tensor where a position is
/// clamped by a number of memory. Here the addresses themselves are taken, at the first iteration of the loops inside.
/// Nothing is read that is not there: a prefetch never faults.
class prefetch_rows : public Halide::Internal::IRMutator {
public:
    /// Both loops by the function's name and the variable's: the first one's loads are moved by `ahead` iterations of
    /// the second, which is it or around it.
    struct loop {
        std::string function, variable;
        bool is(const std::string& name) const;
    };
    /// `elements`: of a row, which lie side by side.
    prefetch_rows(loop where, loop from, int ahead, std::string tensor, int elements)
        : where_(std::move(where)),
          from_(std::move(from)),
          ahead_(ahead),
          tensor_(std::move(tensor)),
          elements_(elements) {}

protected:
    using IRMutator::visit;
    Halide::Internal::Stmt visit(const Halide::Internal::For* loop) override;
    Halide::Internal::Stmt visit(const Halide::Internal::LetStmt* let) override;

private:
    const loop where_, from_;
    const int ahead_;
    const std::string tensor_;
    const int elements_;
    std::string advanced_;  ///< the second loop's variable, inside it
    std::vector<std::pair<std::string, Halide::Expr>> lets_;
};

}  // namespace attune::generators
