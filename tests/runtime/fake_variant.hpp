#pragma once
#include <attune/runtime.hpp>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

/// A variant whose kernels are ordinary C++ functions, so that everything around a kernel can be tested without
/// generating one.
namespace fake {

using namespace attune::dsl;
inline constexpr auto slopes = input<"slopes", f32>(head);
inline constexpr auto bias = input<"bias", f32>(batch, head, query, key);
inline constexpr auto is_global = input<"is_global", boolean>(position);
inline constexpr auto table = input<"table", i32>(axis<"entries">);
inline constexpr auto w = scalar<"w", i32>;
inline constexpr auto gain = scalar<"gain", f32>;
inline constexpr auto scores = mask(q * t(k) * gain + slopes(h) * (kv_idx - q_idx) + bias(b, h, q_idx, kv_idx),
                                    (kv_idx - q_idx <= w || is_global(kv_idx)) && kv_idx != table(0));
inline constexpr auto variant = outputs(out = softmax(scores) * v, lse = log_sum_exp(scores));

/// The kernel's orders besides computing.
enum class mischief { none, task_fails, out_of_memory, unknown_code };
inline std::atomic<mischief> next_mischief{mischief::none};

/// The events in the kernels since `reset`.
struct record {
    std::atomic<int> calls{0}, tasks{0}, running{0}, most_running{0};
};
inline record seen;
void reset();

/// Tensors of a call that is right in every respect; tests spoil one thing at a time.
struct call {
    std::int64_t batches = 2, heads = 4, key_heads = 2, queries = 5, keys = 7, depth = 8, value_depth = 4;
    std::vector<float> q, k, v, slopes, bias, out, lse;
    std::vector<std::uint8_t> is_global;
    std::vector<std::int32_t> table{1000}, lengths;

    call() { fill(); }
    void fill();  ///< allocates and fills for the present sizes
    attune::tensor Q(), K(), V(), S(), B(), G(), T(), O(), L();

    /// The arguments by name; replace one to spoil it.
    std::vector<attune::detail::named_argument> arguments();

    void expect_right_results() const;  ///< against a plain evaluation, kv_lengths as in `lengths` unless it is empty
    bool untouched() const;             ///< out and lse hold what fill put there
};

const attune::kernel_table& kernels();

/// The message that the call is refused with; empty if it is not.
std::string refusal(const std::vector<attune::detail::named_argument>& arguments, const attune::options& how = {});

}  // namespace fake

template <> const attune::kernel_table& attune::kernels_of<fake::variant, attune::dsl::fingerprint<fake::variant>>();
