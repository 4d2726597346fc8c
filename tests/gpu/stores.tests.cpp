// Calls that store into caches on a device and read what they stored, beside the reference: caches in host memory, in
// the device's, and places that nobody could check before the call.
#include "stores.hpp"
#include "device_memory.hpp"

#include <attune/reference.hpp>
#include <attune/runtime/error.hpp>
#include <attune/runtime/run.hpp>
#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

using namespace attune;
using Catch::Matchers::ContainsSubstring;
using support::workload;

namespace {

using argument_list = std::vector<detail::named_argument>;

constexpr std::int64_t batches = 2, key_heads = 2, depth = 32, keys = 48, page_count = 3;
constexpr options on_device{.target = ATTUNE_GPU_TARGET};

std::string missing() { return kernels<stored::step>().entries.front().missing; }

/// A call of which the new keys are the last of `in_use`, a number a sequence. Keys of `step` are bf16.
workload call_of(const graph_ir& graph, std::int64_t queries, const std::vector<std::int32_t>& in_use) {
    workload call(graph,
                  {.batches = batches,
                   .heads = 4,
                   .key_heads = key_heads,
                   .queries = queries,
                   .keys = keys,
                   .depth = depth,
                   .value_depth = depth},
                  6, {},
                  {{"page", 7},
                   {"block", page_count},
                   {"token", 16},
                   {"byte", depth / 2},
                   {"pair", depth / 2},
                   {"part", 2},
                   {"place", 60}});
    for (const input_declaration& input : graph.inputs) {
        const auto fill = [&](auto place) {
            std::vector<std::int32_t>& all = call[input.name].integers;
            for (std::size_t i = 0; i < all.size(); ++i) all[i] = place(static_cast<std::int32_t>(i));
        };
        if (input.name == "page_of") fill([](std::int32_t i) { return 6 - i; });
        if (input.name == "slot") fill([](std::int32_t i) { return i * 7 % 60; });
        // Every fourth is left out, each for another number.
        if (input.name == "new_slot") fill([](std::int32_t i) { return i % 4 == 2 ? -1 - i * 1000 : i * 7 % 60; });
        if (input.name == "both") call.draw("both", 0, 255);
    }
    call.set_lengths(in_use);
    for (const input_declaration& input : graph.inputs)
        if (input.name == "k") call.convert("k", element_type::bf16);
    return call;
}

template <const auto& Graph> workload call_of(std::int64_t queries, const std::vector<std::int32_t>& in_use) {
    return call_of(dsl::ir_of<Graph>, queries, in_use);
}

/// The bytes of a tensor without room between its rows.
std::vector<std::uint8_t> bytes_of(const tensor& t) {
    std::int64_t elements = 1;
    for (const std::int64_t extent : t.shape()) elements *= extent;
    const auto* const data = static_cast<const std::uint8_t*>(t.data());
    return {data, data + elements * attune::bytes_of(t.type())};
}

/// The arguments in the device's memory, all of them.
class there {
public:
    explicit there(const workload& call) : arguments(call.arguments()) {
        for (detail::named_argument& each : arguments) {
            if (each.is != detail::named_argument::form::view) continue;
            here_.push_back(each.view);
            std::vector<std::uint8_t> bytes = bytes_of(each.view);
            const tensor raw = memory_.make(bytes, {static_cast<std::int64_t>(bytes.size())});
            each.view = tensor(each.view.type(), const_cast<void*>(raw.data()), each.view.shape()).in(raw.where());
        }
    }
    void run(const kernel_table& table, bool wait = true) {
        detail::call(table, arguments, {.context = memory_.context, .stream = memory_.stream, .wait = wait});
        memory_.wait();
        auto to = here_.begin();
        for (const detail::named_argument& each : arguments) {
            if (each.is != detail::named_argument::form::view || each.view.where() == memory::host) continue;
            std::vector<std::uint8_t> bytes = bytes_of(*to);
            memory_.read(each.view, bytes);
            std::memcpy(const_cast<void*>((to++)->data()), bytes.data(), bytes.size());
        }
    }
    tensor& operator[](std::string_view name) {
        return std::ranges::find(arguments, name, &detail::named_argument::name)->view;
    }
    const support::device_memory& memory() const { return memory_; }
    argument_list arguments;

private:
    const support::device_memory memory_{ATTUNE_GPU_TARGET};
    std::vector<tensor> here_;
};

/// How far a tensor may be from the reference. A half that a norm makes may be rounded to either side.
double allowed(std::string_view name, const graph_ir& graph) {
    if (name == "k8") return 1;
    if (name == "k_scale") return 1e-6;
    const bool has_pages = std::ranges::any_of(graph.inputs, [](const auto& input) { return input.name == "k8"; });
    if (name == "out") return has_pages ? 2e-2 : 3e-5;
    return name == "lse" ? 3e-5 : 0;
}

void compare(const workload& call, const reference::results& expected) {
    const auto check = [&](std::string_view name) {
        CAPTURE(name);
        CHECK(call.largest_error(expected, name) <= allowed(name, call.graph()));
    };
    for (const output_declaration& output : call.graph().outputs) check(output.name);
    for (std::size_t i = 0; i < call.graph().inputs.size(); ++i)
        if (is_stored(call.graph(), i)) check(call.graph().inputs[i].name);
}

template <const auto& Graph> void check(std::int64_t queries) {
    const auto last = static_cast<std::int32_t>(queries);
    const std::vector<std::int32_t> in_use{keys, std::max(last, 20)};
    CAPTURE(queries);
    workload call = call_of<Graph>(queries, in_use);
    const reference::results expected = call.expected();
    there moved(call);
    moved.run(detail::table_of<Graph>(), queries != 1);
    {
        INFO("in the device's memory");
        compare(call, expected);
    }
    workload again = call_of<Graph>(queries, in_use);
    detail::call(detail::table_of<Graph>(), again.arguments(), on_device);
    INFO("in host memory");
    compare(again, expected);
}

std::string refusal_of(const argument_list& given, const options& how) {
    try {
        detail::call(detail::table_of<stored::step>(), given, how);
    } catch (const error& refusal) {
        return refusal.what();
    }
    return {};
}

}  // namespace

