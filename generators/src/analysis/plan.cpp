#include "analysis/plan.hpp"

#include <attune/ir/gradient_outputs.hpp>
#include <attune/ir/outputs_problem.hpp>

#include <algorithm>
#include <stdexcept>
#include <string>

namespace attune::generators::inline analysis {
namespace {

[[noreturn]] void refuse(const std::string& sentence) { throw std::runtime_error(sentence); }

/// Finds the attention cores in a graph, an output at a time.
class reader {
public:
    reader(const graph_ir& graph, const std::vector<dependence>& depends)
        : graph_(graph), depends_(depends), cores_(graph.nodes) {}

    plan read() {
        if (graph_.outputs.empty()) refuse("expected a graph with an output, got none");
        for (const instruction& node : graph_.nodes)
            if (const std::string_view fault = fault_of(graph_, node); !fault.empty())
                refuse("expected nodes as operations.hpp says, got \"" + std::string(about(node.op).text) +
                       "\" that differs in " + std::string(fault));
        if (outputs_problem_of(graph_.nodes, graph_.outputs) != outputs_problem::none)
            refuse("expected outputs that one kernel can make, got others");  // of ir_of the compiler says why
        const std::vector<bool> made = under(output_nodes(graph_));
        const bool gradients =
            std::ranges::any_of(output_nodes(graph_), [this](int n) { return node(n).kind == kind::gradient; });
        count_ = gradients ? 1 : std::max(cores_.count(), 1);
        plan whole = read_core(made);
        while (++core_at_ < count_) {
            core_ = {};
            whole.others.push_back(read_core(made));
        }
        return whole;
    }

private:
    int size() const { return static_cast<int>(graph_.nodes.size()); }
    const instruction& node(int n) const { return graph_.nodes[n]; }
    std::vector<bool> under(const std::vector<int>& roots) const { return generators::under(graph_, roots); }

    plan read_core(const std::vector<bool>& made) {
        if (count_ > 1) core_.scores = cores_[core_at_].scores;
        for (int n = 0; n < size(); ++n)
            if (made[n] && (belongs(n) || (count_ > 1 && cores_[core_at_].statistic == n))) read_statistic(n);
        if (core_at_ == 0)
            for (const output_declaration& output : graph_.outputs) read_output(output);
        for (int n = 0; n < size(); ++n)
            if (made[n]) read_reduction(n);
        if (core_.has_core()) read_contractions();
        check_flow(made);
        const bool pairs = core_.makes(kind::weights) || core_.makes(kind::column) || core_.makes(kind::head_mean);
        core_.saved_rows = pairs && core_.weights_by == statistic::softmax ? 2 : 0;
        return core_;
    }

    /// Whether a node that a core makes belongs to the present core.
    bool belongs(int n) const { return count_ == 1 || cores_.of(node_at(n)) == core_at_; }

    void read_statistic(int n) {
        const instruction& it = node(n);
        const bool weighs = it.op == operation::softmax || it.op == operation::unnormalized;
        if (!weighs && it.op != operation::log_sum_exp && it.op != operation::row_maximum) return;
        core_.scores = it.arguments[0];
        core_.log_sum |= it.op == operation::log_sum_exp;
        core_.maximum |= it.op == operation::row_maximum;
        if (!weighs) return;
        core_.statistic_node = n;
        core_.weights_by = it.op == operation::softmax ? statistic::softmax : statistic::unnormalized;
        if (it.argument_count > 1) core_.sink = it.arguments[1];
    }

    void read_output(const output_declaration& output) {
        const std::string name(output.name);
        const kind what = node(output.node).kind;
        switch (what) {
            case kind::output:
            case kind::row:
            case kind::weights:
            case kind::column:
            case kind::head_mean:
            case kind::tokens:
            case kind::precomputed:
            case kind::states:
            case kind::last_state: break;
            case kind::gradient: read_scores_of_gradients(); break;
            case kind::scores:
                if (core_.scores < 0 || !under({core_.scores})[output.node]) core_.scores = output.node;
                break;
            case kind::tensor:
            case kind::transposed:
            case kind::state:
            case kind::integer:
            case kind::real:
            case kind::condition:
                refuse("output \"" + name +
                       "\" is neither an output, a row, scores, weights, nor a sum of weights; nothing of that kind is "
                       "written");
        }
        core_.outputs.push_back(what);
    }

