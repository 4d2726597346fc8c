// The calls of servers and trainers, on threads whose stack is small: packed queries, pages, stores, blocks that a call
// chooses, shards and gradients of layers.
#include "../gradients/gradient_call.hpp"
#include "../gradients/layers.hpp"
#include "../support/small_stack.hpp"
#include "stack_calls.hpp"

#include <attune/catalogue/selectors.hpp>
#include <attune/dsl.hpp>
#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

using namespace attune;
using support::workload;

namespace {
using namespace attune::dsl;

inline constexpr auto seen = mask(q * t(k) * rsqrt(depth), causal_bottom_right);
inline constexpr auto plain = outputs(out = softmax(seen) * v, lse = log_sum_exp(seen));
inline constexpr auto plain_shard = shard(plain);
inline constexpr auto plain_gradient_shard = shard(gradient(plain));

inline constexpr auto block_table = input<"block_table", i32>(batch, axis<"block">);
inline constexpr auto k_pages = input<"k_pages", u8>(axis<"page">, key_head, axis<"token">, depth);
inline constexpr auto v_pages = input<"v_pages", f32>(axis<"page">, key_head, axis<"token">, value_depth);
inline constexpr auto length = extent<1>(block_table) * 16;
inline constexpr auto page = block_table(b, kv_idx / 16);
inline constexpr auto paged = softmax(mask(q * t(keys(as_real(k_pages(page, h, kv_idx % 16, d_idx) - 128), length)),
                                           bottom_right(window(150, 0)))) *
                              values(v_pages(page, h, kv_idx % 16, d_idx), length);

inline constexpr auto growing = outputs(
    store(k(b, h, new_kv_idx, d_idx), input<"k_new", f32>(batch, key_head, query, depth)(b, h, q_idx, d_idx)),
    store(v(b, h, new_kv_idx, d_idx), input<"v_new", f32>(batch, key_head, query, value_depth)(b, h, q_idx, d_idx)),
    out = softmax(seen) * v, lse = log_sum_exp(seen));

constexpr int size = 16;  // keys and queries of a block
inline constexpr auto count = scalar<"count", i32>;
inline constexpr auto mean_keys = catalogue::mean_of_keys(k, size, depth);
constexpr auto under(expression auto condition) { return softmax(mask(q * t(k) * rsqrt(depth), condition)) * v; }
inline constexpr auto pooled_scores = catalogue::pooled_scores(catalogue::mean_of_queries(q, size), mean_keys, size);
inline constexpr auto pooled =
    outputs(output<"block_scores"> = pooled_scores,
            out = under(catalogue::pooled_blocks(catalogue::mean_of_queries(q, size), mean_keys, size, count)));
inline constexpr auto selected = under(catalogue::nsa_selection(q, mean_keys, size, count));
inline constexpr auto by_share = under(catalogue::xattention(q, k, size, 4, scalar<"share", f32>));

struct kind_of_call {
    const char* name;
    graph_ir graph;
    std::string shapes;
    std::int64_t queries;
    std::map<std::string, double> numbers{};
    std::map<std::string, std::int64_t> axes{};
};

void check(const kind_of_call& of, const std::string& level) {
    INFO(of.name << ", " << of.shapes << ", for " << level);
    const generators::variant variant{"my::variant", of.graph};
    const generators::jit_kernel kernel = stack::kernel_of(variant, "f32", "64", of.shapes, level);
    const workload call(
        of.graph,
        {.batches = 2, .heads = 4, .key_heads = 2, .queries = of.queries, .keys = 300, .depth = 64, .value_depth = 64},
        3, of.numbers, of.axes);
    stack::check_calls(kernel.table(), call.arguments());
}

/// Five sequences of one query or of many: a kernel for decode and one for prefill in a call.
void check_packed(const std::string& level) {
    INFO("packed queries, for " << level);
    const generators::variant variant{"my::variant", ir_of<plain>};
    std::vector<std::unique_ptr<generators::jit_kernel>> made;
    std::vector<kernel> rows;
    for (const generators::listed_kernel& each : generators::kernels_of(
             {&variant, 1},
             {.targets = {level}, .dtypes = {"f32"}, .depths = {"64"}, .shapes = {"prefill", "decode"}})) {
        made.push_back(std::make_unique<generators::jit_kernel>(each));
        rows.push_back(made.back()->table().kernels.front());
        rows.back().to_queries = each.to_queries;
    }
    const kernel_table table{
        .version = kernel_table_version, .variant = "my::variant", .graph = variant.graph, .kernels = rows};
    const std::int32_t starts[] = {0, 1, 2, 42, 43, 60}, in_use[] = {300, 7, 290, 1, 40};
    const std::int64_t sequences = std::ssize(in_use), total = 60, heads = 4, key_heads = 2, room = 300, width = 64;
    std::vector<float> asked(static_cast<std::size_t>(heads * total * width), 0.5f), made_of(asked.size()),
        sums(static_cast<std::size_t>(heads * total)),
        cache(static_cast<std::size_t>(sequences * key_heads * room * width), 0.25f);
    const tensor held(static_cast<const float*>(cache.data()), {sequences, key_heads, room, width});
    const std::vector<attune::detail::named_argument> arguments{
        {.name = "q", .view = {asked.data(), {1, heads, total, width}}},
        {.name = "k", .view = held},
        {.name = "v", .view = held},
        {.name = "cu_seqlens_q", .view = {starts, {sequences + 1}}},
        {.name = "kv_lengths", .view = {in_use, {sequences}}},
        {.name = "lse", .view = {sums.data(), {1, heads, total}}},
        {.name = "out", .view = {made_of.data(), {1, heads, total, width}}}};
    CHECK(attune::detail::explain(table, arguments, {}).packed.size() > 2);
    stack::check_calls(table, arguments);
}

template <const auto& Forward, const auto& Gradient> void check_layer(const char* name, const std::string& level) {
    INFO("gradient of " << name << ", for " << level);
    const generators::variant variant{"my::gradient", ir_of<Gradient>};
    const generators::jit_kernel kernel = stack::kernel_of(variant, "f32", "64", "prefill", level);
    const testing::gradient_call call(
        ir_of<Forward>, variant.graph,
        {.batches = 2, .heads = 2, .key_heads = 2, .queries = 70, .keys = 70, .depth = 64, .value_depth = 64}, 3);
    stack::check_calls(kernel.table(), call.arguments);
}

}  // namespace

