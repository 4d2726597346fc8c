#include "src/pointwise.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <limits>

using namespace attune;
using namespace attune::reference;

namespace {
constexpr std::int32_t low = std::numeric_limits<std::int32_t>::min(), high = std::numeric_limits<std::int32_t>::max();
constexpr double inf = std::numeric_limits<double>::infinity();

column integers(std::vector<std::int32_t> values) { return {{}, std::move(values)}; }
column reals(std::vector<double> values) { return {std::move(values), {}}; }

column apply(operation op, std::vector<column> arguments, std::vector<kind> kinds) {
    std::vector<const column*> pointers;
    for (const column& a : arguments) pointers.push_back(&a);
    column result;
    REQUIRE(evaluate_pointwise({.op = op}, kinds, pointers, result));
    return result;
}
}  // namespace

TEST_CASE("integer / and % round down, as in Python") {
    const auto divide = [](int x, int y) { return integer_operation(operation::divide, x, y); };
    const auto remainder = [](int x, int y) { return integer_operation(operation::remainder, x, y); };
    CHECK(divide(7, 4) == 1);
    CHECK(divide(-1, 4) == -1);
    CHECK(divide(-4, 4) == -1);
    CHECK(divide(-5, 4) == -2);
    CHECK(divide(1, -4) == -1);
    CHECK(divide(-5, -4) == 1);
    CHECK(divide(0, -4) == 0);
    CHECK(remainder(7, 4) == 3);
    CHECK(remainder(-1, 4) == 3);
    CHECK(remainder(-4, 4) == 0);
    CHECK(remainder(1, -4) == -3);
    CHECK(remainder(-5, -4) == -1);
    for (int x = -20; x <= 20; ++x)
        for (int y : {-7, -3, -1, 1, 2, 5}) {
            CHECK(divide(x, y) == static_cast<int>(std::floor(static_cast<double>(x) / y)));
            CHECK(divide(x, y) * y + remainder(x, y) == x);
        }
}

TEST_CASE("integer division by zero gives zero and nothing traps") {
    CHECK(integer_operation(operation::divide, 5, 0) == 0);
    CHECK(integer_operation(operation::remainder, 5, 0) == 0);
    CHECK(integer_operation(operation::divide, low, -1) == low);
    CHECK(integer_operation(operation::remainder, low, -1) == 0);
}

TEST_CASE("integers wrap around") {
    CHECK(integer_operation(operation::add, high, 1) == low);
    CHECK(integer_operation(operation::subtract, low, 1) == high);
    CHECK(integer_operation(operation::multiply, 65536, 65536) == 0);
    CHECK(apply(operation::negate, {integers({low, 3})}, {kind::integer}).integer ==
          std::vector<std::int32_t>{low, -3});
    CHECK(apply(operation::absolute, {integers({low, -3, 3})}, {kind::integer}).integer ==
          std::vector<std::int32_t>{low, 3, 3});
}

TEST_CASE("bit operations are those of two's complement") {
    CHECK(integer_operation(operation::bit_and, -1, 12) == 12);
    CHECK(integer_operation(operation::bit_or, 8, 3) == 11);
    CHECK(integer_operation(operation::bit_xor, 13, 7) == 10);
    CHECK(integer_operation(operation::bit_xor, -1, 7) == -8);
}

TEST_CASE("conversions: to real exactly, to integer towards zero") {
    CHECK(apply(operation::to_real, {integers({-7, high})}, {kind::integer}).real ==
          std::vector<double>{-7.0, 2147483647.0});
    CHECK(apply(operation::to_integer, {reals({2.9, -2.9, 0.5, 1e30, -1e30})}, {kind::real}).integer ==
          std::vector<std::int32_t>{2, -2, 0, high, low});
    CHECK(apply(operation::to_integer, {integers({1, 0})}, {kind::condition}).integer ==
          std::vector<std::int32_t>{1, 0});
}

