#include "stores.hpp"

#include "evaluation.hpp"

#include <attune/ir/stores.hpp>

namespace attune::reference {
namespace {

/// Calls `visit` with the indices of every element, the last axis fastest.
template <class Visit> void each_element(std::span<const std::int64_t> extents, Visit visit) {
    std::vector<std::int64_t> index(extents.size());
    if (std::ranges::find(extents, 0) != extents.end()) return;
    for (std::size_t axis = extents.size(); true;) {
        visit(std::span<const std::int64_t>(index));
        for (axis = extents.size(); axis > 0 && ++index[axis - 1] == extents[axis - 1]; --axis) index[axis - 1] = 0;
        if (axis == 0) return;
    }
}

}  // namespace

stored_copies::stored_copies(const graph_ir& graph, std::span<const argument> given, const options& how)
    : arguments_(given.begin(), given.end()) {
    std::vector<std::byte*> copies(graph.inputs.size());
    each_stored(graph, [&](std::size_t input) {
        const std::string_view name = names_.emplace_back(graph.inputs[input].name);
        const auto found = std::ranges::find(arguments_, name, &argument::name);
        if (found == arguments_.end()) return;  // the evaluation says so
        const view from(std::get<tensor>(found->value));
        std::vector<std::byte>& to = memory_.emplace_back();
        const auto size = static_cast<std::size_t>(bytes_of(from.element));
        each_element(from.extents, [&](std::span<const std::int64_t> index) {
            const std::byte* const at = from.data + from.offset(index) * static_cast<std::int64_t>(size);
            to.insert(to.end(), at, at + size);
        });
        found->value = tensor(from.element, static_cast<void*>(to.data()), from.extents);
        copies[input] = to.data();
    });
    if (graph.stores.empty()) return;
    evaluation e(graph, arguments_, how);
    for (const store_declaration& each : graph.stores)
        e.apply(each, copies[static_cast<std::size_t>(tensor_of(graph.nodes, each))]);
}

std::vector<array> stored_copies::contents() const {
    std::vector<array> all;
    for (const std::string_view name : names_) {
        const view from(std::get<tensor>(std::ranges::find(arguments_, name, &argument::name)->value));
        array& to = all.emplace_back(array{std::string(name), from.extents, {}, -1});
        each_element(from.extents, [&](std::span<const std::int64_t> index) { to.values.push_back(from.at(index)); });
    }
    return all;
}

}  // namespace attune::reference
