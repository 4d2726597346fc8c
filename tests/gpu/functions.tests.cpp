// Every function of the language on a device, within what language.md says of it: of a sample of all floats, and of
// numbers of usual sizes, beside the C library's in double precision.
#include "functions.hpp"
#include "../generators/ulps.hpp"

#include <attune/runtime/run.hpp>

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <string_view>

using namespace attune;
using testing::error_in_ulps;

namespace {

/// How far a function may be off.
enum class accuracy : std::uint8_t {
    ulps,      ///< so many units in the last place
    relative,  ///< so much of the value
    of_terms,  ///< so much of the largest term, which is the value or the argument
};
struct claim {
    const char* name;
    double (*exact)(double x, double y);
    accuracy is;
    double most;
    double low = -HUGE_VAL, high = HUGE_VAL;  ///< of x, where it is claimed
    bool is_odd = false;                      ///< low and high are of |x|
};

double rest_of(double x, double y) {
    return std::abs(x / y) < 18014398509481984.0 || !std::isfinite(x / y) ? std::fmod(x, y) : 0;  // language.md
}
double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }
double integer_of(double x) {
    return std::isnan(x) ? 0 : static_cast<float>(std::clamp(std::trunc(x), -2147483648.0, 2147483647.0));
}

#define OF(F) [](double x, [[maybe_unused]] double y) -> double { return F; }
using enum accuracy;

/// CUDA's code takes subnormal numbers for 0, and its logarithm is further off: devices.md.
constexpr bool is_cuda = std::string_view(ATTUNE_GPU_TARGET) == "cuda";
constexpr double least = is_cuda ? 1.2e-38 : -HUGE_VAL;

/// In the order of functions.hpp.
constexpr claim claims[] = {
    {"sin", OF(std::sin(x)), ulps, 0.51},
    {"cos", OF(std::cos(x)), ulps, 0.51},
    {"tan", OF(std::tan(x)), ulps, 0.51},
    {"asin", OF(std::asin(x)), ulps, 0.51},
    {"acos", OF(std::acos(x)), ulps, 0.51},
    {"atan", OF(std::atan(x)), ulps, 0.51},
    {"sinh", OF(std::sinh(x)), ulps, 0.51},
    {"cosh", OF(std::cosh(x)), ulps, 0.51},
    {"exp2", OF(std::exp2(x)), ulps, 0.51},
    {"expm1", OF(std::expm1(x)), ulps, 0.51},
    {"log2", OF(std::log2(x)), ulps, 0.51},
    {"log1p", OF(std::log1p(x)), ulps, 0.51},
    {"floor", OF(std::floor(x)), ulps, 0, least, HUGE_VAL, is_cuda},
    {"ceil", OF(std::ceil(x)), ulps, 0, least, HUGE_VAL, is_cuda},
    {"round", OF(std::nearbyint(x)), ulps, 0},
    {"trunc", OF(std::trunc(x)), ulps, 0},
    {"atan2", OF(std::atan2(x, y)), ulps, 0.51},
    {"pow", OF(std::pow(x, y)), ulps, 0.51},
    {"fmod", OF(rest_of(x, y)), ulps, 0},
    {"exp", OF(std::exp(x)), ulps, 5, -87, 88},
    {"log", OF(std::log(x)), ulps, is_cuda ? 3 : 2, 1.2e-38, 3e38},
    {"sigmoid", OF(1 / (1 + std::exp(-x))), ulps, 5, -87},
    {"tanh", OF(std::tanh(x)), relative, 6e-7, 1e-30, HUGE_VAL, true},
    {"erf", OF(std::erf(x)), relative, 6e-7, 1e-30, HUGE_VAL, true},
    {"sqrt", OF(std::sqrt(x)), ulps, 4, 1.2e-38, 3e38},       // the device's own: OpenCL allows 3
    {"rsqrt", OF(1 / std::sqrt(x)), ulps, 6, 1.2e-38, 3e38},  // and a division
    {"silu", OF(x / (1 + std::exp(-x))), of_terms, 1e-6, -80, 1e30},
    {"gelu", OF(x * (1 + std::erf(x * 0.7071067811865476)) / 2), of_terms, 1e-6, -1e30, 1e30},
    {"gelu_tanh", OF(x * (1 + std::tanh(x * (0.7978845608028654 + 0.035677408136300125 * (x * x)))) / 2), of_terms,
     1e-6, -1e12, 1e12},
    {"relu", OF(std::max(x, 0.0)), ulps, 0},
    {"softplus", OF(softplus(x)), of_terms, 1e-6, -80, 1e30},
    {"logaddexp", OF(std::max(x, y) + std::log1p(std::exp(-std::abs(x - y)))), of_terms, 1e-6, -1e30, 1e30},
    {"clamp", OF(std::min(std::max(x, -1.5), 2.25)), ulps, 0},
    {"sign", OF(std::isnan(x) ? x : (x > 0) - (x < 0)), ulps, 0},
    {"abs", OF(std::abs(x)), ulps, 0},
    {"min", OF(std::min(x, y)), ulps, 0},
    {"max", OF(std::max(x, y)), ulps, 0},
    {"floor_div", OF(std::floor(x / 0.5)), ulps, 0, is_cuda ? least : -1e30, 1e30, is_cuda},
    {"isnan", OF(std::isnan(x)), ulps, 0},
    {"isinf", OF(std::isinf(x)), ulps, 0},
    {"isfinite", OF(std::isfinite(x)), ulps, 0},
    {"as_integer", OF(integer_of(x)), ulps, 0},
};

