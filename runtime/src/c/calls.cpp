#include "base/text.hpp"
#include "c/support.hpp"
#include "c/tensor.hpp"
#include "call/packed.hpp"
#include "call/shape.hpp"

#include <attune/ir/gradient_outputs.hpp>
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

/// A call's arguments as the typed calls make them too; on the heap, since kernels need what there is of the stack.
class c_arguments {
public:
    c_arguments(const attune_argument* arguments, std::size_t count) {
        if (!arguments && count > 0) fail(say(count, " arguments"), "null", "an array of them");
        if (count > most) fail(say("at most ", most, " arguments"), say(count), "the number of elements of the array");
        list_.reserve(count);
        for (std::size_t i = 0; i < count; ++i) list_.push_back(from(arguments[i]));
    }
    std::span<const named_argument> view() const { return list_; }

private:
    static constexpr std::size_t most = 1024;

    static named_argument from(const attune_argument& given) {
        if (!given.name) fail("a name for every argument", "null", "the formula's, such as \"q\"");
        if (given.reserved != 0)
            fail(say("0 in reserved of the argument ", given.name), say(given.reserved), "clearing the struct first");
        named_argument result{.name = given.name};
        using form = named_argument::form;
        switch (given.kind) {
            case ATTUNE_TENSOR: result.is = form::view, result.view = from_c(given.name, given.tensor); break;
            case ATTUNE_INTEGER: result.is = form::integer, result.integer = given.integer; break;
            case ATTUNE_REAL: result.is = form::real, result.real = given.real; break;
            case ATTUNE_BOOLEAN: result.is = form::boolean, result.integer = given.integer != 0; break;
            default: fail(say("a kind of the argument ", given.name, " from 0 to 3"), say(given.kind), "ATTUNE_TENSOR");
        }
        return result;
    }

    std::vector<named_argument> list_;
};

/// Options, and the pool that they point to.
class c_options {
public:
    explicit c_options(const attune_options* given) {
        if (given) take(as_known_here(*given));
    }
    c_options(const c_options&) = delete;
    operator const options&() const { return how_; }

private:
    /// A program may know fewer fields, or more: those that only one side knows are zero, or not looked at.
    static attune_options as_known_here(const attune_options& given) {
        constexpr std::size_t of_version_1 = offsetof(attune_options, pool_state) + sizeof(void*);
        const std::size_t size = given.size == 0 ? of_version_1 : given.size;
        if (size < of_version_1)
            fail(say("options of at least ", of_version_1, " bytes"), say(size), "size = sizeof(attune_options)");
        attune_options known{};
        std::memcpy(&known, &given, std::min(size, sizeof known));
        return known;
    }

    void take(const attune_options& given) {
        how_.threads = given.threads;
        how_.deterministic = given.deterministic != 0;
        how_.checked = given.checked != 0;
        if (given.target) how_.target = given.target;
        if (given.pool) pool_ = from_c(given.pool, given.pool_state), how_.pool = &pool_;
        if (given.device < 0)
            fail("a device that is 0, or 1 + its index, in attune_options", say(given.device),
                 "clearing the struct first");
        for (const std::int32_t reserved : given.reserved)
            if (reserved != 0)
                fail("0 in reserved of attune_options", say(reserved), "clearing the struct first, or a newer attune");
        how_.device = given.device - 1, how_.context = given.context, how_.stream = given.stream,
        how_.wait = given.asynchronous == 0;
    }

    options how_{};
    parallel_for pool_{};
};

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
    for (const input_declaration& d : graph.inputs) {
        json_object object;
        object.add("name", d.name);
        object.add("element", name_of(d.element));
        object.add("scalar", d.is_scalar);
        std::array<std::string_view, max_rank> axes{};
        for (std::size_t axis = 0; axis < d.rank; ++axis) axes[axis] = d.axes[axis].name;
        object.add_raw("axes", joined(std::span(axes).first(d.rank)));
        object.add("optional", false);
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
            case c_calls::question::synchronize: synchronize(variant.table(), c_options(how)), text = "{}"; break;
        }
        put(text, json, json_capacity, length);
    });
}

}  // namespace

constinit const c_calls this_runtime{run, answer};

}  // namespace attune::detail
