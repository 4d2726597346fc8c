// Decode and NaN, compiled in process for every level that runs here: tests/kernels/nan.tests.cpp and types.tests.cpp
// say the same of prefill.
#include "kernel/kernel_list.hpp"
#include "tested_levels.hpp"
#include "tuner/jit_kernel.hpp"

#include <attune/dsl.hpp>
#include <attune/runtime/cpu.hpp>
#include <attune/runtime/detail/call.hpp>
#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

using namespace attune;
using support::workload;

namespace {
using namespace attune::dsl;

inline constexpr auto kept = input<"kept", boolean>(head, key);
inline constexpr auto k_scale = input<"k_scale", f32>(batch, key_head, key);
inline constexpr auto v_scale = input<"v_scale", f32>(batch, key_head, key);
inline constexpr auto evicted = softmax(mask(q * t(k) * rsqrt(depth), kept(h, kv_idx))) * v;
inline constexpr auto scaled =
    softmax(mask(q * t(keys(k(b, h, kv_idx, d_idx) * k_scale(b, h, kv_idx))) * rsqrt(depth), kv_idx % 7 != 3)) *
    values(v(b, h, kv_idx, d_idx) * v_scale(b, h, kv_idx));

inline constexpr auto block_table = input<"block_table", i32>(batch, axis<"block">);
template <auto type> struct pages {
    static constexpr auto k_pages = input<"k_pages", type>(axis<"page">, key_head, axis<"token">, depth);
    static constexpr auto v_pages = input<"v_pages", type>(axis<"page">, key_head, axis<"token">, value_depth);
    static constexpr auto length = extent<1>(block_table) * 16;
    static constexpr auto page = block_table(b, kv_idx / 16);
    static constexpr auto scores = q * t(keys(k_pages(page, h, kv_idx % 16, d_idx), length)) * rsqrt(depth);
    static constexpr auto attention =
        softmax(mask(scores, kv_idx % 7 != 3)) * values(v_pages(page, h, kv_idx % 16, d_idx), length);
};

void put(workload& call, const char* name, std::size_t at, float value) {
    support::owned_tensor& t = call[name];
    if (t.halves.empty())
        t.reals.at(at) = value;
    else
        t.halves.at(at) = t.view.type() == element_type::bf16 ? bfloat16(value).bits : float16(value).bits;
}

float taken(support::owned_tensor& t, std::int64_t offset) {
    const auto at = static_cast<std::size_t>(offset);
    if (t.halves.empty()) return t.reals[at];
    bfloat16 b;
    float16 f;
    b.bits = f.bits = t.halves[at];
    return t.view.type() == element_type::bf16 ? float(b) : float(f);
}

/// Elements of an output that are not NaN where the reference's are, or far from it elsewhere; and the reference's
/// NaNs.
struct count {
    std::size_t wrong = 0, nan = 0;
};

/// A kernel for decode beside the reference.
struct decoded {
    decoded(const graph_ir& graph, std::string_view to_level, element_type all)
        : of{"my::decode", graph}, level(to_level), type(all) {
        kernel = std::make_unique<generators::jit_kernel>(
            generators::kernels_of(
                {&of, 1},
                {.targets = {level}, .dtypes = {std::string(name_of(type))}, .depths = {"32"}, .shapes = {"decode"}})
                .front());
    }
    /// Of two sequences the second is shorter; q, k, v and out are of the kernel's type.
    workload call(
        support::shape of_call =
            {.batches = 2, .heads = 4, .key_heads = 2, .queries = 2, .keys = 600, .depth = 32, .value_depth = 32},
        std::map<std::string, std::int64_t> axes = {}, std::vector<std::int32_t> in_use = {600, 570}) const {
        workload made(of.graph, of_call, 5, {}, std::move(axes));
        made.set_lengths(std::move(in_use));
        for (const char* const name : {"q", "k", "v", "out"})
            if (std::ranges::find(of.graph.inputs, name, &input_declaration::name) != of.graph.inputs.end() ||
                name == std::string_view("out"))
                made.convert(name, type);
        return made;
    }
    count compared(workload& call) const {
        const double step = type == element_type::bf16 ? 0x1p-8 : type == element_type::f16 ? 0x1p-11 : 0;
        call.reset_outputs();
        attune::detail::call(kernel->table(), call.arguments(), {.threads = 2});
        const auto expected = call.expected();
        count found;
        std::size_t at = 0;
        support::for_each_offset(call.view("out"), [&](std::int64_t offset) {
            const double wanted = expected["out"].values[at++], is = taken(call["out"], offset);
            found.nan += std::isnan(wanted);
            found.wrong +=
                !(std::isnan(wanted) ? std::isnan(is)
                                     : is == wanted || std::abs(is - wanted) < 2e-5 + step * std::abs(wanted));
        });
        return found;
    }
    generators::variant of;
    std::string level;
    element_type type;
    std::unique_ptr<generators::jit_kernel> kernel;
};

/// With each level that this machine runs and each element type; the level with instructions for bf16 alone has other
/// kernels for bf16 alone.
void for_each_kind(const std::function<void(std::string_view level, element_type)>& check) {
    for (const generators::level& each : testing::tested_levels())
        for (const element_type type : {element_type::f32, element_type::bf16, element_type::f16})
            if (runs(each.name) && (!each.is_for_bf16() || type == element_type::bf16)) check(each.name, type);
}

constexpr std::size_t row = 32, length = 600;
const float not_a_number = std::nanf(""), infinity = std::numeric_limits<float>::infinity();
}  // namespace

