#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace language_model {

/// What weights are in memory. Where oneDNN multiplies bf16, it rounds rows that meet a matrix in bf16 to bf16, too:
/// those of more than a few. Sums are f32.
enum class weight_type { f32, bf16 };

/// A matrix (out, in) that stays: its products with a few rows wait for memory and are loops of our own, those with
/// more rows are oneDNN's.
class matrix {
public:
    matrix() = default;
    matrix(std::vector<float> weights, std::int64_t out, weight_type type);

    /// to (row, out) = from (row, in) * matrix
    void operator()(std::span<const float> from, std::span<float> to) const;
    std::int64_t out() const { return out_; }

private:
    std::vector<float> weights_;          // f32
    std::vector<std::uint16_t> rounded_;  // or bf16
    std::int64_t in_{}, out_{};
};

/// Loops of attune on the threads of the products, which spin while they wait.
void share_threads();

}  // namespace language_model
