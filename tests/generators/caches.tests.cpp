// Decode over the caches that engines keep, compiled in process: bytes with scales, pages behind a table.
#include "../support/workload_values.hpp"
#include "codegen/halide_target.hpp"
#include "kernel/kernel_list.hpp"
#include "lower.hpp"
#include "tuner/jit_kernel.hpp"

#include <attune/dsl.hpp>
#include <attune/runtime/cpu.hpp>
#include <attune/runtime/detail/call.hpp>
#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <tuple>

using namespace attune;
using support::workload;

namespace {
using namespace attune::dsl;

inline constexpr auto k8 = input<"k8", u8>(batch, key_head, key, depth);
inline constexpr auto v8 = input<"v8", u8>(batch, key_head, key, value_depth);
inline constexpr auto k_scale = input<"k_scale", f32>(batch, key_head, key);
inline constexpr auto v_scale = input<"v_scale", f32>(batch, key_head, key);
inline constexpr auto bytes =
    softmax(q * t(keys(as_real(k8(b, h, kv_idx, d_idx) - 128) * (0.01 * k_scale(b, h, kv_idx)))) * rsqrt(depth)) *
    values(as_real(v8(b, h, kv_idx, d_idx) - 128) * (0.01 * v_scale(b, h, kv_idx)));

/// Elements of eight bits as they are, with one scale for each key.
template <auto type> struct narrow {
    static constexpr auto codes = input<"codes", type>(batch, key_head, key, depth);
    static constexpr auto value_codes = input<"value_codes", type>(batch, key_head, key, value_depth);
    static constexpr auto attention =
        softmax(q * t(keys(as_real(codes(b, h, kv_idx, d_idx)) * k_scale(b, h, kv_idx))) * rsqrt(depth)) *
        values(as_real(value_codes(b, h, kv_idx, d_idx)));
};
inline constexpr auto of_i8 = narrow<i8>::attention;
inline constexpr auto of_e4m3 = narrow<f8_e4m3>::attention;
inline constexpr auto of_e5m2 = narrow<f8_e5m2>::attention;

/// Codes of four bits: those of the first half of a row below those of the second; scales of groups of 32 channels.
inline constexpr auto k4 = input<"k4", u8>(batch, key_head, key, axis<"byte">);
inline constexpr auto v4 = input<"v4", u8>(batch, key_head, key, axis<"byte">);
inline constexpr auto group_scale = input<"group_scale", f32>(batch, key_head, key, axis<"group">);
template <class Codes> constexpr auto unpacked(const Codes& codes) {
    constexpr auto low = d_idx < depth / 2;
    return as_real(((codes(b, h, kv_idx, where(low, d_idx, d_idx - depth / 2)) >> where(low, 0, 4)) & 15) - 8);
}
inline constexpr auto nibbles =
    softmax(q * t(keys(unpacked(k4) * group_scale(b, h, kv_idx, d_idx / 32))) * rsqrt(depth)) * values(unpacked(v4));
/// The same with a scale for each token, which multiplies its score.
inline constexpr auto token_scale = input<"token_scale", f32>(batch, key_head, key);
inline constexpr auto nibbles_of_tokens =
    softmax(q * t(keys(unpacked(k4) * token_scale(b, h, kv_idx))) * rsqrt(depth)) * values(unpacked(v4));

inline constexpr auto block_table = input<"block_table", i32>(batch, axis<"block">);
inline constexpr auto k_pages = input<"k_pages", f32>(axis<"page">, key_head, axis<"token">, depth);
inline constexpr auto v_pages = input<"v_pages", f32>(axis<"page">, key_head, axis<"token">, value_depth);
inline constexpr auto length = extent<1>(block_table) * 16;
inline constexpr auto in_page = kv_idx % 16;
inline constexpr auto page = block_table(b, kv_idx / 16);
inline constexpr auto paged = softmax(q * t(keys(k_pages(page, h, in_page, d_idx), length)) * rsqrt(depth)) *
                              values(v_pages(page, h, in_page, d_idx), length);

/// Bytes in pages, a scale beside each token.
inline constexpr auto k8_pages = input<"k8_pages", u8>(axis<"page">, key_head, axis<"token">, depth);
inline constexpr auto page_scale = input<"page_scale", f32>(axis<"page">, key_head, axis<"token">);
inline constexpr auto paged_bytes =
    softmax(q *
            t(keys(as_real(k8_pages(page, h, in_page, d_idx) - 128) * (0.01 * page_scale(page, h, in_page)), length)) *
            rsqrt(depth)) *
    values(v_pages(page, h, in_page, d_idx), length);

/// Pages of so many tokens that no vector of keys is within one.
inline constexpr auto of_five = extent<1>(block_table) * 5;
template <class Pages> constexpr auto in_fives(const Pages& pages) {
    return pages(block_table(b, kv_idx / 5), h, kv_idx % 5, d_idx);
}
inline constexpr auto fives =
    softmax(q * t(keys(in_fives(k_pages), of_five)) * rsqrt(depth)) * values(in_fives(v_pages), of_five);

inline constexpr auto places = input<"places", i32>(batch, key);
inline constexpr auto gathered =
    softmax(q * t(keys(k(b, h, places(b, kv_idx), d_idx))) * rsqrt(depth)) * values(v(b, h, places(b, kv_idx), d_idx));

/// Keys that are made of their rows.
inline constexpr auto scaled =
    softmax(q * t(keys(k(b, h, places(b, kv_idx), d_idx) * k_scale(b, h, kv_idx))) * rsqrt(depth)) * v;

generators::listed_kernel listed(const generators::variant& of, const std::string& level) {
    return generators::kernels_of({&of, 1},
                                  {.targets = {level}, .dtypes = {"f32"}, .depths = {"64"}, .shapes = {"decode"}})
        .front();
}

struct compiled {
    explicit compiled(const graph_ir& graph) : of{"my::cache", graph} {
        for (const generators::level& each : generators::levels())
            if (!kernel && runs(each.name))
                kernel = std::make_unique<generators::jit_kernel>(listed(of, std::string(each.name)));
    }
    generators::variant of;
    std::unique_ptr<generators::jit_kernel> kernel;
};

/// The tensors that are fetched ahead, and the loops that end with the last visible key.
class asked_for : public Halide::Internal::IRVisitor {
public:
    explicit asked_for(const graph_ir& graph) {
        const generators::variant of{"my::cache", graph};
        const generators::listed_kernel kernel = listed(of, "x86-64-v3");
        const Halide::Module module =
            generators::lower(kernel.request).module("decoded", generators::halide_target(*kernel.request.target));
        for (const auto& function : module.functions()) function.body.accept(this);
    }
    std::map<std::string, int> lines;
    std::set<std::string> clipped, made;

protected:
    using IRVisitor::visit;
    void visit(const Halide::Internal::Call* call) override {
        if (call->name == "llvm.prefetch.p0") inside_ = true;
        IRVisitor::visit(call);
        if (call->name == "llvm.prefetch.p0") inside_ = false;
    }
    void visit(const Halide::Internal::Allocate* allocation) override {
        made.insert(allocation->name.substr(0, allocation->name.find('$')));
        IRVisitor::visit(allocation);
    }
    void visit(const Halide::Internal::Variable* variable) override {
        if (inside_ && variable->type.is_handle()) ++lines[variable->name];
    }
    void visit(const Halide::Internal::For* loop) override {
        if (Halide::Internal::ends_with(loop->name, ".part"))
            clipped.insert(loop->name.substr(0, loop->name.find_first_of(".$")));
        IRVisitor::visit(loop);
    }

private:
    bool inside_ = false;
};
}  // namespace

