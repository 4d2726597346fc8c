#include "kernel/gradient_schedule.hpp"

#include <numeric>
#include <stdexcept>

namespace attune::generators {

cpu_prefill gradient_schedule(const kernel_request& request) {
    if (request.on_gpu()) throw std::runtime_error("no gradients on a GPU yet; try TARGETS of CPUs");
    const level& isa = *request.target;
    cpu_prefill s{};
    s.lanes = isa.lanes;
    const bool wide = isa.registers >= 32;
    // Measured: four vectors of queries times four keys of 32 registers, three times four of 16.
    s.query_tile = (wide ? 4 : 3) * isa.lanes;
    s.key_tile = 4;
    s.query_block = s.key_block = wide ? 64 : 48;
    s.depth_unroll = std::gcd(request.depths.depth, 4);
    // Rows: 16 vectors of sums of 32 registers, 12 of 16, as wide as the rows are or two vectors.
    s.value_tile = (wide ? 8 : 2) * isa.lanes;
    s.chunk = (wide ? 16 : 12) * isa.lanes;
    return s;
}

}  // namespace attune::generators
