#pragma once
#include <attune/ir/element.hpp>

namespace attune::mpi::detail {

/// Calls `f` with an element of a type of floats.
template <class F> void with_type(element_type type, F&& f) {
    if (type == element_type::bf16)
        f(bfloat16{});
    else if (type == element_type::f16)
        f(float16{});
    else
        f(float{});
}

}  // namespace attune::mpi::detail
