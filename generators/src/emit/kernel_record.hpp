#pragma once
#include "kernel/kernel_list.hpp"

#include <attune/runtime/detail/kernel_table.hpp>

namespace attune::generators {

/// What a kernel table has of a kernel, whoever fills it: all but its texts, which the caller keeps, and its entries.
kernel kernel_record(const listed_kernel& made);

}  // namespace attune::generators