/// How many values of each function; fewer by ATTUNE_FUNCTION_VALUES, a power of two, for a device that is slow.
constexpr std::uint32_t most_values = 32768;
std::uint32_t values_of_each() {
    const char* const asked = std::getenv("ATTUNE_FUNCTION_VALUES");
    return asked ? std::clamp(static_cast<std::uint32_t>(std::stoul(asked)), 64u, most_values) : most_values;
}

/// The values of a function that a device computes: heads of one key, whose output is the value.
std::vector<float> computed(int function, const std::vector<float>& x, const std::vector<float>& y) {
    constexpr std::int64_t width = 32;
    const std::vector<std::int64_t> shape{1, static_cast<std::int64_t>(x.size()) / width, 1, width};
    const std::vector<float> zeros(x.size());
    std::vector<float> out(x.size());
    const std::vector<detail::named_argument> call{
        {.name = "q", .view = tensor(zeros.data(), shape)},
        {.name = "k", .view = tensor(zeros.data(), shape)},
        {.name = "v", .view = tensor(x.data(), shape)},
        {.name = "y", .view = tensor(y.data(), shape)},
        {.name = "out", .view = tensor(out.data(), shape)},
        {.name = "which", .is = detail::named_argument::form::integer, .integer = function}};
    detail::call(detail::table_of<device_functions::all>(), call, {.target = ATTUNE_GPU_TARGET});
    return out;
}

double error_of(const claim& its, float found, double x, double y) {
    const double wanted = its.exact(x, y);
    if (its.is == ulps) return error_in_ulps(found, wanted);
    if (found == wanted) return 0;
    const double scale = its.is == relative ? std::abs(wanted) : std::max({std::abs(wanted), std::abs(x), std::abs(y)});
    return std::abs(found - wanted) / scale;
}

}  // namespace

TEST_CASE("every function on a device is as near as the language says") {
    if (const auto& missing = kernels<device_functions::all>().entries.front().missing; !missing.empty())
        SKIP("no " ATTUNE_GPU_TARGET " device here: lacks " << missing);
    const std::uint32_t values = values_of_each();
    std::vector<float> x = testing::sample_of_floats(200003 * (most_values / values), 32), y(x.size());
    std::mt19937 random(5);
    std::normal_distribution<float> normal(0, 4);
    while (x.size() < values) x.push_back(normal(random));
    y.resize(x.size());
    for (float& each : y) each = normal(random);
    for (std::size_t n = 0; n < std::size(claims); ++n) {
        const claim& its = claims[n];
        const std::vector<float> found = computed(static_cast<int>(n), x, y);
        double worst = 0;
        std::size_t at = 0;
        for (std::size_t i = 0; i < x.size(); ++i) {
            const float magnitude = its.is_odd ? std::abs(x[i]) : x[i];
            const bool is_claimed = magnitude >= its.low && magnitude <= its.high;
            // A real that is -infinity stands for nothing; a function of it is masked or has its limit.
            if (!is_claimed && !(std::isnan(x[i]) && std::isinf(its.low) && std::isinf(its.high))) continue;
            if (std::isinf(x[i]) && x[i] < 0) continue;
            if (const double error = error_of(its, found[i], x[i], y[i]); !(error <= worst)) worst = error, at = i;
        }
        INFO(its.name << " of " << x[at] << " and " << y[at] << " is " << found[at] << ", not "
                      << its.exact(x[at], y[at]));
        CHECK(worst <= its.most);
        std::printf("%-10s %.3g at %a, %a\n", its.name, worst, static_cast<double>(x[at]), static_cast<double>(y[at]));
    }
}
