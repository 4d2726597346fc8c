#include "kernel_inputs.hpp"

#include <stdexcept>

namespace attune::generators {
using namespace Halide;

Type halide_type(element_type e) {
    switch (e) {
        case element_type::f32: return Float(32);
        case element_type::bf16: return BFloat(16);
        case element_type::f16: return Float(16);
        case element_type::i32: return Int(32);
        case element_type::u8:
        case element_type::boolean: return UInt(8);
        case element_type::any: break;
    }
    throw std::runtime_error("an input has no element type");
}

kernel_inputs::kernel_inputs(const kernel_request& request, const plan& its) {
    const listing& graph = request.graph;
    tensors_.resize(graph.inputs.size());
    scalars_.resize(graph.inputs.size());
    for (int i = 0; i < static_cast<int>(graph.inputs.size()); ++i) {
        const input_declaration& input = graph.inputs[i];
        // No input may share a name with what kernels compute on their way.
        const std::string name = "input_" + std::string(input.name);
        element_type element = input.element;
        if (element == element_type::any)
            element = i == its.key ? request.types.key : i == its.value ? request.types.value : request.types.query;
        if (input.is_scalar) {
            const bool real = element == element_type::f32;
            if (!real && element != element_type::i32)
                throw std::runtime_error("the number \"" + std::string(input.name) + "\" is neither f32 nor i32");
            if (real) {
                Param<float> number(name);
                scalars_[i] = number;
                arguments_.push_back(number);
            } else {
                Param<int> number(name);
                scalars_[i] = number;
                arguments_.push_back(number);
            }
            continue;
        }
        ImageParam tensor(halide_type(element), input.rank, name);
        if (input.rank > 0) tensor.dim(0).set_stride(Expr());
        for (int d = 0; d < input.rank; ++d) tensor.dim(d).set_min(0);
        tensors_[i] = tensor;
        arguments_.push_back(tensor);
    }
    // q, k and v have a unit innermost stride, as kernels read them by vectors.
    ImageParam q = tensors_[its.query], k = tensors_[its.key];
    q.dim(0).set_bounds(0, request.depths.depth).set_stride(1);
    k.dim(0).set_bounds(0, request.depths.depth).set_stride(1);
    if (its.value >= 0) tensors_[its.value].dim(0).set_bounds(0, request.depths.value_depth).set_stride(1);
    query_length = q.dim(1).extent();
    heads = q.dim(2).extent();
    batches = q.dim(3).extent();
    key_length = k.dim(1).extent();
    key_heads = k.dim(2).extent();

    kv_lengths_ = ImageParam(Int(32), 1, "input_kv_lengths");
    kv_lengths_.dim(0).set_min(0).set_stride(Expr());
    arguments_.push_back(kv_lengths_);

    RDom each(0, batches, "each_batch");
    most_keys_in_use = Func("most_keys_in_use");
    most_keys_in_use() = 0;
    most_keys_in_use() = max(most_keys_in_use(), keys_in_use(each));
    most_keys_in_use.compute_root();
}

Expr kernel_inputs::keys_in_use(const Expr& b) const { return clamp(kv_lengths_(b), 0, key_length); }

Expr kernel_inputs::key_head(const Expr& h) const { return clamp(h / max(heads / max(key_heads, 1), 1), 0, key_heads - 1); }

std::vector<Argument> kernel_inputs::arguments() const { return arguments_; }

}  // namespace attune::generators
