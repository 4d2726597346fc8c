#include "arguments.hpp"

#include <algorithm>
#include <stdexcept>

namespace attune::reference {
namespace {

std::string quoted(std::string_view s) { return "`" + std::string(s) + "`"; }

const argument* find(std::span<const argument> arguments, std::string_view name) {
    const auto found = std::ranges::find(arguments, name, &argument::name);
    return found == arguments.end() ? nullptr : &*found;
}

/// The first input that has such an axis says how long it is: tensors of the call's element type (q, k, v) before the
/// others, and an extent of 1, which may broadcast, only where nobody says more; then the outputs passed.
class shapes {
public:
    shapes(const graph_ir& graph, std::span<const argument> arguments, const std::vector<view>& views)
        : graph_(graph), arguments_(arguments), views_(views) {}

    std::int64_t along(axis_kind axis, std::int64_t otherwise) const {
        bool one = false;
        for (const bool of_call_type : {true, false})
            for (std::size_t i = 0; i < graph_.inputs.size(); ++i) {
                const input_declaration& declared = graph_.inputs[i];
                if (declared.is_scalar || (declared.element == element_type::any) != of_call_type) continue;
                for (std::size_t a = 0; a < declared.rank; ++a) {
                    if (declared.axes[a].kind != axis) continue;
                    const bool broadcasts = views_[i].extents[a] == 1 && (!of_call_type || axis == axis_kind::batch);
                    if (!broadcasts) return views_[i].extents[a];
                    one = true;
                }
            }
        for (const output_declaration& output : graph_.outputs) {
            const argument* given = find(arguments_, output.name);
            if (given == nullptr) continue;
            const std::vector<axis_kind> axes = axes_of(graph_.nodes[output.node].kind);
            const auto at = std::ranges::find(axes, axis);
            if (at != axes.end()) return std::get<tensor>(given->value).extent(static_cast<int>(at - axes.begin()));
        }
        return one ? std::max<std::int64_t>(otherwise, 1) : otherwise;
    }

private:
    const graph_ir& graph_;
    std::span<const argument> arguments_;
    const std::vector<view>& views_;
};

}  // namespace

std::vector<axis_kind> axes_of(kind output) {
    using enum axis_kind;
    switch (output) {
        case kind::output: return {batch, head, query, value_depth};
        case kind::row: return {batch, head, query};
        case kind::column: return {batch, head, key};
        case kind::head_mean: return {batch, query, key};
        case kind::tokens: return {batch, query, free};
        case kind::precomputed: return {batch, head};  // and its indices
        case kind::gradient: return {};                // its input's
        case kind::states: return {batch, head, query, depth, value_depth};
        case kind::last_state: return {batch, head, depth, value_depth};
        default: return {batch, head, query, key};
    }
}

bound_arguments bind(const graph_ir& graph, std::span<const argument> arguments, const options& how) {
    bound_arguments bound{std::vector<view>(graph.inputs.size()), std::vector<double>(graph.inputs.size()), {}, {}};
    for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
        const input_declaration& declared = graph.inputs[i];
        const argument* given = find(arguments, declared.name);
        if (given == nullptr)
            throw std::invalid_argument("reference: the graph reads " + quoted(declared.name) +
                                        ", which is not among the arguments");
        if (declared.is_scalar != std::holds_alternative<double>(given->value))
            throw std::invalid_argument("reference: " + quoted(declared.name) +
                                        (declared.is_scalar ? " is a number" : " is a tensor"));
        if (declared.is_scalar) {
            const double x = std::get<double>(given->value);
            const bool real = declared.element == element_type::f32 || declared.element == element_type::f64;
            bound.scalars[i] = real ? static_cast<double>(static_cast<float>(x)) : x;
        } else {
            bound.views[i] = view(std::get<tensor>(given->value));
            if (bound.views[i].extents.size() != declared.rank)
                throw std::invalid_argument("reference: " + quoted(declared.name) + " has rank " +
                                            std::to_string(bound.views[i].extents.size()) + ", expected " +
                                            std::to_string(declared.rank));
        }
    }
    if (const argument* given = find(arguments, "kv_lengths")) {
        const view lengths(std::get<tensor>(given->value));
        for (std::int64_t b = 0; b < lengths.extents.at(0); ++b)
            bound.lengths.push_back(static_cast<std::int64_t>(lengths.at({{b}})));
    }

    const shapes known(graph, arguments, bound.views);
    bound.size.batches = known.along(axis_kind::batch, 1);
    bound.size.heads = known.along(axis_kind::head, 1);
    bound.size.key_heads = known.along(axis_kind::key_head, 0);
    if (bound.size.key_heads == 0) bound.size.key_heads = bound.size.heads;  // as many as heads where none are said
    bound.size.queries = known.along(axis_kind::query, 1);
    bound.size.keys = known.along(axis_kind::key, 1);
    bound.size.depth = known.along(axis_kind::depth, how.depth);
    bound.size.value_depth = known.along(axis_kind::value_depth, how.value_depth);
    return bound;
}

}  // namespace attune::reference
