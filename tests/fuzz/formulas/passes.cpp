#include "passes.hpp"

#include "../../shards/cut_call.hpp"

#include <attune/ir/differentiate.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace fuzz {

using attune::element_type, attune::instruction, attune::kind, attune::operation, attune::testing::drawn_graph;

std::string_view name_of(pass made) {
    constexpr std::string_view names[] = {"graph", "gradient", "shard"};
    return names[static_cast<int>(made)];
}

namespace {

drawn_graph gradient_of(const drawn_graph& forward, const passed& how) {
    const attune::dsl::detail::ir_builder made =
        attune::dsl::detail::differentiation(forward.list()).run(how.of, how.wrt);
    if (!made.sound()) throw std::invalid_argument("no gradient");
    return drawn_graph::made_of(made, forward.fingerprint);
}

drawn_graph shard_made_of(const drawn_graph& forward) {
    attune::testing::sharded_graph made = attune::testing::shard_of(forward);
    if (!made.is_one()) throw std::invalid_argument("no shard");
    return std::move(made.graph);
}

}  // namespace

drawn_graph passed::graph(const drawn_graph& forward) const {
    if (made == pass::none) return forward;
    return made == pass::shard ? shard_made_of(forward) : gradient_of(forward, *this);
}

std::string passed::text(const drawn_graph& forward) const {
    if (made == pass::none) return "all";
    if (made == pass::shard) return "shard(all)";
    std::string outputs, tensors;
    for (const std::string_view name : of)
        outputs += fmt::format("{}output<\"{}\">", outputs.empty() ? "" : ", ", name);
    for (const std::string_view name : wrt) tensors += (tensors.empty() ? "" : ", ") + forward.node_of_input(name);
    return fmt::format("gradient(all{}{})", of.empty() ? "" : fmt::format(", of({})", outputs),
                       wrt.empty() ? "" : fmt::format(", wrt({})", tensors));
}

bool make_differentiable(drawn_graph& graph) {
    graph.keep_one_core();
    std::erase_if(graph.outputs, [&](const auto& o) {
        const kind is = graph.nodes[o.node].kind;
        return is != kind::output && is != kind::row;
    });
    graph.forget_unused();
    const auto name_it = [&](const std::string& kind, std::size_t number, std::size_t node) {
        const auto at = static_cast<attune::node_id>(node);
        if (std::ranges::find(graph.outputs, at, &attune::output_declaration::node) == graph.outputs.end())
            graph.outputs.push_back({attune::testing::lasting(kind + std::to_string(number)), at});
    };
    for (std::size_t n = 0, count = graph.nodes.size(); n < count; ++n) {
        const operation op = graph.nodes[n].op;
        if (op == operation::tokens) return false;
        if (op == operation::weighted_sum || op == operation::row_sum || op == operation::log_sum_exp)
            name_it("saved_", n, n);
        if (op != operation::softmax) continue;
        instruction lse = graph.nodes[n];
        lse.op = operation::log_sum_exp, lse.kind = kind::row;
        const auto same = std::ranges::find(graph.nodes, lse) - graph.nodes.begin();
        if (same == std::ssize(graph.nodes)) graph.nodes.push_back(lse);
        name_it("lse_", n, static_cast<std::size_t>(same));
    }
    graph.forget_unused();
    return !graph.outputs.empty();
}

std::vector<std::string_view> tensors_of_reals(const drawn_graph& graph) {
    std::vector<std::string_view> names;
    for (const attune::input_declaration& d : graph.inputs)
        if (!d.is_scalar && (d.element == element_type::any || d.element == element_type::f32 ||
                             d.element == element_type::bf16 || d.element == element_type::f16))
            names.push_back(d.name);
    return names;
}

}  // namespace fuzz
