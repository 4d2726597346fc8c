#include "base/text.hpp"
#include "c/arguments.hpp"
#include "c/support.hpp"
#include "call/run/packed.hpp"
#include "call/shape/shape.hpp"

#include <attune/ir/gradient_outputs.hpp>
#include <attune/ir/stores.hpp>
#include <attune/runtime/detail/c_variant.hpp>
#include <attune/runtime/detail/call.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace attune::detail {
namespace {

std::string joined(std::span<const std::string_view> names) {
    std::string list;
    for (const auto name : names) append(list, list.empty() ? "[\"" : ", \""), append(list, name), append(list, "\"");
    return list.empty() ? "[]" : list + "]";
}

std::string description(const kernel_table& table) {
    check_version(table);
    const graph_ir& graph = table.graph;
    std::string inputs, outputs;
    const auto add = [](std::string& to, const json_object& object) {
        append(to, to.empty() ? "" : ", "), append(to, object.text());
    };
    for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
        const input_declaration& d = graph.inputs[i];
        json_object object;
        object.add("name", d.name);
        object.add("element", name_of(d.element));
        object.add("scalar", d.is_scalar);
        std::array<std::string_view, max_rank> axes{};
        for (std::size_t axis = 0; axis < d.rank; ++axis) axes[axis] = d.axes[axis].name;
        object.add_raw("axes", joined(std::span(axes).first(d.rank)));
        object.add("optional", false);
        if (is_stored(graph, i)) object.add("stored", true);
        add(inputs, object);
    }
    for (const auto& [name, axes] : {std::pair("kv_lengths", R"(["batch"])"), {"cu_seqlens_q", R"(["batch + 1"])"}}) {
        if (std::string_view(name) == "cu_seqlens_q" && !takes_packed_queries(graph)) continue;
        json_object object;
        object.add("name", name);
        object.add("element", "i32");
        object.add("scalar", false);
        object.add_raw("axes", axes);
        object.add("optional", true);
        add(inputs, object);
    }
    for (const output_declaration& d : graph.outputs) {
        json_object object;
        object.add("name", d.name);
        object.add("element", has_open_element(graph, d) ? "any" : "f32");
        const output_axes axes = axes_of_output(graph, d);
        object.add_raw("axes", joined(std::span(axes.names).first(axes.rank)));
        if (const int input = input_of_gradient(graph, d); input >= 0)
            object.add("gradient_of", graph.inputs[static_cast<std::size_t>(input)].name);
        add(outputs, object);
    }
    json_object whole;
    whole.add("variant", table.variant);
    whole.add("formula", graph.text);
    whole.add("one_sequence_at_a_time", !needs_whole_batch(graph));
    whole.add_raw("inputs", say("[", inputs, "]"));
    whole.add_raw("outputs", say("[", outputs, "]"));
    return whole.text();
}

/// The states of all blocks as one string of digits: as short as JSON says them.
std::string json_of(const block_map& map) {
    json_object whole;
    whole.add("batches", map.batches), whole.add("heads", map.heads), whole.add("query_blocks", map.query_blocks);
    whole.add("key_blocks", map.key_blocks), whole.add("query_block", map.query_block);
    whole.add("key_block", map.key_block);
    std::string states(map.blocks.size(), '0');
    std::transform(map.blocks.begin(), map.blocks.end(), states.begin(),
                   [](std::uint8_t state) { return static_cast<char>('0' + state); });
    whole.add("blocks", states);
    return whole.text();
}

/// A prepared call, and what it refers to: names, which may be gone from the caller's memory, and the pool.
class call_for_c : public attune_call {
public:
    call_for_c(const kernel_table& table, const c_arguments& given, const attune_options* options)
        : attune_call{run_again, free_again}, names_(names_of(given.view())), how_(options) {
        std::vector<named_argument> all(given.view().begin(), given.view().end());
        for (std::size_t i = 0; i < all.size(); ++i) all[i].name = names_[i];
        what_ = prepare(table, all, how_);
    }

private:
    static std::vector<std::string> names_of(std::span<const named_argument> given) {
        std::vector<std::string> names;
        for (const named_argument& each : given) names.emplace_back(each.name);
        return names;
    }
    static attune_status run_again(const attune_call& of, const attune_argument* others, std::size_t count,
                                   char* error_text, std::size_t capacity) noexcept {
        const prepared& what = *static_cast<const call_for_c&>(of).what_;
        return guarded(error_text, capacity, [&] {
            if (count == 0) return call(what);
            call(what, c_arguments(others, count).view());
        });
    }
    static void free_again(attune_call* of) noexcept { delete static_cast<call_for_c*>(of); }

    const std::vector<std::string> names_;
    const c_options how_;
    std::shared_ptr<const prepared> what_;
};

/// The bytes of a pointer to it.
std::string prepared_for_c(const attune_variant& variant, const c_arguments& given, const attune_options* how) {
    auto made = std::make_unique<call_for_c>(variant.table(), given, how);
    attune_call* const call = made.get();
    std::string bytes(sizeof call, '\0');
    std::memcpy(bytes.data(), &call, sizeof call);
    made.release();
    return bytes;
}

attune_status run(const attune_variant& variant, const attune_argument* arguments, std::size_t count,
                  const attune_options* how, char* error_text, std::size_t capacity) noexcept {
    return guarded(error_text, capacity,
                   [&] { call(variant.table(), c_arguments(arguments, count).view(), c_options(how)); });
}

attune_status answer(const attune_variant& variant, c_calls::question what, const attune_argument* arguments,
                     std::size_t count, const attune_options* how, char* json, std::size_t json_capacity,
                     std::size_t* length, char* error_text, std::size_t capacity) noexcept {
    return guarded(error_text, capacity, [&] {
        std::string text;
        switch (what) {
            case c_calls::question::explain:
                text = explain(variant.table(), c_arguments(arguments, count).view(), c_options(how)).json();
                break;
            case c_calls::question::kernels: text = kernels(variant.table()).json(); break;
            case c_calls::question::describe: text = description(variant.table()); break;
            case c_calls::question::blocks:
                text = json_of(blocks(variant.table(), c_arguments(arguments, count).view(), c_options(how)));
                break;
            case c_calls::question::prepare: text = prepared_for_c(variant, c_arguments(arguments, count), how); break;
            case c_calls::question::synchronize: synchronize(variant.table(), c_options(how)), text = "{}"; break;
        }
        put(text, json, json_capacity, length);
    });
}

}  // namespace

constinit const c_calls this_runtime{run, answer};

}  // namespace attune::detail
