#include <attune/workload.hpp>
#include "../support/workload_values.hpp"
#include "variant_list.hpp"
#include "variants.hpp"

#include <attune/runtime.hpp>
#include <attune/runtime/detail/choice.hpp>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>

using namespace attune;
using namespace attune::testing;
using support::shape;
using support::workload;

namespace {

using arguments = std::vector<detail::named_argument>;
constexpr shape usual{
    .batches = 2, .heads = 4, .key_heads = 2, .queries = 9, .keys = 13, .depth = 32, .value_depth = 32};

const variant& named(const std::string& name) { return *std::ranges::find(variants(), name, &variant::name); }

detail::named_argument& argument(arguments& list, std::string_view name) {
    return *std::ranges::find(list, name, &detail::named_argument::name);
}

void check_sentence(const std::string& message, const std::string& about) {
    INFO(message);
    CHECK(message.find("expected ") != std::string::npos);
    CHECK(message.find(", got ") != std::string::npos);
    CHECK(message.find("; try ") != std::string::npos);
    CHECK(message.find(about) != std::string::npos);
}

/// The call as changed must throw attune::error about `about`, with nothing written; unchanged it must pass.
void refused(const std::string& name, const std::string& about,
             const std::function<void(workload&, arguments&)>& change, options how = {}, shape s = usual) {
    const variant& v = named(name);
    workload call(v.graph, s, 11, v.numbers);
    arguments list = call.arguments();
    detail::call(*v.kernels, list, {});
    call.reset_outputs();
    change(call, list);
    INFO(name << ", about " << about);
    try {
        detail::call(*v.kernels, list, how);
        FAIL_CHECK("the call was not refused");
    } catch (const error& e) {
        check_sentence(e.what(), about);
    }
    CHECK(outputs_untouched(call));
}

/// Replaces one tensor by a view of the same memory with another shape or strides.
auto viewed(std::string name, std::vector<std::int64_t> extents, std::vector<std::int64_t> strides = {}) {
    return [=](workload&, arguments& list) {
        tensor& t = argument(list, name).view;
        if (t.read_only())
            t = tensor(t.type(), t.data(), extents, strides);
        else
            t = tensor(t.type(), t.mutable_data(), extents, strides);
    };
}
auto typed(std::string name, element_type type) {
    return [=](workload&, arguments& list) {
        tensor& t = argument(list, name).view;
        t = tensor(type, t.mutable_data(), t.shape());
    };
}
auto nowhere(std::string name) {
    return [=](workload&, arguments& list) {
        tensor& t = argument(list, name).view;
        t = tensor(t.type(), static_cast<void*>(nullptr), t.shape());
    };
}
auto shifted_by_a_byte(std::string name) {
    return [=](workload&, arguments& list) {
        tensor& t = argument(list, name).view;
        if (t.read_only())
            t = tensor(t.type(), static_cast<const void*>(static_cast<const char*>(t.data()) + 1), t.shape());
        else
            t = tensor(t.type(), static_cast<void*>(static_cast<char*>(t.mutable_data()) + 1), t.shape());
    };
}

}  // namespace

TEST_CASE("wrong alignment") {
    for (const char* name : {"q", "k", "v", "out", "lse"})
        refused("plain", "at an address that is a multiple of 4", shifted_by_a_byte(name));
}

TEST_CASE("wrong rank") {
    refused("plain", "q with 4 axes", viewed("q", {4, 9, 32}));
    refused("plain", "k with 4 axes", viewed("k", {2, 2, 13, 32, 1}));
    refused("plain", "out with 4 axes", viewed("out", {2, 4, 9 * 32}));
    refused("plain", "lse with 3 axes", viewed("lse", {2, 36}));
    refused("alibi", "slopes with 1 axis", viewed("slopes", {1, 4}));
    CHECK_THROWS_AS(tensor(static_cast<float*>(nullptr), {1, 1, 1, 1, 1, 1, 1, 1, 1}), error);
    CHECK_THROWS_AS(tensor(static_cast<float*>(nullptr), {2, 3}, {1}), error);
}

