#pragma once
#include <attune/generators/main.hpp>

#include <string>

namespace attune::generators {

/// The canonical formula as C++ of the language, aliases written out: compiled, it has the same fingerprint. As a whole
/// header, or as the declarations alone.
std::string described(const variant& v, bool as_header);

}  // namespace attune::generators
