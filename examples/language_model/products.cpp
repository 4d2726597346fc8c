#include "products.hpp"

#include <attune/runtime/threads.hpp>
#include <oneapi/dnnl/dnnl.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <map>
#include <stdexcept>

namespace language_model {
namespace {

using dnnl::memory;
using types = memory::data_type;
using tags = memory::format_tag;

constexpr std::int64_t few = 4;  // rows up to which oneDNN, which copies weights into an order of its own, is slower

std::uint16_t bf16_of(float x) {  // the nearest, of two the even one
    const auto bits = std::bit_cast<std::uint32_t>(x);
    return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
float f32_of(float x) { return x; }
float f32_of(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

/// In as many sums as keep a CPU's vectors busy.
template <class Weight> float dot(const float* x, const Weight* weights, std::size_t size) {
    constexpr std::size_t lanes = 64;
    float sums[lanes] = {}, sum = 0;
    std::size_t i = 0;
    for (; i + lanes <= size; i += lanes)
        for (std::size_t lane = 0; lane < lanes; ++lane) sums[lane] += x[i + lane] * f32_of(weights[i + lane]);
    for (; i < size; ++i) sum += x[i] * f32_of(weights[i]);
    for (const float each : sums) sum += each;
    return sum;
}

/// Each row of weights is read from memory once.
template <class Weight>
void multiply_few(std::span<const float> from, const std::vector<Weight>& weights, std::size_t in,
                  std::span<float> to) {
    const std::size_t rows = from.size() / in, out = weights.size() / in;
#pragma omp parallel for schedule(static)
    for (std::size_t o = 0; o < out; ++o)
        for (std::size_t row = 0; row < rows; ++row)
            to[row * out + o] = dot(from.data() + row * in, weights.data() + o * in, in);
}

/// `of` columns of to (row, out), from the one at which it begins.
void multiply_many(std::span<const float> from, const float* weights, std::int64_t in, std::int64_t of,
                   std::int64_t out, float* to) {
    const std::int64_t rows = static_cast<std::int64_t>(from.size()) / in;
    if (dnnl::sgemm('N', 'T', rows, of, in, 1, from.data(), in, weights, in, 0, to, out) != dnnl::status::success)
        throw std::runtime_error("oneDNN: a product failed");
}

/// The same of weights in bf16, made f32 some rows at a time.
void multiply_widened(std::span<const float> from, const std::vector<std::uint16_t>& weights, std::int64_t in,
                      std::int64_t out, std::span<float> to) {
    constexpr std::int64_t part = 1024;
    std::vector<float> widened(static_cast<std::size_t>(std::min(part, out) * in));
    for (std::int64_t begin = 0; begin < out; begin += part) {
        const std::int64_t of = std::min(part, out - begin);
        const std::uint16_t* const narrow = weights.data() + begin * in;
#pragma omp parallel for schedule(static)
        for (std::int64_t i = 0; i < of * in; ++i) widened[static_cast<std::size_t>(i)] = f32_of(narrow[i]);
        multiply_many(from, widened.data(), in, of, out, to.data() + begin);
    }
}

/// oneDNN's product of from (rows, in) and weights (out, in) in bf16 to (rows, out) in f32, which it compiles for its
/// sizes; an empty one where it has none for this CPU.
dnnl::inner_product_forward product_of_bf16(const memory::desc& from, const memory::desc& weights,
                                            const memory::desc& to, const dnnl::engine& cpu) {
    constexpr auto inference = dnnl::prop_kind::forward_inference;
    try {
#if DNNL_VERSION_MAJOR >= 3
        return dnnl::inner_product_forward({cpu, inference, from, weights, to});
#else
        return dnnl::inner_product_forward({{inference, from, weights, to}, cpu});
#endif
    } catch (const dnnl::error&) {
        return {};
    }
}

/// Whether it was done.
bool multiply_bf16(std::span<const float> from, const std::vector<std::uint16_t>& weights, std::int64_t in,
                   std::int64_t out, std::span<float> to) {
    static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
    static std::map<std::array<std::int64_t, 3>, dnnl::inner_product_forward> compiled;
    const std::int64_t rows = static_cast<std::int64_t>(from.size()) / in;
    const memory::desc from_is({rows, in}, types::bf16, tags::ab), weights_are({out, in}, types::bf16, tags::ab),
        to_is({rows, out}, types::f32, tags::ab);
    const auto [product, added] = compiled.try_emplace({rows, in, out});
    if (added) product->second = product_of_bf16(from_is, weights_are, to_is, cpu);
    if (!product->second) return false;
    std::vector<std::uint16_t> rounded(from.size());
    std::ranges::transform(from, rounded.begin(), bf16_of);
    auto* const all = const_cast<std::uint16_t*>(weights.data());
    dnnl::stream stream(cpu);
    product->second.execute(stream, {{DNNL_ARG_SRC, memory(from_is, cpu, rounded.data())},
                                     {DNNL_ARG_WEIGHTS, memory(weights_are, cpu, all)},
                                     {DNNL_ARG_DST, memory(to_is, cpu, to.data())}});
    stream.wait();
    return true;
}

}  // namespace

matrix::matrix(std::vector<float> weights, std::int64_t out, weight_type type)
    : in_(static_cast<std::int64_t>(weights.size()) / out), out_(out) {
    if (type == weight_type::f32) {
        weights_ = std::move(weights);
        return;
    }
    rounded_.resize(weights.size());
    std::ranges::transform(weights, rounded_.begin(), bf16_of);
}

void matrix::operator()(std::span<const float> from, std::span<float> to) const {
    const auto in = static_cast<std::size_t>(in_);
    if (static_cast<std::int64_t>(from.size()) <= few * in_) {
        if (rounded_.empty()) return multiply_few(from, weights_, in, to);
        return multiply_few(from, rounded_, in, to);
    }
    if (rounded_.empty()) return multiply_many(from, weights_.data(), in_, out_, out_, to.data());
    if (!multiply_bf16(from, rounded_, in_, out_, to)) multiply_widened(from, rounded_, in_, out_, to);
}

void share_threads() {
    attune::set_parallel_for([](int count, int threads, const std::function<void(int)>& task) {
#pragma omp parallel for schedule(dynamic) num_threads(threads)
        for (int i = 0; i < count; ++i) task(i);
    });
}

}  // namespace language_model
