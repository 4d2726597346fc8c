#pragma once
#include <attune/runtime/cpu.hpp>
#include <attune/runtime/detail/kernel_table.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace attune::detail {

/// What a call requires of a kernel. What is unknown, because the variant or the call has no such tensor, is not
/// required.
struct kernel_request {
    std::optional<element_type> query{}, key{}, value{}, output{};
    std::optional<std::int64_t> depth{}, value_depth{};
    std::optional<std::int64_t> queries{};  ///< per head; if unknown, any kernel serves them
    int row_alignment{1 << 30};  ///< bytes at a multiple of which rows of q, k, v, pages and the outputs proper begin
    bool depth_matters{},
        value_depth_matters{};  ///< whether it matters to the result; if so and unknown, all kernels must have the same
    std::string_view target{};  ///< empty: any level
    std::string_view forced_by{};  ///< who asked for the target, for messages: "options.target"
};

struct choice {
    const kernel* chosen{};
    std::string why_shapes;  ///< "decode: made for 1 to 16 queries"
    std::string
        why;  ///< "x86-64-v3, the most demanding of x86-64-v4, x86-64-v3 that this CPU runs (x86-64-v4: lacks avx512f)"
};

/// What this machine lacks for a kernel; empty if it runs.
std::string missing_here(const kernel_table& table, const kernel& k, const cpu_state& cpu);

/// The most demanding runnable kernel of these element types and depths; of several, the one that serves this number of
/// queries, and of those the one whose schedule was measured on this model. If the table has no kernel of this model,
/// that of the nearest model of its maker and family is taken. Throws attune::error, which lists the kernels that there
/// are. The reasons are written only if asked for.
choice choose(const kernel_table& table, const kernel_request& request, const cpu_state& cpu, bool explain);

}  // namespace attune::detail
