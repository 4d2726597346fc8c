#pragma once
#include <attune/c.h>
#include <attune/runtime/tensor.hpp>

#include <string_view>

namespace attune::detail {

/// The view that a C struct describes; `name` is for messages. Throws attune::error.
tensor from_c(std::string_view name, const attune_tensor& given);

}  // namespace attune::detail
