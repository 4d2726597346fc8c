#pragma once
#include <attune/dsl/functions.hpp>

/// Functions of NumPy and PyTorch that attune has under another name or as a formula. A call is an error that says
/// which.
namespace attune::dsl {

#define ATTUNE_HAS_ELSEWHERE(name, here)                                                    \
    template <class... A>                                                                   \
        requires(involves_expression<A...>)                                                 \
    constexpr auto name(const A&...) {                                                      \
        static_assert(as_many_as_it_takes<sizeof...(A)>, "attune has no " #name "; " here); \
        return rejected{};                                                                  \
    }
// clang-format off
ATTUNE_HAS_ELSEWHERE(maximum, "write max(x, y)")
ATTUNE_HAS_ELSEWHERE(minimum, "write min(x, y)")
ATTUNE_HAS_ELSEWHERE(clamp_min, "write max(x, low)")
ATTUNE_HAS_ELSEWHERE(clamp_max, "write min(x, high)")
ATTUNE_HAS_ELSEWHERE(clip, "write clamp(x, low, high)")
ATTUNE_HAS_ELSEWHERE(absolute, "write abs(x)")
ATTUNE_HAS_ELSEWHERE(fabs, "write abs(x)")
ATTUNE_HAS_ELSEWHERE(negative, "write -x")
ATTUNE_HAS_ELSEWHERE(square, "write x * x")
ATTUNE_HAS_ELSEWHERE(reciprocal, "write 1 / x")
ATTUNE_HAS_ELSEWHERE(power, "write pow(x, y)")
ATTUNE_HAS_ELSEWHERE(hypot, "write sqrt(x * x + y * y)")
ATTUNE_HAS_ELSEWHERE(cbrt, "write sign(x) * pow(abs(x), 1.0 / 3)")
ATTUNE_HAS_ELSEWHERE(log10, "write log2(x) * 0.3010299956639812")
ATTUNE_HAS_ELSEWHERE(exp10, "write pow(10, x)")
ATTUNE_HAS_ELSEWHERE(arcsin, "write asin(x)")
ATTUNE_HAS_ELSEWHERE(arccos, "write acos(x)")
ATTUNE_HAS_ELSEWHERE(arctan, "write atan(x)")
ATTUNE_HAS_ELSEWHERE(arctan2, "write atan2(y, x)")
ATTUNE_HAS_ELSEWHERE(atanh, "write 0.5 * log1p(2 * x / (1 - x))")
ATTUNE_HAS_ELSEWHERE(acosh, "write log(x + sqrt(x * x - 1))")
ATTUNE_HAS_ELSEWHERE(erfc, "write 1 - erf(x)")
ATTUNE_HAS_ELSEWHERE(frac, "write x - trunc(x)")
ATTUNE_HAS_ELSEWHERE(rint, "write round(x), half to the even integer")
ATTUNE_HAS_ELSEWHERE(sgn, "write sign(x)")
ATTUNE_HAS_ELSEWHERE(floor_divide, "write floor_div(x, y)")
ATTUNE_HAS_ELSEWHERE(true_divide, "write as_real(x) / y")
ATTUNE_HAS_ELSEWHERE(remainder, "write x % y of integers, x - floor(x / y) * y of reals; fmod(x, y) has the sign of x")
ATTUNE_HAS_ELSEWHERE(mod, "write x % y of integers, fmod(x, y) of reals")
ATTUNE_HAS_ELSEWHERE(swish, "write silu(x)")
ATTUNE_HAS_ELSEWHERE(mish, "write x * tanh(softplus(x))")
ATTUNE_HAS_ELSEWHERE(elu, "write where(x > 0, x, expm1(x))")
ATTUNE_HAS_ELSEWHERE(leaky_relu, "write where(x > 0, x, 0.01 * x)")
ATTUNE_HAS_ELSEWHERE(relu6, "write clamp(x, 0, 6)")
ATTUNE_HAS_ELSEWHERE(hardtanh, "write clamp(x, -1, 1)")
ATTUNE_HAS_ELSEWHERE(hardsigmoid, "write clamp(x / 6 + 0.5, 0, 1)")
ATTUNE_HAS_ELSEWHERE(hardswish, "write x * clamp(x / 6 + 0.5, 0, 1)")
ATTUNE_HAS_ELSEWHERE(logsigmoid, "write -softplus(-x)")
ATTUNE_HAS_ELSEWHERE(softsign, "write x / (1 + abs(x))")
ATTUNE_HAS_ELSEWHERE(logsumexp, "write log_sum_exp(scores), or logaddexp(x, y) of two numbers")
ATTUNE_HAS_ELSEWHERE(logical_and, "write x && y")
ATTUNE_HAS_ELSEWHERE(logical_or, "write x || y")
ATTUNE_HAS_ELSEWHERE(logical_xor, "write x != y of conditions")
ATTUNE_HAS_ELSEWHERE(logical_not, "write !x")
ATTUNE_HAS_ELSEWHERE(isneginf, "write x == -inf")
ATTUNE_HAS_ELSEWHERE(isposinf, "write x == inf")
ATTUNE_HAS_ELSEWHERE(masked_fill, "write where(condition, value, x), or mask(scores, condition)")
ATTUNE_HAS_ELSEWHERE(dot, "write sum(n, extent, x(n) * y(n)), n = bound_index<\"n\">")
ATTUNE_HAS_ELSEWHERE(mean, "write sum(n, extent, x) / extent, n = bound_index<\"n\">")
// clang-format on
#undef ATTUNE_HAS_ELSEWHERE

}  // namespace attune::dsl
