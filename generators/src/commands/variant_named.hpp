#pragma once
#include <attune/generators/main.hpp>

namespace attune::generators {

/// The variant of that name, or of which it is the last part; the first one for an empty name. Throws
/// std::runtime_error, which lists them, otherwise.
const variant& variant_named(std::span<const variant> variants, const std::string& name);

}  // namespace attune::generators
