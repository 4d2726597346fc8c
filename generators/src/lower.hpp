#pragma once
#include "kernel/kernel_request.hpp"

#include <Halide.h>

#include <functional>
#include <string>
#include <vector>

namespace attune::generators {

/// Receives a kernel's statement after each pass, with the name of the pass: "halide" first, then those of passes/, and
/// last "module" for the entry as it is compiled, which calls the tasks.
using pass_observer = std::function<void(const std::string& pass, const Halide::Internal::Stmt& after)>;

/// A kernel's functions, from which Halide modules are made.
struct lowered_kernel {
    std::vector<Halide::Argument> arguments;  ///< inputs in the graph's order, then kv_lengths (batch)
    Halide::Pipeline attention;               ///< its buffers as kernel_table.hpp says
    std::vector<int> order;   ///< outputs in the graph's order and then the saved rows, as places among the pipeline's
                              ///< outputs; empty for a recurrence, whose call has them in the pipeline's order
    Halide::Pipeline stores;  ///< stores before the attention, an output a tensor; undefined if there are none
    Halide::Pipeline blocks;  ///< one u8 output (key block, query block, head, batch): 0 empty, 1 partial, 2 full;
                              ///< undefined for a recurrence

    /// The attention as a module, its arguments in the order of a call.
    Halide::Module module(const std::string& symbol, const Halide::Target& target,
                          const pass_observer& observer = {}) const;
    /// The stores under a name of their own; only if there are any.
    Halide::Module module_of_stores(const std::string& name, const Halide::Target& target) const;
    /// The modules of the other functions: the symbol with _blocks and, if anything is stored, _stores.
    std::vector<Halide::Module> beside(const std::string& symbol, const Halide::Target& target) const;
};

/// Throws std::runtime_error, a sentence, for a graph that is not one kernel (plan.hpp) or a schedule that breaks its
/// rules.
///
/// The kernel does not check these; callers must: no null host pointer, heads a multiple of key heads, every axis of an
/// input as long as the call's, broadcast by stride 0. Keys, and axes whose extent a formula asks for, may be 0 long:
/// the kernel then reads memory at the first position of such an axis and ignores the value.
lowered_kernel lower(const kernel_request& request);

}  // namespace attune::generators
