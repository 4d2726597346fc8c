// -infinity and NaN that a call passes or a formula makes, of every float type and at every place, and integers at the
// ends of i32: kernels for prefill and for decode against the reference, and against numbers computed by hand.
#include "extreme_calls.hpp"
#include "extreme_formulas.hpp"
#include "kernel/kernel_list.hpp"
#include "tested_levels.hpp"
#include "tuner/jit_kernel.hpp"

#include <attune/catalogue/windows.hpp>
#include <attune/dsl.hpp>
#include <attune/ir/element.hpp>
#include <attune/reference.hpp>
#include <attune/runtime/detail/call.hpp>
#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

using namespace attune;
using namespace attune::testing;
namespace formulas = extreme_formulas;
using support::workload;

namespace {

/// A formula's kernels for prefill and for decode, of the most demanding level that runs here.
struct both_kernels {
    explicit both_kernels(const graph_ir& graph, const char* depth = "16", bool of_single_keys = false)
        : of{"my::variant", graph} {
        const std::string level(testing::tested_levels().front().name);
        for (const char* const shapes : {"prefill", "decode"}) {
            generators::listed_kernel kernel =
                generators::kernels_of({&of, 1},
                                       {.targets = {level}, .dtypes = {"f32"}, .depths = {depth}, .shapes = {shapes}})
                    .front();
            if (auto* const cut = std::get_if<generators::cpu_prefill>(&kernel.request.schedule); cut && of_single_keys)
                cut->key_block = cut->key_tile = 1;
            kernels.push_back(std::make_unique<generators::jit_kernel>(kernel));
        }
    }
    /// Elements of all outputs that are not the reference's, of both kernels.
    std::size_t wrong(workload& call) const {
        const reference::results expected = call.expected();
        std::size_t found = 0;
        for (const auto& kernel : kernels) {
            run(call, *kernel);
            for (const output_declaration& output : of.graph.outputs) {
                const std::vector<double>& wanted = expected[output.name].values;
                std::size_t at = 0;
                support::for_each_offset(call.view(std::string(output.name).c_str()), [&](std::int64_t offset) {
                    found += !is_near(call[output.name].reals[static_cast<std::size_t>(offset)], wanted[at++]);
                });
            }
        }
        return found;
    }
    static void run(workload& call, const generators::jit_kernel& kernel) {
        call.reset_outputs();
        attune::detail::call(kernel.table(), call.arguments(), {.threads = 2});
    }
    static bool is_near(double is, double wanted) {
        if (std::isnan(wanted) || std::isnan(is)) return std::isnan(wanted) && std::isnan(is);
        return is == wanted || std::abs(is - wanted) <= 3e-5 * std::max(1.0, std::abs(wanted)) ||
               static_cast<float>(wanted) == static_cast<float>(is);
    }
    generators::variant of;
    std::vector<std::unique_ptr<generators::jit_kernel>> kernels;
};

void check_infinity(const graph_ir& graph) {
    const both_kernels kernels(graph);
    for (int way = 0; way < 6; ++way) {
        workload call(graph, small, 3);
        fill_infinity(call, way);
        CAPTURE(graph.text, way);
        CHECK(kernels.wrong(call) == 0);
    }
}

void check_merge(const graph_ir& graph) {
    const both_kernels kernels(graph);
    workload call(graph, small, 3);
    put_all(call["other_lse"], [](std::size_t at) { return at % 3 == 0 ? -infinity : 0.5f; });
    for (std::size_t at = 0; at < call["other"].reals.size(); ++at)
        if (at / 16 % 3 == 0) call["other"].reals[at] = not_a_number;  // of no keys
    CHECK(kernels.wrong(call) == 0);
}

}  // namespace