TEST_CASE("a device stores keys and values, as reals and as codes, and reads them in the same call") {
    if (!missing().empty()) SKIP("no " ATTUNE_GPU_TARGET " device here: lacks " << missing());
    for (const std::int64_t queries : {1, 3, 37}) {  // the last by the kernel for prefill
        check<stored::step>(queries);
        check<stored::paged>(queries);
        check<stored::placed>(queries);
    }
}

TEST_CASE("a packed call on a device stores the keys of all sequences before any is read") {
    if (!missing().empty()) SKIP("no " ATTUNE_GPU_TARGET " device here: lacks " << missing());
    constexpr graph_ir graph = dsl::ir_of<stored::paged>;
    std::vector<std::int32_t> starts{0, 1, 2, 2, 39}, lengths{keys, 20, 5, 37};
    // The first sequence's first page is where the second one's new key goes: it reads the key of this call.
    std::vector<std::int32_t> page_of{4, 1, 2, 3, 4, 0, 5, 5, 5, 6, 0, 5};
    for (const bool in_its_memory : {false, true}) {
        if (in_its_memory && std::string_view(ATTUNE_GPU_TARGET) != "cuda") continue;
        CAPTURE(in_its_memory);
        workload call(
            graph,
            {.heads = 4, .key_heads = key_heads, .queries = 39, .keys = keys, .depth = depth, .value_depth = depth}, 6,
            {}, {{"page", 7}, {"block", page_count}, {"token", 16}, {"byte", depth / 2}, {"pair", depth / 2}});
        there moved(call);
        argument_list here = call.arguments();
        const auto pack = [&](argument_list& all, const tensor& pages) {
            std::ranges::find(all, std::string_view("page_of"), &detail::named_argument::name)->view = pages;
            all.push_back({.name = "kv_lengths", .view = tensor(lengths.data(), {4})});
            all.push_back({.name = "cu_seqlens_q", .view = tensor(starts.data(), {5})});
        };
        pack(here, tensor(page_of.data(), {4, page_count}));
        const reference::results expected = reference::evaluate_call("paged", graph, here, {});
        if (in_its_memory) {
            pack(moved.arguments, moved.memory().make(page_of, {4, page_count}));
            moved.run(detail::table_of<stored::paged>(), false);
        } else {
            detail::call(detail::table_of<stored::paged>(), here, on_device);
        }
        compare(call, expected);
    }
}

TEST_CASE("what has no place is not stored where nobody could check the place before the call") {
    if (!missing().empty()) SKIP("no " ATTUNE_GPU_TARGET " device here: lacks " << missing());
    constexpr std::int64_t queries = 3;
    {  // two of the second sequence's three new keys would lie before the first key
        workload call = call_of<stored::step>(queries, {keys, queries});
        call["kv_lengths"].integers[1] = 1;
        const std::vector<std::uint8_t> was = bytes_of(call.view("v"));
        there moved(call);
        moved.run(detail::table_of<stored::step>());
        std::size_t others = 0, written = 0;
        const std::vector<std::uint8_t> is = bytes_of(call.view("v"));
        for (std::size_t i = 0; i < is.size(); ++i) {
            const std::size_t row = i / (depth * sizeof(float)), key = row % keys, sequence = row / keys / key_heads;
            const bool has_new = sequence == 0 ? key >= keys - queries : key == 0;
            (has_new ? written : others) += was[i] != is[i];
        }
        CHECK(others == 0);
        CHECK(written > 0);
    }
    {  // a page that there is not, and entries of the table that there are not
        workload call = call_of<stored::paged>(queries, {keys, 20});
        call["page_of"].integers[page_count - 1] = 7;
        call["kv_lengths"].integers[1] = 1;  // two of the three new keys would lie before the first
        const std::vector<std::uint8_t> was = bytes_of(call.view("v4"));
        const std::vector<float> scales = call["k_scale"].reals;
        there moved(call);
        moved.run(detail::table_of<stored::paged>());
        const std::vector<std::uint8_t> is = bytes_of(call.view("v4"));
        std::size_t others = 0, changed_scales = 0;
        const std::size_t page = 6 - page_count;  // the second sequence's first
        for (std::size_t i = 0; i < is.size(); ++i) {
            const std::size_t row = i / (depth / 2);
            others += was[i] != is[i] && !(row % 16 == 0 && row / 16 / key_heads == page);
        }
        for (std::size_t i = 0; i < scales.size(); ++i) changed_scales += call["k_scale"].reals[i] != scales[i];
        CHECK(others == 0);
        CHECK(changed_scales == key_heads);
    }
    {  // slots behind the last
        workload call = call_of<stored::placed>(queries, {keys, 20});
        for (std::int32_t& place : call["new_slot"].integers) place = 60;
        const std::vector<std::uint8_t> was = bytes_of(call.view("both"));
        there moved(call);
        moved.run(detail::table_of<stored::placed>());
        CHECK(bytes_of(call.view("both")) == was);
    }
}

