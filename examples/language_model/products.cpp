#include "products.hpp"

#include <oneapi/dnnl/dnnl.hpp>

#include <map>
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

/// from (rows, in) in bf16, weights (out, in), to (rows, out) in f32.
dnnl::inner_product_forward::primitive_desc product(std::int64_t rows, const memory::desc& weights) {
    const auto dims = weights.dims();
    const memory::desc from({rows, dims[1]}, types::bf16, tags::ab), to({rows, dims[0]}, types::f32, tags::ab);
    constexpr auto inference = dnnl::prop_kind::forward_inference;
    try {
#if DNNL_VERSION_MAJOR >= 3
        return {cpu(), inference, from, weights, to};
#else
        return {{inference, from, weights, to}, cpu()};
#endif
    } catch (const dnnl::error&) {
        throw std::runtime_error("expected a CPU whose products oneDNN has in bf16, got another; try weights in f32");
    }
}

/// A copy in another form.
void reorder(memory from, memory to) { dnnl::reorder(from, to).execute(stream(), from, to), stream().wait(); }

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
    // In the form that one row wants: that is what waits for memory.
    const auto form = product(1, memory::desc({out_, in_}, types::bf16, tags::any)).weights_desc();
    packed_ = std::make_shared<packed>(packed{memory(form, cpu()), {}});
    reorder(memory({{out_, in_}, types::f32, tags::ab}, cpu(), weights.data()), packed_->weights);
}

void matrix::operator()(std::span<const float> from, std::span<float> to) const {
    const std::int64_t rows = static_cast<std::int64_t>(from.size()) / in_;
    if (!packed_) {
        if (dnnl::sgemm('N', 'T', rows, out_, in_, 1, from.data(), in_, weights_.data(), in_, 0, to.data(), out_) !=
            dnnl::status::success)
            throw std::runtime_error("oneDNN: a product failed");
        return;
    }
    auto found = packed_->by_rows.find(rows);
    if (found == packed_->by_rows.end())
        found = packed_->by_rows.emplace(rows, product(rows, packed_->weights.get_desc())).first;
    memory rounded({{rows, in_}, types::bf16, tags::ab}, cpu());
    reorder(memory({{rows, in_}, types::f32, tags::ab}, cpu(), const_cast<float*>(from.data())), rounded);
    const memory result({{rows, out_}, types::f32, tags::ab}, cpu(), to.data());
    found->second.execute(stream(),
                          {{DNNL_ARG_SRC, rounded}, {DNNL_ARG_WEIGHTS, packed_->weights}, {DNNL_ARG_DST, result}});
    stream().wait();
}

}  // namespace language_model
