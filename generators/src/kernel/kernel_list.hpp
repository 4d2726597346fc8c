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
    int from_queries{1}, to_queries{std::numeric_limits<int>::max()};  ///< numbers of queries that it serves, inclusive
    std::string schedule_from{"the default"};                          ///< where its schedule comes from, for people
    std::string cpus{};  ///< the CPU models that its schedule was measured on, with commas between; empty: for any
};

/// The schedule if nothing better was measured, for any target. The request's own schedule is ignored.
schedule default_prefill(const kernel_request& request);
schedule default_decode(const kernel_request& request);

/// All kernels of a build, sorted by variant, then in the order of kernel tables: most demanding ISA level first.
/// Throws std::runtime_error, a sentence, for an unknown target or element type, a malformed depth.
std::vector<listed_kernel> kernels_of(std::span<const variant> variants, const build_request& build);

/// Names levels that a build leaves out although its decode kernels would multiply bytes there: a sentence, or nothing.
std::string missing_level_of(std::span<const listed_kernel> kernels, const variant& of);

}  // namespace attune::generators::inline kernel
