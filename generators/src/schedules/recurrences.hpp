#pragma once
#include "kernel/kernel_request.hpp"
#include "schedules/shape_bucket.hpp"

#include <string>

namespace attune::generators::inline schedules {

/// The properties of a recurrence that decide how long its parts take.
struct recurrence_traits {
    bool solves{};       ///< the rows that tokens write depend on each other
    bool by_channels{};  ///< decays differ along the channels
    int pairs{};         ///< of key and value that a token writes: 1 or 2
    int reads{};         ///< rows that the outputs read from states, for each token
    bool backwards{};    ///< its gradient is computed
};
recurrence_traits traits_of(const kernel_request& request);

/// The class of variants that share schedules: "recurrence", with "+solves", "+channel_decays", "+second_pair" and
/// "+gradient".
std::string class_of(const recurrence_traits& traits);

/// The call by which schedules of a recurrence are compared: 512 tokens of 32 heads; or tokens as the kernel has them,
/// with states of 64 MiB in all, more than caches hold.
call_shape measured_shape(shape_bucket bucket, const depth_pair& depths);

}  // namespace attune::generators::inline schedules
