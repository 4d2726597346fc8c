#include "reductions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace fuzz {
namespace {

using attune::instruction;
using attune::kind;
using attune::operation;

struct list {
    const formula_case& from;
    std::vector<formula_case> made;

    template <class Change> void add(Change change) {
        formula_case smaller = from;
        try {
            change(smaller);
        } catch (const std::runtime_error&) {
            return;  // the generators have no kernel for it
        }
        // The settled shape may be the old one: as few keys as there are queries that store, whole pages.
        if (settle(smaller) && !is_as_before(smaller)) made.push_back(std::move(smaller));
    }
    bool is_as_before(const formula_case& it) const {
        return it.graph.nodes == from.graph.nodes && it.graph.outputs == from.graph.outputs &&
               it.graph.stores == from.graph.stores && it.text() == from.text();
    }
    template <class T> void less(T formula_case::* part, T value) {
        if (from.*part != value) add([&](formula_case& it) { it.*part = value; });
    }
};

void fewer_outputs(list& to) {
    const std::size_t count = to.from.graph.outputs.size();
    for (std::size_t i = 0; count > 1 && i < count; ++i)
        to.add([&](formula_case& it) {
            it.graph.outputs.erase(it.graph.outputs.begin() + static_cast<std::ptrdiff_t>(i));
            it.graph.forget_unused();
        });
}

void fewer_stores(list& to) {
    for (std::size_t i = 0; i < to.from.graph.stores.size(); ++i)
        to.add([&](formula_case& it) {
            it.graph.stores.erase(it.graph.stores.begin() + static_cast<std::ptrdiff_t>(i));
            it.graph.forget_unused();
        });
}

/// The graph itself; fewer cotangents and fewer gradients.
void simpler_pass(list& to) {
    const passed& now = to.from.kernel_of;
    if (now.made == pass::none) return;
    to.add([](formula_case& it) { it.kernel_of = {}, it.cut = usual_schedule(it); });
    if (now.made != pass::gradient) return;
    const auto alone = [&](std::vector<std::string_view> passed::* list, std::string_view name) {
        if (now.*list != std::vector{name}) to.add([=](formula_case& it) { it.kernel_of.*list = {name}; });
    };
    for (const auto& o : to.from.graph.outputs) alone(&passed::of, o.name);
    for (const std::string_view name : tensors_of_reals(to.from.graph)) alone(&passed::wrt, name);
}

void simpler_call(list& to) {
    const auto& s = to.from.shape;
    const auto with = [&](auto change) { to.add([&](formula_case& it) { change(it.shape); }); };
    if (s.batches > 1) with([](auto& it) { it.batches = 1; });
    if (s.heads > s.key_heads) with([](auto& it) { it.heads = it.key_heads; });
    if (s.key_heads > 1) with([](auto& it) { it.heads /= it.key_heads, it.key_heads = 1; });
    if (s.queries > 1) with([](auto& it) { it.queries = 1; });
    if (s.queries > 2) with([](auto& it) { it.queries = it.queries / 2; });
    if (s.queries > 2) with([](auto& it) { it.queries -= 1; });
    if (s.keys > 1) with([](auto& it) { it.keys = 1; });
    if (s.keys > 2) with([](auto& it) { it.keys = it.keys / 2; });
    if (s.keys > 2) with([](auto& it) { it.keys -= 1; });
    to.less(&formula_case::threads, 1);
    to.less(&formula_case::relaid, false);
    to.less(&formula_case::broadcast, false);
    to.less(&formula_case::hidden_nan, false);
    to.less(&formula_case::cu_seqlens_q, {});
    to.less(&formula_case::kv_lengths, {});
    to.less(&formula_case::types, std::string("f32"));
    for (const auto& [name, length] : to.from.lengths)
        if (length > 1 && name != "joined" && name != "seat" && name != "page" && !name.empty())
            to.add([&, which = name](formula_case& it) { it.lengths[which] = 1; });
}

void simpler_kernel(list& to) {
    to.less(&formula_case::cut, usual_schedule(to.from));
    if (to.from.depth <= 2 && to.from.value_depth <= 1) return;
    const auto depths = [&](int depth, int value_depth) {
        to.add([&](formula_case& it) {
            it.depth = depth, it.value_depth = value_depth;
            it.shape.depth = depth, it.shape.value_depth = value_depth;
            std::visit(
                [depth](auto& cut) {
                    if constexpr (requires { cut.depth_unroll; })
                        while (depth % cut.depth_unroll != 0) cut.depth_unroll /= 2;
                },
                it.cut);
            if (is_for_gradient(it.cut)) it.cut = usual_schedule(it);  // its sums are as wide as the depths
        });
    };
    depths(2, 1);
    if (to.from.depth > 2) depths(2, to.from.value_depth);
    if (to.from.value_depth > 1) depths(to.from.depth, 1);
}

/// One node for another of its kind. What is not a graph of the language any more is left out.
void replace(list& to, std::size_t node, const instruction& by) {
    formula_case smaller = to.from;
    smaller.graph.nodes[node] = by;
    smaller.graph.forget_unused();
    if (smaller.graph.nodes.size() > to.from.graph.nodes.size() || !smaller.graph.fault().empty()) return;
    if (settle(smaller)) to.made.push_back(std::move(smaller));
}

void replace_by_argument(list& to, std::size_t node, std::size_t argument) {
    formula_case smaller = to.from;
    auto& nodes = smaller.graph.nodes;
    const auto by = nodes[node].arguments[argument];
    for (instruction& n : nodes)
        for (std::size_t i = 0; i < n.argument_count; ++i)
            if (n.arguments[i] == attune::node_at(node)) n.arguments[i] = by;
    for (auto& output : smaller.graph.outputs)
        if (output.node == attune::node_at(node)) output.node = by;
    for (auto& store : smaller.graph.stores)
        if (store.value == attune::node_at(node)) store.value = by;
    smaller.graph.forget_unused();
    if (!smaller.graph.fault().empty()) return;
    if (settle(smaller)) to.made.push_back(std::move(smaller));
}

void simpler_formulas(list& to) {
    const auto& nodes = to.from.graph.nodes;
    for (std::size_t i = nodes.size(); i-- > 0;) {
        const instruction& n = nodes[i];
        for (std::size_t a = 0; a < n.argument_count; ++a)
            if (nodes[n.arguments[a]].kind == n.kind) replace_by_argument(to, i, a);
        if (n.op == operation::constant) continue;
        if (n.kind == kind::integer && n.op != operation::bound)
            for (const int number : {0, 1})
                replace(to, i, {.op = operation::constant, .kind = kind::integer, .integer = number});
        if (n.kind == kind::real) replace(to, i, {.op = operation::constant, .kind = kind::real, .number = 0.5});
        // A product of sums, a cache or a formed tensor becomes the tensor that is passed.
        const bool formed = n.op == operation::queries || n.op == operation::keys || n.op == operation::values;
        for (std::size_t given = 0; formed && given < to.from.graph.inputs.size(); ++given)
            if (const auto& d = to.from.graph.inputs[given]; d.name == (n.op == operation::queries ? "q"
                                                                        : n.op == operation::keys  ? "k"
                                                                                                   : "v"))
                replace(to, i,
                        {.op = operation::input, .kind = kind::tensor, .input = static_cast<std::int16_t>(given)});
    }
}

}  // namespace

std::vector<formula_case> reductions_of(const formula_case& it) {
    list to{it, {}};
    fewer_outputs(to);
    fewer_stores(to);
    simpler_pass(to);
    simpler_formulas(to);
    simpler_kernel(to);
    simpler_call(to);
    return std::move(to.made);
}

std::vector<std::size_t> shrink(formula_case& it, const std::function<bool(const formula_case&)>& fails) {
    std::vector<std::size_t> steps;
    for (std::size_t from = 0;;) {
        std::vector<formula_case> all = reductions_of(it);
        const std::size_t count = all.size();
        std::size_t tried = 0;
        for (; tried < count; ++tried)  // from where the last one was: those before it have just been tried
            if (fails(all[(from + tried) % count])) break;
        if (tried == count) return steps;
        from = (from + tried) % count;
        steps.push_back(from);
        it = std::move(all[from]);
    }
}

void take(formula_case& it, const std::vector<std::size_t>& steps) {
    for (const std::size_t step : steps) {
        std::vector<formula_case> all = reductions_of(it);
        if (step >= all.size()) throw std::invalid_argument(fmt::format("no reduction {} of this case", step));
        it = std::move(all[step]);
    }
}

}  // namespace fuzz
