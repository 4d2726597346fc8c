#include "plans/parts.hpp"

#include <algorithm>
#include <stdexcept>

/// All that a kernel is not made of, whatever its schedule: each with its sentence.
namespace attune::generators::inline plans {
namespace {

void expect(bool holds, const std::string& sentence) {
    if (!holds) throw std::runtime_error(sentence);
}

}  // namespace

void refuse_without_kernel(const kernel_request& request) {
    check(request);
    const graph_ir& graph = request.graph();
    const int pairing = pairing_of(request.schedule);
    expect(pairing == 1 || can_use_bf16_dot(request),
           "a pairing of " + std::to_string(pairing) +
               " needs q, k and v of bf16, as they are passed, and softmax's own weights; in a gradient "
               "products of such tensors alone");
    const bool precomputes =
        std::ranges::any_of(graph.nodes, [](const instruction& node) { return node.kind == kind::precomputed; });
    if (request.on_gpu()) {
        const std::string elsewhere = " has no kernel on a GPU yet; try TARGETS of CPUs";
        expect(request.core().others.empty(), "more than one softmax" + elsewhere);
        expect(graph.stores.empty(), "a graph that stores" + elsewhere);
        expect(!precomputes, "what is precomputed" + elsewhere);
    }
    expect(!precomputes || graph.stores.empty(),
           "a graph that stores has no kernel yet where something is precomputed; store in a call of its own");
    if (decodes(request.schedule))
        expect(request.facts->decode_unsupported_reason.empty(),
               "no kernel for decode: " + request.facts->decode_unsupported_reason);
}

}  // namespace attune::generators::inline plans
