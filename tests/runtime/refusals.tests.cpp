// Refusals that no other test is about, each with what it is about: found by tests/mutants.
#include "fake_variant.hpp"
#include "shapes.hpp"

#include <attune/c.h>
#include <attune/runtime/detail/c_variant.hpp>
#include <attune/runtime/detail/choice.hpp>
#include <attune/runtime/detail/operation.hpp>

#include <sys/mman.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <limits>
#include <string>

using namespace by_hand;
using attune::tensor;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

namespace {

template <class F> std::string said(F call) {
    try {
        call();
        return {};
    } catch (const attune::error& e) {
        return e.what();
    }
}

std::string explained(const std::vector<attune::detail::named_argument>& arguments, const attune::options& how = {}) {
    return said([&] { (void)attune::detail::explain(fake::kernels(), arguments, how); });
}

void replace(std::vector<attune::detail::named_argument>& all, std::string_view name, const tensor& by) {
    std::erase_if(all, [&](const auto& a) { return a.name == name; });
    all.push_back(view(name, by));
}

/// A table of another layout: what follows the first two fields is nothing that this one could read.
namespace other_layout {
int version = 0;
const attune::kernel_table& table() {
    alignas(attune::kernel_table) static std::array<std::byte, sizeof(attune::kernel_table)> bytes;
    bytes.fill(std::byte{0xa5});
    const char* const variant = "by::hand";
    std::memcpy(bytes.data() + offsetof(attune::kernel_table, version), &version, sizeof version);
    std::memcpy(bytes.data() + offsetof(attune::kernel_table, variant), &variant, sizeof variant);
    return reinterpret_cast<const attune::kernel_table&>(bytes);
}
}  // namespace other_layout

/// A driver that is always there and never called.
const attune::detail::device_runtime devices{[](const char*, int) { return ""; }, [](void**) { return 0; },
                                             [](const attune::detail::device_call&) {}};

/// softmax(q * t(k)) * v and a sum over its queries, for these targets.
struct on_devices : graph {
    std::vector<attune::kernel> kernels;
    attune::kernel_table table{};
    explicit on_devices(std::initializer_list<const char*> targets) {
        const node_id weights = softmax(scores(q(), k()));
        output("out", attend(weights, v()));
        output("sums", add(operation::sum_over_queries, kind::column, {weights}));
        for (const char* const target : targets) {
            kernels.push_back(kernels_of(*this).front());
            kernels.back().target = target, kernels.back().blocks = note;
        }
        table = {
            .version = attune::kernel_table_version, .variant = "by::hand", .graph = graph_ir(), .kernels = kernels};
        table.devices = &devices;
    }
    static arguments given(attune::memory where, std::int64_t queries) {
        static std::vector<float> data(4096);
        const auto there = [&](std::string_view name, tensor::extent_list shape) {
            static std::size_t at = 0;
            at = (at + 512) % 4096;
            return view(name, tensor(data.data() + at, shape).in(where));
        };
        return {there("q", {1, 2, queries, 8}), there("k", {1, 2, 7, 8}), there("v", {1, 2, 7, 4}),
                there("out", {1, 2, queries, 4}), there("sums", {1, 2, 7})};
    }
};

}  // namespace

TEST_CASE("outputs and cotangents have one element type, which need not be that of q, k or v") {
    graph g;  // as of a gradient, but with what is saved first
    static constexpr std::initializer_list<axis_kind> rows = {axis_kind::batch, axis_kind::head, axis_kind::query,
                                                              axis_kind::value_depth};
    const node_id saved = g.input("saved", element_type::any, rows), dout = g.input("dout", element_type::any, rows);
    const node_id made = g.attend(g.softmax(g.scores(g.q(), g.k())), g.v());
    g.output("out", g.add(operation::add, kind::output, {made, g.add(operation::add, kind::tensor, {saved, dout})}));
    std::vector<float> memory(4096);
    const auto with = [&](element_type q, element_type k, element_type v, element_type saved, element_type dout) {
        float* at = memory.data();
        const auto given = [&](std::string_view name, element_type type, tensor::extent_list shape) {
            return view(name, tensor(type, at += 512, {shape.begin(), shape.size()}));
        };
        return call(g, {given("q", q, {1, 2, 3, 8}), given("k", k, {1, 2, 7, 8}), given("v", v, {1, 2, 7, 4}),
                        given("saved", saved, {1, 2, 3, 4}), given("dout", dout, {1, 2, 3, 4}),
                        given("out", saved, {1, 2, 3, 4})});
    };
    using enum element_type;
    CHECK(with(f32, f32, f32, f32, f32).empty());
    for (const auto& [one, other] : {std::pair{f32, bf16}, {bf16, f32}})
        CHECK_THAT(with(f32, f32, f32, one, other),
                   StartsWith("attune: expected " + std::string(name_of(one)) +
                              " elements in dout, as in the other outputs and their cotangents, got elements of " +
                              std::string(name_of(other)) + "; try a tensor of " + std::string(name_of(one))));
    for (const std::string& said :
         {with(bf16, f32, f32, f32, f32), with(f32, bf16, f32, f32, f32), with(f32, f32, bf16, f32, f32)})
        CHECK_THAT(said, StartsWith("attune: expected element types that by::hand was compiled for (f32), got q:"));
}

