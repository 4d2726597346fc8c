#include "kernel/gradient_schedule.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace attune::generators::inline kernel {

cpu_gradient default_cpu_gradient(const kernel_request& request) {
    if (request.on_gpu()) throw std::runtime_error("no gradients on a GPU yet; try TARGETS of CPUs");
    const level& isa = *request.target;
    cpu_gradient s{};
    s.lanes = isa.lanes;
    const bool wide = isa.registers >= 32;
    // Measured: four vectors of queries times four keys for 32 registers, three times four for 16.
    s.query_tile = (wide ? 4 : 3) * isa.lanes;
    s.key_tile = 4;
    s.block = wide ? 64 : 48;
    s.depth_unroll = std::gcd(request.depths.depth, 4);
    // 16 vectors of sums for 32 registers, 12 for 16: rows of four vectors or two, or as their channels allow. Rows of
    // eight need more loads for as many products: at depth 128 a tenth of the time.
    const int vectors = wide ? 16 : 12, width = width_of_sums(isa.lanes, request.depths);
    for (const int row : {4, 3, 5, 7, 2, 1}) {
        s.sum_channels = row * isa.lanes;
        if ((wide || row <= 2) && width % s.sum_channels == 0) break;
    }
    s.sum_rows = std::max(vectors * isa.lanes / s.sum_channels, 1);
    while (s.block % s.sum_rows != 0) --s.sum_rows;
    s.pairing = usual_pairing(request);
    return s;
}

sum_layout::sum_layout(const kernel_request& request)
    : width(width_of_sums(lanes_of(request.schedule), request.depths)) {
    const auto& cut = std::get<cpu_gradient>(request.schedule);
    block = cut.block, tile = cut.sum_rows;
}

bool sum_layout::is_flat(const gradient_sum& sum) const {
    return sum.rows < 0 && sum.of_queries && (width % block == 0 || block % width == 0);
}

int sum_layout::rows_of_block(const gradient_sum& sum) const {
    return is_flat(sum) ? ((block + width - 1) / width + tile - 1) / tile * tile : block;
}

}  // namespace attune::generators::inline kernel
