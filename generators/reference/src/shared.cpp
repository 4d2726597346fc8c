#include "c/arguments.hpp"
#include "c/support.hpp"

#include <attune/reference.hpp>
#include <attune/runtime/detail/c_variant.hpp>

/// The one function of libattune_reference.so, by which the Python package reaches the evaluator. A variant comes from
/// a library of kernels that has a runtime of its own: the graph in its table is read here, of the same layout alone.

extern "C" {
/// Called for each output, then for each stored input: its name, its extents and its elements, dense.
using attune_reference_receive = void (*)(void* state, const char* name, std::int32_t rank, const std::int64_t* shape,
                                          const double* values);
[[gnu::visibility("default")]] attune_status attune_reference_evaluate(const attune_variant* variant,
                                                                       const attune_argument* arguments,
                                                                       std::size_t count,
                                                                       attune_reference_receive receive, void* state,
                                                                       char* error, std::size_t capacity) noexcept;
}

attune_status attune_reference_evaluate(const attune_variant* variant, const attune_argument* arguments,
                                        std::size_t count, attune_reference_receive receive, void* state, char* error,
                                        std::size_t capacity) noexcept {
    using namespace attune;
    return detail::guarded(error, capacity, [&] {
        if (variant->version != ATTUNE_C_VERSION)
            detail::fail("a variant of this version of attune/c.h", "one of another", "kernels that this attune built");
        const kernel_table& table = variant->table();
        detail::check_version(table);
        const detail::c_arguments given(arguments, count);
        const reference::results made = reference::evaluate_call(table.variant, table.graph, given.view());
        for (const auto* list : {&made.outputs, &made.stored})
            for (const reference::array& each : *list)
                receive(state, each.name.c_str(), static_cast<std::int32_t>(each.shape.size()), each.shape.data(),
                        each.values.data());
    });
}