TEST_CASE(
    "in decode a NaN at a visible pair makes its row NaN, at a masked pair or behind the keys in use it changes "
    "nothing, at every level",
    "[nan]") {
    for_each_kind([](std::string_view level, element_type type) {
        const decoded plain(ir_of<evicted>, level, type);
        for (const char* const input : {"q", "k"})
            for (const std::size_t element : {5 + 0 * row, 31 + 7 * row, 3 * row}) {
                workload call = plain.call();
                put(call, input, element, not_a_number);
                CAPTURE(level, name_of(type), input, element);
                CHECK(plain.compared(call).wrong == 0);
            }
        for (const float value : {not_a_number, infinity})
            for (const std::size_t key : {3u, 17u, 255u, 256u, 598u}) {
                workload call = plain.call();
                for (std::size_t head = 0; head < 4; ++head)  // masked for two of the heads that read it, or four
                    call["kept"].bytes[head * length + key] = key % 2 != 0 && head % 2 == 0;
                put(call, "v", key * row + 9, value);
                CAPTURE(level, name_of(type), value, key);
                CHECK(plain.compared(call).wrong == 0);
            }
    });
}

TEST_CASE("in decode what is not finite in the scales of a masked key reaches no row, at every level", "[nan]") {
    for_each_kind([](std::string_view level, element_type type) {
        const decoded formed(ir_of<scaled>, level, type);
        for (const float value : {not_a_number, infinity})
            for (const std::size_t key : {3u, 17u, 255u, 256u, 598u}) {
                workload scales = formed.call();
                for (const char* const input : {"k_scale", "v_scale"})
                    scales[input].reals[key / 7 * 7 + 3] = scales[input].reals[length + key / 7 * 7 + 3] = value;
                CAPTURE(level, name_of(type), value, key);
                CHECK(formed.compared(scales).wrong == 0);
            }
    });
}

TEST_CASE(
    "in decode over pages a NaN counts where it is visible; in masked keys, unused slots and unused pages it "
    "changes nothing, at every level",
    "[nan]") {
    constexpr std::size_t page = std::size_t{2} * 16 * row;
    for_each_kind([](std::string_view level, element_type type) {
        const decoded paged(type == element_type::bf16  ? ir_of<pages<bf16>::attention>
                            : type == element_type::f16 ? ir_of<pages<f16>::attention>
                                                        : ir_of<pages<f32>::attention>,
                            level, type);
        for (const std::size_t seen : {0u, 1u}) {
            workload call = paged.call({.batches = 2, .heads = 4, .key_heads = 2, .depth = 32, .value_depth = 32},
                                       {{"page", 20}, {"block", 9}, {"token", 16}}, {144, 100});
            for (std::int32_t at = 0; at < 18; ++at)  // of the second sequence's blocks the last two are not in use
                call["block_table"].integers[static_cast<std::size_t>(at)] = at < 16 ? at : 19;
            for (const char* const pool : {"k_pages", "v_pages"})
                for (std::size_t at = 0; at < 20 * page; ++at) {
                    const std::size_t token = at / row % 16;
                    if (at / page >= 16 || (at / page == 15 && token >= 4)) put(call, pool, at, not_a_number);
                }
            for (std::size_t head = 0; head < 2; ++head)  // keys 3 and 17 of the first sequence are masked
                for (const std::size_t at : {3 * row + 4, page + 1 * row + 9})
                    put(call, "v_pages", at + head * 16 * row, seen ? not_a_number : infinity);
            CAPTURE(level, name_of(type));
            const count without = paged.compared(call);
            put(call, "k_pages", (seen ? 0 : 10 * page) + 5 * row + 2, not_a_number);
            const count with = paged.compared(call);
            CHECK((without.wrong == 0 && without.nan == 0));
            CHECK((with.wrong == 0 && with.nan == 2 * row));  // of two heads, the one query's
        }
    });
}