TEST_CASE("-infinity in a tensor of f16 or f8 masks, wherever it is read", "[infinities][types]") {
    check_infinity(dsl::ir_of<formulas::read_as<dsl::f16>::added>);
    check_infinity(dsl::ir_of<formulas::read_as<dsl::f16>::compared>);
    check_infinity(dsl::ir_of<formulas::read_as<dsl::f8_e5m2>::compared>);
    check_merge(dsl::ir_of<formulas::read_as<dsl::f16>::joined>);
}

TEST_CASE("a NaN counts where a block is one key, its own maximum", "[infinities][types]") {
    const graph_ir graph = dsl::ir_of<formulas::row_of_pairs>;
    const both_kernels kernels(graph, "16", true);
    workload call(graph, small, 3);
    put_all(call["pairs"], [](std::size_t at) { return at % 120 == 7 ? not_a_number : 0.5f; });
    CHECK(kernels.wrong(call) == 0);
}

TEST_CASE("-infinity in a tensor of any float type masks, in every graph", "[.long]") {
    check_infinity(dsl::ir_of<formulas::read_as<dsl::f16>::weighed>);
    check_infinity(dsl::ir_of<formulas::read_as<dsl::f8_e5m2>::added>);
    check_infinity(dsl::ir_of<formulas::read_as<dsl::bf16>::added>);
    check_infinity(dsl::ir_of<formulas::read_as<dsl::bf16>::compared>);
    check_infinity(dsl::ir_of<formulas::read_as<dsl::f32>::added>);
    check_infinity(dsl::ir_of<formulas::read_as<dsl::f32>::compared>);
}

namespace {

void check_tables(const graph_ir& graph, std::initializer_list<float> specials,
                  std::initializer_list<float> numbers = {2}) {
    const both_kernels kernels(graph);
    for (const support::shape& shape : {long_call, few_queries})
        for (const float special : specials)
            for (const float x : numbers) {
                workload call(graph, shape, 11, {{"x", static_cast<double>(x)}});
                fill_tables(call, graph, special);
                CAPTURE(graph.text, shape.text(), special, x);
                CHECK(kernels.wrong(call) == 0);
            }
}

void check_ends(const graph_ir& graph, std::initializer_list<std::int32_t> numbers) {
    const both_kernels kernels(graph);
    for (const support::shape& shape : {long_call, few_queries})
        for (const std::int32_t w : numbers) {
            workload call(graph, shape, 11, {{"w", static_cast<double>(w)}});
            fill_integers(call, graph);
            CAPTURE(graph.text, shape.text(), w);
            CHECK(kernels.wrong(call) == 0);
        }
}

}  // namespace

TEST_CASE("a NaN in a table that a condition reads decides its own pairs alone", "[infinities][conditions]") {
    for (const graph_ir& graph : {dsl::ir_of<formulas::nan_in_order>, dsl::ir_of<formulas::nan_in_arithmetic>})
        check_tables(graph, {not_a_number, 2, infinity, -infinity});
    check_tables(dsl::ir_of<formulas::nan_in_pairs>, {not_a_number, infinity, -infinity}, {2, not_a_number});
}

TEST_CASE("a NaN decides its own pairs alone, in all conditions", "[.long]") {
    for (const graph_ir& graph : {dsl::ir_of<formulas::nan_in_equality>, dsl::ir_of<formulas::nan_in_choices>,
                                  dsl::ir_of<formulas::nan_in_functions>})
        check_tables(graph, {not_a_number, 2, infinity, -infinity});
    check_tables(dsl::ir_of<formulas::nan_of_a_number>, {not_a_number, 2}, {2, not_a_number, infinity, -infinity});
}

TEST_CASE("limits at the ends of i32 are those of arithmetic that wraps around", "[infinities][integers]") {
    for (const graph_ir& graph : {dsl::ir_of<formulas::ends_of_windows>, dsl::ir_of<formulas::ends_of_tensors>})
        check_ends(graph, {most, most - 1, 1 << 30, 40, -1, least + 1, least});
    check_ends(dsl::ir_of<formulas::ends_of_shifts>, {0, 1, 3, 31, 32, 33, -1, -29, most, least});
    for (const graph_ir& graph : {dsl::ir_of<formulas::ends_of_literals<most>>, dsl::ir_of<formulas::ends_of_quotients>,
                                  dsl::ir_of<formulas::ends_of_documents>})
        check_ends(graph, {0});
}

