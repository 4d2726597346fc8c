#include "base/text.hpp"
#include "call/bind/bind.hpp"

#include <attune/ir/block_axes.hpp>
#include <attune/runtime/error.hpp>

#include <algorithm>
#include <cstdlib>

/// The requirements of a call on its kernel.
namespace attune::detail {
namespace {

/// The largest power of two, in bytes, that divides the strides of a tensor and, on a device, its address. A tensor in
/// the host's memory is copied to an address that every such power divides.
int alignment_of_rows(const tensor& t) {
    auto bits = t.where() == memory::host ? std::uintptr_t{0} : reinterpret_cast<std::uintptr_t>(t.data());
    for (int axis = 0; axis + 1 < t.rank(); ++axis)
        if (t.extent(axis) > 1) bits |= static_cast<std::uintptr_t>(t.stride(axis) * bytes_of(t.type()));
    constexpr std::uintptr_t most = kernel_request{}.row_alignment;
    return static_cast<int>((bits | most) & (~(bits | most) + 1));
}

}  // namespace

std::string_view target_of(memory where) {
    return where == memory::cuda ? "cuda" : where == memory::opencl ? "opencl" : "";
}

std::string_view forced_target(const options& how, std::string_view& by) {
    if (!how.target.empty()) return by = "attune::options", how.target;
    if (const char* const level = std::getenv("ATTUNE_TARGET"); level && *level) return by = "ATTUNE_TARGET", level;
    return {};
}

void bound_call::choose_kernel(const options& how, bool explain) {
    const graph_ir& graph = table_.graph;
    kernel_request asked;
    asked.target = forced_target(how, asked.forced_by);
    find_memory(how.device);
    if (const std::string_view there = target_of(where_); !there.empty()) {
        if (asked.target.empty())
            asked.forced_by = "where the tensors lie", asked.target = there;
        else if (asked.target != there)
            fail(say("tensors that ", asked.target, " kernels can read, as ", asked.forced_by, " asks for them"),
                 say("tensors in memory of ", there), say("the target ", there));
    }
    for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
        if (has_dense_rows(graph.inputs[i]) && !has_blocks(graph.inputs[i]))
            asked.row_alignment = std::min(asked.row_alignment, alignment_of_rows(given_.inputs[i]->view));
        if (!is_core(graph.inputs[i])) continue;
        const std::string_view name = graph.inputs[i].name;
        const element_type type = given_.inputs[i]->view.type();
        if (name != "q" && name != "k" && name != "v" && asked.output && *asked.output != type)
            fail(say(name_of(*asked.output), " elements in ", name, ", as in the other outputs and their cotangents"),
                 say("elements of ", name_of(type)), say("a tensor of ", name_of(*asked.output)));
        (name == "q" ? asked.query : name == "k" ? asked.key : name == "v" ? asked.value : asked.output) = type;
    }
    for (std::size_t i = 0; i < graph.outputs.size(); ++i)
        if (given_.outputs[i] && kind_of(graph, graph.outputs[i]) == kind::output) {
            asked.output = given_.outputs[i]->view.type();
            asked.row_alignment = std::min(asked.row_alignment, alignment_of_rows(given_.outputs[i]->view));
        }
    if (shape_.has(axis_kind::depth)) asked.depth = shape_[axis_kind::depth];
    if (shape_.has(axis_kind::value_depth)) asked.value_depth = shape_[axis_kind::value_depth];
    if (shape_.has(axis_kind::query)) asked.queries = shape_[axis_kind::query];
    const auto has = [&](operation op) {
        return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const instruction& n) { return n.op == op; });
    };
    if (!asked.depth) asked.depth_matters = has(operation::contract) || has(operation::depth);
    if (!asked.value_depth) asked.value_depth_matters = has(operation::value_depth);
    choice_ = choose(table_, asked, this_cpu(), explain);
}

/// Memory of one GPU at most, beside the host's.
void bound_call::find_memory(int wanted) {
    if (wanted < tensor::any_device)
        fail("a device's index from 0 in attune::options::device, or -1", say(wanted), "leaving it unset");
    std::string_view said_memory, said_device = "attune::options::device";
    device_ = wanted;
    const auto look = [&](const named_argument* given) {
        if (!given || given->is != named_argument::form::view || given->view.where() == memory::host) return;
        const tensor& t = given->view;
        if (where_ != memory::host && where_ != t.where())
            fail(
                say("memory of ", target_of(where_), " for ", given->name, ", as for ", said_memory, ", or the host's"),
                say("memory of ", target_of(t.where())), "a copy of one of them where the other lies");
        if (where_ == memory::host) where_ = t.where(), said_memory = given->name;
        if (t.device() == tensor::any_device || t.device() == device_) return;
        if (device_ != tensor::any_device)
            fail(say("device ", device_, " for ", given->name, ", as for ", said_device), say("device ", t.device()),
                 "a copy on that device");
        device_ = t.device(), said_device = given->name;
    };
    for (const named_argument* each : given_.inputs) look(each);
    for (const named_argument* each : given_.outputs) look(each);
    look(given_.kv_lengths);
}

}  // namespace attune::detail
