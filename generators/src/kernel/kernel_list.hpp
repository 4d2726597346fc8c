#pragma once
#include <attune/generators/main.hpp>
#include "kernel/kernel_request.hpp"

#include <limits>
#include <span>
#include <string>
#include <vector>

namespace attune::generators::inline kernel {

/// One kernel of a build, under the name that its object exports.
struct listed_kernel {
    const variant* of{};
    kernel_request request;
    std::string symbol;  ///< attune_<variant>_<dtype>_d<depth>x<value depth>_<target>_<fingerprint>, all [a-z0-9_]; see
                         ///< kernel_table.hpp
    int from_queries{1}, to_queries{std::numeric_limits<int>::max()};  ///< that it serves, inclusive
    std::string schedule_from{"the default"};                          ///< where its schedule comes from, for people
    std::string cpus{};  ///< the CPU models that its schedule was measured on, with commas between; empty: for any
};

/// What is used where nothing better was measured, of whatever target: of the request, all but its schedule counts.
schedule default_prefill(const kernel_request& request);
schedule default_decode(const kernel_request& request);

/// Sorted by variant, then as kernel tables want them: most demanding ISA level first. Throws std::runtime_error, a
/// sentence, for an unknown target or element type, a malformed depth.
std::vector<listed_kernel> kernels_of(std::span<const variant> variants, const build_request& build);

/// What a level has that a build leaves out: products of integers of decode kernels that would be of bytes there. A
/// sentence, or nothing.
std::string missing_level_of(std::span<const listed_kernel> kernels, const variant& of);

}  // namespace attune::generators::inline kernel
