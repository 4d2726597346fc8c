#pragma once
#include "kernel/kernel_list.hpp"
#include "tuner/jit_kernel.hpp"

#include <attune/runtime/detail/call.hpp>

#include <string>
#include <vector>

namespace stack {

/// The levels that run here, the most demanding first.
std::vector<std::string> levels_here();

/// Its only kernel, or the first, which is compiled in process.
attune::generators::jit_kernel kernel_of(const attune::generators::variant& variant, const std::string& types,
                                         const std::string& depths, const std::string& shapes,
                                         const std::string& level);

/// Makes all kinds of calls of a kernel on a small stack, with arguments of which the last is an output.
void check_calls(const attune::kernel_table& kernel, const std::vector<attune::detail::named_argument>& arguments);

}  // namespace stack