    /// The outermost scores: those of the forward pass's softmax.
    void read_scores_of_gradients() {
        const std::vector<bool> made = under(output_nodes(graph_));
        for (int n = 0; n < size(); ++n)
            if (made[n] && node(n).kind == kind::scores) core_.scores = n;
        if (!core_.has_core()) refuse("attune makes no kernel for gradients that no score has a part in yet");
    }

    void read_reduction(int n) {
        const instruction& it = node(n);
        if (it.op == operation::load && node(it.arguments[0]).kind == kind::output) {
            if (core_at_ > 0) return;
            core_.saved_output = it.arguments[0];
            if (node(it.arguments[3]).op != operation::q_idx)
                refuse("an output is read at another query than q_idx; a layer keeps the positions of its queries");
        } else if (it.op == operation::row_sum && belongs(n)) {
            core_.summed_weights.push_back(it.arguments[0]);
        } else if (it.op == operation::weighted_sum && belongs(n)) {
            core_.weights = it.arguments[0];
            const operation rounds = node(core_.weights).op;
            core_.weight_digits = rounds == operation::in_u8 ? 1 : rounds == operation::in_i16 ? 2 : 0;
            core_.value = tensor(it.arguments[1], "the values of a weighted sum");
        }
    }

    void read_contractions() {
        const std::vector<bool> made = under({core_.scores});
        std::vector<int> contractions;
        for (int n = 0; n < size(); ++n)
            if (made[n] && node(n).op == operation::contract) contractions.push_back(n);
        core_.further = contractions_under(graph_, depends_, {core_.scores});
        if (contractions.size() != 1)
            refuse("expected scores with one q * t(k), got " + std::to_string(contractions.size()) +
                   "; a kernel contracts once");
        core_.contraction = contractions.front();
        const instruction& transposed = node(node(core_.contraction).arguments[1]);
        if (transposed.op != operation::transpose)
            refuse("expected scores as q * t(k), got a product without a transposed tensor");
        core_.query = tensor(node(core_.contraction).arguments[0], "the queries of a product");
        core_.key = tensor(transposed.arguments[0], "the keys of a product");
    }

    int tensor(int n, const char* what) const {
        const instruction& it = node(n);
        if (it.op == operation::queries || it.op == operation::keys || it.op == operation::values) return n;
        if (it.op != operation::input)
            refuse(std::string("expected a tensor as ") + what +
                   ", got an expression; queries(...), keys(...) and values(...) form one");
        if (graph_.inputs[it.input].rank != 4)
            refuse(std::string("expected ") + what + " as (batch, head, length, depth), got rank " +
                   std::to_string(graph_.inputs[it.input].rank));
        return n;
    }

    /// A number that needs all keys must not decide a key's score.
    void check_flow(const std::vector<bool>& made) const {
        std::vector<int> roots;
        for (int n = 0; n < size(); ++n) {
            const operation op = node(n).op;
            const bool weighted = node(n).kind == kind::weights && node(n).op != operation::softmax &&
                                  node(n).op != operation::unnormalized;
            if (!made[n]) continue;
            if (op == operation::queries || op == operation::keys || op == operation::values) roots.push_back(n);
            for (int i = 0; weighted && i < node(n).argument_count; ++i)
                if (node(node(n).arguments[i]).kind != kind::weights) roots.push_back(node(n).arguments[i]);
        }
        if (core_.scores >= 0) roots.push_back(core_.scores);
        if (core_.sink >= 0) roots.push_back(core_.sink);
        const std::vector<bool> before = under(roots);
        for (int n = 0; n < size(); ++n) {
            const kind is = node(n).kind;
            if (before[n] && (is == kind::row || is == kind::output || is == kind::column || is == kind::head_mean))
                refuse(
                    "a score, mask, weight or computed tensor depends on a row or an output, which is known only after "
                    "all keys were seen");
        }
    }