TEST_CASE("wrong shape") {
    refused("plain", "v", viewed("v", {2, 2, 12, 32}));
    refused("plain", "v", viewed("v", {2, 1, 13, 32}));
    refused("plain", "k", viewed("k", {1, 2, 13, 16}));
    refused("plain", "out", viewed("out", {2, 4, 8, 32}));
    refused("plain", "out", viewed("out", {1, 4, 9, 32}));
    refused("plain", "lse", viewed("lse", {2, 4, 8}));
    refused("alibi", "slopes", viewed("slopes", {2}));
    refused("documents", "document", viewed("document", {12}));
    refused("dense_bias", "bias", viewed("bias", {2, 4, 9, 12}));
    refused("dense_bias", "bias", viewed("bias", {2, 2, 9, 13}));
    refused("relative", "table", viewed("table", {4, 0}));
}

TEST_CASE("negative and absurd lengths") {
    refused("plain", "q", viewed("q", {2, 4, -9, 32}));
    refused("plain", "k", viewed("k", {2, 2, -1, 32}));
    refused("plain", "k", viewed("k", {2, 2, std::int64_t{1} << 40, 32}));
    refused("plain", "q", viewed("q", {2, 4, 9, 32}, {std::int64_t{1} << 40, 288, 32, 1}));
}

TEST_CASE("wrong strides") {
    refused("plain", "stride", viewed("q", {2, 4, 9, 32}, {1152, 288, 1, 9}));
    refused("plain", "stride", viewed("k", {2, 2, 13, 32}, {832, 416, 32, 0}));
    refused("plain", "stride", viewed("out", {2, 4, 9, 32}, {1152, 288, 1, 9}));
    refused("plain", "stride", viewed("out", {2, 4, 9, 32}, {1152, 288, 16, 1}));  // rows on top of each other
    refused("plain", "stride", viewed("out", {2, 4, 9, 32}, {1152, 0, 32, 1}));
    refused("plain", "stride", viewed("lse", {2, 4, 9}, {36, 9, 0}));
}

TEST_CASE("wrong element types") {
    refused("plain", "q", typed("q", element_type::i32));
    refused("plain", "k", typed("k", element_type::bf16));
    refused("plain", "out", typed("out", element_type::bf16));
    refused("plain", "lse", typed("lse", element_type::i32));
    refused("alibi", "slopes", typed("slopes", element_type::i32));
    refused("documents", "document", typed("document", element_type::f32));
}

TEST_CASE("null pointers") {
    for (const char* name : {"q", "k", "v", "out", "lse"}) refused("plain", "null", nowhere(name));
    refused("alibi", "null", nowhere("slopes"));
}

TEST_CASE("an output that overlaps an input, another output, or may not be written") {
    const auto at = [](std::string name, std::string other) {
        return [=](workload& call, arguments& list) {
            tensor& t = argument(list, name).view;
            t = tensor(call[other].reals.data() + 5, t.shape());
        };
    };
    refused("plain", "overlap", at("out", "q"));
    refused("plain", "overlap", at("lse", "v"));
    refused("plain", "overlap", at("lse", "out"));
    refused("alibi", "overlap", [](workload& call, arguments& list) {
        argument(list, "slopes").view = tensor(call["out"].reals.data() + 100, {4});
    });
    refused("plain", "may be written", [](workload& call, arguments& list) {
        tensor& t = argument(list, "out").view;
        t = tensor(static_cast<const float*>(call["out"].reals.data()), t.shape());
    });
}

TEST_CASE("heads that do not divide") {
    refused("plain", "heads", [](workload& call, arguments& list) {
        for (const char* name : {"k", "v"}) {
            call[name].reals.resize(std::size_t{2} * 3 * 13 * 32);
            argument(list, name).view = tensor(call[name].reals.data(), {2, 3, 13, 32});
        }
    });
}

TEST_CASE("a depth that was not compiled") {
    refused("plain", "depth", [](workload&, arguments& list) {
        for (const char* name : {"q", "k"}) {
            tensor& t = argument(list, name).view;
            t = tensor(t.type(), t.mutable_data(), std::vector<std::int64_t>{t.extent(0), t.extent(1), t.extent(2), 24},
                       t.strides());
        }
    });
    refused("plain", "depth", [](workload&, arguments& list) {
        for (const char* name : {"v", "out"}) {
            tensor& t = argument(list, name).view;
            t = tensor(t.type(), t.mutable_data(), std::vector<std::int64_t>{t.extent(0), t.extent(1), t.extent(2), 24},
                       t.strides());
        }
    });
}

