#include "inspect/describe.hpp"

#include "base/formatting.hpp"

namespace attune::generators::inline inspect {

std::string described(const variant& v, bool as_header) {
    const auto colon = v.name.rfind("::");
    const std::string space = colon == v.name.npos ? "" : v.name.substr(0, colon),
                      name = colon == v.name.npos ? v.name : v.name.substr(colon + 2);
    std::vector<std::string_view> lines;  // declarations and parts, `name = value`, then the outputs
    for (std::string_view rest = v.graph.text; !rest.empty();
         rest.remove_prefix(std::min(rest.size(), lines.back().size() + 1)))
        lines.push_back(rest.substr(0, rest.find('\n')));

    const std::size_t parts = lines.size() - v.graph.outputs.size();
    const auto value_of = [&](std::size_t output) {
        return lines[parts + output].substr(v.graph.outputs[output].name.size() + 3);
    };
    std::string text;
    for (std::size_t i = 0; i < parts; ++i) text += fmt::format("inline constexpr auto {};\n", lines[i]);
    if (v.graph.outputs.size() == 1 && v.graph.outputs[0].name == "out") {
        text += fmt::format("inline constexpr auto {} = {};\n", name, value_of(0));
    } else {
        text += fmt::format("inline constexpr auto {} = outputs(\n", name);
        for (std::size_t i = 0; i < v.graph.outputs.size(); ++i)
            text += fmt::format("    output<\"{}\"> = {}{}\n", v.graph.outputs[i].name, value_of(i),
                                i + 1 < v.graph.outputs.size() ? "," : ");");
    }
    if (!as_header) return text;
    const std::string open = space.empty() ? "" : fmt::format("namespace {} {{\n", space),
                      close = space.empty() ? "" : fmt::format("\n}}  // namespace {}\n", space);
    return fmt::format(
        "#pragma once\n#include <attune/dsl.hpp>\n\n// {}, fingerprint {:016x}\n{}using namespace attune::dsl;\n\n{}{}",
        v.name, v.graph.fingerprint, open, text, close);
}

}  // namespace attune::generators::inline inspect