TEST_CASE("an innermost axis of one element has any stride, one of two has not") {
    graph g;
    g.output("out", g.attend(g.softmax(g.scores(g.q(), g.k())), g.v()));
    std::vector<float> memory(256);
    const auto said = [&](std::int64_t depth) {
        float* at = memory.data();
        const auto given = [&](std::string_view name, std::int64_t length) {
            return view(name, tensor(at += 48, {1, 2, length, depth}, {8, 4, 1, 13}));
        };
        const int compiled = static_cast<int>(depth);
        return call(g, {given("q", 3), given("k", 4), given("v", 4), given("out", 3)}, {{compiled, compiled}});
    };
    CHECK(said(1).empty());
    CHECK_THAT(said(2), StartsWith("attune: expected a stride of 1 along value_depth of v, got 13"));
}

TEST_CASE("kernels of another layout are refused by every question before another field is read") {
    fake::call c;
    const auto all = c.arguments();
    for (const int step : {-1, 1}) {
        other_layout::version = attune::kernel_table_version + step;
        const attune::kernel_table& other = other_layout::table();
        const attune_variant variant{ATTUNE_C_VERSION, &attune::detail::this_runtime, other_layout::table};
        const auto refused = [&](auto call) {
            CHECK_THAT(said(call), StartsWith("attune: expected kernels of by::hand built for layout " +
                                              std::to_string(attune::kernel_table_version) + ", got layout " +
                                              std::to_string(other_layout::version)));
        };
        refused([&] { attune::detail::call(other, all, {}); });
        refused([&] { (void)attune::detail::prepare(other, all, {}); });
        refused([&] { (void)attune::detail::explain(other, all, {}); });
        refused([&] { (void)attune::detail::blocks(other, all, {}); });
        refused([&] { (void)attune::detail::kernels(other); });
        refused([&] { attune::detail::synchronize(other, {}); });
        refused([&] { (void)attune::detail::operation(&variant); });  // of PyTorch and of JAX
        const auto refused_in_c = [&](attune_status status) {
            CHECK(status == ATTUNE_REFUSED);
            CHECK_THAT(attune_error_text(), StartsWith("attune: expected kernels of by::hand built for layout "));
        };
        refused_in_c(attune_run(&variant, nullptr, 0, nullptr));
        refused_in_c(attune_explain(&variant, nullptr, 0, nullptr, nullptr, 0, nullptr));
        refused_in_c(attune_blocks(&variant, nullptr, 0, nullptr, nullptr, 0, nullptr));
        refused_in_c(attune_kernels(&variant, nullptr, 0, nullptr));
        refused_in_c(attune_describe(&variant, nullptr, 0, nullptr));
        refused_in_c(attune_synchronize(&variant, nullptr));
    }
}

TEST_CASE("operators of PyTorch and functions of JAX are made of variants that leave their inputs as they are") {
    static constexpr attune::store_declaration stores[1]{};
    static attune::kernel_table table{
        .version = attune::kernel_table_version, .variant = "by::hand", .graph = {}, .kernels = {}};
    const attune_variant variant{ATTUNE_C_VERSION, &attune::detail::this_runtime,
                                 +[]() -> const attune::kernel_table& { return table; }};
    CHECK(said([&] { (void)attune::detail::operation(&variant); }).empty());
    table.graph.stores = stores;
    CHECK_THAT(said([&] { (void)attune::detail::operation(&variant); }),
               StartsWith("attune: expected a variant that leaves its inputs as they are"));
}

