// Calls on threads whose stack is small, such as those of coroutines, of other languages and of musl.
#include "../gradients/gradient_call.hpp"
#include "kernel/kernel_list.hpp"
#include "stack_formulas.hpp"
#include "tuner/jit_kernel.hpp"

#include <attune/c.h>
#include <attune/dsl.hpp>
#include <attune/dsl/layers.hpp>
#include <attune/runtime/cpu.hpp>
#include <attune/runtime/detail/c_variant.hpp>
#include <attune/runtime/detail/call.hpp>
#include <attune/runtime/error.hpp>
#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>

#include <sys/mman.h>

#include <pthread.h>
#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

using namespace attune;
using support::workload;

namespace {
namespace formulas {
using namespace attune::dsl;

inline constexpr auto slopes = input<"slopes", f32>(head);
inline constexpr auto masked = mask(q * t(k) * rsqrt(depth) + slopes(h) * (kv_idx - q_idx), causal_bottom_right);
inline constexpr auto alibi = outputs(out = softmax(masked) * v, lse = log_sum_exp(masked));
inline constexpr auto pairs = outputs(out = softmax(masked) * v, output<"scores"> = masked,
                                      output<"received"> = sum_over_queries(softmax(masked)));
inline constexpr auto x = input<"x", f32>(batch, position, axis<"model">);
inline constexpr auto w = input<"w", f32>(axis<"three">, axis<"model">);
inline constexpr auto qkv = linear(x, w);
inline constexpr auto layer =
    merge_heads(softmax(split_heads(part<0, 3>(qkv), 2) * t(split_heads(part<1, 3>(qkv), 2)) * rsqrt(depth)) *
                split_heads(part<2, 3>(qkv), 2));
inline constexpr auto bytes = input<"bytes", u8>(batch, key_head, key, depth);
inline constexpr auto cache = softmax(q * t(keys(as_real(bytes(b, h, kv_idx, d_idx)) - 128.0)) * rsqrt(depth)) * v;
inline constexpr auto shifted =
    queries(q(b, h, q_idx, d_idx) + where(d_idx % 2 == 0, -q(b, h, q_idx, d_idx + 1), q(b, h, q_idx, d_idx - 1)));
inline constexpr auto computed_scores = shifted * t(keys(k(b, h, kv_idx, d_idx) * 0.5)) * rsqrt(depth);
inline constexpr auto computed =
    outputs(out = softmax(computed_scores) * values(v(b, h, kv_idx, d_idx) * 2.0), lse = log_sum_exp(computed_scores));
inline constexpr auto alibi_gradient = gradient(alibi);
inline constexpr auto differential = outputs(out = softmax(masked) * v - slopes(h) * (softmax(computed_scores) * v),
                                             lse = log_sum_exp(masked), output<"other"> = log_sum_exp(computed_scores));
}  // namespace formulas

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool frames_grow = true;
#else
constexpr bool frames_grow = false;
#endif

/// How many bytes of a stack of so many a thread that does this touches, which has nothing behind its end.
std::size_t touched(std::size_t size, const std::function<void()>& work) {
    constexpr std::size_t page = 4096;
    constexpr int paint = 0xa5;
    auto* const all = static_cast<unsigned char*>(
        mmap(nullptr, size + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    REQUIRE(all != MAP_FAILED);
    REQUIRE(mprotect(all, page, PROT_NONE) == 0);
    unsigned char* const stack = all + page;
    std::memset(stack, paint, size);
    pthread_attr_t how;
    pthread_attr_init(&how);
    REQUIRE(pthread_attr_setstack(&how, stack, size) == 0);
    pthread_t thread{};
    REQUIRE(pthread_create(
                &thread, &how,
                [](void* given) -> void* {
                    (*static_cast<const std::function<void()>*>(given))();
                    return nullptr;
                },
                const_cast<std::function<void()>*>(&work)) == 0);
    pthread_join(thread, nullptr);
    pthread_attr_destroy(&how);
    const auto first = std::find_if(stack, stack + size, [](unsigned char byte) { return byte != paint; });
    const auto used = static_cast<std::size_t>(stack + size - first);
    munmap(all, size + page);
    return used;
}

std::vector<std::string> levels_here() {
    std::vector<std::string> names;
    for (const generators::level& each : generators::levels())
        if (runs(each.name)) names.emplace_back(each.name);
    if (names.empty()) throw std::runtime_error("no level runs here");
    return names;
}

struct kind_of_call {
    const char* name;
    graph_ir graph;
    std::string types, depths, shapes;
    std::int64_t queries;
};

constexpr std::size_t most = 16384;

attune_argument in_c(const detail::named_argument& given) {
    if (given.is != detail::named_argument::form::view)
        return given.is == detail::named_argument::form::real
                   ? attune_real_argument(given.name.data(), given.real)
                   : attune_integer_argument(given.name.data(), static_cast<std::int32_t>(given.integer));
    constexpr std::pair<element_type, std::int32_t> codes[] = {{element_type::f32, ATTUNE_F32},
                                                               {element_type::bf16, ATTUNE_BF16},
                                                               {element_type::f16, ATTUNE_F16},
                                                               {element_type::i32, ATTUNE_I32},
                                                               {element_type::u8, ATTUNE_U8}};
    const auto code = std::ranges::find(codes, given.view.type(), &std::pair<element_type, std::int32_t>::first);
    REQUIRE(code != std::end(codes));
    attune_tensor view = attune_dense(given.view.mutable_data(), code->second,
                                      static_cast<std::int32_t>(given.view.rank()), given.view.shape().data());
    view.data = const_cast<void*>(given.view.data());
    view.strides = given.view.strides().data();
    view.read_only = given.view.read_only();
    return attune_tensor_argument(given.name.data(), view);
}

const kernel_table* called_from_c = nullptr;

/// All kinds of calls of a kernel, with arguments of which the last is an output.
void check_calls(const kernel_table& kernel, const std::vector<detail::named_argument>& arguments) {
    auto refused = arguments;
    refused.pop_back();
    std::ptrdiff_t done = 0;
    explanation explained;
    std::vector<attune_argument> given;
    for (const detail::named_argument& each : arguments) given.push_back(in_c(each));
    called_from_c = &kernel;
    constexpr attune_variant variant{ATTUNE_C_VERSION, &detail::this_runtime,
                                     []() -> const kernel_table& { return *called_from_c; }};
    attune_options two_threads{};
    two_threads.size = sizeof two_threads, two_threads.threads = 2;
    const auto call_once = [&](int threads) { detail::call(kernel, arguments, {.threads = threads}); };
    const std::function<void()> kinds[] = {
        [&] { call_once(1), ++done; }, [&] { call_once(2), ++done; },
        [&] { explained = detail::explain(kernel, arguments, {.threads = 2}), ++done; },
        [&] {
            try {
                detail::call(kernel, refused, {});
            } catch (const error&) {
                ++done;
            }
        },
        [&] { done += attune_run(&variant, given.data(), given.size(), &two_threads) == ATTUNE_OK; }};
    const std::size_t nothing = touched(std::size_t{256} << 10, [] {});
    for (const auto& each : kinds) {
        INFO("call, call on two threads, explain, refused call, call from C: number " << &each - kinds);
        each();  // what is made once is there
        const std::size_t used = touched(std::size_t{256} << 10, each) - nothing;
        CHECK(used <= most);
        touched(std::size_t{32} << 10, each);
    }
    CHECK(done == 3 * std::ssize(kinds));
    CHECK(explained.stack_bytes == most);
}

generators::jit_kernel kernel_of(const generators::variant& variant, const kind_of_call& of, const std::string& level) {
    return generators::jit_kernel(
        generators::kernels_of({&variant, 1},
                               {.targets = {level}, .dtypes = {of.types}, .depths = {of.depths}, .shapes = {of.shapes}})
            .front());
}

void check(const kind_of_call& of, const kernel_table& kernel) {
    const std::int64_t depth = std::stoi(of.depths);
    workload call(of.graph,
                  {.batches = 2,
                   .heads = 2,
                   .key_heads = 2,
                   .queries = of.queries,
                   .keys = 300,
                   .depth = depth,
                   .value_depth = depth},
                  3, {}, {{"model", 2 * depth}, {"three", 6 * depth}, {"", 2 * depth}});
    for (const char* const name : {"q", "k", "v", "out"})
        if (of.types != "f32" && std::ranges::any_of(of.graph.inputs, [&](const input_declaration& input) {
                return input.name == name || std::string_view(name) == "out";
            }))
            call.convert(name, of.types == "bf16" ? element_type::bf16 : element_type::f16);
    check_calls(kernel, call.arguments());
}

void check(const kind_of_call& of, const std::string& level) {
    INFO(of.name << ", " << of.types << ", depth " << of.depths << ", " << of.shapes << ", for " << level);
    const generators::variant variant{"my::variant", of.graph};
    check(of, kernel_of(variant, of, level).table());
}

/// Each kernel of a graph that is linked and runs here.
void check_linked(const kind_of_call& of, const kernel_table& table) {
    int checked = 0;
    for (const kernel& each : table.kernels) {
        if (!runs(each.target) || each.query != (of.types == "f16" ? element_type::f16 : element_type::f32)) continue;
        INFO(of.name << ", " << of.types << ", linked for " << each.target);
        kernel_table alone = table;
        alone.kernels = {&each, 1};
        check(of, alone), ++checked;
    }
    CHECK(checked > 0);
}

void check_gradient(const kind_of_call& of, const graph_ir& forward, const std::string& level) {
    INFO("gradient of " << of.name << ", " << of.types << ", depth " << of.depths << ", for " << level);
    const generators::variant variant{"my::gradient", of.graph};
    const generators::jit_kernel kernel = kernel_of(variant, of, level);
    const std::int64_t depth = std::stoi(of.depths);
    const testing::gradient_call call(forward, of.graph,
                                      {.batches = 1,
                                       .heads = 2,
                                       .key_heads = 1,
                                       .queries = of.queries,
                                       .keys = 70,
                                       .depth = depth,
                                       .value_depth = depth},
                                      3, {}, of.types == "bf16" ? element_type::bf16 : element_type::f32);
    check_calls(kernel.table(), call.arguments);
}

}  // namespace

TEST_CASE("every kind of call runs on a stack of 32 KB, and takes what explain says", "[stack]") {
    if (frames_grow) SKIP("sanitizers make frames larger");
    using dsl::ir_of;
    const std::vector<std::string> levels = levels_here();
    const kind_of_call once[] = {{"alibi", ir_of<formulas::alibi>, "f32", "128", "prefill", 300},
                                 {"alibi", ir_of<formulas::alibi>, "f32", "256", "prefill", 1},
                                 {"alibi", ir_of<formulas::alibi>, "bf16", "64", "decode", 5},
                                 {"cache", ir_of<formulas::cache>, "f32", "128", "decode", 1},
                                 {"layer", ir_of<formulas::layer>, "f32", "64", "prefill", 300},
                                 {"differential", ir_of<formulas::differential>, "bf16", "64", "prefill", 300},
                                 {"eight softmaxes", ir_of<stack::eight>, "f32", "128", "decode", 1}};
    const kind_of_call everywhere[] = {{"alibi", ir_of<formulas::alibi>, "bf16", "128", "prefill", 300},
                                       {"alibi", ir_of<formulas::alibi>, "f32", "128", "decode", 1},
                                       {"pairs", ir_of<formulas::pairs>, "f32", "64", "prefill", 300},
                                       {"computed", ir_of<formulas::computed>, "bf16", "16", "prefill", 300}};
    const std::pair<kind_of_call, graph_ir> gradients[] = {
        {{"alibi", ir_of<formulas::alibi_gradient>, "bf16", "128", "prefill", 70}, ir_of<formulas::alibi>},
        {{"long_formula", ir_of<stack::long_gradient>, "f32", "64", "prefill", 70}, ir_of<stack::trained>}};
    for (const kind_of_call& of : once) check(of, levels.front());
    for (const std::string& level : levels) {
        for (const kind_of_call& of : everywhere) check(of, level);
        for (const auto& [of, forward] : gradients) check_gradient(of, forward, level);
    }
    check_linked({"drawn", ir_of<stack::drawn>, "f32", "64", "prefill", 300}, detail::table_of<stack::drawn>());
    for (const char* const type : {"f32", "f16"})
        check_linked({"long_pairs", ir_of<stack::long_pairs>, type, "64", "prefill", 300},
                     detail::table_of<stack::long_pairs>());
    check_linked({"eight softmaxes", ir_of<stack::eight>, "f32", "128", "prefill", 300},
                 detail::table_of<stack::eight>());
}
