#pragma once
#include <attune/runtime/detail/call.hpp>

#include <memory_resource>
#include <string>
#include <vector>

#pragma GCC visibility push(hidden)
namespace attune::detail {

/// The arguments of a call in the order of the graph. Null for outputs that were left out, if that is allowed.
struct matched_arguments {
    std::pmr::vector<const named_argument*> inputs, outputs;
    const named_argument *kv_lengths{}, *cu_seqlens_q{};

    explicit matched_arguments(std::pmr::memory_resource& memory) : inputs(&memory), outputs(&memory) {}
};

/// Finds every input and output by name. Refuses names that are unknown, repeated or missing, and numbers in place of
/// tensors.
matched_arguments match(const kernel_table& table, std::span<const named_argument> arguments, bool outputs_needed,
                        std::pmr::memory_resource& memory);

/// Refuses a tensor in place of a number, and a number in place of a tensor.
void check_form(const named_argument& given, bool scalar);

/// A scalar as the kernel reads it through its argument pointer.
union scalar_value {
    std::int32_t integer;
    float real;
};

/// The value of a scalar by its declaration: an i32 takes integers in range, an f32 any number.
scalar_value scalar_of(const input_declaration& declared, const named_argument& given);

}  // namespace attune::detail
#pragma GCC visibility pop
