#pragma once
#include "stages/kernel_frame.hpp"

#include <vector>

namespace attune::generators::inline stages {

/// All stores of a call to one tensor, before anything else of the graph is computed.
class stored_tensor {
public:
    stored_tensor(const kernel_frame& frame, int input, int lanes);

    // Functions and loops to schedule.
    Halide::Func result;  ///< axes as the tensor's, innermost first; an update for each store
    struct made_store {
        Halide::RDom rows;                 ///< key heads, queries, batch; 1 if neither place nor value varies
        int channels;                      ///< the axis of the result along which they run; -1: one element a row
        std::vector<Halide::Func> shared;  ///< numbers of a row: (query, key head, batch)
        struct lanes {                     ///< partial maxima of a row, each over one in so many elements
            Halide::Func largest;          ///< (lane, query, key head, batch)
            Halide::Var lane;
            Halide::RVar step;
        };
        std::vector<lanes> by_lanes;
        Halide::Expr elements;  ///< of all rows together
    };
    std::vector<made_store> stores;
    int input;

private:
    void add(const kernel_frame& f, const store_declaration& store, int lanes);
};

}  // namespace attune::generators::inline stages
