// Tensors without elements: whatever their strides and wherever they point, since NumPy's strides are zeros there and
// PyTorch's are not.
#include "fake_variant.hpp"
#include "shapes.hpp"

#include <attune/c.h>
#include <attune/dlpack.hpp>
#include <attune/runtime/detail/c_variant.hpp>

#include <algorithm>
#include <limits>

using namespace by_hand;
using attune::tensor;

namespace {

constexpr std::int64_t far = std::numeric_limits<std::int64_t>::max();

/// Strides of four axes as libraries make them for tensors without elements, and as nobody does.
const std::vector<extents> all_strides{{0, 0, 0, 0},     {0, 0, 0, 4},         {1, 1, 1, 1},       {2560, 320, 64, 1},
                                       {-1, -2, -3, -4}, {far, far, far, far}, {-far, 1, far, -7}, {7, 5, 3, 2}};

struct attention : graph {
    attention() {
        const node_id s = scores(q(), k());
        output("out", attend(softmax(s), v()));
        output("lse", add(operation::log_sum_exp, kind::row, {s}));
    }
};

/// The same tensor with the strides given, of as many axes as it has; of those without elements alone.
tensor with_strides(const tensor& t, const extents& strides, void* at) {
    if (!t.empty()) return t;
    return {t.type(), at, t.shape(), std::span(strides).first(static_cast<std::size_t>(t.rank()))};
}

}  // namespace

TEST_CASE("strides of a tensor without elements do not matter, whichever extent is 0") {
    const attention g;
    const extents whole{2, 4, 5, 7};  // batch, head, query, key
    for (const std::size_t none : {0, 1, 2, 3}) {
        extents e = whole;
        e[none] = 0;
        const std::int64_t key_heads = none == 1 ? 0 : 2;
        memory m;
        const arguments dense{view("q", m({e[0], e[1], e[2], 8})), view("k", m({e[0], key_heads, e[3], 8})),
                              view("v", m({e[0], key_heads, e[3], 4})), view("out", m({e[0], e[1], e[2], 4})),
                              view("lse", m({e[0], e[1], e[2]}))};
        REQUIRE(call(g, dense) == "");
        const std::vector<bound> expected = seen.buffers;
        CHECK(seen.calls == (none == 3));
        for (const extents& strides : all_strides)
            for (void* const at : {static_cast<void*>(nullptr), reinterpret_cast<void*>(std::uintptr_t{3})}) {
                arguments given = dense;
                for (auto& each : given) each.view = with_strides(each.view, strides, at);
                INFO("extent " << none << " is 0, strides from " << strides[0] << " to " << strides[3]);
                REQUIRE(call(g, given) == "");
                REQUIRE(seen.buffers.size() == expected.size());
                for (std::size_t i = 0; i < expected.size(); ++i) {
                    CHECK(seen.buffers[i].extents == expected[i].extents);
                    CHECK(seen.buffers[i].strides == expected[i].strides);
                }
            }
    }
}

TEST_CASE("a long axis of a tensor without elements is read at one place") {
    // A table (key, channels of its own), longer than what stands for it: no key, so no element.
    graph g;
    const node_id table = g.input("table", f32, {axis_kind::key, axis_kind::free});
    g.output("lse", g.add(operation::log_sum_exp, kind::row,
                          {g.add(operation::add, kind::scores,
                                 {g.scores(g.q(), g.k()), g.add(operation::load, kind::real, {table})})}));
    memory m;
    for (const auto& [length, step] : {std::pair(std::int64_t{4096}, 1), {std::int64_t{4097}, 0}, {1 << 20, 0}}) {
        REQUIRE(call(g, {view("table", m({0, length})), view("q", m({1, 1, 2, 8})), view("k", m({1, 1, 0, 8})),
                         view("lse", m({1, 1, 2}))}) == "");
        CHECK(seen.buffers[0].extents == ints{static_cast<int>(length), 0});
        CHECK(seen.buffers[0].strides == ints{step, 0});
    }
}

TEST_CASE("through C and DLPack, strides of a tensor without elements do not matter either") {
    static const attune_variant variant{ATTUNE_C_VERSION, &attune::detail::this_runtime, fake::kernels};
    fake::call c;
    c.keys = 0, c.fill();
    std::int64_t shape[] = {2, 2, 0, 8}, of_values[] = {2, 2, 0, 4}, of_bias[] = {2, 4, 5, 0};
    for (const extents& strides : all_strides) {
        const auto named = [](const char* name, const tensor& t) {
            attune_tensor made{};
            made.data = t.mutable_data(), made.shape = t.shape().data(), made.strides = t.strides().data();
            made.rank = t.rank(), made.element = t.type() == attune::element_type::f32  ? ATTUNE_F32
                                                 : t.type() == attune::element_type::u8 ? ATTUNE_U8
                                                                                        : ATTUNE_I32;
            return attune_tensor_argument(name, made);
        };
        const auto empty = [&](const char* name, std::int64_t* extents) {
            DLTensor given{.data = nullptr,
                           .device = {kDLCPU, 0},
                           .ndim = 4,
                           .dtype = {kDLFloat, 32, 1},
                           .shape = extents,
                           .strides = const_cast<std::int64_t*>(strides.data()),
                           .byte_offset = 0};
            DLManagedTensor managed{};
            managed.dl_tensor = given;
            attune_argument made{};
            REQUIRE(attune_argument_from_dlpack(name, &managed, 0, &made) == ATTUNE_OK);
            return made;
        };
        const tensor q = c.Q(), slopes = c.S(), is_global = c.G(), table = c.T(), out = c.O(), lse = c.L();
        const attune_argument list[] = {named("q", q),
                                        empty("k", shape),
                                        empty("v", of_values),
                                        named("slopes", slopes),
                                        empty("bias", of_bias),
                                        named("is_global", is_global),
                                        named("table", table),
                                        attune_integer_argument("w", 3),
                                        attune_real_argument("gain", 1),
                                        named("out", out),
                                        named("lse", lse)};
        const auto made = attune_run(&variant, list, std::size(list), nullptr);
        INFO((made == ATTUNE_OK ? "" : attune_error_text()));
        REQUIRE(made == ATTUNE_OK);
        CHECK(std::ranges::all_of(c.out, [](float x) { return x == 0; }));
        CHECK(std::ranges::all_of(c.lse, [](float x) { return x == -std::numeric_limits<float>::infinity(); }));
        c.fill();
    }
}
