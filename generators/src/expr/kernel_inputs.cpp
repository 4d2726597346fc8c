#include "expr/kernel_inputs.hpp"

#include "expr/pointwise.hpp"

#include <attune/ir/block_axes.hpp>

#include <limits>
#include <stdexcept>

namespace attune::generators::inline expr {
using namespace Halide;

Type halide_type(element_type e) {
    switch (e) {
        case element_type::f32: return Float(32);
        case element_type::bf16: return BFloat(16);
        case element_type::f16: return Float(16);
        case element_type::i32: return Int(32);
        case element_type::i8: return Int(8);
        case element_type::i64: return Int(64);
        case element_type::i16: return Int(16);
        case element_type::u8:
        case element_type::boolean:
        case element_type::f8_e4m3:  // converted when they are read
        case element_type::f8_e5m2: return UInt(8);
        case element_type::f64:  // for numbers alone
        case element_type::any: break;
    }
    throw std::runtime_error("an input has no element type");
}

namespace {

bool uses(const graph_ir& graph, operation terminal) {
    for (const instruction& node : graph.nodes)
        if (node.op == terminal) return true;
    return false;
}

}  // namespace

Expr kernel_inputs::extent_along(const graph_ir& graph, axis_kind axis) const {
    for (const bool any_element : {true, false})
        for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
            const input_declaration& input = graph.inputs[i];
            if (input.is_scalar || (input.element == element_type::any) != any_element) continue;
            for (int a = 0; a < input.rank; ++a)
                if (input.axes[a].kind == axis) return tensors_[i].dim(input.rank - 1 - a).extent();
        }
    return {};
}

/// Numbers of the call; a length that a computed tensor states comes before the axes of inputs.
void kernel_inputs::read_numbers(const kernel_request& request) {
    const graph_ir& graph = request.graph();
    const plan& core = request.core();
    batches = kv_lengths_.dim(0).extent();
    heads = extent_along(graph, axis_kind::head);
    key_heads = extent_along(graph, axis_kind::key_head);
    query_length = extent_along(graph, axis_kind::query);
    key_length = extent_along(graph, axis_kind::key);
    const auto stated = [&](std::initializer_list<int> tensors, int argument, Expr otherwise) {
        for (const int tensor : tensors)
            if (tensor >= 0 && graph.nodes[tensor].op != operation::input &&
                graph.nodes[tensor].argument_count > argument)
                return max(pointwise(request, *this, {})(graph.nodes[tensor].arguments[argument]).value, 0);
        return otherwise;
    };
    heads = stated({core.query, core.key, core.value}, 2, heads);
    const Expr queries = stated({core.query}, 1, query_length), keys = stated({core.key, core.value}, 1, key_length);
    query_length = queries, key_length = keys;
    // Halide drops loops that it knows to be empty, and then misses them where it is to place their storage.
    for (Expr* length : {&heads, &query_length, &key_length})
        if (length->defined() && is_const_zero(Internal::simplify(*length)))
            *length = select(batches == std::numeric_limits<std::int32_t>::max(), 1, 0);

    const auto missing = [](const char* what, const char* where) {
        throw std::runtime_error(std::string("no input has an axis that says how many ") + what + " there are; " +
                                 where);
    };
    if (core.has_core() && !key_length.defined()) missing("keys", "state it: keys(formula, length)");
    if (!heads.defined() && !key_heads.defined() && uses(graph, operation::heads))
        missing("heads", "pass a tensor with the axis head");
    if (!query_length.defined() && uses(graph, operation::query_length))
        missing("queries", "state it: queries(formula, length)");
    if (!key_length.defined()) key_length = 0;
    // The outputs know; nothing is read along the axis.
    if (!query_length.defined()) query_length = 1 << 30;
    if (!heads.defined()) heads = key_heads.defined() ? key_heads : 1;
    if (!key_heads.defined()) key_heads = heads;
}

kernel_inputs::kernel_inputs(const kernel_request& request) {
    const graph_ir& graph = request.graph();
    tensors_.resize(graph.inputs.size());
    scalars_.resize(graph.inputs.size());
    for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
        const input_declaration& input = graph.inputs[i];
        // No input may share a name with a function of kernels.
        const std::string name = "input_" + std::string(input.name);
        const element_type element = element_of(input, request.types);
        if (input.is_scalar) {
            const bool real = element == element_type::f32 || element == element_type::f64;
            if (!real && element != element_type::i32)
                throw std::runtime_error("the number \"" + std::string(input.name) + "\" is neither f32, f64 nor i32");
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
        if (has_dense_rows(input)) {
            const axis_kind innermost = input.axes[input.rank - 1].kind;
            tensor.dim(0).set_stride(1);
            if (innermost == axis_kind::depth) tensor.dim(0).set_bounds(0, request.depths.depth);
            if (innermost == axis_kind::value_depth) tensor.dim(0).set_bounds(0, request.depths.value_depth);
            if (has_blocks(input)) {
                const axis_declaration &blocks = input.axes[input.rank - 2], &bytes = input.axes[input.rank - 1];
                const int depth = blocks.counts == axis_kind::depth ? request.depths.depth : request.depths.value_depth;
                tensor.dim(0).set_bounds(0, bytes.length);
                tensor.dim(1).set_bounds(0, depth / blocks.length).set_stride(bytes.length);
            }
        }
        tensors_[i] = tensor;
        arguments_.push_back(tensor);
    }
    kv_lengths_ = ImageParam(Int(32), 1, "input_kv_lengths");
    kv_lengths_.dim(0).set_min(0).set_stride(Expr());
    arguments_.push_back(kv_lengths_);
    if (decodes(request.schedule)) {
        Param<int> input_key_splits("input_key_splits");
        key_splits = max(input_key_splits, 1);
        unknown_zero = cast<std::uint32_t>(input_key_splits >> 31);
        arguments_.push_back(input_key_splits);
    }
    Param<int> input_keys_in_use("input_keys_in_use");
    if (decodes(request.schedule)) arguments_.push_back(input_keys_in_use);
    read_numbers(request);

    most_keys_in_use = Func("most_keys_in_use");
    if (decodes(request.schedule) && !request.on_gpu()) {  // the caller cannot read their lengths
        most_keys_in_use() = clamp(input_keys_in_use, 0, key_length);
        most_keys_in_use.compute_root();
        return;
    }
    RDom each_batch(0, batches, "each_batch");
    most_keys_in_use() = 0;
    most_keys_in_use() = max(most_keys_in_use(), keys_in_use(each_batch));
    most_keys_in_use.compute_root();
    if (request.on_gpu()) most_keys_in_use.gpu_single_thread().update().gpu_single_thread();
}

Expr kernel_inputs::keys_in_use(const Expr& b) const { return clamp(kv_lengths_(b), 0, key_length); }

Expr kernel_inputs::key_head(const Expr& h) const {
    return clamp(h / max(heads / max(key_heads, 1), 1), 0, key_heads - 1);
}

std::vector<Argument> kernel_inputs::arguments() const { return arguments_; }

}  // namespace attune::generators::inline expr
