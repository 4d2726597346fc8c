#pragma once
#include "kernel/kernel_list.hpp"

#include <attune/runtime/detail/kernel_table.hpp>

namespace attune::generators::inline emit {

/// A kernel's record in a kernel table, except for its texts, which the caller keeps, and its entries.
attune::kernel kernel_record(const listed_kernel& made);

}  // namespace attune::generators::inline emit
