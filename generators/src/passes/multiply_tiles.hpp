#pragma once
#include <Halide.h>

#include <string>
#include <vector>

namespace attune::generators::inline passes {

/// Lowering pass: makes matrix products of bf16, or of words of bytes (multiply_bytes.hpp), with the tile registers of
/// AMX.
///
/// A named function is a sum of products, in plain loops over its rows, its columns and the summed index; without the
/// pass the loops make the same sums. One factor varies with the rows, and two neighbours of the summed index are read
/// beside each other, as bf16 or as words that hold both. The other factor varies with the columns and is read as such
/// words (Intel's Optimization Reference Manual, chapter 20: "VNNI format"). Rows and columns are multiples of 16, the
/// summed index of 32: four tiles of sums are made at a time, of two tiles of each factor.
class multiply_tiles : public Halide::Internal::IRMutator {
public:
    /// The functions' names.
    explicit multiply_tiles(std::vector<std::string> products) : products_(std::move(products)) {}

protected:
    using IRMutator::visit;
    Halide::Internal::Stmt visit(const Halide::Internal::ProducerConsumer* stage) override;

private:
    const std::vector<std::string> products_;
};

}  // namespace attune::generators::inline passes
