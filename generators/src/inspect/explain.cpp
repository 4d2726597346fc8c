#include "inspect/explain.hpp"

#include "analysis/plan.hpp"
#include "base/about.hpp"
#include "base/formatting.hpp"
#include "inspect/explain_blocks.hpp"
#include "inspect/explain_semantics.hpp"
#include "plans/kernel_plan.hpp"

#include <attune/ir/gradient_outputs.hpp>
#include <nlohmann/json.hpp>

#include <stdexcept>

namespace attune::generators::inline inspect {
namespace {

using json = nlohmann::ordered_json;

constexpr const char* symbol_grammar = "attune_<variant>_<dtype>_d<depth>x<value depth>_<target>_<fingerprint>";

json axes_of(const input_declaration& d) {
    json axes = json::array();
    for (int i = 0; i < d.rank; ++i) axes.push_back(d.axes[static_cast<std::size_t>(i)].name);
    return axes;
}

/// A gradient is as the tensor that it is of.
element_type element_of(const graph_ir& graph, const output_declaration& o, const element_types& types) {
    if (!has_open_element(graph, o)) return element_type::f32;
    const int input = input_of_gradient(graph, o);
    return input < 0 ? types.output : element_of(graph.inputs[static_cast<std::size_t>(input)], types);
}

json json_of(const cost& c) { return {{"formula", c.formula}, {"of_call", c.value}}; }

json json_of(const listed_kernel& k, const call_sizes& call) {
    const kernel_request& r = k.request;
    double read = 0, written = 0;
    for (const input_declaration& d : r.graph().inputs)
        if (!d.is_scalar) read += bytes_of_input(d, element_of(d, r.types), r.depths, call).value;
    for (const output_declaration& o : r.graph().outputs)
        written += bytes_of_output(r.graph(), o, element_of(r.graph(), o, r.types), r.depths, call).value;
    return {{"symbol", k.symbol},
            {"target", k.request.target->name},
            {"lanes", k.request.target->lanes},
            {"vector_registers", k.request.target->registers},
            {"depth", r.depths.depth},
            {"value_depth", r.depths.value_depth},
            {"flops_of_call", flops_of(*r.facts, r.depths, call).value},
            {"bytes_read_of_call", read},
            {"bytes_written_of_call", written},
            {"scratch_bytes_per_thread", plan_kernel(r).bytes.of_thread},
            {"saved_row_bytes", json_of(bytes_of_saved_rows(r.core().saved_rows, call))},
            {"tensor_bytes", json_of(bytes_of_computed(r.graph(), r.depths, call))},
            {"table_bytes", json_of(bytes_of_tables(r, call))},
            {"schedule", json::parse(to_json(r.schedule))},
            {"schedule_from", k.schedule_from},
            {"cpus", k.cpus}};
}

json json_of(const variant& v, std::span<const listed_kernel> kernels, const call_sizes& call) {
    json inputs = json::array(), outputs = json::array(), blocks = json::array(), semantics = json::array(),
         made = json::array();
    const depth_pair one{1, 1};  // formulas only
    for (const input_declaration& d : v.graph.inputs) {
        inputs.push_back(
            {{"name", d.name}, {"element", name_of(d.element)}, {"scalar", d.is_scalar}, {"axes", axes_of(d)}});
        if (!d.is_scalar) inputs.back()["bytes"] = bytes_of_input(d, element_type::f32, one, call).formula;
    }
    inputs.push_back({{"name", "kv_lengths"},
                      {"element", "i32"},
                      {"scalar", false},
                      {"axes", {"batch"}},
                      {"bytes", "4 B"},
                      {"optional", true}});
    for (const output_declaration& o : v.graph.outputs) {
        outputs.push_back({{"name", o.name},
                           {"element", has_open_element(v.graph, o) ? "any" : "f32"},
                           {"axes", axes_of_output(v.graph, o)},
                           {"bytes", bytes_of_output(v.graph, o, element_type::f32, one, call).formula}});
    }
    for (const choice& c : choices_of(v.graph)) semantics.push_back({{"about", c.about}, {"says", c.says}});
    for (const listed_kernel& k : kernels) {
        if (k.of != &v) continue;
        if (made.empty())
            for (const block_reason& r : block_reasons(k.request))
                blocks.push_back({{"condition", r.condition},
                                  {"by", r.how},
                                  {"skips", r.skips},
                                  {"unmasked", r.unmasked},
                                  {"why", r.why},
                                  {"says", sentence_of(r)}});
        made.push_back(json_of(k, call));
    }
    json object{{"variant", v.name},
                {"formula", v.graph.text},
                {"fingerprint", fmt::format("{:016x}", v.graph.fingerprint)},
                {"inputs", inputs},
                {"outputs", outputs},
                {"blocks", blocks},
                {"semantics", semantics}};
    object["flops"] = flops_of(*facts_of(v.graph), one, call).formula;
    object["kernels"] = made;
    object["call"] = {{"batches", call.batches},
                      {"heads", call.heads},
                      {"key_heads", call.key_heads},
                      {"query_length", call.queries},
                      {"key_length", call.keys}};
    object["symbol_grammar"] = symbol_grammar;
    return object;
}

std::string string_of(const json& value) { return value.get<std::string>(); }

std::string joined(const json& list) {
    std::string text;
    for (const auto& item : list) text += (text.empty() ? "" : ", ") + string_of(item);
    return text;
}

std::string type_text(const json& element) { return element == "any" ? "dtype" : string_of(element); }

/// 17.2 G, 3.5 M.
std::string scaled(double x) {
    int power = 0;
    for (; x >= 1000 && power < 5; ++power) x /= 1000;
    return fmt::format("{:.3g} {}", x, std::string_view(power ? &"?kMGTP"[power] : "", power ? 1 : 0));
}

std::string indented(std::string_view text, std::string_view by) {
    std::string result;
    for (std::string_view rest = text; !rest.empty();) {
        const std::string_view line = rest.substr(0, rest.find('\n'));
        result += fmt::format("{}{}\n", by, line);
        rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    }
    return result;
}

std::string text_of(const json& it) {
    std::string text = fmt::format("{}  (fingerprint {})\n\n{}\n", string_of(it["variant"]),
                                   string_of(it["fingerprint"]), indented(string_of(it["formula"]), "    "));
    text += "inputs\n";
    for (const auto& i : it["inputs"])
        text += i["scalar"].get<bool>()
                    ? fmt::format("    {:<16}{:<9}one number\n", string_of(i["name"]), type_text(i["element"]))
                    : fmt::format("    {:<16}{:<9}{:<44}{} bytes{}\n", string_of(i["name"]), type_text(i["element"]),
                                  fmt::format("({})", joined(i["axes"])), string_of(i["bytes"]),
                                  i.contains("optional") ? ", optional" : "");
    text += "outputs\n";
    for (const auto& o : it["outputs"])
        text += fmt::format("    {:<16}{:<9}{:<44}{} bytes\n", string_of(o["name"]), type_text(o["element"]),
                            fmt::format("({})", joined(o["axes"])), string_of(o["bytes"]));
    text += "blocks, skipped where a part of the mask says that no pair is visible\n";
    for (const auto& b : it["blocks"])
        text += fmt::format("    {}\n        {}\n", string_of(b["condition"]), string_of(b["says"]));
    if (it["blocks"].empty()) text += "    no mask: all are visited, none is masked\n";
    text += "semantics\n";
    for (const auto& c : it["semantics"])
        text += fmt::format("    {:<16}{}\n", string_of(c["about"]), string_of(c["says"]));
    const auto& call = it["call"];
    text += fmt::format("cost of a call, here with B = {}, H = {}, Hk = {}, Lq = {}, Lk = {}; bytes with f32\n",
                        call["batches"].get<double>(), call["heads"].get<double>(), call["key_heads"].get<double>(),
                        call["query_length"].get<double>(), call["key_length"].get<double>());
    text += fmt::format("    flops           {}{}\n", string_of(it["flops"]),
                        it["blocks"].empty() ? "" : ", less what skipped blocks save");
    text += fmt::format("kernels          {}\n", string_of(it["symbol_grammar"]));
    for (const auto& k : it["kernels"]) {
        text += fmt::format(
            "    {}\n        {}: {} f32 lanes, {} vector registers; {}flop, {}B read, {}B written at most\n",
            string_of(k["symbol"]), string_of(k["target"]), k["lanes"].get<int>(), k["vector_registers"].get<int>(),
            scaled(k["flops_of_call"].get<double>()), scaled(k["bytes_read_of_call"].get<double>()),
            scaled(k["bytes_written_of_call"].get<double>()));
        text += fmt::format("        scratch of a thread at most {} bytes",
                            k["scratch_bytes_per_thread"].get<std::size_t>());
        if (k["saved_row_bytes"]["of_call"].get<double>() > 0)
            text += fmt::format(", rows between two passes {} bytes", string_of(k["saved_row_bytes"]["formula"]));
        if (k["tensor_bytes"]["of_call"].get<double>() > 0)
            text += fmt::format("; tensors computed in full {} bytes", string_of(k["tensor_bytes"]["formula"]));
        if (k["table_bytes"]["of_call"].get<double>() > 0)
            text += fmt::format("; tables, one copy, {} bytes", string_of(k["table_bytes"]["formula"]));
        text += fmt::format("\n        schedule {}\n            from {}\n", k["schedule"].dump(),
                            string_of(k["schedule_from"]));
        if (const std::string cpus = string_of(k["cpus"]); !cpus.empty())
            text += fmt::format("        runs on {}, and on models near it without kernels of their own\n", cpus);
    }
    return text + "\n";
}

}  // namespace

std::string explain_json(std::span<const variant> variants, std::span<const listed_kernel> kernels,
                         const call_sizes& call) {
    json all = json::array();
    for (const variant& v : variants) all.push_back(about(v.name, [&] { return json_of(v, kernels, call); }));
    return all.dump(1) + "\n";
}

std::string explain_text(std::span<const variant> variants, std::span<const listed_kernel> kernels,
                         const call_sizes& call) {
    std::string text;
    for (const variant& v : variants) text += text_of(about(v.name, [&] { return json_of(v, kernels, call); }));
    return text;
}

}  // namespace attune::generators::inline inspect
