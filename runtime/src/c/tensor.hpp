#pragma once
#include <attune/c.h>
#include <attune/runtime/tensor.hpp>

#include <cstdint>
#include <string_view>

#pragma GCC visibility push(hidden)
namespace attune::detail {

/// The element type that ATTUNE_F32 and the like stand for, of `name`. Throws attune::error.
element_type element_from(std::string_view name, std::int32_t code);

/// The view that a C struct describes; `name` is for messages. Throws attune::error.
tensor from_c(std::string_view name, const attune_tensor& given);

}  // namespace attune::detail
#pragma GCC visibility pop
