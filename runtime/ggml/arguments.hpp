#pragma once
#include <attune/c.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace attune::ggml {

/// The arguments of one call, with their shapes and strides. Strides are elements.
class arguments {
public:
    arguments() = default;
    arguments(const arguments&) = delete;  // the list points into it

    void tensor(const char* name, std::int32_t element, void* data, std::initializer_list<std::int64_t> shape,
                std::initializer_list<std::int64_t> strides) {
        axes& of = axes_[count_];
        std::ranges::copy(shape, of.shape.begin());
        std::ranges::copy(strides, of.strides.begin());
        attune_tensor made = attune_dense(data, element, static_cast<std::int32_t>(shape.size()), of.shape.data());
        made.strides = of.strides.data();
        list_[count_++] = attune_tensor_argument(name, made);
    }
    void number(const char* name, double value) { list_[count_++] = attune_real_argument(name, value); }

    const attune_argument* data() const { return list_.data(); }
    std::size_t size() const { return count_; }

private:
    static constexpr std::size_t most = 13;  // q, two of keys and of values, bounds, sink, mask, slope, numbers, out
    struct axes {
        std::array<std::int64_t, 5> shape, strides;
    };
    std::array<axes, most> axes_{};
    std::array<attune_argument, most> list_{};
    std::size_t count_ = 0;
};

}  // namespace attune::ggml