TEST_CASE("one element stands for all, and nothing for nothing") {
    CHECK(apply(operation::add, {integers({1, 2, 3}), integers({10})}, {kind::integer, kind::integer}).integer ==
          std::vector<std::int32_t>{11, 12, 13});
    CHECK(apply(operation::subtract, {reals({10}), reals({1, 2})}, {kind::real, kind::real}).real ==
          std::vector<double>{9, 8});
    CHECK(apply(operation::add, {integers({}), integers({10})}, {kind::integer, kind::integer}).integer.empty());
    CHECK(apply(operation::where, {integers({1}), reals({}), reals({1})}, {kind::condition, kind::real, kind::real})
              .real.empty());
}

TEST_CASE("comparisons and conditions") {
    const column x = integers({-1, 0, 1}), zero = integers({0});
    const std::vector<kind> two{kind::integer, kind::integer};
    CHECK(apply(operation::less, {x, zero}, two).integer == std::vector<std::int32_t>{1, 0, 0});
    CHECK(apply(operation::less_equal, {x, zero}, two).integer == std::vector<std::int32_t>{1, 1, 0});
    CHECK(apply(operation::greater, {x, zero}, two).integer == std::vector<std::int32_t>{0, 0, 1});
    CHECK(apply(operation::greater_equal, {x, zero}, two).integer == std::vector<std::int32_t>{0, 1, 1});
    CHECK(apply(operation::equal, {x, zero}, two).integer == std::vector<std::int32_t>{0, 1, 0});
    CHECK(apply(operation::not_equal, {x, zero}, two).integer == std::vector<std::int32_t>{1, 0, 1});
    CHECK(apply(operation::less, {reals({-inf, std::nan("")}), reals({0})}, {kind::real, kind::real}).integer ==
          std::vector<std::int32_t>{1, 0});
    const std::vector<kind> conditions{kind::condition, kind::condition};
    CHECK(apply(operation::logical_and, {integers({0, 1, 1}), integers({1, 0, 1})}, conditions).integer ==
          std::vector<std::int32_t>{0, 0, 1});
    CHECK(apply(operation::logical_or, {integers({0, 1, 0}), integers({1, 0, 0})}, conditions).integer ==
          std::vector<std::int32_t>{1, 1, 0});
    CHECK(apply(operation::logical_not, {integers({0, 1})}, {kind::condition}).integer ==
          std::vector<std::int32_t>{1, 0});
}

TEST_CASE("where chooses, and is the only way back from masked") {
    const column c = integers({1, 0, 1});
    CHECK(
        apply(operation::where, {c, reals({1, 2, 3}), reals({-inf})}, {kind::condition, kind::real, kind::real}).real ==
        std::vector<double>{1, -inf, 3});
    CHECK(apply(operation::where, {c, integers({5}), integers({1, 2, 3})},
                {kind::condition, kind::integer, kind::integer})
              .integer == std::vector<std::int32_t>{5, 2, 5});
    CHECK(
        apply(operation::where, {c, integers({1}), integers({0})}, {kind::condition, kind::condition, kind::condition})
            .integer == std::vector<std::int32_t>{1, 0, 1});
    CHECK(apply(operation::mask, {reals({1, 2, 3}), c}, {kind::scores, kind::condition}).real ==
          std::vector<double>{1, -inf, 3});
}

TEST_CASE("what is masked stays masked through arithmetic") {
    CHECK(real_operation(operation::multiply, -inf, -2.0) == -inf);
    CHECK(real_operation(operation::multiply, -inf, 0.0) == -inf);
    CHECK(real_operation(operation::subtract, 1.0, -inf) == -inf);
    CHECK(real_operation(operation::divide, -inf, -4.0) == -inf);
    CHECK(real_operation(operation::minimum, -inf, 3.0) == -inf);
    CHECK(real_operation(operation::maximum, -inf, 3.0) == 3.0);
    CHECK(real_function(operation::negate, -inf) == -inf);
    CHECK(real_function(operation::log, -inf) == -inf);
    CHECK(real_function(operation::exp, -inf) == 0.0);
    CHECK(real_function(operation::tanh, -inf) == -1.0);
    CHECK(real_function(operation::erf, -inf) == -1.0);
    CHECK(real_function(operation::tanh, 0.5) == std::tanh(0.5));
    CHECK(real_function(operation::rsqrt, 16.0) == 0.25);
}
