#include "plans/parts.hpp"

#include "analysis/gradient_products.hpp"
#include "analysis/plan.hpp"

#include <attune/ir/projections.hpp>
#include <attune/ir/recurrence.hpp>
#include <attune/ir/stores.hpp>

#include <algorithm>
#include <set>
#include <stdexcept>

/// Refusals of requests that no kernel is made for, whatever the schedule: each with its sentence.
namespace attune::generators::inline plans {
namespace {

void expect(bool holds, const std::string& sentence) {
    if (!holds) throw std::runtime_error(sentence);
}

/// Refuses graphs that need more than a chunk of a recurrence: elements of its rows, precomputed tensors, stores; and
/// outputs other than rows and one last state.
void refuse_what_no_chunk_makes(const graph_ir& graph) {
    const auto node = [&](int n) -> const instruction& { return graph.nodes[n]; };
    const auto is_recurrence = [](const instruction& it) { return it.op == operation::recurrence; };
    const bool backwards = is_gradient_of_recurrence(graph.nodes);
    expect(std::ranges::count_if(graph.nodes, is_recurrence) == 1,
           "two recurrences in one graph have no kernel yet; name what they give in graphs of their own");
    expect(graph.stores.empty(), "a recurrence in a graph that stores has no kernel yet; store in a call of its own");
    for (const instruction& it : graph.nodes) {
        expect(it.op != operation::precomputed,
               "a recurrence beside something that is precomputed has no kernel yet; pass what it needs as an input");
        expect(it.op != operation::load || node(it.arguments[0]).op == operation::input || !backwards,
               "the gradient of a recurrence whose rows read tensors that the kernel computes, as tokens(...), has no "
               "kernel yet; compute them in a call of their own");
        expect(it.op != operation::load || node(it.arguments[0]).op == operation::input,
               "an element of what a recurrence gives, as normalisation over its channels reads it, has no kernel yet; "
               "compute it from the output, in a graph of its own");
    }
    if (backwards) return;
    int last_states = 0;
    for (const output_declaration& output : graph.outputs) {
        const kind made = node(output.node).kind;
        last_states += made == kind::last_state;
        expect(made == kind::output || made == kind::last_state,
               "a recurrence's kernel makes outputs and the last state; `" + std::string(output.name) +
                   "` is something else, which has no kernel yet: name it in a graph of its own");
    }
    expect(last_states <= 1, "two outputs of one last state have no kernel yet; name it once");
}

/// Refuses stores whose place or condition a GPU could not look at: an index that is read within a sum.
void refuse_places_of_sums(const graph_ir& graph) {
    for (const store_declaration& store : graph.stores) {
        const stored_value written = value_of(graph.nodes, store);
        std::vector<int> roots{store.element};
        if (written.has_condition()) roots.push_back(written.condition);
        const std::vector<bool> made = under(graph, roots);
        for (std::size_t n = 0; n < made.size(); ++n)
            expect(!made[n] || family_of(graph.nodes[n].op) != family::sums,
                   "a store whose place or condition is a sum has no kernel on a GPU yet; pass the place as an input");
    }
}

/// Refuses terms of gradients that a thread could not make without adding to what others add to.
void refuse_gradients_of_gpu(const kernel_request& request) {
    const graph_ir& graph = request.graph();
    expect(request.target->called() == "cuda", "gradients have no kernel for " +
                                                   std::string(request.target->name == "vulkan" ? "Vulkan" : "OpenCL") +
                                                   " yet; try TARGETS of CPUs or cuda");
    for (const element_type each : {request.types.query, request.types.key, request.types.value, request.types.output})
        expect(each == element_type::f32,
               "a gradient of bf16 or f16 has no kernel on a GPU yet; try DTYPES f32, or TARGETS of CPUs");
    for (const gradient_term& term : request.facts->gradient->terms) {
        const std::string of = "the gradient \"" + std::string(graph.outputs[term.output].name) + "\"";
        const std::string instead = " has no kernel on a GPU yet; leave it out of wrt(...), or try TARGETS of CPUs";
        expect(!product_of(graph, request.facts->depends, *request.facts->gradient, term),
               of + " of a projection" + instead);
        if (term.is != gradient_term::form::by_pair) continue;
        expect(term.over.empty(), of + ", which multiplies channels other than those of q, k and v," + instead);
        std::set<operation> named;
        const instruction& deposit = graph.nodes[term.deposit];
        for (std::size_t i = 1; i < deposit.argument_count; ++i) {
            const operation index = graph.nodes[deposit.arguments[i]].op;
            const bool bare = index == operation::b || index == operation::h || index == operation::q_idx ||
                              index == operation::kv_idx;
            expect(bare && named.insert(index).second,
                   of + ", whose place is computed from a query and a key," + instead);
        }
    }
    expect(computed_in_full(graph).empty(),
           "a gradient with projections has no kernel on a GPU yet; try TARGETS of CPUs");
}

/// Refuses a depth that leaves a part of a block.
void refuse_parts_of_blocks(const kernel_request& request) {
    for (const input_declaration& input : request.graph().inputs)
        for (std::size_t axis = 0; axis < input.rank; ++axis) {
            const axis_declaration& over = input.axes[axis];
            if (over.counts == axis_kind::free) continue;
            const int depth = over.counts == axis_kind::depth ? request.depths.depth : request.depths.value_depth;
            expect(depth % over.length == 0, "`" + std::string(input.name) + "` has blocks of " +
                                                 std::to_string(over.length) + " channels, of which " +
                                                 std::to_string(depth) +
                                                 " is no multiple; leave that depth out of DEPTHS");
        }
}

}  // namespace

void refuse_without_kernel(const kernel_request& request) {
    check(request);
    refuse_parts_of_blocks(request);
    const graph_ir& graph = request.graph();
    if (is_for_recurrence(request.schedule)) return refuse_what_no_chunk_makes(graph);
    const int pairing = pairing_of(request.schedule);
    const bool of_codes = multiplies_codes(request.schedule), in_tiles = pairing == bytes_of_tile;
    expect(
        !of_codes || (in_tiles ? may_tile_bytes(request) : may_multiply_codes(request)),
        "a pairing of " + std::to_string(pairing) + " needs " +
            (in_tiles ? "queries, keys and values that are codes of 8 bits by the formula, weights in quantized<u8>, "
                        "depths that tiles fill, and a level that multiplies four bytes at a time"
                      : "queries and keys, or weights and values, that are codes of 8 bits by the formula, and a "
                        "level that multiplies integers"));
    expect(pairing == 1 || of_codes || widest_pairing(request) > 1,
           "a pairing of " + std::to_string(pairing) +
               " needs q, k and v of bf16, as they are passed, and softmax's own weights; in a gradient "
               "products of such tensors alone");
    const bool precomputes =
        std::ranges::any_of(graph.nodes, [](const instruction& node) { return node.kind == kind::precomputed; });
    if (request.on_gpu()) {
        const std::string elsewhere = " has no kernel on a GPU yet; try TARGETS of CPUs";
        const bool on_vulkan = request.target->name == "vulkan";
        const std::string on_others = " has no kernel for Vulkan yet; try TARGETS of CPUs, opencl or cuda";
        expect(!on_vulkan || request.core().others.empty(), "more than one softmax" + on_others);
        expect(!on_vulkan || graph.stores.empty(), "a graph that stores" + on_others);
        expect(!precomputes, "what is precomputed" + elsewhere);
        refuse_places_of_sums(graph);
        if (request.facts->gradient) refuse_gradients_of_gpu(request);
    }
    expect(!precomputes || graph.stores.empty(),
           "a graph that stores has no kernel yet where something is precomputed; store in a call of its own");
    if (decodes(request.schedule))
        expect(request.facts->decode_unsupported_reason.empty(),
               "no kernel for decode: " + request.facts->decode_unsupported_reason);
}

}  // namespace attune::generators::inline plans
