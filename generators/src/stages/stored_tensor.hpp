#pragma once
#include "stages/kernel_frame.hpp"

#include <vector>

namespace attune::generators::inline stages {

/// All that a call stores in one tensor, before anything else of the graph is computed.
class stored_tensor {
public:
    stored_tensor(const kernel_frame& frame, int input);

    // What there is to schedule.
    Halide::Func result;  ///< axes as the tensor's, innermost first; an update for each store
    struct made_store {
        Halide::RDom rows;                 ///< key heads, queries, batch; 1 where neither place nor value varies
        int channels;                      ///< the axis of the result that they run over; -1: one element a row
        std::vector<Halide::Func> shared;  ///< numbers of a row: (query, key head, batch)
        Halide::Expr elements;             ///< of all rows together
    };
    std::vector<made_store> stores;
    int input;

private:
    void add(const kernel_frame& f, const store_declaration& store);
};

}  // namespace attune::generators::inline stages
