// Several softmaxes in one call on a device, beside the reference: in prefill and for few queries.
#include "softmaxes.hpp"
#include "../support/workload_values.hpp"

#include <attune/reference.hpp>
#include <attune/runtime/run.hpp>
#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

using namespace attune;
using support::shape;
using support::workload;

namespace {

constexpr options on_device{.target = ATTUNE_GPU_TARGET};

std::string missing() { return kernels<softmaxes::differential>().entries.front().missing; }

template <const auto& Graph> void compare(workload& call) {
    const reference::results expected = call.expected();
    detail::call(detail::table_of<Graph>(), call.arguments(), on_device);
    for (const output_declaration& output : call.graph().outputs) {
        INFO(output.name);
        CHECK(call.largest_error(expected, output.name) < 3e-5);
    }
    CHECK(outputs_untouched(call, true));
}

template <const auto& Graph> void check(const shape& of, const std::vector<std::int32_t>& lengths = {}) {
    INFO(of.text());
    workload call(dsl::ir_of<Graph>, of, 7);
    if (!lengths.empty()) call.set_lengths(lengths);
    compare<Graph>(call);
}

/// Grouped heads, rows without a key and sequences without any, in the kernel for prefill and in that for few queries.
template <const auto& Graph> void check_all() {
    for (const std::int64_t queries : {1, 3, 70}) {
        check<Graph>({.batches = 2, .heads = 4, .key_heads = 2, .queries = queries, .keys = 139});
        check<Graph>({.batches = 3, .heads = 2, .key_heads = 2, .queries = queries, .keys = 90}, {90, 0, 7});
    }
    check<Graph>({.heads = 5, .key_heads = 1, .queries = 2, .keys = 700, .gaps = true});
}

}  // namespace

TEST_CASE("a device computes several softmaxes of one call as the reference does") {
    if (!missing().empty()) SKIP("no " ATTUNE_GPU_TARGET " device here: lacks " << missing());
    check_all<softmaxes::differential>();
    check_all<softmaxes::merged>();
    check_all<softmaxes::gated>();
    check_all<softmaxes::of_everything>();
}

TEST_CASE("on a device what one softmax does not see spoils none of its rows") {
    if (!missing().empty()) SKIP("no " ATTUNE_GPU_TARGET " device here: lacks " << missing());
    for (const std::int64_t queries : {2, 40}) {
        workload call(dsl::ir_of<softmaxes::gated>, {.heads = 2, .queries = queries, .keys = 300}, 7);
        // Behind the keys of the second softmax, before the window of the first.
        for (const char* const name : {"v", "v2"}) {
            const tensor& view = call.view(name);
            for (std::int64_t d = 0; d < view.extent(3); ++d)
                call[name].reals[static_cast<std::size_t>(150 * view.stride(2) + d)] = std::nanf("");
        }
        compare<softmaxes::gated>(call);
        CHECK(std::ranges::none_of(call["out"].reals, [](float x) { return std::isnan(x); }));
    }
}
