// Elementary functions of kernels against the C library's in double precision: a sample of all floats, exact cases,
// what is not defined, on every level that JIT can have here; ../gpu/functions.tests.cpp has them on a device.
#include "ulps.hpp"

#include "expr/elementary.hpp"
#include "expr/functions.hpp"
#include "expr/math.hpp"

#include <Halide.h>
#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <cstdio>
#include <limits>
#include <vector>

using namespace attune;
using namespace attune::generators;
using attune::testing::error_in_ulps;
using Halide::Buffer;
using Halide::Expr;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();

Buffer<float> sample(std::uint32_t stride) {
    const std::vector<float> all = testing::sample_of_floats(stride);
    Buffer<float> result(static_cast<int>(all.size()));
    std::copy(all.begin(), all.end(), result.begin());
    return result;
}

struct claim {
    operation op;
    double (*exact)(double);
};
const claim claims[] = {
    {operation::sin, std::sin},     {operation::cos, std::cos},     {operation::tan, std::tan},
    {operation::asin, std::asin},   {operation::acos, std::acos},   {operation::atan, std::atan},
    {operation::sinh, std::sinh},   {operation::cosh, std::cosh},   {operation::exp2, std::exp2},
    {operation::expm1, std::expm1}, {operation::log1p, std::log1p}, {operation::log2, std::log2},
    {operation::floor, std::floor}, {operation::trunc, std::trunc}, {operation::round, std::nearbyint}};

const std::vector<Halide::Target>& targets() {
    static const std::vector<Halide::Target> all = [] {
        const Halide::Target host = Halide::get_host_target();
        std::vector<Halide::Target> found{host};
        for (const char* level : {"x86-64-linux-sse41", "x86-64-linux-avx-avx2-f16c-fma-sse41"})
            if (const Halide::Target target(level); host.arch == target.arch && host != target) found.push_back(target);
        return found;
    }();
    return all;
}

const Halide::Var i("i");

/// Each function of the sample, a tuple at one pass.
std::vector<Buffer<float>> computed(const std::vector<Expr>& values, int count, const Halide::Target& target) {
    Halide::Func f("f");
    f(i) = Halide::Tuple(values);
    f.vectorize(i, 8);
    Halide::Realization found = f.realize({count}, target);
    std::vector<Buffer<float>> result;
    for (std::size_t n = 0; n < found.size(); ++n) result.emplace_back(found[n]);
    return result;
}

void check_claims(const Halide::Target& target, std::uint32_t stride) {
    Buffer<float> x = sample(stride);
    std::vector<Expr> values;
    for (const claim& each : claims) values.push_back(function_value(each.op, x(i)));
    const std::vector<Buffer<float>> found = computed(values, x.width(), target);
    for (std::size_t n = 0; n < std::size(claims); ++n) {
        double worst = 0;
        float at = 0;
        for (int s = 0; s < x.width(); ++s)
            if (const double error = error_in_ulps(found[n](s), claims[n].exact(x(s))); error > worst)
                worst = error, at = x(s);
        INFO(about(claims[n].op).text << " of " << at << " on " << target.to_string());
        CHECK(worst < 0.51);
        std::printf("%-6s %.4f ulp at %a\n", std::string(about(claims[n].op).text).c_str(), worst,
                    static_cast<double>(at));
    }
}

/// Pairs of what stands out and of magnitudes from tiny to huge, of both signs.
void pairs(Buffer<float>& x, Buffer<float>& y) {
    std::vector<float> all{0.0f, -0.0f, 1.0f, -1.0f,  2.0f,     -2.0f,     3.0f,
                           0.5f, -0.5f, 2.5f, 1e-40f, infinity, -infinity, nan};
    for (double size = 1e-12; size < 1e12; size *= 1.173)
        all.push_back(static_cast<float>(size)), all.push_back(static_cast<float>(-size));
    const int count = static_cast<int>(all.size());
    x = Buffer<float>(count * count / 16 * 16), y = Buffer<float>(count * count / 16 * 16);
    for (int n = 0; n < x.width(); ++n) x(n) = all[n / count], y(n) = all[n % count];
}