TEST_CASE("keys and values in one pool of the device's memory are both stored") {
    if (!missing().empty()) SKIP("no " ATTUNE_GPU_TARGET " device here: lacks " << missing());
    if (std::string_view(ATTUNE_GPU_TARGET) != "cuda") SKIP("a tensor begins where a buffer of OpenCL does");
    workload call = call_of<stored::step>(3, {keys, 20});
    const reference::results expected = call.expected();
    there moved(call);
    // A row of bf16 keys, and then the row of values.
    constexpr std::int64_t row = depth * 2 + depth * 4, rows = batches * key_heads * keys;
    std::vector<std::uint8_t> pool(rows * row);
    const auto each_row = [&](auto visit) {
        for (const auto& [name, first, bytes] :
             {std::tuple{"k", std::int64_t{0}, depth * 2}, {"v", depth * 2, depth * 4}})
            for (std::int64_t i = 0; i < rows; ++i)
                visit(static_cast<std::uint8_t*>(call[name].view.mutable_data()) + i * bytes,
                      pool.data() + i * row + first, bytes);
    };
    each_row([](std::uint8_t* own, std::uint8_t* in_pool, std::int64_t bytes) { std::memcpy(in_pool, own, bytes); });
    const tensor raw = moved.memory().make(pool, {rows * row});
    auto* const begin = static_cast<std::uint8_t*>(const_cast<void*>(raw.data()));
    const auto view = [&](element_type type, std::int64_t first) {
        const std::int64_t step = row / attune::bytes_of(type), shape[] = {batches, key_heads, keys, depth},
                           strides[] = {key_heads * keys * step, keys * step, step, 1};
        return tensor(type, static_cast<void*>(begin + first), shape, strides).in(raw.where());
    };
    moved["k"] = view(element_type::bf16, 0), moved["v"] = view(element_type::f32, depth * 2);
    moved.run(detail::table_of<stored::step>());
    moved.memory().read(raw, pool);
    each_row([](std::uint8_t* own, std::uint8_t* in_pool, std::int64_t bytes) { std::memcpy(own, in_pool, bytes); });
    compare(call, expected);
}

TEST_CASE("what can be checked before a device stores is refused, and nothing is written") {
    if (!missing().empty()) SKIP("no " ATTUNE_GPU_TARGET " device here: lacks " << missing());
    const auto refused = [](workload call, auto change) {
        argument_list given = call.arguments();
        const std::vector<std::uint8_t> was = bytes_of(call.view("v"));
        change([&](std::string_view name) -> tensor& {
            return std::ranges::find(given, name, &detail::named_argument::name)->view;
        });
        const std::string said = refusal_of(given, on_device);
        CHECK(bytes_of(call.view("v")) == was);
        return said;
    };
    CHECK_THAT(
        refused(call_of<stored::step>(1, {keys, 0}), [](auto) {}),
        ContainsSubstring("expected q_idx + (kv_lengths(b) - query_length) from 0 to 0, the keys in use, an index "
                          "along key of k, got -1 at (b 1, q_idx 0)"));
    CHECK_THAT(refused(call_of<stored::step>(1, {keys, 9}),
                       [](auto its) {
                           its("v_new") = tensor(element_type::f32, its("v").mutable_data(), its("v_new").shape());
                       }),
               ContainsSubstring("expected v apart from v_new, got two tensors that overlap in memory"));
    CHECK_THAT(
        refused(call_of<stored::step>(1, {keys, 9}),
                [](auto its) { its("k") = tensor(element_type::bf16, its("v").mutable_data(), its("k").shape()); }),
        ContainsSubstring("expected what a GPU stores to in host memory of its own, v apart from k, got two "
                          "tensors that overlap there; try the pool in the GPU's memory, or a CPU"));
}
