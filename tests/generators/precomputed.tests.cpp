// Tensors that are computed before the first score, and the blocks of keys that they choose, compiled in process,
// beside the reference.
#include "../support/workload_values.hpp"
#include "emit/c_header.hpp"
#include "inspect/explain.hpp"
#include "inspect/explain_blocks.hpp"
#include "inspect/picture.hpp"
#include "kernel/kernel_list.hpp"
#include "lower.hpp"
#include "tuner/jit_kernel.hpp"

#include <attune/catalogue/selectors.hpp>
#include <attune/dsl.hpp>
#include <attune/runtime/cpu.hpp>
#include <attune/runtime/detail/call.hpp>
#include <attune/runtime/error.hpp>
#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <unistd.h>
#include <algorithm>

#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

using namespace attune;
using support::workload;

namespace {
using namespace attune::dsl;

constexpr int size = 16;  // keys and queries of a block
inline constexpr auto n = bound_index<"n">;
inline constexpr auto count = scalar<"count", i32>;
inline constexpr auto share = scalar<"share", f32>;
inline constexpr auto blocks = (key_length + size - 1) / size;
inline constexpr auto importance = input<"importance", f32>(batch, key_head, axis<"block">);

inline constexpr auto scores = q * t(k) * rsqrt(depth);
constexpr auto under(expression auto condition) { return softmax(mask(scores, condition)) * v; }

// The catalogue's, all of the call's own queries and keys.
inline constexpr auto mean_keys = catalogue::mean_of_keys(k, size, depth);
inline constexpr auto pooled_blocks =
    under(catalogue::pooled_blocks(catalogue::mean_of_queries(q, size), mean_keys, size, count));
inline constexpr auto moba = under(catalogue::moba(q, mean_keys, size, count));
inline constexpr auto quest =
    under(catalogue::quest(q, catalogue::least_of_keys(k, size), catalogue::greatest_of_keys(k, size), size, count));
inline constexpr auto nsa_selection = under(catalogue::nsa_selection(q, mean_keys, size, count));
inline constexpr auto xattention = under(catalogue::xattention(q, k, size, 4, share));
/// All of NSA: compressed blocks, those selected by them, and a window, gated.
inline constexpr auto gates = input<"gates", f32>(batch, head, query, axis<"branch">);
inline constexpr auto mean_values = catalogue::mean_of_keys(v, size, value_depth);
inline constexpr auto block = min(kv_idx, max(blocks, 1) - 1);
inline constexpr auto first_query = kv_lengths(b) - query_length;
inline constexpr auto nsa =
    gates(b, h, q_idx, 0) * (softmax(mask(q * t(keys(mean_keys(b, h, block, d_idx))) * rsqrt(depth),
                                          (kv_idx + 1) * size <= q_idx + first_query)) *
                             values(mean_values(b, h, block, d_idx))) +
    gates(b, h, q_idx, 1) * nsa_selection +
    gates(b, h, q_idx, 2) * under(causal_bottom_right && kv_idx > q_idx + first_query - 2 * size);

/// By numbers that the caller passes, the same for all queries, and added to the scores.
inline constexpr auto passed = precomputed(importance(b, h, n), n, blocks);
inline constexpr auto of_passed =
    softmax(mask(scores + passed(b, h, kv_idx / size), top_k(passed, count)(b, h, kv_idx / size))) * v;
/// By what the caller passes alone.
inline constexpr auto listed = under(top_k(passed, count)(b, h, kv_idx / size));
inline constexpr auto listed_share = under(top_p(passed, share)(b, h, kv_idx / size));

/// The numbers by which a call chooses, of query heads and of key heads, and its choice.
inline constexpr auto at_block = bound_index<"query_block">;
inline constexpr auto at_row = bound_index<"row">;
inline constexpr auto at_channel = bound_index<"channel">;
inline constexpr auto pooled_scores = catalogue::pooled_scores(catalogue::mean_of_queries(q, size), mean_keys, size);
inline constexpr auto at_query = bound_index<"i">;
inline constexpr auto at_key = at_row + n * size;
inline constexpr auto products = sum(at_channel, depth, q(b, h, at_query, at_channel) * k(b, h, at_key, at_channel));
inline constexpr auto greatest_products = precomputed(
    largest(at_row, size, where(at_key < kv_lengths(b), products, -inf)), at_query, query_length, n, blocks);
/// MiniMax M3: the blocks with the largest product of a query and one of their keys, for each query.
inline constexpr auto of_greatest =
    under(causal_bottom_right && top_k(greatest_products, count)(b, h, q_idx, kv_idx / size));
inline constexpr auto pooled_choice = top_k(pooled_scores, count);
inline constexpr auto chosen_blocks =
    precomputed(where(pooled_choice(b, h, at_block, n), 1, 0), at_block, (query_length + size - 1) / size, n, blocks);
inline constexpr auto written =
    outputs(out = pooled_blocks, output<"block_scores"> = pooled_scores, output<"means"> = mean_keys,
            output<"greatest"> = greatest_products, output<"chosen"> = chosen_blocks, lse = log_sum_exp(scores));
inline constexpr auto written_alone =
    outputs(output<"nsa"> = catalogue::nsa_scores(q, mean_keys, size), output<"passed"> = passed);

inline constexpr auto new_keys =
    store(k(b, h, new_kv_idx, d_idx), input<"k_new", f32>(batch, key_head, query, depth)(b, h, q_idx, d_idx));
inline constexpr auto stored_alone = outputs(new_keys, out = under(causal_bottom_right));

struct graph {
    const char* name;
    graph_ir ir;
};
const std::array graphs{graph{"pooled_blocks", ir_of<pooled_blocks>},
                        graph{"moba", ir_of<moba>},
                        graph{"quest", ir_of<quest>},
                        graph{"nsa_selection", ir_of<nsa_selection>},
                        graph{"xattention", ir_of<xattention>},
                        graph{"nsa", ir_of<nsa>},
                        graph{"of_passed", ir_of<of_passed>},
                        graph{"of_greatest", ir_of<of_greatest>}};

const generators::level& best_level() {
    return *std::ranges::find_if(generators::levels(),
                                 [](const auto& each) { return runs(each.name) && !each.is_for_bf16(); });
}

generators::listed_kernel planned_for(const generators::variant& v, std::string_view level, const char* shape) {
    return generators::kernels_of(
               {&v, 1}, {.targets = {std::string(level)}, .dtypes = {"f32"}, .depths = {"32"}, .shapes = {shape}})
        .front();
}

/// A kernel for prefill or decode beside the reference.
class compared {
public:
    compared(const graph& of, std::string_view level, const char* shape)
        : of_(of), variant_{of.name, of.ir}, kernel_(planned_for(variant_, level, shape)) {}

