#pragma once
#include <attune/generators/main.hpp>

namespace attune::generators::inline commands {

/// The variant with that name, or with that last part of a name; the first one for an empty name. Otherwise throws
/// std::runtime_error, which lists them.
const variant& variant_named(std::span<const variant> variants, const std::string& name);

}  // namespace attune::generators::inline commands