TEST_CASE("decode over bytes with scales agrees with the reference, whatever lies behind the keys in use", "[caches]") {
    const compiled kernel(ir_of<bytes>);
    for (const std::int64_t keys : {1, 16, 17, 130, 700}) {
        CAPTURE(keys);
        workload call(kernel.of.graph,
                      {.batches = 3, .heads = 4, .key_heads = 2, .keys = keys, .depth = 64, .value_depth = 64}, 5);
        const auto some = static_cast<std::int32_t>(keys / 2);
        call.set_lengths({static_cast<std::int32_t>(keys), 0, some});
        const auto expected = call.expected();
        for (const char* const scale : {"k_scale", "v_scale"}) {  // (batch, key head, key)
            const tensor of = call.view(scale);
            auto* const at = call[scale].reals.data();
            for (std::int64_t head = 0; head < 2; ++head)
                for (std::int64_t key = some; key < keys; ++key)
                    at[2 * of.stride(0) + head * of.stride(1) + key * of.stride(2)] =
                        std::numeric_limits<float>::quiet_NaN();
        }
        attune::detail::call(kernel.kernel->table(), call.arguments(), {.threads = 2});
        CHECK(call.largest_error(expected, "out") < 2e-5);
    }
}

TEST_CASE("decode over signed bytes and eight-bit floats agrees with the reference", "[caches]") {
    for (const auto& [graph, bound] : {std::pair(ir_of<of_i8>, 2e-3), {ir_of<of_e4m3>, 5e-5}, {ir_of<of_e5m2>, 5e-5}}) {
        const compiled kernel(graph);
        for (const std::int64_t keys : {1, 17, 300}) {
            CAPTURE(graph.inputs[1].name, name_of(graph.inputs[1].element), keys);
            workload call(kernel.of.graph,
                          {.batches = 2, .heads = 4, .key_heads = 2, .keys = keys, .depth = 64, .value_depth = 64}, 5);
            std::minstd_rand random(3);
            constexpr unsigned below_two = 0xbb;  // as a float of either kind: no infinity, no NaN, both signs
            for (const char* const name : {"codes", "value_codes"})
                for (std::uint8_t& x : call[name].bytes)
                    x = static_cast<std::uint8_t>(bound > 1e-3 ? random() % 256 : random() % 256 & below_two);
            scale_by(call, "k_scale", bound > 1e-3 ? 0.01f : 1.0f);
            attune::detail::call(kernel.kernel->table(), call.arguments(), {.threads = 2});
            CHECK(call.largest_error(call.expected(), "out") < bound);
        }
    }
}