    workload call_of(const support::shape& shape, double chosen) const {
        return {of_.ir, shape, 7, {{"count", chosen}, {"share", chosen / 8}}, {{"block", 64}, {"branch", 3}}};
    }
    void operator()(const support::shape& shape, int chosen, std::vector<std::int32_t> in_use = {}) const {
        workload call = call_of(shape, chosen);
        if (!in_use.empty()) call.set_lengths(std::move(in_use));
        check(call);
    }
    void check(workload& call) const {
        const auto expected = call.expected();
        for (const int threads : {1, 2}) {
            call.reset_outputs();
            attune::detail::call(kernel_.table(), call.arguments(), {.threads = threads});
            CAPTURE(of_.name, kernel_.table().kernels.front().target, threads);
            CHECK(call.largest_error(expected, "out") <= 2e-5);
            CHECK(outputs_untouched(call, true));
        }
    }

private:
    const graph& of_;
    generators::variant variant_;
    generators::jit_kernel kernel_;
};

/// The same of all outputs. The axes of what is precomputed are as long as the call says.
void check_written(const graph_ir& ir, const support::shape& shape, const char* kernel_for, bool of_each_query,
                   std::vector<std::int32_t> in_use = {}) {
    const generators::variant v{"written", ir};
    const generators::jit_kernel kernel(planned_for(v, best_level().name, kernel_for));
    const auto blocks_of = [](std::int64_t length) { return (length + size - 1) / size; };
    workload call(ir, shape, 7, {{"count", 2}},
                  {{"block", 64},
                   {"key_block", blocks_of(shape.keys)},
                   {"n", blocks_of(shape.keys)},
                   {"channel", shape.depth},
                   {"i", shape.queries},
                   {"query_block", of_each_query ? shape.queries : blocks_of(shape.queries)}});
    if (!in_use.empty()) call.set_lengths(std::move(in_use));
    const auto expected = call.expected();
    for (const int threads : {1, 2}) {
        call.reset_outputs();
        attune::detail::call(kernel.table(), call.arguments(), {.threads = threads});
        for (const output_declaration& output : ir.outputs) {
            CAPTURE(output.name, kernel_for, shape.text(), threads);
            CHECK(call.largest_error(expected, output.name) <= 2e-5);
        }
    }
}

/// The share of the blocks that a kernel visits, as its own table of them says.
double visited(const graph& of, const char* kernel_for, const support::shape& shape, int chosen) {
    const generators::variant v{of.name, of.ir};
    const auto request = planned_for(v, best_level().name, kernel_for).request;
    const auto lowered = generators::lower(request);
    const workload call(of.ir, shape, 7, {{"count", chosen}});
    std::vector<std::int32_t> lengths(static_cast<std::size_t>(shape.batches), static_cast<std::int32_t>(shape.keys));
    std::vector<Halide::Internal::Function> outputs{lowered.blocks.outputs().front().function()};
    for (const auto& [argument, parameter, buffer] : Halide::Internal::infer_arguments({}, outputs)) {
        if (!parameter.defined()) continue;
        Halide::Parameter to = parameter;
        const std::string name = argument.name.substr(std::string("input_").size());
        if (name == "count") {
            to.set_scalar(std::int32_t{chosen});
        } else if (name == "kv_lengths") {
            to.set_buffer(Halide::Buffer<std::int32_t>(lengths.data(), static_cast<int>(lengths.size())));
        } else {
            const tensor& t = call.view(name);
            std::vector<halide_dimension_t> axes;
            for (int axis = t.rank(); axis-- > 0;)
                axes.emplace_back(0, static_cast<int>(t.extent(axis)), static_cast<int>(t.stride(axis)));
            to.set_buffer(
                Halide::Buffer<float>(static_cast<float*>(const_cast<void*>(t.data())), t.rank(), axes.data()));
        }
    }
    const auto [query_block, key_block] = request.blocks();
    const auto count_of = [](std::int64_t length, int block) { return static_cast<int>((length + block - 1) / block); };
    Halide::Buffer<std::uint8_t> made(
        count_of(shape.keys, key_block), count_of(shape.queries, query_block),
        static_cast<int>(generators::decodes(request.schedule) ? shape.key_heads : shape.heads),
        static_cast<int>(shape.batches));
    Halide::Pipeline(lowered.blocks).realize(made);
    const auto all = std::span(made.data(), made.number_of_elements());
    return 1.0 - static_cast<double>(std::ranges::count(all, 0)) / static_cast<double>(all.size());
}
}  // namespace

