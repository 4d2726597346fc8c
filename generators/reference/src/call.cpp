#include <attune/reference.hpp>
#include <attune/runtime/cpu.hpp>

#include <algorithm>
#include <stdexcept>

namespace attune::reference {
namespace {

using detail::named_argument;

bool is_of_call_type(const input_declaration& d) { return d.element == element_type::any && !d.is_scalar; }

/// The facts of a call's arguments from which a stand-in for a kernel is made.
class call_facts {
public:
    call_facts(const graph_ir& graph, std::span<const named_argument> arguments)
        : graph_(graph), arguments_(arguments) {}

    const tensor* tensor_named(std::string_view name) const {
        const auto found = std::ranges::find(arguments_, name, &named_argument::name);
        return found == arguments_.end() || found->is != named_argument::form::view ? nullptr : &found->view;
    }
    element_type type_of(std::string_view name) const {
        const tensor* const t = tensor_named(name);
        return t != nullptr ? t->type() : element_type::f32;
    }
    element_type type_of_outputs() const {
        for (const input_declaration& d : graph_.inputs)
            if (is_of_call_type(d) && d.name != "q" && d.name != "k" && d.name != "v") return type_of(d.name);
        for (const output_declaration& o : graph_.outputs)
            if (graph_.nodes[o.node].kind == kind::output && tensor_named(o.name) != nullptr) return type_of(o.name);
        return element_type::f32;
    }
    /// As calls find a depth: by q, k and v, by an input of another extent than 1, which may broadcast, by an output.
    int depth_of(axis_kind axis, std::int64_t otherwise) const {
        for (const bool of_call_type : {true, false})
            for (const input_declaration& d : graph_.inputs)
                for (std::size_t a = 0; a < d.rank; ++a) {
                    const tensor* const t = tensor_named(d.name);
                    if (d.axes[a].kind != axis || is_of_call_type(d) != of_call_type || t == nullptr ||
                        t->rank() != d.rank)
                        continue;
                    const std::int64_t extent = t->extent(static_cast<int>(a));
                    if (of_call_type || extent != 1) return static_cast<int>(extent);
                }
        for (const output_declaration& o : graph_.outputs) {
            const tensor* const t = tensor_named(o.name);
            const std::vector<axis_kind> axes = axes_of(graph_.nodes[o.node].kind);
            const auto at = std::ranges::find(axes, axis);
            if (t != nullptr && at != axes.end() && t->rank() == static_cast<int>(axes.size()))
                return static_cast<int>(t->extent(static_cast<int>(at - axes.begin())));
        }
        return static_cast<int>(otherwise);
    }

private:
    const graph_ir& graph_;
    std::span<const named_argument> arguments_;
};

/// Refuses all that a call refuses. The runtime checks a call against a kernel; here the kernel is one that fits the
/// arguments and is never run.
void check(const char* name, const graph_ir& graph, std::span<const named_argument> arguments, const options& known) {
    for (const named_argument& each : arguments)
        if (each.is == named_argument::form::view && each.view.where() != memory::host)
            detail::fail("tensors in host memory, for the reference evaluator",
                         std::string(each.name) + " in memory of a GPU", "a copy on the host");
    const call_facts facts(graph, arguments);
    kernel stands_for_any{};
    stands_for_any.symbol = "reference", stands_for_any.target = cpu_levels().front().data();
    for (const std::string_view level : cpu_levels())
        if (runs(level)) stands_for_any.target = level.data();
    stands_for_any.query = facts.type_of("q"), stands_for_any.key = facts.type_of("k"),
    stands_for_any.value = facts.type_of("v"), stands_for_any.output = facts.type_of_outputs();
    stands_for_any.depth = static_cast<int>(known.depth),
    stands_for_any.value_depth = static_cast<int>(known.value_depth);
    stands_for_any.query_block = stands_for_any.key_block = 1 << 20;
    stands_for_any.product_positions = stands_for_any.product_channels = 8;
    const kernel_table table{kernel_table_version, name, graph, {&stands_for_any, 1}};
    const attune::options checked{.target = stands_for_any.target, .checked = true};
    detail::explain(table, arguments, checked);
}

}  // namespace

results evaluate_call(const char* name, const graph_ir& graph, std::span<const named_argument> arguments,
                      const options& how) {
    const call_facts facts(graph, arguments);
    options known = how;
    known.depth = facts.depth_of(axis_kind::depth, how.depth);
    known.value_depth = facts.depth_of(axis_kind::value_depth, how.value_depth > 0 ? how.value_depth : known.depth);
    check(name, graph, arguments, known);
    std::vector<argument> given;
    for (const named_argument& each : arguments)
        if (each.is == named_argument::form::view)
            given.push_back({each.name, each.view});
        else
            given.push_back(
                {each.name, each.is == named_argument::form::real ? each.real : static_cast<double>(each.integer)});
    try {
        return evaluate(graph, given, known);
    } catch (const std::invalid_argument& problem) {
        detail::fail("a call that the reference evaluator computes", problem.what(), "attune::reference::options");
    }
}

}  // namespace attune::reference
