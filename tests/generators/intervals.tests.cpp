// Functions over blocks of pairs: a block is skipped where the interval of a function over it says that no pair is
// visible, and taken whole where it says that all are. Each function of the language, of random intervals of its
// arguments, with limits that its values in a block just reach or just miss: the values lie in the intervals.
#include "kernel/kernel_list.hpp"
#include "lower.hpp"

#include <attune/dsl.hpp>
#include <attune/runtime/cpu.hpp>

#include <Halide.h>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

using namespace attune;

namespace {

/// The language's functions on doubles, by the same names: a formula below serves both.
namespace exact {
double clamp(double x, double low, double high) { return std::min(std::max(x, low), high); }
double max(double x, double y) { return std::max(x, y); }
double min(double x, double y) { return std::min(x, y); }
double sign(double x) { return (x > 0) - (x < 0); }
double rsqrt(double x) { return 1 / std::sqrt(x); }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double silu(double x) { return x * sigmoid(x); }
double relu(double x) { return std::max(x, 0.0); }
double gelu(double x) { return x * (1 + std::erf(x / std::sqrt(2.0))) / 2; }
double gelu_tanh(double x) { return x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))) / 2; }
double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }
double logaddexp(double x, double y) { return std::max(x, y) + std::log1p(std::exp(-std::abs(x - y))); }
double floor_div(double x, double y) { return std::floor(x / y); }
double as_integer(double x) { return std::trunc(x); }
double round(double x) { return std::nearbyint(x); }
}  // namespace exact

/// Numbers of keys that a number of each query limits, which is larger. So they are not of one side, where a table
/// would hold the least and the largest of a function's values in a block, and their intervals are exactly what the
/// test draws.
namespace formula {
using namespace attune::dsl;
inline constexpr auto most = input<"most", f32>(batch, query);
inline constexpr auto xs = min(input<"xs", f32>(batch, key)(b, kv_idx), most(b, q_idx));
inline constexpr auto ys = min(input<"ys", f32>(batch, key)(b, kv_idx), most(b, q_idx));
inline constexpr auto low = scalar<"low", f32>;
inline constexpr auto high = scalar<"high", f32>;
template <auto F> inline constexpr auto bounded = softmax(mask(q * t(k), F(xs, ys) >= low && F(xs, ys) <= high)) * v;
}  // namespace formula

struct bounds {
    double low, high;
};
struct function {
    const char* name;
    graph_ir graph;
    double (*value)(double, double);
    bounds x, y;
    bool is_exact;
};

using namespace exact;
using std::abs, std::acos, std::asin, std::atan, std::atan2, std::ceil, std::cos, std::cosh, std::erf, std::exp,
    std::exp2, std::expm1, std::floor, std::fmod, std::log, std::log1p, std::log2, std::sin, std::sinh, std::sqrt,
    std::tan, std::tanh, std::trunc;

