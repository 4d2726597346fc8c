// Gradients of calls with -infinity and NaN, which a call passes or a formula makes, and with integers at the ends of
// i32: kernels against the reference in double precision.
#include "../gradients/gradient_call.hpp"
#include "extreme_calls.hpp"
#include "extreme_formulas.hpp"
#include "kernel/kernel_list.hpp"
#include "tested_levels.hpp"
#include "tuner/jit_kernel.hpp"

#include <attune/dsl.hpp>
#include <attune/dsl/gradient.hpp>
#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <utility>

using namespace attune;
using namespace attune::testing;
using support::workload;

namespace {

namespace gradients {
using namespace attune::dsl;
using namespace extreme_formulas;
/// By what every formula has: its tables and numbers are given.
template <const auto& formula> inline constexpr auto of_core = gradient(formula, of(out, lse), wrt(q, k, v));
}  // namespace gradients

/// A formula, and the kernel of its gradient for the most demanding level that runs here.
struct gradient_kernel {
    gradient_kernel(const graph_ir& of_forward, const graph_ir& of_gradient)
        : forward(of_forward),
          of{"my::gradient", of_gradient},
          kernel(generators::kernels_of({&of, 1}, {.targets = {std::string(tested_levels().front().name)},
                                                   .dtypes = {"f32"},
                                                   .depths = {"16"},
                                                   .shapes = {"prefill"}})
                     .front()) {}

    /// Elements that are not the reference's where `fill` has filled the tensors.
    std::size_t wrong(const support::shape& s, const std::function<void(workload&)>& fill,
                      const std::map<std::string, double>& numbers = {}) const {
        workload inputs(forward, s, 7, numbers);
        fill(inputs);
        gradient_call call(of.graph, s, std::move(inputs), 7);
        call.run(kernel.table(), 2);
        return elements_unlike(call, call.expected, 3e-5);
    }

    graph_ir forward;
    generators::variant of;
    generators::jit_kernel kernel;
};
template <const auto& formula> gradient_kernel compiled() {
    return {dsl::ir_of<formula>, dsl::ir_of<gradients::of_core<formula>>};
}

template <const auto& formula> void check_infinity() {
    const gradient_kernel kernel = compiled<formula>();
    for (int way = 0; way < 6; ++way) {
        CAPTURE(kernel.forward.text, way);
        CHECK(kernel.wrong(small, [&](workload& call) { fill_infinity(call, way); }) == 0);
    }
}

template <const auto& formula>
void check_tables(std::initializer_list<float> specials, std::initializer_list<double> numbers = {2}) {
    const gradient_kernel kernel = compiled<formula>();
    for (const support::shape& s : {long_call, few_queries})
        for (const float special : specials)
            for (const double x : numbers) {
                CAPTURE(kernel.forward.text, s.text(), special, x);
                const auto fill = [&](workload& call) { fill_tables(call, kernel.forward, special); };
                CHECK(kernel.wrong(s, fill, {{"x", x}}) == 0);
            }
}

template <const auto& formula> void check_ends(std::initializer_list<std::int32_t> numbers) {
    const gradient_kernel kernel = compiled<formula>();
    for (const support::shape& s : {long_call, few_queries})
        for (const double w : numbers) {
            CAPTURE(kernel.forward.text, s.text(), w);
            const auto fill = [&](workload& call) { fill_integers(call, kernel.forward); };
            CHECK(kernel.wrong(s, fill, {{"w", w}}) == 0);
        }
}

namespace f = extreme_formulas;

}  // namespace

TEST_CASE("-infinity in f16 masks a gradient's pairs, a NaN decides its own, and limits wrap around", "[gradients]") {
    const gradient_kernel kernel = compiled<f::all_kinds>();
    for (const double w : {most, 40, least}) {
        CAPTURE(w);
        const auto fill = [&](workload& call) { fill_all_kinds(call, kernel.forward); };
        CHECK(kernel.wrong(long_call, fill, {{"w", w}}) == 0);
    }
    const auto hide_a_batch = [&](workload& call) {
        fill_all_kinds(call, kernel.forward);
        put_all(call["hiding"], [](std::size_t at) { return at >= 330 ? -infinity : 0.25f; });
    };
    CHECK(kernel.wrong({2, 4, 2, 20, 330, 16, 16}, hide_a_batch, {{"w", 40}}) == 0);
}

TEST_CASE("-infinity in a tensor of any float type masks a gradient's pairs", "[.long][types]") {
    check_infinity<f::read_as<dsl::f16>::added>();
    check_infinity<f::read_as<dsl::f16>::compared>();
    check_infinity<f::read_as<dsl::f8_e5m2>::added>();
    check_infinity<f::read_as<dsl::f8_e5m2>::compared>();
    check_infinity<f::read_as<dsl::bf16>::added>();
    check_infinity<f::read_as<dsl::bf16>::compared>();
    check_infinity<f::read_as<dsl::f32>::added>();
    check_infinity<f::read_as<dsl::f32>::compared>();
}

TEST_CASE("a NaN in a table that a condition reads decides its own pairs of a gradient", "[.long][conditions]") {
    check_tables<f::nan_in_order>({not_a_number, 2, infinity, -infinity});
    check_tables<f::nan_in_arithmetic>({not_a_number, 2, infinity, -infinity});
    check_tables<f::nan_in_equality>({not_a_number, 2, infinity, -infinity});
    check_tables<f::nan_in_choices>({not_a_number, 2, infinity, -infinity});
    check_tables<f::nan_in_functions>({not_a_number, 2, infinity, -infinity});
    check_tables<f::nan_in_pairs>({not_a_number, infinity, -infinity}, {2, not_a_number});
    check_tables<f::nan_of_a_number>({not_a_number, 2}, {2, not_a_number, infinity, -infinity});
}

TEST_CASE("limits at the ends of i32 are those of arithmetic that wraps around, in a gradient", "[.long][integers]") {
    const std::initializer_list<std::int32_t> ends{most, most - 1, 1 << 30, 40, -1, least + 1, least};
    check_ends<f::ends_of_windows>(ends);
    check_ends<f::ends_of_tensors>(ends);
    check_ends<f::ends_of_catalogue>(ends);
    check_ends<f::ends_of_products>(ends);
    check_ends<f::ends_of_shifts>({0, 1, 3, 31, 32, 33, -1, -29, most, least});
    check_ends<f::ends_of_documents>({0});
    check_ends<f::ends_of_literals<most>>({0});
    check_ends<f::ends_of_literals<least + 1>>({0});
    check_ends<f::more_of_literals<most>>({0});
}

TEST_CASE("-infinity that a formula makes masks a gradient's pairs, and the lowest numbers are scores",
          "[.long][scores]") {
    check_tables<f::made_of_number>({2}, {-infinity, -1, lowest});
    check_tables<f::made_by_logarithm>({0, 2});
    check_tables<f::made_by_quotient>({0, 2});
    check_tables<f::made_by_difference>({infinity, 2});
    check_tables<f::two_biases>({lowest, -infinity});
}