TEST_CASE("what servers and trainers call runs on a stack of 32 KB", "[stack]") {
    if (testing::frames_grow) SKIP("sanitizers make frames larger");
    const std::map<std::string, std::int64_t> pages{{"page", 50}, {"block", 19}, {"token", 16}},
        blocks{{"key_block", 19}, {"query_block", 19}};
    const std::map<std::string, double> chosen{{"count", 3}, {"share", 0.5}},
        whole{{"all_queries", 900}, {"all_keys", 900}, {"with_sinks", 0}};
    const kind_of_call kinds[] = {{"pages", ir_of<paged>, "prefill", 300, {}, pages},
                                  {"pages", ir_of<paged>, "decode", 1, {}, pages},
                                  {"stores", ir_of<growing>, "prefill", 40},
                                  {"stores", ir_of<growing>, "decode", 1},
                                  {"pooled blocks", ir_of<pooled>, "prefill", 300, chosen, blocks},
                                  {"selected blocks", ir_of<selected>, "prefill", 40, chosen},
                                  {"selected blocks", ir_of<selected>, "decode", 1, chosen},
                                  {"blocks by their share", ir_of<by_share>, "prefill", 300, chosen},
                                  {"shard", ir_of<plain_shard>, "prefill", 300, whole},
                                  {"shard", ir_of<plain_shard>, "decode", 1, whole},
                                  {"shard of a gradient", ir_of<plain_gradient_shard>, "prefill", 70, whole}};
    const std::string level = stack::levels_here().front();
    for (const kind_of_call& of : kinds) check(of, level);
    check_packed(level);
    check_layer<gradients_of_layers::layer, gradients_of_layers::layer_gradient>("a layer", level);
    check_layer<gradients_of_layers::residual_layer, gradients_of_layers::residual_gradient>("a residual", level);
}
