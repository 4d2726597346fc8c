// Kernels of the shards of gradients: the calls of all parts add up to the reference's gradient of the whole.
#include "../support/workload_values.hpp"
#include "cut_gradient.hpp"
#include "variants.hpp"

#include <attune/ir/gradient_outputs.hpp>
#include <attune/runtime/run.hpp>
#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <list>

using namespace attune;
using namespace attune::testing;

namespace {

/// One call of the kernel. Its outputs have the axes that their tensors have in the call.
std::vector<reference::array> by_kernel(const kernel_table& table, const graph_ir& shard,
                                        const std::vector<reference::argument>& given) {
    std::vector<detail::named_argument> call;
    for (const reference::argument& a : given)
        if (std::ranges::find(shard.inputs, a.name, &input_declaration::name) != shard.inputs.end())
            call.push_back(named(a, shard));
    std::list<std::vector<float>> memory;
    std::vector<reference::array> made;
    for (const output_declaration& output : shard.outputs) {
        const std::string_view of = shard.inputs[static_cast<std::size_t>(input_of_gradient(shard, output))].name;
        const tensor like = std::ranges::find(call, of, &detail::named_argument::name)->view;
        std::size_t size = 1;
        for (const std::int64_t extent : like.shape()) size *= static_cast<std::size_t>(extent);
        std::vector<float>& to = memory.emplace_back(size, std::nanf(""));
        made.push_back({std::string(output.name), {like.shape().begin(), like.shape().end()}, {}});
        call.push_back({.name = output.name, .view = tensor(to.data(), like.shape())});
    }
    detail::call(table, call, {.threads = 2});
    for (auto to = made.begin(); const std::vector<float>& each : memory)
        (to++)->values.assign(each.begin(), each.end());
    return made;
}

template <const auto& Forward, const auto& Gradient, const auto& Shard>
void check(const char* name, const support::shape& shape, const std::vector<std::int32_t>& lengths) {
    const graph_ir shard = dsl::ir_of<Shard>;
    double worst = 0;
    for (unsigned seed = 1; seed <= 6; ++seed) {
        support::workload call(dsl::ir_of<Forward>, shape, seed);
        for (const input_declaration& each : dsl::ir_of<Forward>.inputs)
            if (each.name == "slopes") scale_by(call, "slopes", 0.05f);
        if (!lengths.empty()) call.set_lengths(lengths);
        whole_call forward(dsl::ir_of<Forward>, call.reference_arguments(), {});
        const whole_gradient whole(forward, dsl::ir_of<Gradient>, seed);
        std::mt19937 random(seed);
        const cut by = random_cut(shape.queries, shape.keys, random);
        const auto run = [&](const std::vector<reference::argument>& given) {
            return by_kernel(detail::table_of<Shard>(), shard, given);
        };
        worst = std::max(worst, largest_difference(gradient_in_parts(forward, whole, shard, by, random, run), whole));
    }
    std::printf("%s: largest error %.1e\n", name, worst);
    CHECK(worst < 2e-5);
}

}  // namespace

TEST_CASE("kernels of shards of gradients, on random cuts, add up to the whole") {
    using namespace sharded;
    const support::shape shape{.batches = 2, .heads = 4, .key_heads = 2, .queries = 75, .keys = 90};
    check<windowed, windowed_gradient, windowed_gradient_shard>("windowed", shape, {});
    check<windowed, windowed_gradient, windowed_gradient_shard>("windowed, lengths", shape, {61, 0});
    check<documents, documents_gradient, documents_gradient_shard>("documents", shape, {90, 33});
    check<sigmoid_attention, sigmoid_gradient, sigmoid_gradient_shard>("sigmoids", shape, {});
}
