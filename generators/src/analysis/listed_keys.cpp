#include "analysis/listed_keys.hpp"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <utility>

namespace attune::generators::inline analysis {
namespace {

bool depends_on_key(const graph_ir& graph, int node) {
    const std::vector<bool> made =
        under(graph, {node}, [&](int n) { return graph.nodes[n].kind == kind::precomputed; });
    for (int n = 0; n <= node; ++n)
        if (made[n] && graph.nodes[n].op == operation::kv_idx) return true;
    return false;
}

/// Whether a condition reads a choice at kv_idx itself, and not at that of a block.
bool chooses_by_key(const graph_ir& graph, int condition) {
    const std::vector<bool> made = under(graph, {condition});
    for (int n = 0; n <= condition; ++n) {
        const instruction& it = graph.nodes[n];
        if (made[n] && it.op == operation::load && chooses(graph.nodes[it.arguments[0]].op) &&
            graph.nodes[it.arguments[it.argument_count - 1]].op == operation::kv_idx)
            return true;
    }
    return false;
}

/// The conditions of the masks around the scores that are known before a score is.
std::vector<int> conditions_of(const graph_facts& of) {
    std::vector<int> all;
    for (int n = of.core.scores; of.graph.nodes[n].op == operation::mask; n = of.graph.nodes[n].arguments[0])
        if (const int condition = of.graph.nodes[n].arguments[1]; !of.depends[condition].score)
            all.push_back(condition);
    return all;
}

/// A graph in memory of its own; its inputs are those of the graph that it was made from.
struct owned_graph {
    std::vector<instruction> nodes;
    std::vector<output_declaration> outputs;
    std::vector<std::string_view> indices;
    graph_ir view{};
};

/// Enters a formula anew, with a list's element wherever it says kv_idx.
class over_list {
public:
    over_list(const graph_facts& of, const std::vector<int>& conditions)
        : of_(of), graph_(of.graph), conditions_(conditions) {
        made_.indices.assign(graph_.indices.begin(), graph_.indices.end());
        const auto place = static_cast<std::int64_t>(made_.indices.size());
        made_.indices.emplace_back("place");
        key_ = add(operation::kv_idx, kind::integer, {});
        node_id seen = as_it_is(conditions.front());
        for (std::size_t i = 1; i < conditions.size(); ++i)
            seen = add(operation::logical_and, kind::condition, {seen, as_it_is(conditions[i])});
        const node_id length = add(operation::key_length, kind::integer, {}), one = constant(1);
        const node_id list = add(operation::precomputed, kind::precomputed,
                                 {add(operation::to_real, kind::real, {seen}),
                                  add({.op = operation::bound, .kind = kind::integer, .integer = place}),
                                  add(operation::add, kind::integer, {length, one})});
        batch_ = add(operation::b, kind::integer, {}), head_ = add(operation::h, kind::integer, {});
        element_ = add(operation::load, kind::integer, {list, batch_, head_, key_});
        number_ = add(operation::load, kind::integer, {list, batch_, head_, length});
    }

    std::shared_ptr<owned_graph> run() {
        for (const output_declaration& each : graph_.outputs) made_.outputs.push_back({each.name, moved(each.node)});
        const auto all = std::make_shared<owned_graph>(std::move(made_));
        all->view = graph_;
        all->view.nodes = node_list(all->nodes), all->view.outputs = all->outputs, all->view.indices = all->indices;
        return all;
    }

private:
    node_id add(const instruction& it) {
        const auto found = std::ranges::find(made_.nodes, it);
        if (found == made_.nodes.end()) return made_.nodes.push_back(it), node_at(made_.nodes.size() - 1);
        return node_at(found - made_.nodes.begin());
    }
    node_id add(operation op, kind is, std::initializer_list<node_id> arguments) {
        instruction it{.op = op, .kind = is};
        for (const node_id argument : arguments) it.arguments[it.argument_count++] = argument;
        return add(it);
    }
    node_id constant(std::int64_t number) {
        return add({.op = operation::constant, .kind = kind::integer, .integer = number});
    }