TEST_CASE("prefill over chosen blocks gives what the reference gives", "[precomputed]") {
    for (const graph& of : graphs) {
        const compared call(of, best_level().name, "prefill");
        call({.batches = 2, .heads = 4, .key_heads = 2, .queries = 77, .keys = 139}, 3);
        call({.heads = 2, .key_heads = 1, .queries = 200, .keys = 200, .gaps = true}, 5);
        for (const int chosen : {0, 1, 100, -1}) call({.heads = 2, .key_heads = 2, .queries = 33, .keys = 90}, chosen);
        call({.batches = 3, .heads = 2, .key_heads = 2, .queries = 30, .keys = 90}, 2, {90, 0, 7});
        call({.heads = 1, .key_heads = 1, .queries = 1, .keys = 1}, 1);
    }
}

TEST_CASE("decode over chosen blocks gives what the reference gives", "[precomputed]") {
    for (const graph& of : graphs) {
        const compared call(of, best_level().name, "decode");
        call({.batches = 2, .heads = 4, .key_heads = 2, .queries = 1, .keys = 139}, 3);
        call({.heads = 8, .key_heads = 1, .queries = 3, .keys = 700, .gaps = true}, 10);
        call({.batches = 3, .heads = 2, .key_heads = 2, .queries = 2, .keys = 90}, 2, {90, 0, 7});
    }
}

