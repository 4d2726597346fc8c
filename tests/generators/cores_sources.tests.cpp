// Softmaxes over keys of different tensors in one call: a cache that all sequences share and each one's own, a
// decoder's cache and an encoder's tokens, whichever is longer.
#include "../support/workload_values.hpp"
#include "cores_formulas.hpp"

#include <attune/runtime.hpp>
#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

using namespace attune;
using support::workload;

namespace {

void check(const kernel_table& table, workload& call, const support::shape& s) {
    const auto expected = call.expected();
    for (const int threads : {1, 2}) {
        call.reset_outputs();
        detail::call(table, call.arguments(), {.threads = threads});
        for (const output_declaration& output : table.graph.outputs) {
            INFO(table.variant << ", " << s.text() << ", " << threads << " threads, " << output.name);
            CHECK(call.largest_error(expected, output.name) < 2e-5);
        }
    }
}

support::shape of_queries(std::int64_t queries, std::int64_t keys) {
    return {.batches = 3, .heads = 4, .key_heads = 2, .queries = queries, .keys = keys, .depth = 16, .value_depth = 16};
}

}  // namespace

TEST_CASE("queries see a cache that all sequences share and their own, in one call", "[cores]") {
    for (const std::int64_t queries : {1, 3, 77})
        for (const auto& [prefix, own] : {std::pair{300, 90}, {20, 250}, {1, 100}, {128, 128}}) {
            const std::vector<std::int32_t> lengths{own, std::int32_t(queries), 80};
            const auto call_of = [&](const kernel_table& table, std::int64_t keys) {
                workload call(table.graph, of_queries(queries, keys), 7, {}, {{"prefix", prefix}, {"own", own}});
                call["own_length"].integers = lengths;
                call["own_length"].view = tensor(call["own_length"].integers.data(), {3});
                // Elements that a sequence has not written yet may be anything.
                for (const char* name : {"own_k", "own_v"})
                    for (std::int64_t b = 0; b < 3; ++b)
                        for (std::int64_t row = 0; row < 2 * own; ++row)
                            if (row % own >= lengths[static_cast<std::size_t>(b)])
                                call[name].reals[static_cast<std::size_t>((b * 2 * own + row) * 16 + 5)] =
                                    std::nanf("");
                return call;
            };
            INFO(prefix << " keys are shared, " << own << " are each sequence's own at most");
            const kernel_table &two = detail::table_of<cores::shared_and_own>(),
                               &one = detail::table_of<cores::one_softmax>();
            workload apart = call_of(two, std::max(prefix, own)), together = call_of(one, prefix + own);
            check(two, apart, of_queries(queries, std::max(prefix, own)));
            check(one, together, of_queries(queries, prefix + own));
            double apart_by = 0;
            for (const char* name : {"prefix_k", "prefix_v", "q"}) together.put(name, apart[name].reals);
            for (const char* name : {"own_k", "own_v"}) together.put(name, apart[name].reals);
            detail::call(one, together.arguments(), {});
            for (const char* name : {"out", "lse"})
                for (std::size_t i = 0; i < apart[name].reals.size(); ++i)
                    apart_by = std::max<double>(apart_by, std::abs(apart[name].reals[i] - together[name].reals[i]));
            CHECK(apart_by < 2e-5);
        }
}

TEST_CASE("an encoder's tokens may be more than a decoder's own keys, or fewer", "[cores]") {
    const kernel_table& table = detail::table_of<cores::either_longer>();
    for (const std::int64_t queries : {1, 3, 77})
        for (const auto& [own, tokens] : {std::pair{90, 400}, {400, 90}, {100, 101}, {101, 100}, {200, 1}, {80, 80}}) {
            const support::shape s = of_queries(queries, std::max(own, tokens));
            workload call(table.graph, s, 7, {}, {{"own", own}, {"token", tokens}});
            INFO(own << " keys, " << tokens << " tokens");
            check(table, call, s);
        }
}

TEST_CASE("more of an encoder's tokens than keys are refused where the keys are k's, and fewer are not", "[cores]") {
    using Catch::Matchers::ContainsSubstring;
    using Catch::Matchers::MessageMatches;
    const kernel_table& table = detail::table_of<cores::cache_first>();
    for (const std::int64_t queries : {1, 3, 77}) {
        const support::shape s = of_queries(queries, 120);
        for (const std::int64_t tokens : {1, 40, 119, 120}) {
            workload call(table.graph, s, 7, {}, {{"token", tokens}});
            INFO(tokens << " tokens");
            check(table, call, s);
        }
        workload call(table.graph, s, 7, {}, {{"token", 121}});
        CHECK_THROWS_MATCHES(detail::call(table, call.arguments(), {}), error,
                             MessageMatches(ContainsSubstring("expected key extent 120 in keys(...), as in k") &&
                                            ContainsSubstring("got 121")));
        CHECK(outputs_untouched(call));
    }
}
