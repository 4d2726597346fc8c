#include "block_mask/few_places.hpp"

#include "expr/math.hpp"

#include <cstdint>

namespace attune::generators::inline block_mask {
using namespace Halide;

interval condition_at_places(const interval& at_place, const RDom& each_place, const Expr& few) {
    const Expr all = is_set(minimum(each_place, at_place.lo, "all_places")),
               any = is_set(maximum(each_place, at_place.hi, "any_place"));
    return {select(few && all, 1, 0), select(few && !any, 0, 1)};
}

interval number_at_places(const quantity& at_place, const Type& type, const RDom& each_place, const Expr& few) {
    const Expr value = cast(type, at_place.value),
               far = type.is_float() ? Expr(3.4e38f) : Internal::make_const(type, std::int64_t{1} << 31);
    Expr lower = value, upper = value, nan = no();
    if (type.is_float()) {  // bounds leave out NaN, which Halide's minimum and maximum may keep
        const Expr is_nan = holds_nan(value);
        lower = choose_whole(is_nan, far, value), upper = choose_whole(is_nan, -far, value);
        nan = !few || is_set(maximum(each_place, byte(is_nan), "any_nan"));
    }
    interval result{select(few, minimum(each_place, lower, "least"), -far),
                    select(few, maximum(each_place, upper, "most"), far), never(), nan};
    const Expr one = byte(yes()), none = byte(no());
    if (at_place.masked.defined())
        result.masked = {!few || maximum(each_place, byte(at_place.masked), "any_hidden") == one,
                         few && minimum(each_place, byte(at_place.masked), "all_hidden") != none};
    return result;
}

}  // namespace attune::generators::inline block_mask