#define OF(F) [](auto x, [[maybe_unused]] auto y) { return F; }
#define FUNCTION(F, LOW, HIGH, EXACT) \
    function { #F, dsl::ir_of<formula::bounded<OF(F)>>, OF(F), {LOW, HIGH}, {-5, 5}, EXACT }

const std::vector<function>& functions() {
    static const std::vector<function> all{
        FUNCTION(sin(x), -50, 50, false),
        FUNCTION(cos(x), -50, 50, false),
        FUNCTION(tan(x), -50, 50, false),
        FUNCTION(asin(x), -1, 1, false),
        FUNCTION(acos(x), -1, 1, false),
        FUNCTION(atan(x), -30, 30, false),
        FUNCTION(atan2(x, y), -5, 5, false),
        FUNCTION(sinh(x), -30, 30, false),
        FUNCTION(cosh(x), -30, 30, false),
        FUNCTION(tanh(x), -10, 10, false),
        FUNCTION(erf(x), -5, 5, false),
        FUNCTION(sigmoid(x), -20, 20, false),
        FUNCTION(exp(x), -40, 40, false),
        FUNCTION(exp2(x), -60, 60, false),
        FUNCTION(expm1(x), -30, 30, false),
        FUNCTION(log(x), 0.01, 1000, false),
        FUNCTION(log2(x), 0.01, 1000, false),
        FUNCTION(log1p(x), -0.9, 1000, false),
        FUNCTION(sqrt(x), 0, 1000, false),
        FUNCTION(rsqrt(x), 0.01, 1000, false),
        FUNCTION(floor(x), -50, 50, true),
        FUNCTION(ceil(x), -50, 50, true),
        FUNCTION(round(x), -50, 50, true),
        FUNCTION(trunc(x), -50, 50, true),
        FUNCTION(sign(x), -2, 2, true),
        FUNCTION(abs(x), -5, 5, true),
        FUNCTION(min(x, y), -5, 5, true),
        FUNCTION(max(x, y), -5, 5, true),
        FUNCTION(clamp(x, -1.5, 2.25), -5, 5, true),
        FUNCTION(relu(x), -5, 5, true),
        FUNCTION(as_integer(x), -50, 50, true),
        FUNCTION(fmod(x, y), -50, 50, false),
        FUNCTION(pow(x, y), 0.1, 10, false),
        FUNCTION(floor_div(x, 0.75), -50, 50, true),
        FUNCTION(silu(x), -20, 20, false),
        FUNCTION(gelu(x), -6, 6, false),
        FUNCTION(gelu_tanh(x), -6, 6, false),
        FUNCTION(softplus(x), -20, 20, false),
        FUNCTION(logaddexp(x, y), -20, 20, false),
        FUNCTION(sin(x) + cos(y), -5, 5, false),
        FUNCTION(floor(x) * round(y), -5, 5, true),
        FUNCTION(exp2(-abs(x - y)), -5, 5, false),
        FUNCTION(x * y, -5, 5, false),
        FUNCTION(tanh(x) / (abs(y) + 1.0), -5, 5, false),
    };
    return all;
}

/// The kinds of blocks of a kernel, compiled once, of numbers that stay where they are: 0 where no pair is visible, 2
/// where all are.
class block_kinds {
public:
    explicit block_kinds(const generators::variant& of)
        : request_(generators::kernels_of(
                       {&of, 1}, {.targets = {level()}, .dtypes = {"f32"}, .depths = {"32"}, .shapes = {"prefill"}})
                       .front()
                       .request),
          blocks_(generators::lower(request_).blocks),
          queries_(request_.blocks().query_block),
          keys_of_block(request_.blocks().key_block),
          xs(count * keys_of_block),
          ys(count * keys_of_block),
          most_(static_cast<std::size_t>(queries_), 3e38f),
          unread_(32 * std::max(xs.size(), most_.size())),
          length_(static_cast<std::int32_t>(xs.size())) {
        std::vector<Halide::Internal::Function> outputs{blocks_.outputs().front().function()};
        for (const auto& [argument, parameter, buffer] : Halide::Internal::infer_arguments({}, outputs))
            if (parameter.defined()) bind(argument.name.substr(std::string("input_").size()), parameter);
    }
    block_kinds(const block_kinds&) = delete;  // the parameters point to the numbers
    block_kinds& operator=(const block_kinds&) = delete;

    static constexpr int count = 4;

    std::vector<int> of(float low, float high) {
        // A number that the blocks do not read is no parameter of theirs.
        if (low_.defined()) low_.set_scalar(low);
        if (high_.defined()) high_.set_scalar(high);
        Halide::Buffer<std::uint8_t> made(count, 1, 1, 1);
        blocks_.realize(made);
        return {made.begin(), made.end()};
    }

private:
    static std::string level() {
        for (const generators::level& each : generators::levels())
            if (runs(each.name)) return std::string(each.name);
        return "x86-64-v2";
    }
    void bind(const std::string& name, Halide::Parameter to) {
        if (name == "low" || name == "high")
            (name == "low" ? low_ : high_) = to;
        else if (name == "kv_lengths")
            to.set_buffer(Halide::Buffer<std::int32_t>(&length_, 1));
        else if (name == "q" || name == "k" || name == "v")  // which says how many queries or keys there are
            to.set_buffer(Halide::Buffer<float>(unread_.data(), 32, name == "q" ? queries_ : length_, 1, 1));
        else
            give(to, name == "xs" ? xs : name == "ys" ? ys : most_);
    }
    static void give(Halide::Parameter& to, std::vector<float>& numbers) {
        to.set_buffer(Halide::Buffer<float>(numbers.data(), static_cast<int>(numbers.size()), 1));
    }

    generators::kernel_request request_;
    Halide::Pipeline blocks_;
    Halide::Parameter low_, high_;
    int queries_;

public:
    const int keys_of_block;
    std::vector<float> xs, ys;

private:
    std::vector<float> most_, unread_;
    std::int32_t length_;
};

/// A kernel's error bound by language.md, relative to the largest term, which is at most as large as the argument.
double slack(const function& f, double x, double y, double value) {
    return f.is_exact ? 0 : 4e-6 * (std::abs(value) + std::min(1.0, std::abs(x) + std::abs(y))) + 1e-30;
}

class trial {
public:
    trial(const function& f, block_kinds& blocks, unsigned seed) : f_(f), blocks_(blocks), random_(seed) {
        for (int n = 0; n < block_kinds::count; ++n) draw(n);
        for (std::size_t i = 0; i < blocks_.xs.size(); ++i) {
            const double x = blocks_.xs[i], y = blocks_.ys[i], value = f.value(x, y);
            values_.push_back(value), slacks_.push_back(slack(f, x, y, value));
        }
    }

    void run() {
        constexpr float most = std::numeric_limits<float>::max();
        for (int n = 0; n < block_kinds::count; ++n) {
            const auto first = values_.begin() + n * blocks_.keys_of_block;
            const auto [least, largest] = std::minmax_element(first, first + blocks_.keys_of_block);
            const double below = slacks_[static_cast<std::size_t>(least - values_.begin())],
                         above = slacks_[static_cast<std::size_t>(largest - values_.begin())];
            check(static_cast<float>(*largest - 2 * above), most);       // the largest is visible
            check(-most, static_cast<float>(*least + 2 * below));        // the least is
            check(static_cast<float>(*least + 2 * below + 1e-3), most);  // the least is not
            check(-most, static_cast<float>(*largest - 2 * above - 1e-3));
            check(static_cast<float>(*least - 2 * below), static_cast<float>(*largest + 2 * above));  // all are
        }
    }
    int skipped = 0, whole = 0;

private:
    double within(const bounds& of) { return std::uniform_real_distribution<double>(of.low, of.high)(random_); }
    /// Intervals of any width, their ends among the numbers.
    void draw(int n) {
        const auto fill = [&](std::vector<float>& numbers, const bounds& of) {
            const double width = std::exp(within({std::log(1e-4), std::log(1.0)})) * (of.high - of.low);
            const double from = within({of.low, of.high - width});
            const auto first = numbers.begin() + n * blocks_.keys_of_block;
            std::generate_n(first, blocks_.keys_of_block, [&] { return within({from, from + width}); });
            const auto place = [&] {
                return first + static_cast<int>(random_() % static_cast<unsigned>(blocks_.keys_of_block));
            };
            *place() = static_cast<float>(from + width), *place() = static_cast<float>(from);
            if (f_.is_exact && random_() % 3 == 0)  // where steps are
                std::transform(first, first + blocks_.keys_of_block, first,
                               [](float x) { return std::nearbyint(x * 2) / 2; });
            std::transform(first, first + blocks_.keys_of_block, first, [&](float x) {
                return std::clamp(x, static_cast<float>(of.low), static_cast<float>(of.high));
            });
        };
        fill(blocks_.xs, f_.x), fill(blocks_.ys, f_.y);
    }

    void check(float low, float high) {
        const std::vector<int> kinds = blocks_.of(low, high);
        for (int n = 0; n < block_kinds::count; ++n) {
            const int kind = kinds[static_cast<std::size_t>(n)];
            skipped += kind == 0, whole += kind == 2;
            for (int key = n * blocks_.keys_of_block; key < (n + 1) * blocks_.keys_of_block; ++key) {
                const auto at = static_cast<std::size_t>(key);
                const double value = values_[at], off = slacks_[at];
                const bool visible = value - off >= low && value + off <= high;
                const bool hidden = value + off < low || value - off > high;
                if (!(kind == 0 && visible) && !(kind == 2 && hidden)) continue;
                CAPTURE(f_.name, kind, low, high, value, blocks_.xs[at], blocks_.ys[at]);
                FAIL_CHECK("a value is not in the interval of its block");
                return;
            }
        }
    }

    const function& f_;
    block_kinds& blocks_;
    std::mt19937 random_;
    std::vector<double> values_, slacks_;
};

}  // namespace

TEST_CASE("the values of every function lie in the intervals by which blocks are skipped", "[intervals]") {
    int skipped = 0, whole = 0;
    for (const function& f : functions()) {
        const generators::variant of{"my::bounded", f.graph};
        block_kinds blocks(of);
        for (unsigned seed = 0; seed < 40; ++seed) {
            trial each(f, blocks, seed);
            each.run();
            skipped += each.skipped, whole += each.whole;
        }
    }
    // Not of blocks of which nothing is known.
    CHECK((skipped > 20000 && whole > 15000));
}