TEST_CASE("what tensors hold is counted to 2^31 - 1, all axes together") {
    constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max(), far = std::int64_t{1} << 26;
    constexpr std::size_t bytes = std::size_t{most} * sizeof(std::int32_t);
    void* const sparse = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    REQUIRE(sparse != MAP_FAILED);
    fake::call c;
    auto all = c.arguments();
    // 2^31 + 1 elements from the first to the last of each head, each axis below it; 2^31 - 1.
    replace(all, "bias", tensor(c.bias.data(), {2, 4, 5, 7}, {0, 0, 400000001, 91247274}));
    CHECK_THAT(explained(all), StartsWith("attune: expected at most 2147483647 elements from the first to the last of "
                                          "bias, got 2147483649 in bias: f32 (2, 4, 5, 7)"));
    replace(all, "bias", tensor(static_cast<const float*>(sparse), {2, 4, 5, 7}, {0, 0, 400000002, 91247273}));
    CHECK(explained(all) == "");
    replace(all, "is_global", tensor(c.is_global.data(), {7}, {8 * far}));
    CHECK_THAT(explained(all),
               ContainsSubstring("from the first to the last along position of is_global, got 7 steps"));
    all = c.arguments();
    for (const std::int64_t stride : {0, 1}) {
        replace(all, "table", tensor(static_cast<const std::int32_t*>(sparse), {most}, {stride}));
        CHECK(explained(all) == "");
    }
    munmap(sparse, bytes);

    // Broadcast axes count in full: 64 * 8192 * 4096 pairs.
    std::vector<float> out(64 * 8192 * 4), lse(64 * 8192), one(1);
    const auto of = [&](std::int64_t keys) {
        const tensor::extent_list still{0, 0, 0, 1}, nowhere{0, 0, 0, 0};
        auto wide = c.arguments();
        replace(wide, "q", tensor(one.data(), {1, 64, 8192, 8}, still));
        replace(wide, "k", tensor(one.data(), {1, 64, keys, 8}, still));
        replace(wide, "v", tensor(one.data(), {1, 64, keys, 4}, still));
        replace(wide, "slopes", tensor(one.data(), {1}));
        replace(wide, "bias", tensor(one.data(), {1, 1, 1, 1}, nowhere));
        replace(wide, "is_global", tensor(c.is_global.data(), {1}));
        replace(wide, "out", tensor(out.data(), {1, 64, 8192, 4}));
        replace(wide, "lse", tensor(lse.data(), {1, 64, 8192}));
        return explained(wide);
    };
    CHECK_THAT(of(4096), StartsWith("attune: expected at most 2147483647 elements in bias"));
}

TEST_CASE("an empty tensor has any strides, and so has an axis of one element") {
    constexpr std::int64_t far = (std::int64_t{1} << 30) - 1;
    fake::call c;
    auto all = c.arguments();
    replace(all, "q", tensor(c.q.data(), {2, 4, 0, 8}, {far, far / 2, 8, 1}));
    replace(all, "bias", tensor(c.bias.data(), {2, 4, 0, 7}));
    replace(all, "out", tensor(c.out.data(), {2, 4, 0, 4}));
    replace(all, "lse", tensor(c.lse.data(), {2, 4, 0}));
    CHECK(explained(all) == "");
    for (const std::int64_t extent : {0, 1}) {
        all = c.arguments();
        replace(all, "v", tensor(c.v.data(), {2, 2, 7, extent}, {28, 14, 2, 5}));
        CHECK_THAT(explained(all), !ContainsSubstring("a stride of 1") && StartsWith("attune: expected depths"));
    }
    all = c.arguments();
    replace(all, "is_global", tensor(c.is_global.data(), {0}));
    CHECK_THAT(explained(all), ContainsSubstring("an extent of at least 7"));
}

TEST_CASE("an output is apart from kv_lengths, and from outputs that are given") {
    fake::call c;
    c.lengths.assign(2, 7);
    auto all = c.arguments();
    replace(all, "kv_lengths", tensor(reinterpret_cast<std::int32_t*>(c.out.data()), {2}));
    CHECK_THAT(explained(all), ContainsSubstring("out apart from kv_lengths"));
    for (const std::string_view left_out : {"out", "lse"}) {
        all = c.arguments();
        std::erase_if(all, [&](const auto& a) { return a.name == left_out; });
        CHECK(explained(all) == "");
    }
}