    const graph_ir& graph_;
    std::vector<dependence> depends_;
    attention_cores cores_;
    int count_{1}, core_at_{};
    plan core_;
};

/// A node as a further contraction, if it is a sum over products of a factor of the query and a factor of the key.
std::optional<further_contraction> further_contraction_at(const graph_ir& graph, const std::vector<dependence>& depends,
                                                          int node) {
    const auto on = [&](int n) { return depends[static_cast<std::size_t>(n)]; };
    const instruction& it = graph.nodes[node];
    if (it.op != operation::sum) return {};
    const instruction& body = graph.nodes[it.arguments[2]];
    const dependence sum = on(node);
    if (!sum.query || !sum.key || sum.bound || sum.channel || body.op != operation::multiply || body.kind != kind::real)
        return {};
    for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
        const int of_query = body.arguments[side], of_key = body.arguments[1 - side];
        if (on(of_query).key || on(of_query).score || on(of_key).query || on(of_key).score) continue;
        return further_contraction{node, of_query, of_key, it.arguments[0], it.arguments[1]};
    }
    return {};
}

}  // namespace

std::vector<const plan*> plan::cores() const {
    std::vector<const plan*> all{this};
    for (const plan& each : others) all.push_back(&each);
    return all;
}

bool plan::makes(kind what) const { return std::find(outputs.begin(), outputs.end(), what) != outputs.end(); }

std::vector<further_contraction> contractions_under(const graph_ir& graph, const std::vector<dependence>& depends,
                                                    const std::vector<int>& roots) {
    const std::vector<bool> made = under(graph, roots);
    std::vector<further_contraction> all;
    for (int n = 0; n < static_cast<int>(made.size()); ++n)
        if (const auto further = further_contraction_at(graph, depends, n);
            further && made[static_cast<std::size_t>(n)])
            all.push_back(*further);
    return all;
}

plan plan_of(const graph_ir& graph, const std::vector<dependence>& depends) { return reader(graph, depends).read(); }

std::vector<bool> under(const graph_ir& graph, const std::vector<int>& roots, const std::function<bool(int)>& ends) {
    std::vector<bool> reached(graph.nodes.size());
    for (int root : roots) reached[root] = true;
    for (std::size_t n = graph.nodes.size(); n-- > 0;)  // arguments lie before their users
        for (int i = 0; reached[n] && !ends(static_cast<int>(n)) && i < graph.nodes[n].argument_count; ++i)
            reached[graph.nodes[n].arguments[i]] = true;
    return reached;
}

bool length_is_given(const graph_ir& graph, operation computed) {
    return std::ranges::any_of(graph.nodes, [&](const instruction& node) {
        const bool alike = node.op == computed || (computed == operation::keys && node.op == operation::values);
        return alike && node.argument_count > 1;
    });
}

std::vector<bool> always_read(const graph_ir& graph) {
    std::vector<bool> reached(graph.nodes.size());
    for (const int output : output_nodes(graph)) reached[static_cast<std::size_t>(output)] = true;
    for (const auto& [element, value] : graph.stores)
        reached[static_cast<std::size_t>(element)] = reached[static_cast<std::size_t>(value)] = true;
    for (std::size_t at = reached.size(); at-- > 0;) {
        const instruction& n = graph.nodes[at];
        if (!reached[at] || n.op == operation::logical_and || n.op == operation::logical_or) continue;
        const int certain = n.op == operation::where ? 1 : n.argument_count;
        for (int i = 0; i < certain; ++i) reached[static_cast<std::size_t>(n.arguments[i])] = true;
    }
    return reached;
}

bool is_of_channels_alone(const graph_ir& graph, const std::vector<dependence>& depends, int node) {
    const dependence& its = depends[node];
    if (!its.channel || its.query || its.key || its.head || its.batch || its.score || its.bound != 0) return false;
    const std::vector<bool> needed = under(graph, {node});
    for (int n = 0; n <= node; ++n) {
        const instruction& each = graph.nodes[n];
        const bool whole = each.kind == kind::integer || each.kind == kind::condition || each.op == operation::input;
        // Dependences do not know the value channel of an initial state.
        const bool of_others =
            each.op == operation::load || family_of(each.op) == family::sums || each.op == operation::value_idx;
        if (needed[n] && (!whole || of_others)) return false;
    }
    return true;
}

