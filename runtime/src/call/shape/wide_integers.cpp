#include "base/text.hpp"
#include "call/shape/shape.hpp"

#include <attune/runtime/error.hpp>

#include <array>
#include <cstdint>

/// Integers of 32 bits that lie in 64: kernels read the lower half, so that calls look at the upper one before.
namespace attune::detail {
namespace {

bool fits(std::int64_t x) { return x == static_cast<std::int32_t>(x); }

/// Where the first element that does not fit lies, axes from `axis` inwards; false where all of them do.
bool find_too_large(const std::int64_t* at, const tensor& t, int axis, std::array<std::int64_t, max_rank>& place) {
    const auto here = static_cast<std::size_t>(axis);
    const std::int64_t count = t.extent(axis), stride = t.stride(axis);
    if (axis + 1 < t.rank()) {
        for (place[here] = 0; place[here] < count; ++place[here])
            if (find_too_large(at + place[here] * stride, t, axis + 1, place)) return true;
        return false;
    }
    std::uint64_t beyond = 0;
    for (std::int64_t i = 0; i < count; ++i)
        beyond |= (static_cast<std::uint64_t>(at[i * stride]) + (std::uint64_t{1} << 31)) >> 32;
    if (beyond == 0) return false;
    for (place[here] = 0; fits(at[place[here] * stride]);) ++place[here];
    return true;
}

}  // namespace

void check_wide_integers(const graph_ir& graph, const call_shape& shape, const matched_arguments& given) {
    for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
        const input_declaration& d = graph.inputs[i];
        if (d.is_scalar || d.element != element_type::i64) continue;
        const tensor& t = given.inputs[i]->view;
        if (t.where() != memory::host)
            fail(say("i64 elements of ", d.name, " in host memory, where a call looks whether they fit 32 bits"),
                 say(d.name, " = ", t.description(), " in a device's memory"), "a formula that declares i32");
        std::array<std::int64_t, max_rank> place{};
        const auto* elements = static_cast<const std::int64_t*>(t.data());
        if (t.empty() || !find_too_large(elements, t, 0, place)) continue;
        std::string where;
        for (std::size_t axis = 0; axis < d.rank; ++axis) {
            add_part(where, say(d.axes[axis].name, " ", shape.as_counted_outside(d, axis, place[axis])));
            elements += place[axis] * t.stride(static_cast<int>(axis));
        }
        fail(say(d.name, " from -2147483648 to 2147483647, integers of 32 bits"), say(*elements, " at (", where, ")"),
             "elements that fit 32 bits");
    }
}

}  // namespace attune::detail
