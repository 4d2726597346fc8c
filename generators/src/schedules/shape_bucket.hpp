#pragma once
#include "kernel/schedule.hpp"

#include <cstdint>
#include <span>
#include <string_view>

namespace attune::generators::inline schedules {

/// Kinds of calls, each with schedules of its own. Those of gradients are one kind, whatever their shapes. Of a
/// recurrence, short calls have 2 to 4 tokens, and decode has one: each kind has a kernel.
enum class shape_bucket : std::uint8_t { prefill, short_prefill, decode, gradient };

/// "prefill", "short", "decode", "gradient".
std::string_view name_of(shape_bucket bucket);
std::span<const shape_bucket> shape_buckets();
/// Throws std::runtime_error, which lists them, for any other name.
shape_bucket shape_bucket_named(std::string_view name);

/// The kind of the usual calls that a kernel with such a schedule serves.
shape_bucket bucket_of(const schedule& s);
/// Whether a kernel with such a schedule serves a kind of calls.
bool serves(const schedule& s, shape_bucket bucket);

/// Sizes of a call.
struct call_shape {
    std::int64_t batches = 1, heads = 1, key_heads = 1, queries = 1, keys = 1;
    bool operator==(const call_shape&) const = default;
};

/// The value that a search assumes for a number that only the call knows, such as a window's width.
std::int64_t usual_width(const call_shape& call);

/// The call by which schedules of a bucket are compared.
call_shape measured_shape(shape_bucket bucket);

}  // namespace attune::generators::inline schedules
