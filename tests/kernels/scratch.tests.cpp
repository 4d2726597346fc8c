// The memory of a call: bounded by tiles, as explain says, whatever the lengths; and taken from the system once.
#include <attune/workload.hpp>
#include "../support/counted_scratch.hpp"
#include "language.hpp"
#include "variant_list.hpp"
#include "variants.hpp"

#include <attune/runtime.hpp>

#include <catch2/catch_test_macros.hpp>

#include <cstdlib>
#include <thread>
#include <vector>

namespace {

struct cost {
    std::size_t first{}, second{};  ///< bytes that two calls of one thread take from the system
    attune::explanation said;
};

/// On a new thread, which has kept nothing from earlier calls.
cost of_call(std::int64_t length) {
    using namespace attune::dsl;
    const std::int64_t heads = 2, depth = 32;
    std::vector<float> data(static_cast<std::size_t>(heads * length * depth), 0.5f), result(data.size()),
        sums(static_cast<std::size_t>(heads * length));
    std::vector<std::int32_t> document(static_cast<std::size_t>(length));
    for (std::size_t i = 0; i < document.size(); ++i) document[i] = static_cast<std::int32_t>(i / 100);
    const auto view = [&](auto& of) { return attune::tensor(of.data(), {1, heads, length, depth}); };
    cost c;
    std::thread([&] {
        const auto call = attune::prepare<under_test::documents>(
            q = view(data), k = view(data), v = view(data),
            under_test::document = attune::tensor(document.data(), {length}), under_test::scale = 0.2,
            out = view(result), lse = attune::tensor(sums.data(), {1, heads, length}), attune::options{.threads = 1});
        c.said = call.explain();
        std::size_t before = attune::testing::scratch_taken();
        call();
        c.first = attune::testing::scratch_taken() - before;
        before = attune::testing::scratch_taken();
        call();
        c.second = attune::testing::scratch_taken() - before;
    }).join();
    return c;
}

}  // namespace

TEST_CASE("a call's scratch is what explain says, whatever the length", "[kernels]") {
    for (const std::int64_t length : {40, 500, 4000, 40000}) {
        const cost c = of_call(length);
        // The tables of conditions, and a block's header, are said apart: a few bytes a tile.
        const auto tiles = static_cast<std::size_t>(length / c.said.query_block + length / c.said.key_block + 2);
        INFO("length " << length << ": " << c.first << " bytes, explain says " << c.said.scratch_bytes
                       << " and tables of " << tiles << " tiles");
        CHECK(c.first <= c.said.scratch_bytes + 64 * tiles + 4096);
    }
}

TEST_CASE("the second call takes nothing from the system", "[kernels]") { CHECK(of_call(1000).second == 0); }

TEST_CASE("so is that of every output and of computed tensors, with the rows that a kernel keeps", "[kernels]") {
    using namespace attune;
    const auto cost_of = [](const graph_ir& graph, const kernel_table& kernels, std::int64_t length) {
        support::workload call(
            graph, {.heads = 2, .key_heads = 1, .queries = length, .keys = length, .depth = 32, .value_depth = 32}, 1,
            {}, {{"part", 11}});
        std::size_t cost = 0;
        std::thread([&] {
            const auto arguments = call.arguments();
            const std::size_t before = attune::testing::scratch_taken();
            detail::call(kernels, arguments, {.threads = 1});
            cost = attune::testing::scratch_taken() - before;
        }).join();
        const explanation said = detail::explain(kernels, call.arguments(), {.threads = 1});
        const auto tiles = static_cast<std::size_t>(length / said.query_block + length / said.key_block + 2);
        const std::size_t rows =
            static_cast<std::size_t>(kernels.kernels.front().saved_rows * 2 * length) * sizeof(float);
        INFO("length " << length << ": " << cost << " bytes, explain says " << said.scratch_bytes << ", rows " << rows
                       << " and tables of " << tiles << " tiles");
        CHECK(cost <= said.scratch_bytes + rows + 64 * tiles + 8192);
    };
    for (const std::int64_t length : {40, 500, 1500})
        for (const testing::variant& v :
             {testing::variant_of<under_test::all_pairs>("all_pairs"),
              testing::variant_of<under_test::window_pairs>("window_pairs"),
              testing::variant_of<under_test::normed>("normed"), testing::variant_of<under_test::rotary>("rotary"),
              testing::variant_of<under_test::dropped>("dropped"), testing::variant_of<under_test::gated>("gated")}) {
            INFO(v.name);
            cost_of(v.graph, *v.kernels, length);
        }
}
