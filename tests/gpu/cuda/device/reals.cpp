#include "plain_operations.hpp"

namespace ptx {
namespace {

/// f32, of which `.ftz` takes subnormal numbers for 0, before and after.
template <bool Flushes> float in(float x) {
    if constexpr (Flushes)
        return flushed(x);
    else
        return x;
}
template <bool Flushes> void add_floats(plain_operations& to) {
    constexpr bool z = Flushes;
    const std::string type = z ? "ftz.f32" : "f32";
    const auto name = [&](const char* what) { return std::string(what) + "." + type; };
    to[name("add")] = two<[](float a, float b) { return in<z>(in<z>(a) + in<z>(b)); }, float, float, float>(unit::fma);
    to[name("sub")] = two<[](float a, float b) { return in<z>(in<z>(a) - in<z>(b)); }, float, float, float>(unit::fma);
    to[name("mul")] = two<[](float a, float b) { return in<z>(in<z>(a) * in<z>(b)); }, float, float, float>(unit::fma);
    for (const char* fused : {"fma", "mad"})
        to[name(fused)] =
            three<[](float a, float b, float c) { return in<z>(std::fmaf(in<z>(a), in<z>(b), in<z>(c))); }, float,
                  float, float, float>(unit::fma);
    to[name("div")] =
        two<[](float a, float b) { return in<z>(in<z>(a) / in<z>(b)); }, float, float, float>(unit::transcendental);
    to[name("max")] = two<[](float a, float b) { return in<z>(larger(a, b)); }, float, float, float>(unit::alu);
    to[name("min")] = two<[](float a, float b) { return in<z>(smaller(a, b)); }, float, float, float>(unit::alu);
    const std::string nan = z ? "ftz.NaN.f32" : "NaN.f32";
    to["max." + nan] = two<[](float a, float b) { return in<z>(larger_or_nan(a, b)); }, float, float, float>(unit::alu);
    to["min." + nan] =
        two<[](float a, float b) { return in<z>(smaller_or_nan(a, b)); }, float, float, float>(unit::alu);
    to[name("neg")] = one<[](float a) { return in<z>(-a); }, float, float>(unit::alu);
    to[name("abs")] = one<[](float a) { return in<z>(std::fabs(a)); }, float, float>(unit::alu);
    to[name("ex2")] = one<[](float a) { return in<z>(std::exp2(in<z>(a))); }, float, float>(unit::transcendental);
    to[name("lg2")] = one<[](float a) { return std::log2(in<z>(a)); }, float, float>(unit::transcendental);
    to[name("rcp")] = one<[](float a) { return in<z>(1.0f / in<z>(a)); }, float, float>(unit::transcendental);
    to[name("sqrt")] = one<[](float a) { return std::sqrt(in<z>(a)); }, float, float>(unit::transcendental);
    to[name("rsqrt")] = one<[](float a) { return 1.0f / std::sqrt(in<z>(a)); }, float, float>(unit::transcendental);
    to[name("sin")] = one<[](float a) { return in<z>(std::sin(in<z>(a))); }, float, float>(unit::transcendental);
    to[name("cos")] = one<[](float a) { return in<z>(std::cos(in<z>(a))); }, float, float>(unit::transcendental);
}

void add_doubles(plain_operations& to) {
    to["add.f64"] = two<[](double a, double b) { return a + b; }, double, double, double>(unit::doubles);
    to["sub.f64"] = two<[](double a, double b) { return a - b; }, double, double, double>(unit::doubles);
    to["mul.f64"] = two<[](double a, double b) { return a * b; }, double, double, double>(unit::doubles);
    for (const char* fused : {"fma.f64", "mad.f64"})
        to[fused] =
            three<[](double a, double b, double c) { return std::fma(a, b, c); }, double, double, double, double>(
                unit::doubles);
    to["div.f64"] = two<[](double a, double b) { return a / b; }, double, double, double>(unit::doubles);
    to["max.f64"] = two<[](double a, double b) { return larger(a, b); }, double, double, double>(unit::doubles);
    to["min.f64"] = two<[](double a, double b) { return smaller(a, b); }, double, double, double>(unit::doubles);
    to["neg.f64"] = one<[](double a) { return -a; }, double, double>(unit::doubles);
    to["abs.f64"] = one<[](double a) { return std::fabs(a); }, double, double>(unit::doubles);
    to["rcp.f64"] = one<[](double a) { return 1.0 / a; }, double, double>(unit::doubles);
    to["sqrt.f64"] = one<[](double a) { return std::sqrt(a); }, double, double>(unit::doubles);
    to["rsqrt.f64"] = one<[](double a) { return 1.0 / std::sqrt(a); }, double, double>(unit::doubles);
    to["copysign.f64"] =
        two<[](double a, double b) { return std::copysign(b, a); }, double, double, double>(unit::doubles);
}

}  // namespace

void add_reals(plain_operations& to) {
    add_floats<false>(to), add_floats<true>(to);
    to["tanh.f32"] = one<[](float a) { return std::tanh(a); }, float, float>(unit::transcendental);
    to["copysign.f32"] = two<[](float a, float b) { return std::copysign(b, a); }, float, float, float>(unit::alu);
    add_doubles(to);
}

}  // namespace ptx
