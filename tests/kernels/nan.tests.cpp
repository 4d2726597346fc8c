// A NaN is never lost, and never spreads: rows that see it are NaN, all others are what they would be without it.
#include "../support/workload_values.hpp"
#include "variant_list.hpp"

#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

using namespace attune;
using namespace attune::testing;
using support::shape;
using support::workload;

namespace {

/// Quiet ones of both signs, as arithmetic makes them; memory filled with ones; a signalling one.
constexpr std::array<std::uint32_t, 4> kinds_of_nan{0x7fc00000, 0xffc00000, 0xffffffff, 0x7f800001};

struct count {
    std::size_t rows = 0, nan = 0, wrong = 0;
};

/// Elements of a kernel's output beside the reference's: NaN where that is, else close to it.
count compared(const tensor& got, const reference::array& expected) {
    count found;
    std::size_t at = 0;
    support::for_each_offset(got, [&](std::int64_t offset) {
        const double wanted = expected.values[at++], is = static_cast<const float*>(got.data())[offset];
        ++found.rows;
        found.nan += std::isnan(wanted);
        const bool right = std::isnan(wanted) ? std::isnan(is) : is == wanted || std::abs(is - wanted) <= 2e-5;
        found.wrong += !right;
    });
    return found;
}

/// Puts a NaN into one element of an input, calls the kernels of every level, and compares.
void check_with_nan_in(const variant& v, const shape& s, const char* input, std::size_t element) {
    for (const std::uint32_t bits : kinds_of_nan) {
        workload call(v.graph, s, 5, v.numbers);
        if (v.name == "alibi") scale_by(call, "slopes", 0.05f);
        if (v.name == "relative") scale_by(call, "table", 0.5f);
        std::vector<float>& reals = call[input].reals;
        reals[element % reals.size()] = std::bit_cast<float>(bits);
        const auto expected = reference::evaluate(v.graph, call.reference_arguments());
        for (const std::string& level : levels_here(*v.kernels)) {
            call.reset_outputs();
            detail::call(*v.kernels, call.arguments(), {.target = level});
            for (const char* output : {"out", "lse"}) {
                const count found = compared(call.view(output), expected[output]);
                CAPTURE(v.name, level, input, element, bits, output, found.rows, found.nan);
                CHECK(found.wrong == 0);
            }
        }
    }
}

bool reads(const variant& v, std::string_view name) {
    return std::ranges::find(v.graph.inputs, name, &input_declaration::name) != v.graph.inputs.end();
}

}  // namespace

TEST_CASE("a NaN at a visible pair makes its row NaN, at a masked pair it changes nothing, at every level") {
    for (const variant& v : variants()) {
        if (v.name == "energies") continue;  // what stands beside -1e20 is lost to rounding
        const shape s{.batches = 1,
                      .heads = 2,
                      .key_heads = 1,
                      .queries = v.kernels->kernels.front().query_block + 5,
                      .keys = 2 * v.kernels->kernels.front().key_block + 9,
                      .depth = 32,
                      .value_depth = 32};
        for (const char* input : {"q", "k", "slopes", "table", "bias"})
            if (reads(v, input))
                for (const std::size_t element : {0u, 32u * 7 + 5, 32u * 40 + 31})
                    check_with_nan_in(v, s, input, element);
    }
}

TEST_CASE("what is not finite in the values of a masked key reaches no row, at every level") {
    for (const variant& v : variants()) {
        if (v.name == "energies") continue;
        const int block = v.kernels->kernels.front().key_block;
        const shape s{.batches = 2,
                      .heads = 4,
                      .key_heads = 2,
                      .queries = v.kernels->kernels.front().query_block + 5,
                      .keys = 2 * block + 9,
                      .depth = 32,
                      .value_depth = 32};
        for (const float value : {std::nanf(""), std::numeric_limits<float>::infinity()})
            for (const std::int64_t key : {0, 17, block + 1, 2 * block + 8}) {
                workload call(v.graph, s, 5, v.numbers);
                if (v.name == "alibi") scale_by(call, "slopes", 0.05f);
                if (v.name == "relative") scale_by(call, "table", 0.5f);
                call["v"].reals[static_cast<std::size_t>(key * 32 + 5)] = value;
                const auto expected = reference::evaluate(v.graph, call.reference_arguments());
                for (const std::string& level : levels_here(*v.kernels)) {
                    call.reset_outputs();
                    detail::call(*v.kernels, call.arguments(), {.target = level});
                    const count found = compared(call.view("out"), expected["out"]);
                    CAPTURE(v.name, level, key, value, found.rows, found.nan);
                    CHECK(found.wrong == 0);
                }
            }
    }
}

TEST_CASE("a call whose scale is NaN has no finite row") {
    const variant& v = variants().front();
    const shape s{.heads = 1, .key_heads = 1, .queries = 5, .keys = 40, .depth = 32, .value_depth = 32};
    workload call(v.graph, s, 5, {{"scale", std::nan("")}});
    for (const std::string& level : levels_here(*v.kernels)) {
        call.reset_outputs();
        detail::call(*v.kernels, call.arguments(), {.target = level});
        CAPTURE(level);
        CHECK(std::ranges::all_of(call["out"].reals, [](float x) { return std::isnan(x); }));
    }
}