void check_pairs(const Halide::Target& target) {
    Buffer<float> x, y;
    pairs(x, y);
    const std::vector<Buffer<float>> found =
        computed({atan2_of(x(i), y(i)), pow_of(x(i), y(i)), fmod_of(x(i), y(i))}, x.width(), target);
    double of_atan2 = 0, of_pow = 0, of_fmod = 0;
    for (int n = 0; n < x.width(); ++n) {
        const double a = x(n), b = y(n);
        of_atan2 = std::max(of_atan2, error_in_ulps(found[0](n), std::atan2(a, b)));
        of_pow = std::max(of_pow, error_in_ulps(found[1](n), std::pow(a, b)));
        // Beyond 2^54 quotients it says 0.
        const double rest = std::abs(a / b) < 18014398509481984.0 || !std::isfinite(a / b) ? std::fmod(a, b) : 0;
        of_fmod = std::max(of_fmod, error_in_ulps(found[2](n), rest));
    }
    INFO(target.to_string());
    CHECK(of_atan2 < 0.51);
    CHECK(of_pow < 0.51);
    CHECK(of_fmod == 0);
    std::printf("atan2 %.4f ulp, pow %.4f ulp\n", of_atan2, of_pow);
}

}  // namespace

TEST_CASE("elementary functions are within 0.51 ulp on all of a sample of all floats", "[numbers]") {
    for (const Halide::Target& target : targets()) check_claims(target, target == targets().front() ? 10007 : 100003);
}

TEST_CASE("functions of two numbers are within 0.51 ulp, and remainders exact", "[numbers]") {
    for (const Halide::Target& target : targets()) check_pairs(target);
}

TEST_CASE("logarithms of powers of two are exact", "[numbers]") {
    Buffer<float> x(272);
    for (int n = 0; n < 272; ++n) x(n) = static_cast<float>(std::ldexp(1.0, n - 145));
    const std::vector<Buffer<float>> found = computed({log2_of(x(i)), exp2_of(log2_of(x(i)))}, 272, targets().front());
    for (int n = 0; n < 272; ++n) {
        CHECK(found[0](n) == static_cast<float>(n - 145));
        CHECK(found[1](n) == x(n));
    }
}

TEST_CASE("NaN and infinities are told apart, denormal numbers and the largest ones too", "[numbers]") {
    Buffer<float> x = sample(60013);
    const auto flag = [](const Expr& condition) { return Halide::cast<float>(condition); };
    for (const Halide::Target& target : targets()) {
        const std::vector<Buffer<float>> found =
            computed({flag(holds_nan(x(i))), flag(holds_infinity(x(i)))}, x.width(), target);
        int wrong = 0;
        for (int n = 0; n < x.width(); ++n)
            wrong += (found[0](n) != 0) != std::isnan(x(n)) || (found[1](n) != 0) != std::isinf(x(n));
        CHECK(wrong == 0);
    }
}

TEST_CASE("the sigmoid, exp and log are as close as they say", "[numbers]") {
    Buffer<float> x = sample(20011);
    const std::vector<Buffer<float>> found =
        computed({function_value(operation::sigmoid, x(i)), function_value(operation::exp, x(i)),
                  function_value(operation::log, x(i))},
                 x.width(), targets().front());
    double of_sigmoid = 0, of_exp = 0, of_log = 0;
    for (int n = 0; n < x.width(); ++n) {
        if (std::isnan(x(n))) continue;
        const double a = x(n);
        if (a > -87) of_sigmoid = std::max(of_sigmoid, error_in_ulps(found[0](n), 1 / (1 + std::exp(-a))));
        if (a > -87 && a < 88) of_exp = std::max(of_exp, error_in_ulps(found[1](n), std::exp(a)));
        if (a > 1.2e-38 && a < 3e38) of_log = std::max(of_log, error_in_ulps(found[2](n), std::log(a)));
    }
    std::printf("sigmoid %.2f ulp, exp %.2f ulp, log %.2f ulp\n", of_sigmoid, of_exp, of_log);
    CHECK(of_sigmoid < 5);
    CHECK(of_exp < 5);
    CHECK(of_log < 2);
}
