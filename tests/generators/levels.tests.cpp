// Which kernels a library has at which level, and that each has a valid schedule.
#include <attune/dsl.hpp>
#include "kernel/kernel_list.hpp"
#include "plans/kernel_plan.hpp"

#include <catch2/catch_test_macros.hpp>

#include <string>
#include <utility>
#include <vector>

using namespace attune::generators;

namespace {
using namespace attune::dsl;
inline constexpr auto plain = softmax(q * t(k) * rsqrt(depth)) * v;
inline constexpr auto with_sum = outputs(out = plain, lse = log_sum_exp(q * t(k) * rsqrt(depth)));
inline constexpr auto plain_gradient = gradient(with_sum);
}  // namespace

TEST_CASE("beside x86-64-v4 the level of bf16 holds what multiplies pairs of bf16, and nothing twice") {
    const variant each{"plain", ir_of<plain>}, backward_of_each{"plain_gradient", ir_of<plain_gradient>};
    const auto types_at_bf16 = [](const variant& of, const std::vector<std::string>& targets) {
        std::vector<std::string> types;
        const build_request build{.targets = targets,
                                  .dtypes = {"f32", "bf16", "q:f32,k:bf16,v:bf16", "f16"},
                                  .depths = {"64"},
                                  .shapes = {"prefill", "decode"}};
        for (const listed_kernel& k : kernels_of({&of, 1}, build))
            if (k.request.target->bf16_dot) types.push_back(k.symbol.substr(0, k.symbol.find("_d64")));
        return types;
    };
    const std::vector<std::string> beside{"x86-64-v3", "x86-64-v4", "x86-64-v4-bf16"},
        alone{"x86-64-v3", "x86-64-v4-bf16"};
    CHECK(types_at_bf16(each, beside) == std::vector<std::string>(2, "attune_plain_bf16"));  // prefill and decode
    CHECK(types_at_bf16(each, alone).size() == 8);
    CHECK(types_at_bf16(backward_of_each, beside) == std::vector<std::string>{"attune_plain_gradient_bf16"});
    CHECK(types_at_bf16(backward_of_each, alone).size() == 4);
}

TEST_CASE("the level of tiles holds what tiles multiply, and what it is alone with") {
    const variant each{"plain", ir_of<plain>}, backward_of_each{"plain_gradient", ir_of<plain_gradient>};
    const auto symbols = [](const variant& of, const std::vector<std::string>& targets, const char* depths) {
        std::vector<std::pair<std::string, int>> all;
        const build_request build{.targets = targets,
                                  .dtypes = {"f32", "bf16", "q:f32,k:bf16,v:bf16"},
                                  .depths = {depths},
                                  .shapes = {"prefill", "decode"}};
        for (const listed_kernel& k : kernels_of({&of, 1}, build))
            if (k.request.target->bf16_tiles)
                all.emplace_back(name_of(shapes_of(k.request.schedule)), pairing_of(k.request.schedule));
        return all;
    };
    const std::vector<std::string> beside{"x86-64-v4", "x86-64-v4-amx"};
    using all = std::vector<std::pair<std::string, int>>;
    CHECK(symbols(each, beside, "64") == all{{"prefill", bf16_of_tile}, {"decode", 1}});
    CHECK(symbols(each, beside, "32x48") == all{{"prefill", bf16_of_tile}, {"decode", 1}});
    CHECK(symbols(each, beside, "80") == all{});
    CHECK(symbols(backward_of_each, beside, "64") == all{});
    CHECK(symbols(each, {"x86-64-v4-amx"}, "64").size() == 6);
}

TEST_CASE("every level and depth has a valid default, whose scratch does not depend on lengths") {
    const variant each{"plain", ir_of<plain>}, backward_of_each{"plain_gradient", ir_of<plain_gradient>};
    for (const level& isa : levels())
        for (const std::string depth :
             {"1", "2", "3", "4", "32", "64", "72", "80", "96", "112", "128", "256", "512", "1000", "4096", "64x4096"})
            for (const listed_kernel& k : kernels_of({&each, 1}, {.targets = {std::string(isa.name)},
                                                                  .dtypes = {"f32", "bf16"},
                                                                  .depths = {depth},
                                                                  .shapes = {"prefill", "decode"}})) {
                INFO(k.symbol);
                CHECK_NOTHROW(check(k.request));
                CHECK(plain_scratch_bytes(k.request.schedule, k.request.depths) > 0);
            }
    for (const level& isa : levels())
        for (const std::string depth : {"1", "3", "20", "64", "80", "96", "128", "1000", "4096", "64x4096", "192x128"})
            if (!isa.is_gpu)
                for (const listed_kernel& k :
                     kernels_of({&backward_of_each, 1}, {.targets = {std::string(isa.name)}, .depths = {depth}})) {
                    INFO(k.symbol);
                    CHECK(is_for_gradient(k.request.schedule));
                    CHECK_NOTHROW(check(k.request));
                }
}
