#pragma once
#include <attune/generators/kernel_request.hpp>

#include <Halide.h>

#include <string>

namespace attune::generators {

/// A kernel's two functions as Halide modules can be made of them.
struct lowered_kernel {
    std::vector<Halide::Argument> arguments;  ///< inputs in listing order, then kv_lengths (batch)
    Halide::Pipeline
        attention;  ///< outputs in listing order, (value depth, query, head, batch); rows too, with stride 0 along the value depth
    Halide::Pipeline blocks;  ///< one u8 output (key block, query block, head, batch): 0 skipped, 1 visited, 2 without mask
};

/// Throws std::runtime_error, a sentence, for a listing that is not one kernel (plan.hpp) or a schedule that breaks its rules.
///
/// Callers of the kernel answer for what is checked at run time only: no null host pointer, every axis at least 1 long (pass one
/// key and a kv_length of 0 where there are none), heads a multiple of key heads, batch and head axes as in q, broadcast by stride 0.
lowered_kernel lower(const kernel_request& request);

}  // namespace attune::generators
