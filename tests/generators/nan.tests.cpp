// Decode and NaN, compiled in process: tests/kernels/nan.tests.cpp says the same of prefill.
#include "kernel/kernel_list.hpp"
#include "tuner/jit_kernel.hpp"

#include <attune/dsl.hpp>
#include <attune/runtime/cpu.hpp>
#include <attune/runtime/detail/call.hpp>
#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <limits>

using namespace attune;
using support::workload;

namespace {
using namespace attune::dsl;

inline constexpr auto kept = input<"kept", boolean>(head, key);
inline constexpr auto k_scale = input<"k_scale", f32>(batch, key_head, key);
inline constexpr auto v_scale = input<"v_scale", f32>(batch, key_head, key);
inline constexpr auto evicted = softmax(mask(q * t(k) * rsqrt(depth), kept(h, kv_idx))) * v;
inline constexpr auto scaled =
    softmax(mask(q * t(keys(k(b, h, kv_idx, d_idx) * k_scale(b, h, kv_idx))) * rsqrt(depth), kv_idx % 7 != 3)) *
    values(v(b, h, kv_idx, d_idx) * v_scale(b, h, kv_idx));

/// Rows of the best kernel for decode that are NaN where the reference's are, and close to them elsewhere.
struct decoded {
    explicit decoded(const graph_ir& graph) : of{"my::decode", graph} {
        for (const generators::level& each : generators::levels())
            if (!kernel && runs(each.name))
                kernel = std::make_unique<generators::jit_kernel>(
                    generators::kernels_of({&of, 1}, {.targets = {std::string(each.name)},
                                                      .dtypes = {"f32"},
                                                      .depths = {"32"},
                                                      .shapes = {"decode"}})
                        .front());
    }
    workload call() const {
        return {of.graph,
                {.batches = 2, .heads = 4, .key_heads = 2, .queries = 2, .keys = 600, .depth = 32, .value_depth = 32},
                5};
    }
    std::size_t wrong(workload& call) const {
        attune::detail::call(kernel->table(), call.arguments(), {.threads = 2});
        const auto expected = call.expected();
        std::size_t at = 0, found = 0;
        support::for_each_offset(call.view("out"), [&](std::int64_t offset) {
            const double wanted = expected["out"].values[at++],
                         is = call["out"].reals[static_cast<std::size_t>(offset)];
            found += !(std::isnan(wanted) ? std::isnan(is) : is == wanted || std::abs(is - wanted) < 2e-5);
        });
        return found;
    }
    generators::variant of;
    std::unique_ptr<generators::jit_kernel> kernel;
};

constexpr std::size_t row = 32, length = 600;
const float not_a_number = std::nanf(""), infinity = std::numeric_limits<float>::infinity();
}  // namespace

TEST_CASE("in decode a NaN at a visible pair makes its row NaN, at a masked pair it changes nothing", "[nan]") {
    const decoded plain(ir_of<evicted>);
    for (const char* const input : {"q", "k"})
        for (const std::size_t element : {5 + 0 * row, 31 + 7 * row, 3 * row}) {
            workload call = plain.call();
            call[input].reals[element] = not_a_number;
            CAPTURE(input, element);
            CHECK(plain.wrong(call) == 0);
        }
}

TEST_CASE("in decode what is not finite in the values of a masked key reaches no row", "[nan]") {
    const decoded plain(ir_of<evicted>), formed(ir_of<scaled>);
    for (const float value : {not_a_number, infinity})
        for (const std::size_t key : {3u, 17u, 255u, 256u, 598u}) {
            workload call = plain.call();
            for (std::size_t head = 0; head < 4; ++head)  // masked for two of the heads that read it, or four
                call["kept"].bytes[head * length + key] = key % 2 != 0 && head % 2 == 0;
            call["v"].reals[key * row + 9] = value;
            CAPTURE(value, key);
            CHECK(plain.wrong(call) == 0);
            workload scales = formed.call();
            for (const char* const input : {"k_scale", "v_scale"})
                scales[input].reals[key / 7 * 7 + 3] = scales[input].reals[length + key / 7 * 7 + 3] = value;
            CHECK(formed.wrong(scales) == 0);
        }
}
