#include "explain.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace attune::generators {
namespace {

using json = nlohmann::ordered_json;

json axes_of(const input_declaration& d) {
    json axes = json::array();
    for (int i = 0; i < d.rank; ++i) axes.push_back(d.axes[static_cast<std::size_t>(i)].name);
    return axes;
}

std::string joined(const json& list) {
    std::string text;
    for (const auto& item : list) text += (text.empty() ? "" : ", ") + item.get<std::string>();
    return text;
}

json output_axes(const listing& graph, const output_declaration& o) {
    return graph.nodes[static_cast<std::size_t>(o.node)].is == kind::row ? json{"batch", "head", "query"} : json{"batch", "head", "query", "value_depth"};
}

json json_of(const variant& v, std::span<const listed_kernel> kernels) {
    json object{{"variant", v.name}, {"formula", v.graph.text}, {"fingerprint", fmt::format("{:016x}", v.graph.fingerprint)}};
    for (const auto& d : v.graph.inputs)
        object["inputs"].push_back({{"name", d.name}, {"element", name_of(d.element)}, {"scalar", d.is_scalar}, {"axes", axes_of(d)}});
    object["inputs"].push_back({{"name", "kv_lengths"}, {"element", "i32"}, {"scalar", false}, {"axes", {"batch"}}, {"optional", true}});
    for (const auto& o : v.graph.outputs) object["outputs"].push_back({{"name", o.name}, {"axes", output_axes(v.graph, o)}});
    for (const auto& k : kernels) {
        if (k.of != &v) continue;
        const auto& r = k.request;
        object["kernels"].push_back({{"symbol", k.symbol}, {"target", k.isa->name}, {"depth", r.depths.depth}, {"value_depth", r.depths.value_depth},
                                     {"scratch_bytes_per_thread", scratch_bytes(r.schedule, r.depths.depth, r.depths.value_depth)},
                                     {"schedule", json::parse(to_json(r.schedule))}});
    }
    return object;
}

}  // namespace

std::string explain_json(std::span<const variant> variants, std::span<const listed_kernel> kernels) {
    json all = json::array();
    for (const variant& v : variants) all.push_back(json_of(v, kernels));
    return all.dump(1) + "\n";
}

std::string explain_text(std::span<const variant> variants, std::span<const listed_kernel> kernels) {
    std::string text;
    for (const variant& v : variants) {
        const json it = json_of(v, kernels);
        text += fmt::format("{}  (fingerprint {})\n\n", v.name, it["fingerprint"].get<std::string>());
        for (std::string_view rest = v.graph.text; !rest.empty();) {
            text += fmt::format("    {}\n", rest.substr(0, rest.find('\n')));
            rest.remove_prefix(std::min(rest.size(), rest.substr(0, rest.find('\n')).size() + 1));
        }
        text += "\ninputs\n";
        for (const auto& i : it["inputs"])
            text += fmt::format("    {:<16}{:<10}{}{}\n", i["name"].get<std::string>(), i["element"].get<std::string>() == "any" ? "dtype" : i["element"].get<std::string>(),
                                i["scalar"].get<bool>() ? std::string("one number") : "(" + joined(i["axes"]) + ")", i.contains("optional") ? "  optional" : "");
        text += "outputs\n";
        for (const auto& o : it["outputs"]) text += fmt::format("    {:<26}({})\n", o["name"].get<std::string>(), joined(o["axes"]));
        text += "kernels\n";
        for (const auto& k : it["kernels"])
            text += fmt::format("    {}\n        scratch of a thread at most {} bytes, schedule {}\n", k["symbol"].get<std::string>(), k["scratch_bytes_per_thread"].get<std::size_t>(), k["schedule"].dump());
        text += "\n";
    }
    text += "semantics: query head h reads key head h / (heads / key_heads); a row without a visible key is 0, its log-sum-exp (natural logarithm) -infinity;\n"
            "-infinity in a float input or in where() means masked; input axes of extent 1 broadcast; indices into free and position axes are clamped.\n";
    return text;
}

}  // namespace attune::generators