    node_id as_it_is(int n) {
        if (const auto done = same_.find(n); done != same_.end()) return done->second;
        instruction it = graph_.nodes[n];
        for (int i = 0; i < it.argument_count; ++i) it.arguments[i] = as_it_is(it.arguments[i]);
        return same_[n] = add(it);
    }

    /// A node over the list. Where one query of each key head sees what is listed, nothing else is to be asked.
    node_id moved(int n) {
        if (const auto done = moved_.find(n); done != moved_.end()) return done->second;
        instruction it = graph_.nodes[n];
        if (it.kind == kind::precomputed) return moved_[n] = as_it_is(n);
        if (it.op == operation::kv_idx) return moved_[n] = element_;
        for (int i = 0; i < it.argument_count; ++i) it.arguments[i] = moved(it.arguments[i]);
        if (it.op == operation::transpose) it.arguments[0] = rows_of(graph_.nodes[n].arguments[0], operation::keys);
        if (it.op == operation::weighted_sum)
            it.arguments[1] = rows_of(graph_.nodes[n].arguments[1], operation::values);
        node_id made = add(it);
        if (std::ranges::find(conditions_, n) != conditions_.end() && !needs_head())
            made = add(operation::logical_or, kind::condition, {has_one_query(), made});
        if (n == of_.core.scores)
            made = add(operation::mask, kind::scores, {made, add(operation::less, kind::condition, {key_, number_})});
        return moved_[n] = made;
    }
    bool needs_head() const {
        return std::ranges::any_of(conditions_, [&](int n) { return of_.of_query_heads[n]; });
    }
    node_id has_one_query() {
        return add(operation::equal, kind::condition, {add(operation::query_length, kind::integer, {}), constant(1)});
    }

    /// Keys or values: what an input has at the keys of the list.
    node_id rows_of(int tensor, operation form) {
        if (graph_.nodes[tensor].op != operation::input) return moved(tensor);
        const node_id channel = add(operation::d_idx, kind::integer, {});
        return add(form, kind::tensor,
                   {add(operation::load, kind::real, {as_it_is(tensor), batch_, head_, element_, channel})});
    }

    const graph_facts& of_;
    const graph_ir& graph_;
    const std::vector<int>& conditions_;
    owned_graph made_;
    std::map<int, node_id> same_, moved_;
    node_id key_{}, batch_{}, head_{}, element_{}, number_{};
};

}  // namespace

bool lists_keys(const graph_ir& graph, int node) {
    const instruction& it = graph.nodes[node];
    return it.op == operation::precomputed && graph.nodes[it.arguments[0]].op == operation::to_real &&
           depends_on_key(graph, it.arguments[0]);
}

std::shared_ptr<const graph_facts> facts_of_listed_keys(const graph_facts& of) {
    const plan& core = of.core;
    if (!core.others.empty() || !core.has_core() || !of.decode_unsupported_reason.empty()) return {};
    const auto has_queries = [](const input_declaration& input) {
        return std::ranges::any_of(input.axes, [](const auto& axis) { return axis.kind == axis_kind::query; });
    };
    if (std::ranges::none_of(of.graph.inputs, has_queries)) return {};  // nothing says how many see a key
    const std::vector<int> conditions = conditions_of(of);
    if (std::ranges::none_of(conditions, [&](int n) { return chooses_by_key(of.graph, n); })) return {};
    struct facts_and_graph {
        std::shared_ptr<const owned_graph> graph;
        std::shared_ptr<const graph_facts> facts;
    };
    const auto both = std::make_shared<facts_and_graph>();
    both->graph = over_list(of, conditions).run();
    if (both->graph->nodes.size() > max_nodes) return {};
    both->facts = facts_of(both->graph->view);
    return {both, both->facts.get()};
}

}  // namespace attune::generators::inline analysis