TEST_CASE("of equal numbers the first are chosen, NaN before all others, and -infinity never", "[precomputed]") {
    const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    const graph by_count{"listed", ir_of<listed>}, by_share{"listed_share", ir_of<listed_share>};
    const compared count_of(by_count, best_level().name, "prefill"), share_of(by_share, best_level().name, "prefill");
    for (const std::vector<float>& row : {std::vector<float>{1, 1, 2, 1, 2, 1, 1, 1},
                                          {0.0f, -0.0f, -1, -0.0f, 0, 3, -3, 0},
                                          {nan, -inf, 2, nan, -inf, inf, -2, 5},
                                          {-inf, -inf, -inf, -inf, -inf, -inf, -inf, -inf},
                                          {-1, -2, -3, -4, -5, -6, -7, -8}})
        for (int chosen = -1; chosen <= 9; ++chosen)
            for (const compared* each : {&count_of, &share_of}) {
                if (each == &share_of && std::ranges::find(row, inf) != row.end()) continue;
                workload call = each->call_of({.heads = 2, .key_heads = 1, .queries = 5, .keys = 8 * size}, chosen);
                std::vector<float> all(64);
                std::ranges::copy(row, all.begin());
                call.put("importance", all);
                CAPTURE(row, chosen);
                each->check(call);
            }
}

TEST_CASE("blocks that no query of a block chose are skipped, in prefill and in decode", "[precomputed]") {
    const support::shape square{.heads = 2, .key_heads = 1, .queries = 2048, .keys = 2048};
    CHECK(visited(graphs[0], "prefill", square, 1000) > 0.5);
    CHECK(visited(graphs[0], "prefill", square, 1) < 0.2);
    const support::shape one{.heads = 2, .key_heads = 2, .queries = 1, .keys = 4096}, few{.queries = 3, .keys = 4096};
    for (const graph& of : {graphs[1], graphs[2], graphs[3]}) {  // each query by itself
        CHECK(visited(of, "decode", one, 1) <= 0.125);
        CHECK(visited(of, "decode", few, 1) < 0.2);
    }
    CHECK(visited(graph{"listed", ir_of<listed>}, "prefill", square, 3) < 0.15);
}

TEST_CASE("explain says that chosen blocks are skipped, and what its tables take", "[precomputed]") {
    const generators::variant v{"my::chosen", ir_of<moba>};
    for (const char* const kind : {"prefill", "decode"}) {
        const auto request = planned_for(v, best_level().name, kind).request;
        const auto reasons = generators::block_reasons(request);
        const auto of_choice = std::ranges::find_if(
            reasons, [](const auto& each) { return each.condition.find("top_k") != std::string::npos; });
        REQUIRE(of_choice != reasons.end());
        CHECK(of_choice->skips);
        CHECK(generators::bytes_of_tables(request, {.batches = 1, .heads = 2, .queries = 3, .keys = 4096}).value > 0);
    }
}

TEST_CASE("a GPU refuses what is precomputed in one sentence", "[precomputed]") {
    using Catch::Matchers::ContainsSubstring;
    using Catch::Matchers::MessageMatches;
    const generators::variant chosen{"my::chosen", ir_of<pooled_blocks>};
    for (const char* shape : {"prefill", "decode"})
        CHECK_THROWS_MATCHES(
            generators::lower(planned_for(chosen, "opencl", shape).request), std::runtime_error,
            MessageMatches(ContainsSubstring("what is precomputed has no kernel on a GPU yet; try TARGETS of CPUs")));
}

TEST_CASE("a graph by hand that stores refuses what is precomputed in one sentence", "[precomputed]") {
    const auto list = [](const graph_ir& ir) {
        const generators::variant v{"my::step", ir};
        return generators::lower(planned_for(v, best_level().name, "decode").request);
    };
    graph_ir both = ir_of<listed>;
    const store_declaration store{};
    both.stores = {&store, 1};
    CHECK_THROWS_WITH(list(both),
                      "a graph that stores has no kernel yet where something is precomputed; store in a call of its "
                      "own");
    CHECK_NOTHROW(list(ir_of<stored_alone>));
}

TEST_CASE("extents of what is precomputed are checked before anything is written", "[precomputed]") {
    using Catch::Matchers::ContainsSubstring;
    using Catch::Matchers::MessageMatches;
    const graph by_count{"listed", ir_of<listed>};
    const generators::variant v{by_count.name, by_count.ir};
    const generators::jit_kernel kernel(planned_for(v, best_level().name, "prefill"));
    workload call(by_count.ir, {.heads = 2, .key_heads = 1, .queries = 5, .keys = 400}, 7, {{"count", 2}},
                  {{"block", 24}});
    CHECK_THROWS_MATCHES(attune::detail::call(kernel.table(), call.arguments(), {}), attune::error,
                         MessageMatches(ContainsSubstring("expected at least 25 places along block of importance")));
    CHECK(outputs_untouched(call));
}

