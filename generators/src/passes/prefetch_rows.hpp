#pragma once
#include <Halide.h>
#include "passes/lets.hpp"

#include <string>
#include <utility>
#include <vector>

namespace attune::generators::inline passes {

/// Lowering pass: what a loop's body reads of some tensors `ahead` iterations of an outer loop later is asked for
/// before the body, a line of the cache at a time.
///
/// Halide's own prefetch fetches the box that bounds what is read, which is the whole tensor where a position is
/// clamped by a number of memory. Here the addresses themselves are taken, at the first iteration of the loops inside.
/// Where the body reads a part of each row that is shorter than a line, and is repeated for the other parts, a line is
/// asked for with its first part. Nothing is read that is not there: a prefetch never faults; and where an address
/// needs a number of memory, such as the page of a key, that is read ahead only from tables that reach so far.
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
    /// kernel that hold what addresses need for as many iterations more. `parts`, around both, is the loop over parts
    /// of rows, which may be written out; the elements of a stream are then those of the shortest part.
    prefetch_rows(loop where, loop from, std::vector<stream> streams, std::vector<std::string> tables, loop parts = {})
        : where_(std::move(where)),
          from_(std::move(from)),
          parts_(std::move(parts)),
          streams_(std::move(streams)),
          tables_(std::move(tables)) {}

protected:
    using IRMutator::visit;
    Halide::Internal::Stmt visit(const Halide::Internal::For* loop) override;
    Halide::Internal::Stmt visit(const Halide::Internal::LetStmt* let) override;
    Halide::Internal::Stmt visit(const Halide::Internal::IfThenElse* choice) override;

private:
    Halide::Internal::Stmt fetches(const stream& of, const Halide::Internal::Stmt& body);

    const loop where_, from_, parts_;
    const std::vector<stream> streams_;
    const std::vector<std::string> tables_;
    std::string advanced_, part_;  ///< the second loop's variable, and that of parts, inside them
    named_values fetched_;         ///< tensors and places of rows, on this way through
    named_values lets_;
};

}  // namespace attune::generators::inline passes
