#pragma once
#include <attune/runtime/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace bench {

/// A tensor with memory of its own: small numbers that differ, touched once.
class memory {
public:
    memory(attune::element_type type, std::vector<std::int64_t> shape);
    attune::tensor view() { return {type_, data_.get(), shape_}; }
    std::span<const std::byte> bytes() const { return {data_.get(), size_}; }
    template <class T> std::span<T> as() { return {reinterpret_cast<T*>(data_.get()), size_ / sizeof(T)}; }

private:
    struct free_aligned {
        void operator()(std::byte* data) const { ::operator delete[](data, std::align_val_t(64)); }
    };
    attune::element_type type_;
    std::vector<std::int64_t> shape_;
    std::size_t size_{};
    std::unique_ptr<std::byte[], free_aligned> data_;
};

/// The seconds in which `threads` threads read these pieces once, in their order, and do nothing with them. Each has
/// a stretch of them, cut where a line of the cache ends.
double seconds_to_read(std::span<const std::span<const std::byte>> pieces, int threads);

}  // namespace bench
