#include "plan.hpp"

#include <set>
#include <stdexcept>
#include <string>

namespace attune::generators {
namespace {

[[noreturn]] void refuse(const std::string& sentence) { throw std::runtime_error(sentence); }

int only_contraction(const listing& graph, int scores) {
    std::set<int> seen{scores}, contractions;
    for (auto at = seen.rbegin(); at != seen.rend(); ++at) {  // arguments lie before their users
        const instruction& node = graph.nodes[*at];
        if (node.op == operation::contract) contractions.insert(*at);
        for (int i = 0; i < node.argument_count; ++i)
            if (node.op != operation::contract) seen.insert(node.arguments[i]);
    }
    if (contractions.size() != 1)
        refuse("expected scores with one q * t(k), got " + std::to_string(contractions.size()) + "; a kernel contracts once");
    return *contractions.begin();
}

int input_of(const listing& graph, int node, const char* what) {
    const instruction& tensor = graph.nodes[node];
    if (tensor.op != operation::input)
        refuse(std::string("expected a tensor as ") + what + ", got an expression; kernels read it as it lies");
    if (graph.inputs[tensor.input].rank != 4)
        refuse(std::string("expected ") + what + " as (batch, head, length, depth), got rank " +
               std::to_string(graph.inputs[tensor.input].rank));
    return tensor.input;
}

}  // namespace

plan plan_of(const listing& graph) {
    if (graph.outputs.empty()) refuse("expected a graph with an output, got none");
    plan result;
    int scores = -1;
    for (const output_declaration& output : graph.outputs) {
        const instruction& node = graph.nodes[output.node];
        const std::string name(output.name);
        int its_scores = -1;
        if (node.op == operation::log_sum_exp) {
            its_scores = node.arguments[0];
            result.outputs.push_back(plan::made::log_sum_exp);
        } else if (node.op == operation::weighted_sum) {
            const instruction& weights = graph.nodes[node.arguments[0]];
            if (weights.op != operation::softmax)
                refuse("output \"" + name + "\" weighs the values by something other than a softmax; kernels for that are not made yet");
            its_scores = weights.arguments[0];
            const int value = input_of(graph, node.arguments[1], "the values of a weighted sum");
            if (result.value >= 0 && result.value != value) refuse("the outputs weigh two different tensors; name them in two graphs");
            result.value = value;
            result.outputs.push_back(plan::made::weighted_sum);
        } else {
            refuse("output \"" + name + "\" is neither softmax(scores) * v nor log_sum_exp(scores); kernels for it are not made yet");
        }
        if (scores >= 0 && scores != its_scores) refuse("the outputs look at different scores; name them in different graphs");
        scores = its_scores;
    }
    result.scores = scores;
    result.contraction = only_contraction(graph, scores);
    const instruction& contraction = graph.nodes[result.contraction];
    const instruction& transposed = graph.nodes[contraction.arguments[1]];
    if (transposed.op != operation::transpose) refuse("expected scores as q * t(k), got a product without a transposed tensor");
    result.query = input_of(graph, contraction.arguments[0], "the queries of a product");
    result.key = input_of(graph, transposed.arguments[0], "the keys of a product");
    return result;
}

std::vector<dependence> dependences(const listing& graph) {
    std::vector<dependence> all;
    for (const instruction& node : graph.nodes) {
        dependence here;
        for (int i = 0; i < node.argument_count; ++i) {
            const dependence& below = all[node.arguments[i]];
            here.query |= below.query, here.key |= below.key, here.head |= below.head, here.batch |= below.batch;
            here.score |= below.score, here.channel |= below.channel, here.bound |= below.bound, here.costly |= below.costly, here.irregular |= below.irregular;
        }
        const bool constant_divisor = node.argument_count == 2 && graph.nodes[node.arguments[1]].op == operation::constant;
        switch (node.op) {
            case operation::b: here.batch = true; break;
            case operation::h: here.head = true; break;
            case operation::q_idx: here.query = true; break;
            case operation::kv_idx: here.key = true; break;
            case operation::d_idx: here.channel = true; break;
            case operation::bound: here.bound = std::uint64_t{1} << node.integer; break;
            case operation::kv_lengths: here.batch = here.costly = true; break;
            case operation::contract: here = dependence{}, here.score = true; break;
            case operation::queries:
            case operation::keys:
            case operation::values:
            case operation::transpose:
            case operation::extent: here = {}; break;
            case operation::softmax:
            case operation::unnormalized: here.score = true; break;
            case operation::log_sum_exp:
            case operation::row_maximum:
            case operation::row_sum:
            case operation::weighted_sum:  // one value a query, whatever the keys
                here.query = here.head = here.batch = here.score = true;
                here.key = false;
                break;
            case operation::sum:
            case operation::any:
                here.bound &= ~all[node.arguments[0]].bound;
                here.costly = true;
                break;
            case operation::load:
            case operation::remainder:
            case operation::bit_and:
            case operation::bit_or:
            case operation::bit_xor:
            case operation::shift_left:
            case operation::shift_right:
            case operation::where: here.costly = here.irregular = true; break;
            case operation::divide:
                here.costly = true;
                here.irregular |= !constant_divisor;
                break;
            case operation::multiply: {
                const auto indexed = [&](int i) { return all[node.arguments[i]].query || all[node.arguments[i]].key; };
                here.irregular |= indexed(0) && indexed(1);
                break;
            }
            case operation::exp:
            case operation::log:
            case operation::tanh:
            case operation::erf:
            case operation::sqrt:
            case operation::rsqrt: here.costly = here.irregular = true; break;
            default: break;
        }
        here.irregular = here.irregular && (here.query || here.key);  // one value is as regular as can be
        all.push_back(here);
    }
    return all;
}

}  // namespace attune::generators
