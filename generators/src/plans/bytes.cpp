#include "plans/parts.hpp"

namespace attune::generators::inline plans {

kernel_bytes bytes_of(const kernel_request& request) {
    const row_memory rows = row_memory_of(request);
    return {.of_thread = scratch_bytes(request),
            .of_row = rows.scratch_bytes,
            .of_split_row = rows.part_bytes,
            .sums = sum_memory_of(request)};
}

}  // namespace attune::generators::inline plans
