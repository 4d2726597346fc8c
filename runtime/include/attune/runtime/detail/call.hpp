#pragma once
#include <attune/runtime/detail/kernel_table.hpp>
#include <attune/runtime/explain.hpp>
#include <attune/runtime/options.hpp>
#include <attune/runtime/tensor.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

/// The functions behind the typed calls of run.hpp, compiled once.
namespace attune::detail {

struct named_argument {
    enum class form : std::uint8_t { view, integer, real, boolean };

    std::string_view name;
    form is{};
    tensor view{};
    std::int64_t integer{};  ///< also a boolean: 0 or 1
    double real{};
};

/// Refuses a table of another layout, and one of a graph that another library of the program has other kernels of; to
/// be called before anything else in it is looked at.
void check_version(const kernel_table& table);

/// Checks everything, chooses the kernel and runs it. Throws attune::error; nothing is written before all checks have
/// passed. A call without queries, heads or batch runs no kernel and writes 0 to sums over the queries and means over
/// the heads.
void call(const kernel_table& table, std::span<const named_argument> arguments, const options& how);

/// The same checks and choice as `call`, without running the kernel; outputs may be left out.
explanation explain(const kernel_table& table, std::span<const named_argument> arguments, const options& how);
block_map blocks(const kernel_table& table, std::span<const named_argument> arguments, const options& how);

/// The checks of `call` that do not read tensors (names, shapes, types, pointers, overlap), and the choice of the
/// kernel. The arguments are copied. Each call then checks the contents of the tensors.
class prepared;
std::shared_ptr<const prepared> prepare(const kernel_table& table, std::span<const named_argument> arguments,
                                        const options& how);
void call(const prepared& what);
/// The same call with other arguments in place of some: numbers, and tensors of the same shapes, strides and types;
/// of a call with cu_seqlens_q any that `call` takes.
void call(const prepared& what, std::span<const named_argument> others);
/// Refuses lengths and indices in the arguments' tensors that the call would refuse. Not for calls with cu_seqlens_q.
void check_values(const prepared& what);
explanation explain(const prepared& what);
block_map blocks(const prepared& what);

kernel_list kernels(const kernel_table& table);

void synchronize(const kernel_table& table, const options& how);

/// Whether calls take cu_seqlens_q, which a formula may have as an input of its own.
bool takes_packed_queries(const graph_ir& graph);

/// The axes of an output, outermost first, by the node that it is made of. Free are channels of tokens, and up to four
/// indices.
std::span<const axis_kind> axes_of_output(const instruction& made);

}  // namespace attune::detail