std::vector<int> output_nodes(const graph_ir& graph) {
    std::vector<int> all;
    for (const output_declaration& output : graph.outputs) all.push_back(output.node);
    return all;
}

std::vector<int> hoistable(const graph_ir& graph, const std::vector<dependence>& depends, const std::vector<int>& roots,
                           const std::vector<int>& known) {
    const auto is_known = [&](int n) { return std::find(known.begin(), known.end(), n) != known.end(); };
    const auto is_kept = [&](int n) {
        const instruction& node = graph.nodes[n];
        const dependence& its = depends[n];
        const bool number = node.kind == kind::integer || node.kind == kind::real || node.kind == kind::condition;
        return number && its.costly && !(its.query && its.key) && !its.score && !its.channel && its.bound == 0;
    };
    const auto is_made_before = [&](int n) { return graph.nodes[n].kind == kind::precomputed; };
    const std::vector<bool> reached =
        under(graph, roots, [&](int n) { return is_known(n) || is_kept(n) || is_made_before(n); });
    std::vector<int> found;
    for (int n = static_cast<int>(graph.nodes.size()) - 1; n >= 0; --n)
        if (reached[n] && !is_known(n) && is_kept(n)) found.push_back(n);
    return found;
}

std::vector<int> loads_of_pairs(const graph_ir& graph, const std::vector<dependence>& depends,
                                const std::vector<int>& roots, const std::vector<int>& known) {
    const std::vector<bool> reached = under(graph, roots, [&](int n) {
        return graph.nodes[n].kind == kind::precomputed || std::find(known.begin(), known.end(), n) != known.end();
    });
    std::vector<int> found;
    for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) {
        const instruction& node = graph.nodes[n];
        const dependence& its = depends[n];
        if (!reached[n] || node.op != operation::load || graph.nodes[node.arguments[0]].op != operation::input)
            continue;
        const dependence& last = depends[node.arguments[node.argument_count - 1]];
        if (its.query && last.key && !last.query && !its.score && !its.channel && its.bound == 0) found.push_back(n);
    }
    return found;
}

namespace {

/// Whether a node is irregular by itself, apart from its arguments.
bool is_irregular(const graph_ir& graph, const instruction& node, const std::vector<dependence>& of) {
    const auto indexed = [&](int i) { return of[node.arguments[i]].query || of[node.arguments[i]].key; };
    switch (about(node.op).regularity) {
        case regularity::regular: return false;
        case regularity::by_divisor: return graph.nodes[node.arguments[1]].op != operation::constant;
        case regularity::by_factors: return indexed(0) && indexed(1);
        case regularity::irregular: return true;
    }
    return true;
}

}  // namespace

std::vector<dependence> dependences(const graph_ir& graph, const std::set<int>& given) {
    node_map<dependences_of_node> varies(graph.nodes.size());
    fold(graph.nodes, varies, [&](node_id n, const instruction& node, const auto& of) {
        return given.contains(n) ? dependences_of_node{variable::none, std::uint64_t{1} << 63}
                                 : dependences_at(node, of);
    });
    std::vector<dependence> all(graph.nodes.size());
    fold(graph.nodes, all, [&](node_id n, const instruction& node, const auto& of) {
        const dependences_of_node& on = varies[n];
        dependence here{on.has(variable::query),
                        on.has(variable::key),
                        on.has(variable::head),
                        on.has(variable::batch),
                        on.has(variable::channel),
                        on.has(variable::score),
                        on.bound};
        if (given.contains(n)) return here;
        here.costly = about(node.op).effort == effort::costly;
        here.irregular = is_irregular(graph, node, all);
        const bool of_arguments = about(node.op).passes_on != passes_on::nothing;
        for (int i = node.op == operation::load ? 1 : 0; of_arguments && i < node.argument_count; ++i) {
            here.costly = here.costly || of[i].costly;
            here.irregular = here.irregular || of[i].irregular;
        }
        here.irregular = here.irregular && (here.query || here.key);  // one value is as regular as can be
        return here;
    });
    return all;
}

}  // namespace attune::generators::inline analysis