TEST_CASE("tensors of a device are taken by its kernels alone, and what the host does is refused") {
    on_devices here{"cuda", level};
    const auto cuda = on_devices::given(attune::memory::cuda, 5);
    CHECK_THAT(said([&] { attune::detail::call(here.table, cuda, {.target = "opencl"}); }),
               ContainsSubstring("expected tensors that opencl kernels can read, as attune::options asks for them, got "
                                 "tensors in memory of cuda"));
    called = &here;
    CHECK_THAT(said([&] { (void)attune::detail::blocks(here.table, cuda, {}); }),
               ContainsSubstring("expected inputs in host memory, to say which blocks are visited"));
    CHECK_THAT(said([&] { attune::detail::call(here.table, on_devices::given(attune::memory::cuda, 0), {}); }),
               ContainsSubstring("expected outputs in host memory for sums over nothing"));
    auto none = on_devices::given(attune::memory::cuda, 0);
    none[1].view = none[1].view.in(attune::memory::cuda),
    none[4].view = tensor(static_cast<float*>(nullptr), {1, 2, 0});
    for (const std::size_t i : {1, 2})
        none[i].view = tensor(static_cast<float*>(nullptr), {1, 2, 0, i == 1 ? 8 : 4}).in(attune::memory::cuda);
    CHECK(said([&] { attune::detail::call(here.table, none, {}); }) == "");
    for (const int device : {-2, -3})
        CHECK_THAT(said([&] { attune::detail::call(here.table, cuda, {.device = device}); }),
                   ContainsSubstring("a device's index from 0 in attune::options::device"));
}

TEST_CASE("indices in host memory are looked at whatever runs the kernel, and those in a device's are not") {
    graph g;
    const node_id pool = g.input("pool", f32, {axis_kind::free}), place = g.input("place", i32, {axis_kind::key});
    const node_id at = g.add(operation::load, kind::integer, {place, g.add(operation::kv_idx, kind::integer)});
    const node_id added = g.add(operation::load, kind::real, {pool, at});
    g.output("out", g.attend(g.softmax(g.add(operation::add, kind::scores, {g.scores(g.q(), g.k()), added})), g.v()));
    std::vector<attune::kernel> kernels = kernels_of(g);
    std::int32_t places[7] = {0, 1, 2, 99, 0, 1, 2};
    for (const auto& [target, where] : {std::pair("opencl", attune::memory::opencl), {"cuda", attune::memory::cuda}}) {
        kernels[0].target = target;
        attune::kernel_table table{
            .version = attune::kernel_table_version, .variant = "by::hand", .graph = g.graph_ir(), .kernels = kernels};
        table.devices = &devices;
        by_hand::memory m;
        arguments given{view("q", m({1, 2, 5, 8})),   view("k", m({1, 2, 7, 8})), view("v", m({1, 2, 7, 4})),
                        view("out", m({1, 2, 5, 4})), view("pool", m({3})),       view("place", tensor(places, {7}))};
        called = &g;
        const auto message = [&] { return said([&] { attune::detail::call(table, given, {.target = target}); }); };
        CHECK_THAT(message(), ContainsSubstring("expected place from 0 to 2, an index along free of pool, got 99"));
        given.back().view = given.back().view.in(where);
        CHECK_THAT(message(), !ContainsSubstring("place from 0 to 2"));
    }
}

TEST_CASE("a queue is that of a target which is linked, the only one or the one that is asked for") {
    const on_devices one{"cuda", level}, two{"cuda", "opencl"}, none{level};
    const auto wait = [](const on_devices& of, const char* target) {
        return said([&] { attune::detail::synchronize(of.table, {.target = target}); });
    };
    CHECK_THAT(wait(one, "opencl"), ContainsSubstring("expected a target of the linked kernels of by::hand"));
    CHECK_THAT(wait(none, "cuda"), ContainsSubstring("expected a target of the linked kernels of by::hand"));
    CHECK_THAT(wait(two, ""), ContainsSubstring("has kernels for cuda and opencl, got none"));
    for (const char* const target : {"", "cuda"}) CHECK(wait(one, target) == "");
    for (const char* const target : {"cuda", "opencl"}) CHECK(wait(two, target) == "");
    CHECK(wait(none, "") == "");
}