TEST_CASE("what is precomputed is written as the reference has it, in prefill and in decode", "[precomputed]") {
    for (const char* kind : {"prefill", "decode"}) {
        const bool decodes = kind[0] == 'd';
        const std::int64_t few = decodes ? 1 : 77, more = decodes ? 3 : 40;
        check_written(ir_of<written>, {.batches = 2, .heads = 4, .key_heads = 2, .queries = few, .keys = 139}, kind,
                      false);
        check_written(ir_of<written>, {.batches = 3, .heads = 2, .key_heads = 1, .queries = more, .keys = 90}, kind,
                      false, {90, 0, 7});
    }
    check_written(ir_of<written>, {.heads = 1, .key_heads = 1, .queries = 1, .keys = 1}, "prefill", false);
    // Without attention around it.
    check_written(ir_of<written_alone>, {.batches = 2, .heads = 4, .key_heads = 2, .queries = 19, .keys = 100},
                  "prefill", true);
}

TEST_CASE("a call without queries or keys writes what is precomputed", "[precomputed]") {
    for (const auto& [queries, keys] : {std::pair<std::int64_t, std::int64_t>{0, 40}, {9, 0}, {0, 0}})
        check_written(ir_of<written>, {.heads = 4, .key_heads = 2, .queries = queries, .keys = keys}, "prefill", false);
}

TEST_CASE("a call refuses a tensor of another shape for what is precomputed, and packed queries", "[precomputed]") {
    using Catch::Matchers::ContainsSubstring;
    using Catch::Matchers::MessageMatches;
    const generators::variant v{"written", ir_of<written>};
    const generators::jit_kernel kernel(planned_for(v, best_level().name, "prefill"));
    workload call(v.graph, {.heads = 2, .key_heads = 2, .queries = 20, .keys = 40}, 7, {{"count", 2}},
                  {{"key_block", 4}, {"query_block", 2}, {"n", 3}, {"i", 20}, {"channel", 64}});
    CHECK_THROWS_MATCHES(attune::detail::call(kernel.table(), call.arguments(), {}), attune::error,
                         MessageMatches(ContainsSubstring("expected key_block extent 3 in block_scores")));
    CHECK(outputs_untouched(call));
    const std::array<std::int32_t, 2> starts{0, 20};
    const std::array<std::int64_t, 1> two{2};
    auto given = call.arguments();
    given.push_back({.name = "cu_seqlens_q", .view = tensor(starts.data(), two)});
    CHECK_THROWS_MATCHES(attune::detail::call(kernel.table(), given, {}), attune::error,
                         MessageMatches(ContainsSubstring("block_scores, as long as a call's numbers say")));
    CHECK(outputs_untouched(call));
}

TEST_CASE("explain and the C header name the axes of what is written", "[precomputed]") {
    using Catch::Matchers::ContainsSubstring;
    const generators::variant v{"my::written", ir_of<written>};
    const std::array list{planned_for(v, best_level().name, "prefill")};
    const std::filesystem::path file =
        std::filesystem::temp_directory_path() / ("written_" + std::to_string(::getpid()) + ".h");
    generators::emit_c_header({&v, 1}, list, file.string());
    std::ifstream header(file);
    const std::string text(std::istreambuf_iterator<char>(header), {});
    std::filesystem::remove(file);
    CHECK_THAT(text, ContainsSubstring("written: f32 (batch, head, query_block, key_block)"));
    const std::string explained =
        generators::explain_json({&v, 1}, list, {.batches = 1, .heads = 2, .queries = 77, .keys = 139});
    CHECK_THAT(explained, ContainsSubstring(R"("query_block")") &&
                              ContainsSubstring("4 B H ((query_length + 16 - 1) / 16) ((key_length + 16 - 1) / 16)"));
}

TEST_CASE("a picture shows what a call chooses", "[precomputed]") {
    const generators::variant v{"my::moba", ir_of<moba>};
    generators::draw_request asked;
    asked.queries = asked.keys = 96, asked.heads = asked.key_heads = 2, asked.depth = asked.value_depth = 32;
    asked.inputs = {"count=2"};
    const auto drawn = generators::picture_of(v, planned_for(v, best_level().name, "prefill").request, asked, {});
    for (int query = 0; query < drawn.queries; ++query) {
        int seen = 0;
        for (int key = 0; key < drawn.keys; ++key)
            seen += drawn.visible[static_cast<std::size_t>(query * drawn.keys + key)];
        CAPTURE(query);
        CHECK(seen == std::min(query / size, 2) * size + query % size + 1);
    }
}
