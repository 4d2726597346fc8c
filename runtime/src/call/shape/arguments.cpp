#include "call/shape/arguments.hpp"
#include "base/text.hpp"

#include <attune/runtime/detail/call.hpp>
#include <attune/runtime/error.hpp>

#include <limits>

namespace attune::detail {
namespace {

constexpr std::string_view built_in_names[] = {"kv_lengths", "cu_seqlens_q"};

std::string known_names(const graph_ir& graph) {
    std::string names;
    for (const auto& input : graph.inputs) add_part(names, input.name);
    add_part(names, built_in_names[0]);
    if (takes_packed_queries(graph)) add_part(names, built_in_names[1]);
    for (const auto& output : graph.outputs) add_part(names, output.name);
    return names;
}

std::string what(const named_argument& given) {
    switch (given.is) {
        case named_argument::form::view: return "a tensor, " + given.view.description();
        case named_argument::form::integer: return std::to_string(given.integer);
        case named_argument::form::real: return std::to_string(given.real);
        case named_argument::form::boolean: return given.integer ? "true" : "false";
    }
    return "?";
}

}  // namespace

void check_form(const named_argument& given, bool scalar) {
    const bool is_view = given.is == named_argument::form::view;
    if (scalar && is_view) fail(say("a number for ", given.name), what(given), "passing the value itself");
    if (!scalar && !is_view) fail(say("a tensor for ", given.name), what(given), "attune::tensor(pointer, {shape})");
}

matched_arguments match(const kernel_table& table, std::span<const named_argument> arguments, bool outputs_needed,
                        std::pmr::memory_resource& memory) {
    const graph_ir& graph = table.graph;
    matched_arguments result(memory);
    result.inputs.resize(graph.inputs.size());
    result.outputs.resize(graph.outputs.size());
    // Typed calls have them in the graph's order, so that each is found where the one before suggests.
    const std::size_t inputs = graph.inputs.size(), outputs = inputs + std::size(built_in_names),
                      places = outputs + graph.outputs.size();
    const auto name_at = [&](std::size_t place) {
        return place < inputs    ? graph.inputs[place].name
               : place < outputs ? built_in_names[place - inputs]
                                 : graph.outputs[place - outputs].name;
    };
    // A formula's own cu_seqlens_q takes the name.
    const std::size_t taken = takes_packed_queries(graph) ? places : inputs + 1;
    std::size_t next = 0;
    for (const named_argument& given : arguments) {
        std::size_t place = next, looked = 0;
        for (; looked < places && (place == taken || name_at(place) != given.name); ++looked)
            place = place + 1 == places ? 0 : place + 1;
        next = place + 1 == places ? 0 : place + 1;
        const bool known = looked < places;
        const named_argument** const slot = !known                ? nullptr
                                            : place < inputs      ? &result.inputs[place]
                                            : place == inputs     ? &result.kv_lengths
                                            : place == inputs + 1 ? &result.cu_seqlens_q
                                                                  : &result.outputs[place - outputs];
        const bool scalar = known && place < inputs && graph.inputs[place].is_scalar;
        if (!slot)
            fail(say("one of ", known_names(graph), " of ", table.variant), given.name,
                 "a name that the variant declares");
        if (*slot) fail(say(given.name, " once"), "it twice", "leaving one of them out");
        check_form(given, scalar);
        *slot = &given;
    }
    for (std::size_t i = 0; i < graph.inputs.size(); ++i)
        if (!result.inputs[i])
            fail(say("the input ", graph.inputs[i].name, " of ", table.variant), "none",
                 say("passing ", graph.inputs[i].name, " = ..."));
    for (std::size_t i = 0; outputs_needed && i < graph.outputs.size(); ++i)
        if (!result.outputs[i])
            fail(say("a tensor for the output ", graph.outputs[i].name, " of ", table.variant), "none",
                 say("passing ", graph.outputs[i].name, " = ..."));
    return result;
}

scalar_value scalar_of(const input_declaration& declared, const named_argument& given) {
    scalar_value result{};
    const bool real = given.is == named_argument::form::real;
    if (declared.element == element_type::f32 || declared.element == element_type::f64) {
        result.real = real ? static_cast<float>(given.real) : static_cast<float>(given.integer);
    } else {
        if (real) fail(say("an integer for ", declared.name), what(given), "a conversion to int");
        if (given.integer < std::numeric_limits<std::int32_t>::min() ||
            given.integer > std::numeric_limits<std::int32_t>::max())
            fail(say("an integer of 32 bits for ", declared.name), what(given), "a value within +-2147483647");
        result.integer = static_cast<std::int32_t>(given.integer);
    }
    return result;
}

}  // namespace attune::detail
