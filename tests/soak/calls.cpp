#include "calls.hpp"

#include "../kernels/language_list.hpp"

#include <attune_common.h>
#include <fmt/format.h>
#include <attune/common.hpp>
#include <attune/dlpack.hpp>
#include <attune/runtime.hpp>

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace soak {
namespace {

using attune::support::shape;
using attune::support::workload;

std::atomic<std::int64_t> calls{0};
std::mutex mutex;
std::string first_problem;                     // guarded by mutex
std::map<std::string, std::uint64_t> results;  // guarded by mutex

void expect(bool truth, const char* what) {
    if (!truth) failed(what);
}

}  // namespace

std::uint64_t hash(std::uint64_t seed, const float* data, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
        std::uint32_t bits;
        std::memcpy(&bits, data + i, sizeof bits);
        seed = (seed ^ bits) * 0x100000001b3ull;
    }
    return seed;
}

void remember(const std::string& call, std::uint64_t result) {
    const auto other = [&] {
        const std::lock_guard lock(mutex);
        return results.emplace(call, result).first->second != result;
    };
    if (other()) failed(call + " gave other bits than before");
}

attune::options drawn_options(std::mt19937& random) { return {.threads = static_cast<int>(random() % 4)}; }

std::vector<float> filled(std::int64_t count, float step) {
    std::vector<float> data(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = step * (static_cast<float>(i % 977) / 488 - 1);
    return data;
}

namespace {

/// Any variant of the kernels' tests: score modifications, masks, statistics, weights, computed tensors, every kind of
/// output.
void variant_under_test(std::mt19937& random) {
    static constexpr struct {
        std::int64_t batches, heads, key_heads, queries, keys;
    } sizes[] = {{1, 4, 4, 100, 100}, {2, 4, 2, 1, 300}, {2, 6, 3, 17, 77}, {1, 8, 2, 4, 257}, {1, 2, 1, 260, 131},
                 {3, 2, 2, 48, 128},  {1, 1, 1, 1, 1},   {2, 2, 2, 5, 0},   {0, 4, 4, 8, 8}};
    const bool language = random() % 2 == 0;
    const auto& list = language ? attune::testing::language_variants() : attune::testing::variants();
    const attune::testing::variant& v = list[random() % list.size()];
    const auto& of = one_of(sizes, random);
    const shape s{.batches = of.batches,
                  .heads = of.heads,
                  .key_heads = of.key_heads,
                  .queries = of.queries,
                  .keys = of.keys,
                  .gaps = random() % 2 == 0};
    workload call = language ? attune::testing::prepared(v, s, 1) : workload(v.graph, s, 1, v.numbers);
    const bool ragged = s.batches > 0 && v.name != "merged" && v.name != "two_caches" &&
                        random() % 3 == 0;  // those have key lengths of their own
    if (ragged) {
        std::vector<std::int32_t> lengths;
        for (std::int64_t b = 0; b < s.batches; ++b)
            lengths.push_back(static_cast<std::int32_t>(s.keys * (b + 1) / (s.batches + 1)));
        call.set_lengths(lengths);
    }
    const auto arguments = call.arguments();
    if (random() % 20 == 0) (void)attune::detail::explain(*v.kernels, arguments, {}).json();
    if (random() % 20 == 0) (void)attune::detail::blocks(*v.kernels, arguments, {});
    attune::detail::call(*v.kernels, arguments, drawn_options(random));
    std::uint64_t result = 0;
    for (const auto& output : v.graph.outputs)
        attune::support::for_each_offset(call.view(output.name), [&](std::int64_t offset) {
            result = hash(result, static_cast<const float*>(call.view(output.name).data()) + offset, 1);
        });
    remember(v.name + " " + s.text() + (ragged ? " ragged" : ""), result);
}

/// A call of attune::common: q, k, v, slopes and the result, dense.
struct common_call {
    std::int64_t batches, heads, key_heads, queries, keys, depth;
    std::vector<float> q_data = filled(batches * heads * queries * depth, 0.7f),
                       k_data = filled(batches * key_heads * keys * depth, 1.3f),
                       v_data = filled(batches * key_heads * keys * depth, 2.1f), rates = filled(heads, 0.1f),
                       result = filled(batches * heads * queries * depth, 0);
    std::int64_t q_shape[4] = {batches, heads, queries, depth}, k_shape[4] = {batches, key_heads, keys, depth};

    attune::tensor Q() { return attune::tensor(q_data.data(), q_shape); }
    attune::tensor K() { return attune::tensor(k_data.data(), k_shape); }
    attune::tensor V() { return attune::tensor(v_data.data(), k_shape); }
    attune::tensor O() { return attune::tensor(result.data(), q_shape); }
    void remember(const char* name) const {
        std::string call = name;
        for (const std::int64_t extent : {batches, heads, key_heads, queries, keys, depth})
            call += fmt::format("x{}", extent);
        soak::remember(call, hash(0, result.data(), static_cast<std::int64_t>(result.size())));
    }
};

common_call drawn_call(std::mt19937& random) {
    static constexpr std::int64_t sizes[][6] = {
        {1, 8, 8, 128, 128, 64}, {2, 8, 2, 1, 1000, 64},  {1, 4, 4, 300, 300, 128}, {3, 6, 3, 17, 77, 64},
        {1, 32, 8, 4, 555, 128}, {1, 1, 1, 900, 900, 64}, {4, 2, 1, 65, 33, 128},   {1, 16, 16, 64, 0, 64},
        {0, 4, 4, 8, 8, 64},     {1, 8, 4, 250, 1, 64},   {1, 32, 8, 1, 3000, 128}, {4, 8, 2, 16, 700, 64}};
    const auto& s = one_of(sizes, random);
    return {s[0], s[1], s[2], s[3], s[4], s[5]};
}

void ready_made(std::mt19937& random) {
    using namespace attune::common;
    common_call c = drawn_call(random);
    const attune::tensor Q = c.Q(), K = c.K(), V = c.V(), O = c.O(), S(c.rates.data(), {c.heads});
    const attune::options how = drawn_options(random);
    switch (random() % 5) {
        case 0: attune::run<plain_attention>(q = Q, k = K, v = V, out = O, how); return c.remember("plain");
        case 1: attune::run<causal_attention>(q = Q, k = K, v = V, out = O, how); return c.remember("causal");
        case 2:
            attune::run<window_attention>(q = Q, k = K, v = V, left = 40, right = 3, out = O, how);
            return c.remember("window");
        case 3: attune::run<alibi_attention>(q = Q, k = K, v = V, slopes = S, out = O, how); return c.remember("alibi");
        default: attune::run<decode_attention>(q = Q, k = K, v = V, out = O, how); return c.remember("decode");
    }
}

/// The same through attune/c.h, with tensors that went through DLPack.
void from_c(std::mt19937& random) {
    common_call c = drawn_call(random);
    const auto argument = [](const char* name, std::vector<float>& data, const std::int64_t* extents) {
        return attune_tensor_argument(name, attune_dense(data.data(), ATTUNE_F32, 4, extents));
    };
    attune_argument list[] = {argument("q", c.q_data, c.q_shape), argument("k", c.k_data, c.k_shape),
                              argument("v", c.v_data, c.k_shape), argument("out", c.result, c.q_shape)};
    void* managed = nullptr;
    expect(attune_tensor_to_dlpack(&list[1].tensor, 1, nullptr, nullptr, &managed) == ATTUNE_OK,
           "a tensor did not become DLPack's");
    auto* const k = static_cast<DLManagedTensorVersioned*>(managed);
    expect(attune_tensor_from_dlpack(k, 1, &list[1].tensor) == ATTUNE_OK, "a tensor did not come back from DLPack");
    expect(attune_run(attune_common_causal_attention_variant(), list, 4, nullptr) == ATTUNE_OK,
           "a call from C was refused");
    k->deleter(k);
    c.remember("causal");
}

void refused(std::mt19937& random) {
    using namespace attune::common;
    common_call c = drawn_call(random);
    try {
        attune::run<plain_attention>(q = c.Q(), k = c.K(), v = c.V(), out = c.Q());
        expect(c.result.empty(), "an output on an input was accepted");
    } catch (const attune::error&) {
        // as it has to be
    }
    attune_argument none{};
    expect(attune_run(attune_common_plain_attention_variant(), &none, 1, nullptr) == ATTUNE_REFUSED,
           "a call without tensors was accepted");
}

}  // namespace

void call_once(std::mt19937& random) {
    switch (random() % 24) {
        case 0: refused(random); break;
        case 1: std::thread([&] { ready_made(random); }).join(); break;  // a thread that ends takes its scratch along
        case 2:
        case 3: from_c(random); break;
        case 4:
        case 5:
        case 6:
        case 7: ready_made(random); break;
        case 8: packed_queries(random); break;
        case 9: pages(random); break;
        case 10: prepared(random); break;
        case 11: gradient(random); break;
        case 12: stores(random); break;
        case 13: choices(random); break;
        case 14: shards(random); break;
        default: variant_under_test(random); break;
    }
    ++calls;
}

std::int64_t calls_made() { return calls; }

void failed(const std::string& what) {
    const std::lock_guard lock(mutex);
    if (first_problem.empty()) first_problem = what;
}

std::string problem() {
    const std::lock_guard lock(mutex);
    return first_problem;
}

}  // namespace soak
