// Random calls that store to random places of caches of every element type, laid out in random ways, against the
// reference.
#include "../fuzz/formulas/relaid.hpp"
#include "kernel/kernel_list.hpp"
#include "tested_levels.hpp"
#include "tuner/jit_kernel.hpp"

#include <attune/dsl.hpp>
#include <attune/ir/element.hpp>
#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <deque>
#include <limits>
#include <numeric>
#include <random>

using namespace attune;
using support::workload;

namespace {
using namespace attune::dsl;

/// A key lies in the slot that `slot` names, a new one goes to the slot that `new_slot` names: the place of an older
/// one, one that no key lies in, or none.
inline constexpr auto slot = input<"slot", i32>(batch, key);
inline constexpr auto new_slot = input<"new_slot", i32>(batch, query);
inline constexpr auto is_placed = new_slot(b, q_idx) >= 0;
inline constexpr auto k_new = input<"k_new", f32>(batch, key_head, query, depth);
inline constexpr auto v_new = input<"v_new", f32>(batch, key_head, query, value_depth);

/// An element of a cache as a real, and a real as an element: integers are multiples of 1 / 32.
template <auto element> struct codes {
    static constexpr bool whole = is_integer(element);
    static constexpr int lowest = element == u8 ? 0 : -128, highest = lowest + 255;
    template <class X> static constexpr auto real_of(X x) {
        if constexpr (whole)
            return as_real(x) * (1.0 / 32);
        else
            return as_real(x);
    }
    template <class X> static constexpr auto made_of(X x) {
        if constexpr (whole)
            return clamp(as_integer(round(x * 32)), lowest, highest);
        else
            return x;
    }
};

/// (batch, key head, slot, channel)
template <auto element> struct in_rows {
    using its = codes<element>;
    static constexpr auto k_cache = input<"k_cache", element>(batch, key_head, axis<"place">, depth);
    static constexpr auto v_cache = input<"v_cache", element>(batch, key_head, axis<"place">, value_depth);
    static constexpr auto scores =
        q * t(keys(its::real_of(k_cache(b, h, slot(b, kv_idx), d_idx)), extent<1>(slot))) * rsqrt(depth);
    static constexpr auto graph = outputs(
        store(k_cache(b, h, new_slot(b, q_idx), d_idx), its::made_of(k_new(b, h, q_idx, d_idx)), is_placed),
        store(v_cache(b, h, new_slot(b, q_idx), d_idx), its::made_of(v_new(b, h, q_idx, d_idx) * -2), is_placed),
        out = softmax(scores) * values(its::real_of(v_cache(b, h, slot(b, kv_idx), d_idx)), extent<1>(slot)));
};

/// The channels of a key lie apart, those of all keys side by side: (slot, batch, channel, key head).
inline constexpr auto k_cache = input<"k_cache", f32>(axis<"place">, batch, depth, key_head);
inline constexpr auto in_columns =
    outputs(store(k_cache(new_slot(b, q_idx), b, d_idx, h), k_new(b, h, q_idx, d_idx), is_placed),
            store(v(b, h, new_kv_idx, d_idx), v_new(b, h, q_idx, d_idx)),
            out = softmax(q * t(keys(k_cache(slot(b, kv_idx), b, d_idx, h), extent<1>(slot))) * rsqrt(depth)) * v);

/// A kernel for the most demanding level that this machine runs.
std::unique_ptr<generators::jit_kernel> compiled(const generators::variant& of, const char* shapes) {
    const std::string level(attune::testing::tested_levels().front().name);
    return std::make_unique<generators::jit_kernel>(
        generators::kernels_of({&of, 1},
                               {.targets = {level}, .dtypes = {"f32"}, .depths = {"16x24"}, .shapes = {shapes}})
            .front());
}

class dice {
public:
    explicit dice(unsigned seed) : random(seed) {}
    int from(int first, int last) { return std::uniform_int_distribution<int>(first, last)(random); }
    /// So many different numbers below another.
    std::vector<int> some_of(int count, int below) {
        std::vector<int> all(static_cast<std::size_t>(below));
        std::iota(all.begin(), all.end(), 0);
        std::ranges::shuffle(all, random);
        all.resize(static_cast<std::size_t>(count));
        return all;
    }
    std::mt19937 random;
};

void run_one(const generators::variant& of, const generators::jit_kernel& kernel, unsigned seed, int most_queries) {
    CAPTURE(seed);
    dice draw(seed);
    const int queries = draw.from(1, most_queries), keys = draw.from(queries, 70), places = keys + draw.from(0, 30),
              key_heads = draw.from(1, 3), batches = draw.from(1, 3);
    workload call(of.graph,
                  {.batches = batches,
                   .heads = key_heads * draw.from(1, 3),
                   .key_heads = key_heads,
                   .queries = queries,
                   .keys = keys,
                   .depth = 16,
                   .value_depth = 24},
                  seed, {}, {{"place", places}});
    for (const input_declaration& d : of.graph.inputs)
        if (const auto is = d.element; bytes_of(is) == 1)
            call.draw(d.name, 0, is == element_type::i8 || is == element_type::u8 ? 255 : 0x42);  // f8: up to 3
    for (const auto& [name, count] : {std::pair("slot", keys), {"new_slot", queries}})
        for (int b = 0; b < batches; ++b)
            std::ranges::copy(draw.some_of(count, places), call[name].integers.begin() + b * count);
    for (auto& place : call["new_slot"].integers)
        if (draw.from(0, 3) == 0) place = draw.from(0, 1) == 0 ? -1 : std::numeric_limits<std::int32_t>::min();
    std::vector<std::int32_t> lengths;
    for (int b = 0; b < batches; ++b) lengths.push_back(draw.from(queries, keys));
    call.set_lengths(lengths);
    const reference::results expected = call.expected();

    std::deque<fuzz::relaid_tensor> moved;
    std::vector<attune::detail::named_argument> arguments = call.arguments();
    for (auto& argument : arguments) {
        const auto declared = std::ranges::find(of.graph.inputs, argument.name, &input_declaration::name);
        const bool dense = declared == of.graph.inputs.end() || has_dense_rows(*declared);
        argument.view = moved.emplace_back(argument.view, dense, false, draw.random).view();
    }
    attune::detail::call(kernel.table(), arguments, {.threads = draw.from(1, 3)});
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        CAPTURE(arguments[i].name);
        CHECK(!moved[i].is_spilled());
        if (arguments[i].name == "out")
            CHECK(reference::largest_error(moved[i].view(), expected["out"], expected.rows) < 1e-4);  // of up to 8
        else if (std::ranges::any_of(expected.stored, [&](const auto& o) { return o.name == arguments[i].name; }))
            CHECK(reference::largest_error(moved[i].view(), expected[arguments[i].name], {}) == 0);
        else  // what is not stored to is as it was
            CHECK(moved[i].elements() == fuzz::elements_of(call.view(arguments[i].name)));
    }
}

}  // namespace

