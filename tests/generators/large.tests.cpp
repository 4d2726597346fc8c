// Tensors that reach over as many elements as kernels count: in memory that is mapped and not there until it is
// touched.
#include "tuner/jit_kernel.hpp"

#include <attune/dsl.hpp>
#include <attune/runtime/cpu.hpp>
#include <attune/runtime/detail/call.hpp>
#include <attune/runtime/element.hpp>
#include <attune/runtime/error.hpp>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <sys/mman.h>

#include <new>
#include <vector>

using namespace attune;
using attune::detail::named_argument;

namespace {

namespace formula {
using namespace attune::dsl;
inline constexpr auto plain = softmax(q * t(k) * rsqrt(depth)) * v;
inline constexpr auto pages = input<"pages", bf16>(axis<"page">, key_head, axis<"slot">, depth);
inline constexpr auto block_table = input<"block_table", i32>(batch, axis<"seat">);
inline constexpr auto paged_keys =
    keys(pages(block_table(b, kv_idx / extent<2>(pages)), h, kv_idx % extent<2>(pages), d_idx),
         extent<1>(block_table) * extent<2>(pages));
inline constexpr auto paged = softmax(q * t(paged_keys) * rsqrt(depth)) * v;
}  // namespace formula

constexpr std::int64_t most = (std::int64_t{1} << 31) - 1;

/// Elements of zero until they are written; only what is touched takes memory.
template <class T> class sparse_memory {
public:
    explicit sparse_memory(std::int64_t count) : bytes_(static_cast<std::size_t>(count) * sizeof(T)) {
        base_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (base_ == MAP_FAILED) throw std::bad_alloc();
    }
    ~sparse_memory() { munmap(base_, bytes_); }
    sparse_memory(const sparse_memory&) = delete;
    sparse_memory& operator=(const sparse_memory&) = delete;
    T* data() { return static_cast<T*>(base_); }

private:
    std::size_t bytes_;
    void* base_;
};

float value(std::int64_t at) { return 0.01f * static_cast<float>(at * 37 % 211 - 105); }

named_argument argument(std::string_view name, const tensor& view) {
    return {.name = name, .is = named_argument::form::view, .view = view};
}

const generators::level& level_here() {
    for (const generators::level& each : generators::levels())
        if (each.lanes > 1 && runs(each.name)) return each;
    throw std::runtime_error("no level of attune's runs here");
}

generators::listed_kernel kernel_of(const generators::variant& of, const char* shapes) {
    return generators::kernels_of(
               {&of, 1},
               {.targets = {std::string(level_here().name)}, .dtypes = {"f32"}, .depths = {"8"}, .shapes = {shapes}})
        .at(0);
}

constexpr std::int64_t batches = 2, heads = 2, queries = 5, keys = 37, depth = 8,
                       all_keys = batches * heads * keys * depth;

/// k and v with steps between heads and batch elements that reach over all that a kernel counts, or over more;
/// backwards if asked to.
std::vector<float> result_with(const kernel_table& kernels, std::int64_t step, bool backwards) {
    const std::int64_t reach = (batches - 1 + heads - 1) * step + keys * depth;
    sparse_memory<float> memory(reach);
    float* const first = memory.data() + (backwards ? (batches - 1) * step : 0);
    const std::int64_t over_batch = backwards ? -step : step;
    for (std::int64_t b = 0, at = 0; b < batches; ++b)
        for (std::int64_t h = 0; h < heads; ++h)
            for (std::int64_t i = 0; i < keys * depth; ++i) first[b * over_batch + h * step + i] = value(at++);
    // Batch elements and heads share the memory between them: with equal steps (0, 1) and (1, 0) are the same.
    const tensor k(first, {batches, heads, keys, depth}, {over_batch, step, depth, 1});
    std::vector<float> q(batches * heads * queries * depth), out(q.size(), -1);
    for (std::size_t i = 0; i < q.size(); ++i) q[i] = value(static_cast<std::int64_t>(i) + 5);
    const std::vector<named_argument> all{argument("q", tensor(q.data(), {batches, heads, queries, depth})),
                                          argument("k", k), argument("v", k),
                                          argument("out", tensor(out.data(), {batches, heads, queries, depth}))};
    attune::detail::call(kernels, all, {.threads = 1});
    return out;
}

}  // namespace

TEST_CASE("strides that reach over 2^31 - 1 elements are read where they lead") {
    const generators::variant of{"large", dsl::ir_of<formula::plain>};
    for (const char* const shapes : {"prefill", "decode"}) {
        const generators::jit_kernel kernel(kernel_of(of, shapes));
        const std::int64_t far = (most - keys * depth) / (batches - 1 + heads - 1);
        for (const bool backwards : {false, true}) {
            INFO(shapes << (backwards ? ", backwards" : ""));
            CHECK(result_with(kernel.table(), far, backwards) == result_with(kernel.table(), keys * depth, backwards));
        }
        INFO(shapes << ", each batch element and head in a call of its own");
        CHECK(result_with(kernel.table(), most + 10, false) == result_with(kernel.table(), keys * depth, false));
    }
}

TEST_CASE("pages at the end of 2^31 - 1 elements are found, and a pool of more is refused with the number") {
    const generators::variant of{"large", dsl::ir_of<formula::paged>};
    constexpr std::int64_t slot = 4, page = heads * slot * depth, pages = most / page, seats = 3, length = seats * slot;
    sparse_memory<bfloat16> memory(pages * page + page);
    const std::vector<std::int32_t> far{pages - 1, 0, pages / 2 + 1, 7, pages - 2, pages / 3}, near{0, 1, 2, 3, 4, 5};
    std::vector<bfloat16> dense(far.size() * page);
    for (std::size_t i = 0; i < dense.size(); ++i) {
        dense[i] = bfloat16(value(static_cast<std::int64_t>(i)));
        memory.data()[far[i / page] * page + static_cast<std::int64_t>(i % page)] = dense[i];
    }
    std::vector<float> q(batches * heads * queries * depth, 0.25f), v(batches * heads * length * depth);
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = value(static_cast<std::int64_t>(i) + 3);
    const auto result = [&](const kernel_table& kernels, bfloat16* pool, std::int64_t count,
                            const std::vector<std::int32_t>& table) {
        std::vector<float> out(q.size(), -1);
        const std::vector<named_argument> all{argument("q", tensor(q.data(), {batches, heads, queries, depth})),
                                              argument("v", tensor(v.data(), {batches, heads, length, depth})),
                                              argument("pages", tensor(pool, {count, heads, slot, depth})),
                                              argument("block_table", tensor(table.data(), {batches, seats})),
                                              argument("out", tensor(out.data(), {batches, heads, queries, depth}))};
        attune::detail::call(kernels, all, {.threads = 1});
        return out;
    };
    for (const char* const shapes : {"prefill", "decode"}) {
        INFO(shapes);
        const generators::jit_kernel kernel(kernel_of(of, shapes));
        CHECK(result(kernel.table(), memory.data(), pages, far) ==
              result(kernel.table(), dense.data(), static_cast<std::int64_t>(far.size()), near));
        CHECK_THROWS_MATCHES(
            result(kernel.table(), memory.data(), pages + 1, far), error,
            Catch::Matchers::MessageMatches(Catch::Matchers::ContainsSubstring(
                "expected at most 2147483647 elements from the first to the last along page of pages")));
    }
}
