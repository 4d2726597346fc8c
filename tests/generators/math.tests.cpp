// Functions of kernels against those of the library in double precision, over the whole range of their arguments.
#include "expr/math.hpp"

#include <attune/ir/element.hpp>

#include <Halide.h>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <vector>

namespace {

/// Numbers from 1e-30 to 1e30, and many that lie close together where functions bend: of both signs, or none that is
/// positive.
Halide::Buffer<float> arguments(bool positive) {
    std::vector<float> all{0.0f};
    for (double x = 1e-30; x < 1e30; x *= 1.01) all.push_back(static_cast<float>(x));
    for (int i = 1; i <= 200000; ++i) all.push_back(static_cast<float>(i) * 1e-4f);
    const std::size_t count = all.size();
    for (std::size_t i = 0; positive && i < count; ++i) all.push_back(-all[i]);
    if (!positive)
        for (float& x : all) x = -x;
    Halide::Buffer<float> result(static_cast<int>(all.size()));
    std::copy(all.begin(), all.end(), result.begin());
    return result;
}

/// The largest relative error; absolute where the function is 0.
double largest_error(const Halide::Buffer<float>& x, const std::function<Halide::Expr(const Halide::Expr&)>& ours,
                     const std::function<double(double)>& exact) {
    const Halide::Var i("i");
    Halide::Func f("f");
    f(i) = ours(x(i));
    f.vectorize(i, 8, Halide::TailStrategy::GuardWithIf);
    const Halide::Buffer<float> found = f.realize({x.width()});
    double largest = 0;
    for (int at = 0; at < x.width(); ++at) {
        const double wanted = exact(x(at)), error = std::abs(found(at) - wanted);
        largest = std::max(largest, wanted == 0 ? error : error / std::abs(wanted));
    }
    return largest;
}

}  // namespace

TEST_CASE("functions are as close as they say, for tiny and for large arguments", "[numbers]") {
    using namespace attune::generators;
    using Halide::Expr;
    const auto all = arguments(true), not_positive = arguments(false);
    CHECK(largest_error(all, hyperbolic_tangent, [](double x) { return std::tanh(x); }) < 6e-7);
    CHECK(largest_error(all, error_function, [](double x) { return std::erf(x); }) < 5e-7);
    CHECK(largest_error(
              not_positive, [](const Expr& x) { return exp2_of_nonpositive(Halide::max(x, -125.0f)); },
              [](double x) { return std::exp2(std::max(x, -125.0)); }) < 2e-7);
    CHECK(largest_error(
              not_positive, [](const Expr& x) { return exp2_of_nonpositive(Halide::min(x, -127.0f)); },
              [](double) { return 0.0; }) == 0);
    // A factor goes into the coefficients, whichever it is.
    for (const float factor : {0.125f / 30, 0.0884f / 50, 2.0f, -0.5f, 900.0f, 1e-5f, 1e5f})
        CHECK(largest_error(
                  all, [=](const Expr& x) { return hyperbolic_tangent(x * factor); },
                  [=](double x) { return std::tanh(x * factor); }) < 6e-7);
}

TEST_CASE("every byte is the number that it stands for as float8_e4m3fn and as float8_e5m2", "[numbers]") {
    Halide::Buffer<std::uint8_t> bytes(256);
    for (int i = 0; i < 256; ++i) bytes(i) = static_cast<std::uint8_t>(i);
    for (const bool e4m3 : {true, false}) {
        const Halide::Var i("i");
        Halide::Func f("f");
        f(i) = attune::generators::from_f8(e4m3, bytes(i));
        f.vectorize(i, 16);
        const Halide::Buffer<float> found = f.realize({256});
        for (int i = 0; i < 256; ++i) {
            attune::float8_e4m3 four;
            attune::float8_e5m2 five;
            four.bits = five.bits = static_cast<std::uint8_t>(i);
            const float wanted = e4m3 ? static_cast<float>(four) : static_cast<float>(five);
            INFO(e4m3 << " " << i);
            CHECK((found(i) == wanted || (std::isnan(found(i)) && std::isnan(wanted))));
            CHECK(std::signbit(found(i)) == std::signbit(wanted));
        }
    }
}

TEST_CASE("functions of NaN are NaN, whatever its sign and payload", "[numbers]") {
    using namespace attune::generators;
    using Halide::Expr;
    const Expr limit = 3.0f;
    const std::vector<std::pair<const char*, std::function<Expr(const Expr&)>>> functions{
        {"exp2_of_nonpositive", exp2_of_nonpositive},
        {"hyperbolic_tangent", hyperbolic_tangent},
        {"error_function", error_function},
        {"exponential", exponential},
        {"natural_logarithm", natural_logarithm},
        {"at_least", [&](const Expr& x) { return at_least(x, limit); }},
        {"at_most", [&](const Expr& x) { return at_most(x, limit); }},
        {"larger_of", [](const Expr& x) { return larger_of(x, x * 0.5f); }},
        {"smaller_of", [](const Expr& x) { return smaller_of(x * 0.5f, x); }}};
    Halide::Buffer<float> x(8);
    for (const auto& [name, function] : functions)
        for (const std::uint32_t bits : {0x7fc00000u, 0xffc00000u, 0x7fffffffu, 0xffffffffu, 0x7f800001u}) {
            x.fill(std::bit_cast<float>(bits));
            const Halide::Var i("i");
            Halide::Func f("f");
            f(i) = function(x(i));
            f.vectorize(i, 8, Halide::TailStrategy::GuardWithIf);
            const Halide::Buffer<float> found = f.realize({x.width()});
            CAPTURE(name, bits);
            for (int at = 0; at < x.width(); ++at) CHECK(std::isnan(found(at)));
        }
}
