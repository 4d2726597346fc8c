#pragma once
#include "kernel/kernel_list.hpp"

#include <nlohmann/json.hpp>

#include <string>

/// The kernel of a listing: graph, types, depths, level and purpose.
namespace attune::generators::inline inspect {

/// For people: a line.
std::string heading_of(const listed_kernel& kernel);

/// For programs: an object with these fields, to which a listing adds its own.
nlohmann::ordered_json named_object(const listed_kernel& kernel);

}  // namespace attune::generators::inline inspect
