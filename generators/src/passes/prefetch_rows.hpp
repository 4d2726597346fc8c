#pragma once
#include <Halide.h>

#include <string>
#include <utility>
#include <vector>

namespace attune::generators {

/// Lowering pass: what a loop's body reads of some tensors `ahead` iterations of an outer loop later is asked for
/// before the body, a line of the cache at a time.
///
/// Halide's own prefetch fetches the box that bounds what is read, which is the whole tensor where a position is
/// clamped by a number of memory. Here the addresses themselves are taken, at the first iteration of the loops inside.
/// Nothing is read that is not there: a prefetch never faults; and where an address needs a number of memory, such as
/// the page of a key, that is read ahead only from tables that reach so far.
class prefetch_rows : public Halide::Internal::IRMutator {
public:
    /// By the function's name and the variable's.
    struct loop {
        std::string function, variable;
        bool is(const std::string& name) const;
    };
    /// Of a tensor: elements that lie side by side in a row, and by how many iterations its loads are moved.
    struct stream {
        std::string tensor;
        int elements{}, ahead{};
    };
    /// The loads in `where` are moved by iterations of `from`, which is it or around it. `tables` are functions of the
    /// kernel that hold what addresses need for as many iterations more.
    prefetch_rows(loop where, loop from, std::vector<stream> streams, std::vector<std::string> tables)
        : where_(std::move(where)), from_(std::move(from)), streams_(std::move(streams)), tables_(std::move(tables)) {}

protected:
    using IRMutator::visit;
    Halide::Internal::Stmt visit(const Halide::Internal::For* loop) override;
    Halide::Internal::Stmt visit(const Halide::Internal::LetStmt* let) override;

private:
    const loop where_, from_;
    const std::vector<stream> streams_;
    const std::vector<std::string> tables_;
    std::string advanced_;  ///< the second loop's variable, inside it
    std::vector<std::pair<std::string, Halide::Expr>> lets_;
};

}  // namespace attune::generators
