// Numbers of keys that a block computes once: where the tables that they are made of have neighbouring keys side by
// side, long calls read those by vectors, and what comes out is what the reference says.
#include "../scale/speed/variants.hpp"
#include "codegen/halide_target.hpp"
#include "kernel/kernel_list.hpp"
#include "lower.hpp"
#include "tested_levels.hpp"
#include "tuner/jit_kernel.hpp"

#include <attune/runtime/cpu.hpp>
#include <attune/runtime/detail/call.hpp>
#include <attune/workload.hpp>

#include <Halide.h>
#include <catch2/catch_test_macros.hpp>

#include <cstring>
#include <map>
#include <string>
#include <tuple>
#include <vector>

using namespace attune;
using generators::cpu_prefill, generators::kernels_of, generators::listed_kernel, generators::variant;

namespace {

namespace tables {
using namespace attune::dsl;
inline constexpr auto places = input<"places", i32>(batch, key);
inline constexpr auto seats = input<"seats", i32>(query);
inline constexpr auto group = input<"group", i32>(axis<"seat">);
inline constexpr auto shown = input<"shown", boolean>(key);
inline constexpr auto gain = input<"gain", f32>(key_head, key);
inline constexpr auto far = input<"far", bf16>(key);
inline constexpr auto place = places(b, kv_idx);
inline constexpr auto scores = q * t(k) * rsqrt(depth) + where(far(kv_idx) < 0.5, gain(h, kv_idx) * far(kv_idx), 0.25);
inline constexpr auto seated = mask(scores, group(place) <= group(seats(q_idx)) && (place < 11 || !shown(kv_idx)));
inline constexpr auto attention = outputs(out = softmax(seated) * v, lse = log_sum_exp(seated));

/// Integers that saturate.
inline constexpr auto steps = as_integer(gain(h, kv_idx) * 4.0);
inline constexpr auto saturating = softmax(mask(q * t(k), steps <= 3)) * v;
}  // namespace tables

/// Of each stage of numbers of keys, what is stored: vectors of which each is loaded as one, and single numbers.
class stages_of_keys : public Halide::Internal::IRVisitor {
public:
    struct stores {
        int of_vectors = 0, of_numbers = 0;
    };
    std::map<std::string, stores> found;

protected:
    using IRVisitor::visit;
    void visit(const Halide::Internal::Store* store) override {
        if (store->name.find("hoisted_of_keys") == std::string::npos) return IRVisitor::visit(store);
        loaded_ = false;
        IRVisitor::visit(store);
        stores& here = found[store->name];
        here.of_vectors += loaded_ && store->index.type().is_vector();
        here.of_numbers += store->index.type().is_scalar();
    }
    void visit(const Halide::Internal::Load* load) override {
        const auto* ramp = load->index.as<Halide::Internal::Ramp>();
        loaded_ |= ramp && Halide::Internal::is_const_one(ramp->stride) && load->name.starts_with("input_");
        IRVisitor::visit(load);
    }

private:
    bool loaded_ = false;
};

std::map<std::string, stages_of_keys::stores> stages_of(const graph_ir& graph, const std::string& level) {
    const variant of{"my::numbers", graph};
    const auto list =
        kernels_of({&of, 1}, {.targets = {level}, .dtypes = {"f32"}, .depths = {"64"}, .shapes = {"prefill"}});
    const Halide::Module module =
        generators::lower(list.front().request).module("numbers", halide_target(*list.front().request.target));
    stages_of_keys all;
    for (const auto& function : module.functions()) function.body.accept(&all);
    return all.found;
}

/// The call with tables whose neighbouring elements lie `gap` apart.
struct relaid {
    relaid(const support::workload& call, int gap) : arguments(call.arguments()) {
        for (attune::detail::named_argument& each : arguments) {
            if (each.name != "places" && each.name != "shown" && each.name != "gain" && each.name != "far") continue;
            const tensor& of = each.view;
            const std::size_t bytes = bytes_of(of.type());
            std::vector<std::int64_t> strides(of.strides().begin(), of.strides().end());
            for (std::int64_t& stride : strides) stride *= gap;
            std::vector<std::byte>& room = held.emplace_back();
            support::for_each_offset(of, [&](std::int64_t at) {
                const auto from = static_cast<std::size_t>(at) * bytes, to = from * static_cast<std::size_t>(gap);
                if (room.size() < to + bytes) room.resize(to + bytes);
                std::memcpy(room.data() + to, static_cast<const std::byte*>(of.data()) + from, bytes);
            });
            each.view = tensor(of.type(), static_cast<const void*>(room.data()), of.shape(), strides);
        }
    }
    std::vector<std::vector<std::byte>> held;
    std::vector<attune::detail::named_argument> arguments;
};

/// Positions of the keys, whether they are in use, and their documents.
void check_loads(const char* level) {
    for (const auto& [name, graph, count] : {std::tuple("causal", dsl::ir_of<timed::causal_shard>, 2),
                                             {"documents", dsl::ir_of<timed::documents_shard>, 3},
                                             {"documents of one call", dsl::ir_of<timed::documents>, 1}}) {
        CAPTURE(level, name);
        const auto stages = stages_of(graph, level);
        CHECK(stages.size() == static_cast<std::size_t>(count));
        for (const auto& [stage, stores] : stages) {
            CAPTURE(stage);
            CHECK(stores.of_vectors > 0);
            CHECK(stores.of_numbers > 0);  // where they lie apart
        }
    }
}

}  // namespace

TEST_CASE("numbers of keys are loaded by vectors where neighbouring keys lie side by side", "[numbers_of_keys]") {
    check_loads("x86-64-v3");
}

TEST_CASE("numbers of keys are loaded by vectors at other levels", "[numbers_of_keys][.long]") {
    for (const char* level : {"x86-64-v2", "x86-64-v4", "aarch64"}) check_loads(level);
}

TEST_CASE("integers of a key that saturate are made one by one", "[numbers_of_keys]") {
    const auto stages = stages_of(dsl::ir_of<tables::saturating>, "x86-64-v3");
    REQUIRE(!stages.empty());
    for (const auto& [stage, stores] : stages) CHECK(stores.of_vectors == 0);
}

TEST_CASE("calls with numbers of keys come to the reference, wherever those lie", "[numbers_of_keys]") {
    for (const generators::level& level : testing::tested_levels()) {
        if (!runs(level.name)) continue;
        const variant of{"my::numbers", dsl::ir_of<tables::attention>};
        const generators::jit_kernel kernel(
            kernels_of(
                {&of, 1},
                {.targets = {std::string(level.name)}, .dtypes = {"f32"}, .depths = {"32"}, .shapes = {"prefill"}})
                .front());
        for (const std::int64_t keys : {1, 3, 64, 150, 410})
            for (const int gap : {1, 2})
                for (const bool lengths : {false, true}) {
                    INFO(level.name << ", " << keys << " keys, " << gap << " apart, " << lengths);
                    support::workload call(of.graph,
                                           {.batches = 2, .heads = 2, .key_heads = 1, .queries = 75, .keys = keys}, 7);
                    if (lengths)
                        call.set_lengths({static_cast<std::int32_t>(keys - 1), static_cast<std::int32_t>(keys / 2)});
                    const relaid given(call, gap);
                    attune::detail::call(kernel.table(), given.arguments, {.threads = 2});
                    const auto expected = call.expected();
                    CHECK(call.largest_error(expected, "out") < 2e-5);
                    CHECK(call.largest_error(expected, "lse") < 2e-5);
                }
    }
}