TEST_CASE("decode over packed codes with scales of groups or tokens agrees with the reference", "[caches]") {
    for (const graph_ir& graph : {ir_of<nibbles>, ir_of<nibbles_of_tokens>}) {
        const compiled kernel(graph);
        for (const std::int64_t keys : {1, 15, 200}) {
            CAPTURE(keys);
            workload call(kernel.of.graph,
                          {.batches = 2, .heads = 6, .key_heads = 2, .keys = keys, .depth = 64, .value_depth = 64}, 6,
                          {}, {{"byte", 32}, {"group", 2}});
            call.draw("k4", 0, 255), call.draw("v4", 0, 255);
            attune::detail::call(kernel.kernel->table(), call.arguments(), {.threads = 2});
            CHECK(call.largest_error(call.expected(), "out") < 1e-4);
        }
    }
}

TEST_CASE("decode over pages agrees with the reference, whatever lies in pages and entries not in use", "[caches]") {
    const compiled kernel(ir_of<paged>);
    for (const std::int64_t blocks : {1, 2, 9, 44}) {
        CAPTURE(blocks);
        const auto full = static_cast<std::int32_t>(16 * blocks);
        workload call(kernel.of.graph, {.batches = 3, .heads = 4, .key_heads = 2, .depth = 64, .value_depth = 64}, 7,
                      {}, {{"page", 50}, {"block", blocks}, {"token", 16}});
        call.draw("block_table", 0, 48);
        call.set_lengths({full, 0, full - 15});
        const auto expected = call.expected();
        for (const char* const pool : {"k_pages", "v_pages"}) {  // the last page is nobody's
            const tensor of = call.view(pool);
            auto* const at = call[pool].reals.data() + 49 * of.stride(0);
            std::fill_n(at, of.stride(0), std::numeric_limits<float>::quiet_NaN());
        }
        attune::detail::call(kernel.kernel->table(), call.arguments(), {.threads = 2});
        CHECK(call.largest_error(expected, "out") < 2e-5);
    }
}

TEST_CASE("decode over pages of bytes, and of an odd number of tokens, agrees with the reference", "[caches]") {
    for (const auto& [graph, tokens, query_heads] :
         {std::tuple(ir_of<paged_bytes>, 16, 2), {ir_of<fives>, 5, 6}, {ir_of<fives>, 5, 14}}) {
        const compiled kernel(graph);
        for (const std::int64_t blocks : {1, 3, 30}) {
            CAPTURE(tokens, query_heads, blocks);
            const auto full = static_cast<std::int32_t>(tokens * blocks);
            workload call(kernel.of.graph,
                          {.batches = 3, .heads = query_heads, .key_heads = 2, .depth = 64, .value_depth = 64}, 8, {},
                          {{"page", 40}, {"block", blocks}, {"token", tokens}});
            call.draw("block_table", 0, 39);
            if (tokens == 16) call.draw("k8_pages", 0, 255);
            call.set_lengths({full, full - 4, 0});
            attune::detail::call(kernel.kernel->table(), call.arguments(), {.threads = 2});
            CHECK(call.largest_error(call.expected(), "out") < 2e-5);
        }
    }
}

