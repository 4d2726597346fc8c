#include "base/text.hpp"
#include "call/bind/bind.hpp"

#include <attune/runtime/error.hpp>

#include <cstddef>
#include <cstring>

namespace attune::detail {
namespace {

/// Writes 0 to every element, axes from `axis` inwards.
void clear(std::byte* at, const tensor& t, int axis = 0) {
    const auto size = static_cast<std::size_t>(bytes_of(t.type()));
    for (std::int64_t i = 0; i < t.extent(axis); ++i) {
        std::byte* const to = at + i * t.stride(axis) * static_cast<std::int64_t>(size);
        if (axis + 1 < t.rank())
            clear(to, t, axis + 1);
        else
            std::memset(to, 0, size);
    }
}

}  // namespace

void bound_call::write_empty_sums(const matched_arguments& given) const {
    for (const named_argument* const each : given.outputs)
        if (!each->view.empty() && where_ != memory::host)
            fail("outputs in host memory for sums over nothing", each->view.description(), "no call");
    for (const named_argument* const each : given.outputs)
        if (!each->view.empty()) clear(static_cast<std::byte*>(each->view.mutable_data()), each->view);
}

}  // namespace attune::detail
