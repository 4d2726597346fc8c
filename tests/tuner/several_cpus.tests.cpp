// One library with schedules of several CPUs, from their files to the kernel of a call. ATTUNE_CPU_MODEL says which CPU
// this is.
#include "short_calls.hpp"

#include <attune/runtime.hpp>
#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cstdlib>
#include <string>

using namespace attune;
using Catch::Matchers::ContainsSubstring;

namespace {
constexpr auto& graph = short_calls::causal_attention;

std::string model() {
    const char* const said = std::getenv("ATTUNE_CPU_MODEL");
    return said ? said : cpu_model_id();
}

/// The model whose schedules this one takes: the nearest, where it has no file.
std::string taken() { return model() == "attune-0-9" ? "attune-0-1" : model(); }

/// A part of the symbol of the kernel that a call has to run; empty: of the default's.
std::string expected_kernel(std::int64_t queries) {
    if (taken() == "attune-0-1") return "for_attune_0_1_";  // its file has nothing of short calls
    if (model() == "attune-0-0") return queries <= 24 ? "short24_for_attune_0_0_" : "for_attune_0_0_";
    return "";
}
}  // namespace

TEST_CASE("a call runs the kernel that was measured on this model of CPU or the nearest, or the default's") {
    for (const std::int64_t length : {1, 24, 25, 100}) {
        CAPTURE(model(), length);
        support::workload call(
            dsl::ir_of<graph>,
            {.batches = 2, .heads = 2, .key_heads = 1, .queries = length, .keys = length, .depth = 8, .value_depth = 8},
            3);
        const explanation said = detail::explain(detail::table_of<graph>(), call.arguments(), {.threads = 1});
        const std::string part = expected_kernel(length);
        CHECK((said.kernel.find("for_attune") != said.kernel.npos) == !part.empty());
        CHECK_THAT(said.kernel, ContainsSubstring(part));
        if (!part.empty()) CHECK_THAT(said.shapes, ContainsSubstring("with a schedule measured on " + taken()));
        CHECK((said.shapes.find("the measured model nearest to this CPU, " + model()) != said.shapes.npos) ==
              (taken() != model()));
        detail::call(detail::table_of<graph>(), call.arguments(), {.threads = 1});
        CHECK(call.largest_error(call.expected(), "out") < 2e-5);
    }
}

TEST_CASE("kernels of CPUs are listed with their models, and those of farther ones are never chosen") {
    const kernel_list all = kernels<graph>();
    const auto are_of = [&](std::string_view cpus) {
        return std::ranges::count(all.entries, cpus, &kernel_list::entry::cpus);
    };
    CHECK(are_of("") > 0);
    CHECK(are_of("attune-0-0") == 2 * are_of(""));  // short calls and others
    CHECK(are_of("attune-0-1") == are_of(""));
    for (const kernel_list::entry& each : all.entries)
        if (!each.cpus.empty() && each.cpus != taken()) CHECK_FALSE(each.chosen);
    CHECK(std::ranges::any_of(all.entries, &kernel_list::entry::chosen));
    CHECK_THAT(all.text(), ContainsSubstring("measured on attune-0-1"));
}