TEST_CASE(
    "numbers that must be equal are refused in both directions, and queries beside keys by a sentence of their own") {
    graph g;
    const node_id scores = g.scores(g.q(), g.k());
    g.output("out", g.attend(g.softmax(scores), g.v()));
    const node_id n = g.scalar("n", element_type::i32), queries = g.add(operation::query_length, kind::integer),
                  keys = g.add(operation::key_length, kind::integer);
    struct {
        node_id one, other;
        std::int64_t number;
        std::string expected;
    } const cases[] = {{queries, n, 5, ""},
                       {queries, n, 6, "the same number in query_length and n, got 5 and 6"},
                       {queries, n, 4, "the same number in query_length and n, got 5 and 4"},
                       {n, keys, 7, ""},
                       {n, keys, 8, "the same number in n and key_length, got 8 and 7"},
                       {n, keys, 6, "the same number in n and key_length, got 6 and 7"}};
    for (const auto& [one, other, number_of_call, expected] : cases) {
        graph same = g;
        same.add(operation::same, kind::integer, {one, other});
        by_hand::memory m;
        const std::string message =
            call(same, {view("q", m({2, 4, 5, 8})), view("k", m({2, 2, 7, 8})), view("v", m({2, 2, 7, 4})),
                        view("out", m({2, 4, 5, 4})), number("n", number_of_call)});
        CHECK(message.substr(0, expected.empty() ? message.size() : expected.size() + 17) ==
              (expected.empty() ? "" : "attune: expected " + expected));
    }
    for (const std::int64_t of_queries : {7, 5, 9}) {
        graph same = g;
        same.add(operation::same, kind::integer, {queries, keys});
        by_hand::memory m;
        const std::string message =
            call(same, {view("q", m({2, 4, of_queries, 8})), view("k", m({2, 2, 7, 8})), view("v", m({2, 2, 7, 4})),
                        view("out", m({2, 4, of_queries, 4})), number("n", 0)});
        CHECK(message.starts_with("attune: expected as many queries as keys") == (of_queries != 7));
    }
}

TEST_CASE("channels are as many in every part") {
    graph g;
    using enum axis_kind;
    const node_id w = g.input("w", element_type::f32, {axis_kind::free}),
                  x = g.input("x", element_type::f32, {batch, query, axis_kind::free});
    const node_id half =
        g.add(operation::divide, kind::integer, {g.add(operation::extent, kind::integer, {w}, 0), g.integer(2)});
    g.output("y", g.add(operation::tokens, kind::tokens, {g.add(operation::load, kind::real, {x}), half}));
    by_hand::memory m;
    CHECK(call(g, {view("w", m({6})), view("x", m({2, 5, 4})), view("y", m({2, 5, 3}))}) == "");
    CHECK_THAT(call(g, {view("w", m({7})), view("x", m({2, 5, 4})), view("y", m({2, 5, 3}))}),
               StartsWith("attune: expected a multiple of 2 in extent<0>(w), got 7"));
    // A number that no tensor has is rounded down.
    graph of_call;
    const node_id n = of_call.scalar("n", element_type::i32),
                  also = of_call.input("x", element_type::f32, {batch, query, axis_kind::free});
    of_call.output("y", of_call.add(operation::tokens, kind::tokens,
                                    {of_call.add(operation::load, kind::real, {also}),
                                     of_call.add(operation::divide, kind::integer, {n, of_call.integer(2)})}));
    CHECK(call(of_call, {number("n", 7), view("x", m({2, 5, 4})), view("y", m({2, 5, 3}))}) == "");
}

TEST_CASE(
    "kernels of several depths are refused where the call does not say which, in whatever order they are linked") {
    std::vector<attune::kernel> kernels(2);
    for (const auto& [first, second] : {std::pair(32, 64), std::pair(64, 32)}) {
        for (std::size_t i = 0; i < 2; ++i) {
            const int depth = i == 0 ? first : second;
            constexpr auto f32 = element_type::f32;
            kernels[i] = {"x", level, f32, f32, f32, f32, depth, depth, 16, 16, 0, "{}", nullptr, nullptr};
        }
        const attune::kernel_table table{attune::kernel_table_version, "by::hand", {}, kernels};
        const std::string message =
            said([&] { (void)attune::detail::choose(table, {.depth_matters = true}, attune::cpu_state{}, false); });
        CHECK_THAT(message, ContainsSubstring("a tensor of the call that has the depth, or kernels of one depth"));
    }
}