TEST_CASE("stores to random places of random layouts", "[stores]") {
    const struct {
        graph_ir graph;
        const char* shapes;
    } all[] = {{ir_of<in_rows<f32>::graph>, "decode"},
               {ir_of<in_rows<bf16>::graph>, "prefill"},
               {ir_of<in_rows<f16>::graph>, "decode"},
               {ir_of<in_rows<i8>::graph>, "decode"},
               {ir_of<in_rows<u8>::graph>, "prefill"},
               {ir_of<in_rows<i16>::graph>, "decode"},
               {ir_of<in_rows<f8_e4m3>::graph>, "decode"},
               {ir_of<in_rows<f8_e5m2>::graph>, "decode"},
               {ir_of<in_columns>, "prefill"}};
    for (std::size_t i = 0; i < std::size(all); ++i) {
        const auto& [graph, shapes] = all[i];
        const generators::variant of{"my::step", graph};
        const auto kernel = compiled(of, shapes);
        const bool decodes = shapes == std::string_view("decode");
        CAPTURE(i, shapes);
        for (unsigned seed = 0; seed < 100; ++seed) run_one(of, *kernel, seed, decodes ? 16 : 40);
    }
}

TEST_CASE("reals are stored as the nearest float of eight bits, what is too large as element.hpp says", "[stores]") {
    for (const graph_ir& graph : {ir_of<in_rows<f8_e4m3>::graph>, ir_of<in_rows<f8_e5m2>::graph>}) {
        const generators::variant of{"my::step", graph};
        const auto kernel = compiled(of, "decode");
        // Every exponent of a byte and some beyond; halfway to the next number, and beside that.
        std::vector<float> all{0, -0.0f, std::nanf(""), std::numeric_limits<float>::infinity(), 3.4e38f};
        for (int exponent = -19; exponent <= 17; ++exponent)
            for (int eighths = 16; eighths < 32; ++eighths)
                for (const float aside : {1 - 0x1p-20f, 1.0f, 1 + 0x1p-20f})
                    all.push_back((eighths % 2 == 0 ? -1.0f : 1.0f) * std::ldexp(float(eighths) / 16, exponent) *
                                  aside);
        constexpr std::int64_t d = 16;
        all.resize((all.size() + d - 1) / d * d);
        const auto keys = static_cast<std::int64_t>(all.size()) / d;
        std::size_t differ = 0;
        for (std::int64_t first = 0; first < keys; first += d) {  // as many queries as a kernel for decode takes
            const std::int64_t queries = std::min(d, keys - first);
            workload call(graph, {.queries = queries, .keys = queries, .depth = d, .value_depth = 24}, 1, {},
                          {{"place", queries}});
            for (const char* const name : {"slot", "new_slot"})
                std::iota(call[name].integers.begin(), call[name].integers.end(), 0);
            const auto row =
                std::span(all).subspan(static_cast<std::size_t>(first * d), static_cast<std::size_t>(queries * d));
            call.put("k_new", row);
            attune::detail::call(kernel->table(), call.arguments(), {});
            for (std::size_t i = 0; i < row.size(); ++i)
                differ += call["k_cache"].bytes[i] != (call.view("k_cache").type() == element_type::f8_e4m3
                                                           ? float8_e4m3(row[i]).bits
                                                           : float8_e5m2(row[i]).bits);
        }
        CHECK(differ == 0);
    }
}
