#pragma once
#include <Halide.h>
#include "passes/lets.hpp"
#include "passes/stage_loop.hpp"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace attune::generators::inline passes {

/// Lowering pass: before a loop's body, prefetches the elements of some tensors that the body reads `ahead` iterations
/// of an outer loop later, a line of the cache at a time.
///
/// Halide's own prefetch fetches the box that bounds all reads. That is the whole tensor if a number in memory clamps a
/// position. This pass takes the addresses themselves, at the first iteration of the loops inside. If the body reads a
/// part of each row that is shorter than a line, and is repeated for the other parts, a line is fetched with its first
/// part. Every read stays within memory: a prefetch never faults, and a number in memory that an address needs, such as
/// the page of a key, is read ahead only from tables that reach so far.
class prefetch_rows : public Halide::Internal::IRMutator {
public:
    /// A tensor, the elements that lie side by side in a row, and the iterations by which its loads are moved.
    struct stream {
        std::string tensor;
        int elements{}, ahead{};
    };
    /// The loads in `where` are moved by iterations of `from`, the same loop or one around it. `tables` are functions
    /// of the kernel that hold the numbers of addresses for as many further iterations. `parts`, around both, is the
    /// loop over parts of rows, which may be written out; the elements of a stream are then those of the shortest part.
    prefetch_rows(stage_loop where, stage_loop from, std::vector<stream> streams, std::vector<std::string> tables,
                  std::optional<stage_loop> parts = {})
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

    const stage_loop where_, from_;
    const std::optional<stage_loop> parts_;
    const std::vector<stream> streams_;
    const std::vector<std::string> tables_;
    std::string advanced_, part_;  ///< the variables of `from` and of `parts`, inside them
    named_values fetched_;         ///< tensors and places of rows that are fetched already, on this path
    named_values lets_;
};

}  // namespace attune::generators::inline passes