TEST_CASE("key lengths that are none") {
    const auto lengths = [](const std::vector<std::int32_t>& values) {
        return [kept = std::make_shared<std::vector<std::int32_t>>(values)](workload&, arguments& list) {
            list.push_back(
                {.name = "kv_lengths", .view = tensor(kept->data(), {static_cast<std::int64_t>(kept->size())})});
        };
    };
    refused("plain", "kv_lengths", lengths({3, -1}));
    refused("plain", "kv_lengths", lengths({14, 3}));
    refused("plain", "kv_lengths", lengths({3, 3, 3}));
    refused("plain", "kv_lengths", [](workload& call, arguments& list) {
        list.push_back({.name = "kv_lengths", .view = tensor(call["q"].reals.data(), {2})});
    });
    refused("plain", "kv_lengths", [](workload&, arguments& list) {
        list.push_back({.name = "kv_lengths", .is = detail::named_argument::form::integer, .view = {}, .integer = 3});
    });
}

TEST_CASE("a CPU or a level that no object fits") {
    refused("plain", "x86-64-v9", [](workload&, arguments&) {}, {.target = "x86-64-v9"});
    refused("plain", "cuda", [](workload&, arguments&) {}, {.target = "cuda"});
    const variant& v = named("plain");
    for (const kernel& k : v.kernels->kernels)
        if (!runs(k.target)) refused("plain", k.target, [](workload&, arguments&) {}, {.target = k.target});
    try {
        detail::choose(*v.kernels,
                       {.query = element_type::f32,
                        .key = element_type::f32,
                        .value = element_type::f32,
                        .output = element_type::f32,
                        .depth = 32,
                        .value_depth = 32},
                       cpu_state{}, false);
        FAIL_CHECK("a CPU without any feature got a kernel");
    } catch (const error& e) {
        check_sentence(e.what(), v.kernels->kernels.front().target);
    }
}

TEST_CASE("an input or output that is left out, unknown, or given twice to an untyped call") {
    refused("plain", "v",
            [](workload&, arguments& list) { std::erase_if(list, [](const auto& a) { return a.name == "v"; }); });
    refused("plain", "lse",
            [](workload&, arguments& list) { std::erase_if(list, [](const auto& a) { return a.name == "lse"; }); });
    refused("plain", "extra", [](workload&, arguments& list) {
        list.push_back({.name = "extra", .is = detail::named_argument::form::integer});
    });
    refused("plain", "q", [](workload&, arguments& list) { list.push_back(argument(list, "q")); });
    refused("sliding", "w",
            [](workload&, arguments& list) { argument(list, "w").is = detail::named_argument::form::real; });
    refused("sliding", "w", [](workload&, arguments& list) { argument(list, "w").integer = std::int64_t{1} << 40; });
}

TEST_CASE("a negative number of threads") {
    refused("plain", "threads", [](workload&, arguments&) {}, {.threads = -1});
    CHECK_THROWS_AS(set_threads(-1), error);
}

TEST_CASE("empty calls are not errors") {
    using namespace attune::dsl;
    float* const null = nullptr;
    CHECK_NOTHROW(run<under_test::plain>(q = tensor(null, {0, 4, 9, 32}), k = tensor(null, {0, 2, 13, 32}),
                                         v = tensor(null, {0, 2, 13, 32}), under_test::scale = 1.0f,
                                         out = tensor(null, {0, 4, 9, 32}), lse = tensor(null, {0, 4, 9})));
    std::vector<float> keys(13 * 32, 1.0f), queries(9 * 32, 1.0f), rows(9 * 32, support::pattern),
        sums(9, support::pattern);
    CHECK_NOTHROW(run<under_test::plain>(q = tensor(null, {1, 1, 0, 32}), k = tensor(keys.data(), {1, 1, 13, 32}),
                                         v = tensor(keys.data(), {1, 1, 13, 32}), under_test::scale = 1.0f,
                                         out = tensor(null, {1, 1, 0, 32}), lse = tensor(null, {1, 1, 0})));
    run<under_test::plain>(q = tensor(queries.data(), {1, 1, 9, 32}), k = tensor(null, {1, 1, 0, 32}),
                           v = tensor(null, {1, 1, 0, 32}), under_test::scale = 1.0f,
                           out = tensor(rows.data(), {1, 1, 9, 32}), lse = tensor(sums.data(), {1, 1, 9}));
    CHECK(std::ranges::all_of(rows, [](float x) { return x == 0.0f; }));
    CHECK(std::ranges::all_of(sums, [](float x) { return x == -std::numeric_limits<float>::infinity(); }));
}
