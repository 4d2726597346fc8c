#pragma once
#include <attune/ir/element.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace language_model {

/// What weights are in memory. Where oneDNN multiplies bf16, with AVX-512, rows that a matrix in bf16 is multiplied
/// with are rounded to bf16, too; sums are f32.
enum class weight_type { f32, bf16 };

/// A matrix (out, in) that stays, for products by oneDNN; in bf16 on a CPU for which oneDNN has none, its weights
/// become f32 as they are read.
class matrix {
public:
    matrix() = default;
    matrix(std::vector<float> weights, std::int64_t out, weight_type type);

    /// to (row, out) = from (row, in) * matrix
    void operator()(std::span<const float> from, std::span<float> to) const;
    std::int64_t in() const { return in_; }
    std::int64_t out() const { return out_; }

private:
    struct packed;  // bf16, as oneDNN likes to read it

    // One of them has the weights.
    std::vector<float> weights_;
    std::vector<attune::bfloat16> halves_;
    std::shared_ptr<packed> packed_;
    std::int64_t in_{}, out_{};
};

}  // namespace language_model
