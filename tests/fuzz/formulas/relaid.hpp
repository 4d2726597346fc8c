#pragma once
#include "../../properties/guarded_memory.hpp"

#include <attune/runtime/tensor.hpp>

#include <cstddef>
#include <memory>
#include <random>
#include <span>
#include <vector>

namespace fuzz {

/// A copy of a tensor in memory of its own, between pages that may not be touched: axes in another order, gaps between
/// rows, strides below 0. What no element covers is 0xff, NaN in every float type.
class relaid_tensor {
public:
    /// `dense`: its innermost axis stays innermost, with a stride of 1. `ascending`: no stride is below 0.
    relaid_tensor(const attune::tensor& from, bool dense, bool ascending, std::mt19937& random);

    const attune::tensor& view() const { return view_; }
    /// Makes every byte 0xff.
    void clear();
    /// Whether a byte that no element covers was written.
    bool is_spilled() const;
    /// The elements alone, outermost axis first.
    std::vector<std::byte> elements() const;

private:
    void lay_out(const attune::tensor& from, bool dense, bool ascending, std::mt19937& random);
    void copy(const attune::tensor& from);

    std::unique_ptr<attune::testing::guarded_memory<std::byte>> memory_;
    std::vector<std::int64_t> shape_, strides_;
    std::int64_t origin_ = 0, count_ = 0;  ///< elements: where index 0 of every axis lies; of the memory
    attune::tensor view_{};
};

/// The elements of any tensor, outermost axis first.
std::vector<std::byte> elements_of(const attune::tensor& t);
/// The same as numbers, of a tensor of f32, bf16, f16 or f64.
std::vector<double> numbers_in(const attune::tensor& t);

}  // namespace fuzz
