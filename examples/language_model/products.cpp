#include "products.hpp"

#include <oneapi/dnnl/dnnl.hpp>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <stdexcept>

namespace language_model {
namespace {

using dnnl::memory;
using types = memory::data_type;
using tags = memory::format_tag;

dnnl::engine& cpu() {
    static dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    return engine;
}
dnnl::stream& stream() {
    static dnnl::stream stream(cpu());
    return stream;
}

/// from (rows, in) in bf16, weights (out, in), to (rows, out) in f32. Nothing where oneDNN has none for this CPU.
std::optional<dnnl::inner_product_forward::primitive_desc> product(std::int64_t rows, const memory::desc& weights) {
    const auto dims = weights.dims();
    const memory::desc from({rows, dims[1]}, types::bf16, tags::ab), to({rows, dims[0]}, types::f32, tags::ab);
    constexpr auto inference = dnnl::prop_kind::forward_inference;
    try {
#if DNNL_VERSION_MAJOR >= 3
        return dnnl::inner_product_forward::primitive_desc{cpu(), inference, from, weights, to};
#else
        return dnnl::inner_product_forward::primitive_desc{{inference, from, weights, to}, cpu()};
#endif
    } catch (const dnnl::error&) {
        return std::nullopt;
    }
}

/// A copy in another form.
void reorder(memory from, memory to) { dnnl::reorder(from, to).execute(stream(), from, to), stream().wait(); }

/// to (rows, out), whose rows are `stride` apart, = from (rows, in) * weights (out, in)
void multiply(std::span<const float> from, std::span<const float> weights, std::int64_t in, float* to,
              std::int64_t stride) {
    const auto rows = static_cast<std::int64_t>(from.size()) / in, out = static_cast<std::int64_t>(weights.size()) / in;
    if (dnnl::sgemm('N', 'T', rows, out, in, 1, from.data(), in, weights.data(), in, 0, to, stride) !=
        dnnl::status::success)
        throw std::runtime_error("oneDNN: a product failed");
}

// Compiled for AVX2 once more, and chosen when the program starts: with AVX-512, oneDNN has these products.
#if defined(__x86_64__) && defined(__ELF__)
[[gnu::target_clones("arch=haswell", "default")]]
#endif
float dot(const float* row, const attune::bfloat16* weights, std::int64_t size) {
    using lanes [[gnu::vector_size(32)]] = float;
    using bits [[gnu::vector_size(32)]] = std::uint32_t;
    using halves [[gnu::vector_size(16)]] = std::uint16_t;
    lanes sums[4] = {};
    std::int64_t i = 0;
    for (; i + 32 <= size; i += 32)
        for (int k = 0; k < 4; ++k) {
            halves some;
            lanes x, y;
            std::memcpy(&some, weights + i + 8 * k, sizeof some), std::memcpy(&x, row + i + 8 * k, sizeof x);
            const bits wide = __builtin_convertvector(some, bits) << 16;
            std::memcpy(&y, &wide, sizeof y);
            sums[k] += x * y;
        }
    const lanes all = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    float sum = 0;
    for (int k = 0; k < 8; ++k) sum += all[k];
    for (; i < size; ++i) sum += row[i] * static_cast<float>(weights[i]);
    return sum;
}

/// One row, which waits for the weights.
void multiply_row(const float* from, std::span<const attune::bfloat16> weights, std::int64_t in, std::span<float> to) {
#pragma omp parallel for schedule(static)
    for (std::size_t i = 0; i < to.size(); ++i)
        to[i] = dot(from, weights.data() + static_cast<std::int64_t>(i) * in, in);
}

/// Many rows: weights of some outputs after the other, as f32.
void multiply_rows(std::span<const float> from, std::span<const attune::bfloat16> weights, std::int64_t in,
                   std::span<float> to) {
    const std::int64_t out = static_cast<std::int64_t>(weights.size()) / in, most = 512;
    std::vector<float> some;
    for (std::int64_t first = 0; first < out; first += most) {
        const auto part = weights.subspan(static_cast<std::size_t>(first * in),
                                          static_cast<std::size_t>(std::min(most, out - first) * in));
        some.resize(part.size());
#pragma omp parallel for simd schedule(static)
        for (std::size_t i = 0; i < part.size(); ++i) some[i] = static_cast<float>(part[i]);
        multiply(from, some, in, to.data() + first, out);
    }
}

}  // namespace

struct matrix::packed {
    memory weights;
    std::map<std::int64_t, dnnl::inner_product_forward> by_rows;  // oneDNN compiles a product for a number of rows
};

matrix::matrix(std::vector<float> weights, std::int64_t out, weight_type type)
    : in_(static_cast<std::int64_t>(weights.size()) / out), out_(out) {
    if (type == weight_type::f32) {
        weights_ = std::move(weights);
        return;
    }
    const auto form = product(1, memory::desc({out_, in_}, types::bf16, tags::any));
    if (!form) {
        halves_.resize(weights.size());
        std::ranges::transform(weights, halves_.begin(), [](float x) { return attune::bfloat16(x); });
        return;
    }
    // As one row wants them: that is what waits for memory.
    packed_ = std::make_shared<packed>(packed{memory(form->weights_desc(), cpu()), {}});
    reorder(memory({{out_, in_}, types::f32, tags::ab}, cpu(), weights.data()), packed_->weights);
}

void matrix::operator()(std::span<const float> from, std::span<float> to) const {
    const std::int64_t rows = static_cast<std::int64_t>(from.size()) / in_;
    if (!weights_.empty()) return multiply(from, weights_, in_, to.data(), out_);
    if (!packed_ && rows == 1) return multiply_row(from.data(), halves_, in_, to);
    if (!packed_) return multiply_rows(from, halves_, in_, to);
    auto found = packed_->by_rows.find(rows);
    if (found == packed_->by_rows.end())
        found = packed_->by_rows.emplace(rows, *product(rows, packed_->weights.get_desc())).first;
    memory rounded({{rows, in_}, types::bf16, tags::ab}, cpu());
    reorder(memory({{rows, in_}, types::f32, tags::ab}, cpu(), const_cast<float*>(from.data())), rounded);
    const memory result({{rows, out_}, types::f32, tags::ab}, cpu(), to.data());
    found->second.execute(stream(),
                          {{DNNL_ARG_SRC, rounded}, {DNNL_ARG_WEIGHTS, packed_->weights}, {DNNL_ARG_DST, result}});
    stream().wait();
}

}  // namespace language_model