TEST_CASE("limits at the ends of i32 are those of arithmetic that wraps around, in all formulas", "[.long]") {
    for (const graph_ir& graph : {dsl::ir_of<formulas::ends_of_windows>, dsl::ir_of<formulas::ends_of_catalogue>,
                                  dsl::ir_of<formulas::ends_of_products>, dsl::ir_of<formulas::ends_of_tensors>})
        check_ends(graph, {most, most - 1, 1 << 30, 40, 0, -1, -(1 << 30), least + 30, least + 1, least});
    for (const graph_ir& graph :
         {dsl::ir_of<formulas::ends_of_literals<least + 1>>, dsl::ir_of<formulas::more_of_literals<most>>})
        check_ends(graph, {0});
}

TEST_CASE("-infinity that a formula makes masks, and the lowest numbers are scores", "[infinities][scores]") {
    check_tables(dsl::ir_of<formulas::made_of_number>, {2}, {-infinity, -1, lowest});
    check_tables(dsl::ir_of<formulas::made_by_logarithm>, {0, 2});
    check_tables(dsl::ir_of<formulas::made_by_product>, {2}, {infinity, -3});
    check_tables(dsl::ir_of<formulas::two_biases>, {lowest, -infinity});
}

TEST_CASE("scores below the lowest number weigh nothing beside it", "[infinities][scores]") {
    const both_kernels kernels(dsl::ir_of<formulas::two_biases>);
    for (const support::shape& shape : {long_call, few_queries}) {
        workload call(dsl::ir_of<formulas::two_biases>, shape, 11);
        put_all(call["q"], [](std::size_t) { return 0.0f; });
        put_all(call["kt"], [](std::size_t) { return lowest; });
        put_all(call["pt"], [&](std::size_t at) {
            return at % static_cast<std::size_t>(shape.keys) % 3 == 0 ? 0.0f : lowest;  // the sum is twice the lowest
        });
        CAPTURE(shape.text());
        CHECK(kernels.wrong(call) == 0);
    }
}

TEST_CASE("what a weight is multiplied by adds nothing at a masked pair, NaN and infinity included",
          "[infinities][factors]") {
    const auto hidden = [](std::size_t key, std::size_t query) { return key % 5 == 1 || query % 7 == 2; };
    for (const graph_ir& graph : {dsl::ir_of<formulas::weighed_by_keys>, dsl::ir_of<formulas::weighed_by_queries>,
                                  dsl::ir_of<formulas::weighed_by_pairs>}) {
        const both_kernels kernels(graph);
        for (const support::shape& shape : {long_call, few_queries})
            for (const float special : {not_a_number, infinity}) {
                workload call(graph, shape, 11);
                const auto keys = static_cast<std::size_t>(shape.keys);
                for (const char* const name : {"kt", "qt", "pt"}) {
                    if (!has_input(graph, name)) continue;
                    const bool of_keys = name[0] == 'k', of_queries = name[0] == 'q';
                    put_all(call[name], [&](std::size_t at) {
                        return hidden(of_queries ? 0 : at % keys, of_keys      ? 0
                                                                  : of_queries ? at
                                                                               : at / keys)
                                   ? special
                                   : 0.5f;
                    });
                }
                CAPTURE(graph.text, shape.text(), special);
                CHECK(kernels.wrong(call) == 0);
            }
    }
}

TEST_CASE("-infinity that a formula makes masks, in all formulas", "[.long]") {
    check_tables(dsl::ir_of<formulas::made_by_quotient>, {0, 2});
    check_tables(dsl::ir_of<formulas::made_by_difference>, {infinity, 2});
}