TEST_CASE("decode over gathered keys agrees with the reference", "[caches]") {
    const compiled kernel(ir_of<gathered>);
    for (const std::int64_t keys : {1, 31, 400}) {
        CAPTURE(keys);
        workload call(kernel.of.graph,
                      {.batches = 2, .heads = 2, .key_heads = 1, .keys = keys, .depth = 64, .value_depth = 64}, 9);
        call.draw("places", 0, static_cast<int>(keys) - 1);
        attune::detail::call(kernel.kernel->table(), call.arguments(), {.threads = 2});
        CHECK(call.largest_error(call.expected(), "out") < 2e-5);
    }
}

TEST_CASE("decode fetches rows of formed keys and values ahead, through the table of their pages", "[caches]") {
    // a row of 64 f32 is four lines of the cache, one of bytes is one; of two keys at a time, and of four keys, not
    // values, for one row
    CHECK(asked_for(ir_of<paged>).lines == std::map<std::string, int>{{"input_k_pages", 24}, {"input_v_pages", 8}});
    CHECK(asked_for(ir_of<gathered>).lines == std::map<std::string, int>{{"input_k", 24}, {"input_v", 8}});
    CHECK(asked_for(ir_of<nibbles>).lines.contains("input_k4"));
    // codes of two keys, or four, at a time; those of values in two loops, for calls with one row and with several
    CHECK(asked_for(ir_of<bytes>).lines == std::map<std::string, int>{{"input_k8", 6}, {"input_v8", 4}});
}

TEST_CASE("decode reads rows of pages where they lie, and copies what a formula makes", "[caches]") {
    for (const graph_ir& graph : {ir_of<paged>, ir_of<gathered>, ir_of<fives>}) {
        const std::set<std::string> made = asked_for(graph).made;
        CHECK(!made.contains("key_rows"));
        CHECK(!made.contains("values"));
        CHECK(std::ranges::count_if(made, [](const std::string& name) { return name.starts_with("begins_of_"); }) == 2);
        CHECK(std::ranges::none_of(made, [](const std::string& name) { return name.starts_with("hoisted_of_keys"); }));
    }
    CHECK(asked_for(ir_of<scaled>).made.contains("key_rows"));
}

TEST_CASE("decode computes with the visible keys of a block", "[caches]") {
    const std::set<std::string> clipped = asked_for(ir_of<bytes>).clipped;
    for (const char* const stage : {"scores", "highest_lanes", "weights", "sum_lanes", "sums"})
        CHECK(clipped.contains(stage));
}

namespace {
/// The extent of a loop, before tasks become functions of their own.
class extent_of : public Halide::Internal::IRMutator {
public:
    extent_of(std::string function, std::string variable, Halide::Expr& found)
        : function_(std::move(function)), variable_(std::move(variable)), found_(found) {}

protected:
    using IRMutator::visit;
    Halide::Internal::Stmt visit(const Halide::Internal::LetStmt* let) override {
        lets_.emplace_back(let->name, let->value);
        return IRMutator::visit(let);
    }
    Halide::Internal::Stmt visit(const Halide::Internal::For* loop) override {
        if (Halide::Internal::starts_with(loop->name, function_) &&
            loop->name.find("." + variable_) != std::string::npos) {
            found_ = loop->extent;
            for (auto let = lets_.rbegin(); let != lets_.rend(); ++let)
                found_ = Halide::Internal::substitute(let->first, let->second, found_);
        }
        return IRMutator::visit(loop);
    }

private:
    const std::string function_, variable_;
    Halide::Expr& found_;
    std::vector<std::pair<std::string, Halide::Expr>> lets_;
};
}  // namespace

TEST_CASE("decode makes all query rows of a tile that it multiplies, however few there are", "[caches]") {
    const generators::variant of{"my::cache", ir_of<bytes>};
    const generators::listed_kernel kernel = listed(of, "x86-64-v3");
    generators::lowered_kernel lowered = generators::lower(kernel.request);
    Halide::Expr rows;
    lowered.attention.add_custom_lowering_pass(new extent_of("query_rows", "qi", rows));
    lowered.module("decoded", generators::halide_target(*kernel.request.target));
    REQUIRE(rows.defined());
    CAPTURE(rows);
    // else it multiplies what lies in memory, which may be denormal and take a hundred times as long
    CHECK(
        Halide::Internal::can_prove(rows % std::get<generators::cpu_decode>(kernel.request.schedule).query_tile == 0));
}
