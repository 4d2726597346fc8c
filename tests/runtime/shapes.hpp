#pragma once
#include "by_hand.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <limits>

/// Calls with tensors of any shape, for tests of extents.
namespace by_hand {

constexpr auto f32 = element_type::f32;
constexpr auto i32 = element_type::i32;
using ints = std::vector<int>;
using extents = std::vector<std::int64_t>;

/// Memory for every tensor of a test: apart from one another, and large enough.
struct memory {
    std::vector<std::vector<float>> blocks;
    attune::tensor operator()(const extents& shape, const extents& strides = {}) {
        std::size_t size = 1;
        for (std::size_t i = 0; i < shape.size(); ++i)
            size += static_cast<std::size_t>(shape[i] * (strides.empty() ? 0 : std::abs(strides[i])));
        std::size_t dense = 1;
        for (const auto e : shape) dense *= static_cast<std::size_t>(e);
        blocks.emplace_back(std::max(size, dense), 7.0f);
        return {blocks.back().data(), shape, strides};
    }
};

}  // namespace by_hand
