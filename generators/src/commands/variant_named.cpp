#include "commands/variant_named.hpp"

#include <stdexcept>

namespace attune::generators::inline commands {

const variant& variant_named(std::span<const variant> variants, const std::string& name) {
    std::string names;
    for (const variant& v : variants)
        if (name.empty() || v.name == name) return v;
    for (const variant& v : variants) {
        if (v.name.ends_with("::" + name)) return v;
        names += (names.empty() ? "" : ", ") + v.name;
    }
    throw std::runtime_error("expected a variant among " + names + ", got \"" + name + "\"");
}

}  // namespace attune::generators::inline commands
