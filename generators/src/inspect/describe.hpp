#pragma once
#include <attune/generators/main.hpp>

#include <string>

namespace attune::generators::inline inspect {

/// The canonical formula as C++ of the language with aliases written out, as a whole header or as declarations only.
/// Compiled, it has the same fingerprint.
std::string described(const variant& v, bool as_header);

}  // namespace attune::generators::inline inspect
