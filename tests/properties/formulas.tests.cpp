// These hold for every formula: the reference agrees, whatever the lengths; threads and neighbours in the batch change
// no bit.
#include "formula_calls.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>

using namespace attune;
using namespace attune::testing;
using support::shape;

namespace {

double allowed_error(const reference::array& expected) {
    double largest = 1;
    for (double x : expected.values)
        if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
    return 3e-5 * largest;
}

double check_against_reference(formula_call& call) {
    call.run();
    double worst = 0;
    const auto expected = call.expected();
    for (const reference::array& output : expected.outputs) {
        INFO(output.name);
        const double error = reference::largest_error(call.view(output.name), output, expected.rows);
        CHECK(error <= allowed_error(output));
        worst = std::max(worst, error / allowed_error(output));
    }
    return worst;
}

}  // namespace

TEST_CASE("every formula agrees with the reference, whatever the lengths") {
    for (const variant& v : formulas()) {
        double worst = 0;
        for (const shape& s :
             {usual_formula,
              shape{
                  .batches = 1, .heads = 2, .key_heads = 1, .queries = 130, .keys = 61, .depth = 16, .value_depth = 16},
              shape{
                  .batches = 3, .heads = 2, .key_heads = 2, .queries = 1, .keys = 259, .depth = 16, .value_depth = 16},
              shape{
                  .batches = 2, .heads = 3, .key_heads = 1, .queries = 5, .keys = 1, .depth = 16, .value_depth = 16}}) {
            formula_call call(v.name, s);
            INFO(v.name << " " << s.text());
            worst = std::max(worst, check_against_reference(call));
        }
        std::printf("%-20s largest error %.3f of the allowed\n", v.name.c_str(), worst);
    }
}

TEST_CASE("every formula that reads keys agrees with the reference with key lengths, none and all of them included") {
    for (const variant& v : formulas()) {
        if (v.name == "merged") continue;
        formula_call call(
            v.name,
            {.batches = 5, .heads = 2, .key_heads = 1, .queries = 40, .keys = 301, .depth = 16, .value_depth = 16});
        call.set_lengths({0, 1, 127, 129, 301});
        INFO(v.name);
        check_against_reference(call);
    }
}

TEST_CASE("every formula without keys: rows of nothing") {
    for (const variant& v : formulas()) {
        formula_call call(
            v.name,
            {.batches = 2, .heads = 2, .key_heads = 1, .queries = 19, .keys = 0, .depth = 16, .value_depth = 16});
        INFO(v.name);
        check_against_reference(call);
    }
}

TEST_CASE("the number of threads changes no bit of any kind of output") {
    for (const variant& v : formulas()) {
        formula_call call(v.name, usual_formula), again(v.name, usual_formula);
        call.run(1);
        for (int threads : {2, 3, 7}) {
            again.run(threads);
            for (const output_declaration& o : v.graph.outputs) {
                INFO(v.name << ", " << o.name << ", " << threads << " threads");
                CHECK(same_bits(call.reals(o.name), again.reals(o.name)));
            }
        }
    }
}

TEST_CASE("a batch element's bits do not depend on its neighbours") {
    for (const variant& v : formulas()) {
        formula_call call(v.name, usual_formula);
        shape one = usual_formula;
        one.batches = 1;
        formula_call alone(v.name, one);
        const bool with_batch = v.name != "by_formula";  // its mask counts batch elements
        if (!with_batch) continue;
        for (const input_declaration& d :
             v.graph.inputs) {  // the second element; tensors without a batch axis are as they are
            if (d.is_scalar) continue;
            const bool has_batch = d.axes[0].kind == axis_kind::batch;
            const auto second = [has_batch](auto& from, auto& to) {
                std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(has_batch ? to.size() : 0), to.size(),
                            to.begin());
            };
            second(call[d.name].reals, alone[d.name].reals);
            second(call[d.name].integers, alone[d.name].integers);
            second(call[d.name].bytes, alone[d.name].bytes);
        }
        call.run(), alone.run();
        for (const output_declaration& o : v.graph.outputs) {
            INFO(v.name << ", " << o.name);
            const auto& both = call.reals(o.name);
            CHECK(same_bits(alone.reals(o.name),
                            {both.begin() + static_cast<std::ptrdiff_t>(both.size() / 2), both.end()}));
        }
    }
}
