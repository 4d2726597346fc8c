// Attention over no key: kernels run and read nothing, whatever the variant.
#include <attune/workload.hpp>
#include "variant_list.hpp"

#include <attune/runtime.hpp>

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <limits>

using namespace attune;
using namespace attune::testing;

TEST_CASE("no keys: outputs of 0 and log-sum-exps of -infinity, with nothing there to read", "[kernels]") {
    for (const variant& v : variants())
        for (const std::string& level : levels_here(*v.kernels))
            for (const std::int64_t queries : {1, 50}) {
                support::workload call(v.graph,
                                       {.batches = 2,
                                        .heads = 4,
                                        .key_heads = 2,
                                        .queries = queries,
                                        .keys = 0,
                                        .depth = 32,
                                        .value_depth = 32},
                                       3, v.numbers);
                auto arguments = call.arguments();
                for (auto& a : arguments)
                    if (a.name == "k" || a.name == "v" || a.name == "bias")
                        a.view = tensor(static_cast<float*>(nullptr), a.view.shape());
                attune::detail::call(*v.kernels, arguments, {.target = level});
                INFO(v.name << " " << level << ", " << queries << " queries");
                CHECK(std::ranges::all_of(call["out"].reals, [](float x) { return x == 0; }));
                CHECK(std::ranges::all_of(call["lse"].reals,
                                          [](float x) { return x == -std::numeric_limits<float>::infinity(); }));
            }
}
