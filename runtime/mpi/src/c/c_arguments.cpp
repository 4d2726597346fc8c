#include "mpi/src/c/c_arguments.hpp"

#include <attune/dsl/shard.hpp>
#include <attune/mpi/inputs.hpp>

#include <algorithm>
#include <string>

namespace attune::mpi::detail {
namespace {

using attune::detail::add_part, attune::detail::fail, attune::detail::say;

/// Lengths of the whole are all keys unless they are passed.
bool is_callers(const graph_ir& shard, const input_declaration& input) {
    return role_of(shard, input) != role::supplied || input.name == dsl::of_shard::lengths.label;
}

void check_form(const input_declaration& declared, const named_argument& given) {
    const bool is_view = given.is == named_argument::form::view;
    if (declared.is_scalar && is_view)
        fail(say("a number for ", given.name), say("a tensor, ", given.view.description()), "passing the value itself");
    if (!declared.is_scalar && !is_view) fail(say("a tensor for ", given.name), "a number", "attune_tensor_argument");
}

void check_once(std::span<const named_argument> given) {
    for (auto rest = given; !rest.empty(); rest = rest.subspan(1))
        if (std::ranges::count(rest, rest.front().name, &named_argument::name) > 1)
            fail(say(rest.front().name, " once"), "it twice", "leaving one of them out");
}

}  // namespace

const kernel_table& table_of(const attune_variant* variant) {
    if (!variant) fail("a variant", "null", "<variant>_variant() of <target>.h");
    if (variant->version != ATTUNE_C_VERSION)
        fail("a variant of this version of attune/c.h", "one of another", "building its kernels again");
    if (variant->calls != &attune::detail::this_runtime)
        fail("kernels that are linked with this copy of attune", "those of a shared library, which has its own",
             "the static library of the kernels");
    const kernel_table& table = variant->table();
    attune::detail::check_version(table);
    return table;
}

std::vector<named_argument> arguments_of_call(const graph_ir& shard, std::string_view variant,
                                              std::span<const named_argument> given) {
    check_once(given);
    std::vector<named_argument> all;
    for (const named_argument& each : given) {
        named_argument& kept = all.emplace_back(each);
        const auto input = std::ranges::find(shard.inputs, each.name, &input_declaration::name);
        if (input != shard.inputs.end() && is_callers(shard, *input)) {
            check_form(*input, each);
            kept.name = input->name;
            continue;
        }
        const auto output = std::ranges::find(shard.outputs, each.name, &output_declaration::name);
        if (output == shard.outputs.end()) {
            std::string names;
            for (const input_declaration& one : shard.inputs)
                if (is_callers(shard, one)) add_part(names, one.name);
            for (const output_declaration& one : shard.outputs) add_part(names, one.name);
            fail(say("one of ", names, " of ", variant), each.name,
                 "a name that the formula declares; positions and earlier results are the call's own");
        }
        kept.name = output->name;
    }
    return all;
}

std::vector<graph_to_plan> to_plan(std::span<const attune_variant* const> variants,
                                   std::span<const named_argument> given) {
    check_once(given);
    std::vector<graph_to_plan> graphs;
    for (const attune_variant* const variant : variants) graphs.push_back({table_of(variant), {}});
    for (const named_argument& each : given) {
        bool known = false;
        for (graph_to_plan& graph : graphs) {
            const graph_ir& shard = graph.table.graph;
            const auto input = std::ranges::find(shard.inputs, each.name, &input_declaration::name);
            if (input == shard.inputs.end() || !is_callers(shard, *input)) continue;
            known = true;
            check_form(*input, each);
            graph.given.push_back(each);
            graph.given.back().name = input->name;
        }
        if (!known)
            fail("inputs of the variants that are planned", each.name,
                 "what their masks depend on, by its name in the formula");
    }
    return graphs;
}

}  // namespace attune::mpi::detail
