#include "formula_inputs.hpp"
#include "extremes.hpp"

#include "../../properties/random_graph.hpp"
#include "call/shape/shape.hpp"

#include <attune/ir/element.hpp>
#include <attune/ir/gradient_outputs.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <set>

namespace fuzz {
namespace {

using attune::axis_kind, attune::element_type, attune::graph_ir, attune::input_declaration, attune::tensor;
using attune::support::workload;
using attune::testing::drawn_graph;
using form = attune::detail::named_argument::form;

std::vector<axis_kind> axes_of(const input_declaration& d) {
    std::vector<axis_kind> axes;
    for (std::size_t a = 0; a < d.rank; ++a) axes.push_back(d.axes[a].kind);
    return axes;
}

int place_of(std::span<const axis_kind> axes, axis_kind which) {
    const auto found = std::ranges::find(axes, which);
    return found == axes.end() ? -1 : static_cast<int>(found - axes.begin());
}

void draw_elements(workload& call, const formula_case& it) {
    for (const input_declaration& d : it.graph.inputs) {
        if (d.is_scalar) continue;
        if (d.name == "packed" || d.element == element_type::u8 || d.element == element_type::i8)
            call.draw(d.name, 0, 255);
        if (d.name == "place" || d.name == "chosen") call.draw(d.name, -2, static_cast<int>(it.shape.keys) + 1);
        if (d.name == "allowed" || d.name == "flag") call.draw(d.name, 0, 1);
        if (d.element == element_type::f8_e4m3 || d.element == element_type::f8_e5m2) {  // up to 3, of either sign
            call.draw(d.name, 0, 0x42);
            std::uint8_t sign = 0;
            for (std::uint8_t& x : call[d.name].bytes) x |= sign = static_cast<std::uint8_t>(sign * 5 + x * 128 + 128);
        }
    }
}

void put_nan(attune::support::owned_tensor& t, std::int64_t at) {
    if (!t.reals.empty()) t.reals[static_cast<std::size_t>(at)] = std::nanf("");
    if (!t.halves.empty()) t.halves[static_cast<std::size_t>(at)] = 0x7fff;  // of both types
}

void put_integer(attune::support::owned_tensor& t, std::int64_t at, int x) {
    const auto place = static_cast<std::size_t>(at);
    if (!t.integers.empty()) t.integers[place] = x;
    if (!t.wide.empty()) t.wide[place] = x;
    if (!t.narrow.empty()) t.narrow[place] = static_cast<std::int16_t>(x);
}

/// Whose keys a query of packed ones sees.
std::size_t sequence_of(const formula_case& it, std::int64_t query) {
    std::size_t b = 0;
    while (b + 2 < it.cu_seqlens_q.size() && it.cu_seqlens_q[b + 1] <= query) ++b;
    return b;
}

/// Which element of a view is visited `number`th, along an axis.
std::int64_t index_of(const tensor& view, std::int64_t number, int axis) {
    for (int inner = view.rank() - 1; inner > axis; --inner) number /= view.extent(inner);
    return number % view.extent(axis);
}

/// The keys in use of the sequence that reads the element visited `number`th: of those that share it, the most.
std::int64_t keys_in_use(const formula_case& it, const tensor& view, std::int64_t number, int query) {
    const bool packed = !it.cu_seqlens_q.empty() && query >= 0;
    const int axis = packed ? query : 0;
    if (view.extent(axis) == 1) return std::ranges::max(it.kv_lengths);
    const std::int64_t at = index_of(view, number, axis);
    return it.kv_lengths[packed ? sequence_of(it, at) : static_cast<std::size_t>(at)];
}

/// Keys beyond those in use may be anything: NaN in what is read at a key, and places of no page. What is one element
/// for several keys or sequences is in use where it is for any of them.
void spoil_beyond(workload& call, const formula_case& it) {
    for (const input_declaration& d : it.graph.inputs) {
        if (d.is_scalar || d.rank < 2 || d.axes[0].kind != axis_kind::batch) continue;
        const bool table = d.name == "block_table";
        const std::vector<axis_kind> axes = axes_of(d);
        const auto is_key = [&](axis_kind axis) { return axis == axis_kind::key || table; };
        const auto keys = static_cast<int>(std::find_if(axes.begin() + 1, axes.end(), is_key) - axes.begin());
        if (keys == d.rank) continue;
        attune::support::owned_tensor& t = call[d.name];
        const std::int64_t grain = table ? it.lengths.at("slot") : 1;
        std::set<std::int64_t> all, used;
        std::int64_t number = 0;
        attune::support::for_each_offset(t.view, [&](std::int64_t at) {
            const std::int64_t key = index_of(t.view, number, keys) * grain,
                               count = keys_in_use(it, t.view, number, place_of(axes, axis_kind::query));
            all.insert(at), ++number;
            if (key < std::max<std::int64_t>(count, 1)) used.insert(at);
        });
        std::erase_if(all, [&](std::int64_t at) { return used.contains(at); });
        for (const std::int64_t at : all)
            if (table)
                put_integer(t, at, -10000);
            else
                put_nan(t, at);
    }
}

/// Inputs of formulas that are one element along an axis, or say so by their strides.
void broadcast(workload& call, const formula_case& it) {
    std::mt19937 random(it.seed + 5);
    for (const input_declaration& d : it.graph.inputs) {
        const bool given = d.name == "q" || d.name == "k" || d.name == "v";
        const bool owned = it.stores_to(d.name) || (d.name == "block_table" && !it.graph.stores.empty());
        if (d.is_scalar || given || owned) continue;
        tensor& view = call[d.name].view;
        std::vector<std::int64_t> shape(view.shape().begin(), view.shape().end()),
            strides(view.strides().begin(), view.strides().end());
        for (std::size_t axis = 0; axis < d.rank; ++axis) {
            const bool dense = axis + 1 == d.rank && has_dense_rows(d);
            if (dense || shape[axis] < 2 || random() % 3 != 0) continue;
            // A cache's keys, and what tells of them, stay as long as they are.
            const bool free =
                d.axes[axis].kind == attune::axis_kind::free || d.axes[axis].kind == attune::axis_kind::key;
            if (free || random() % 2 == 0)
                strides[axis] = 0;
            else
                shape[axis] = 1;
        }
        view = tensor(view.type(), const_cast<void*>(view.data()), shape, strides);
    }
}

/// Two sequences that store to one page would not say which of them stays.
void give_own_pages(attune::support::owned_tensor& table, unsigned seed) {
    std::int64_t count = 1;
    for (const std::int64_t extent : table.view.shape()) count *= extent;
    std::vector<int> pages(static_cast<std::size_t>(count));
    std::iota(pages.begin(), pages.end(), 0);
    std::ranges::shuffle(pages, std::mt19937(seed));
    for (std::int64_t at = 0; at < count; ++at) put_integer(table, at, pages[static_cast<std::size_t>(at)]);
}

}  // namespace

workload drawn_workload(const formula_case& it, const attune::generators::element_types& types) {
    std::map<std::string, double> numbers{{"scale", 0.25}, {"gain", 0.75}, {"offset", 7},
                                          {"seed", 4711},  {"count", 3},   {"share", 0.625}};
    add_extremes(numbers, it.seed);
    workload call(it.graph.view(), it.shape, it.seed, numbers, it.lengths);
    draw_elements(call, it);
    draw_extremes(call, it);
    if (it.graph.precomputes())
        for (const std::string_view name : attune::testing::deciding_inputs)
            if (it.has_input(name))
                std::ranges::transform(call[name].reals, call[name].reals.begin(), attune::testing::deciding_number);
    if (!it.graph.stores.empty() && it.has_input("block_table")) give_own_pages(call["block_table"], it.seed);
    if (!it.kv_lengths.empty()) call.set_lengths(it.kv_lengths);
    for (const input_declaration& d : it.graph.inputs)
        if (d.element == element_type::any) call.convert(d.name, element_of(d, types));
    if (it.broadcast) broadcast(call, it);  // before the next, which leaves alone what is shared with a key in use
    if (!it.kv_lengths.empty() && it.kernel_of.made != pass::shard) spoil_beyond(call, it);
    return call;
}

bool wants_an_entry(std::string_view sentence, std::span<const attune::reference::argument> given) {
    return sentence.starts_with("attune: expected at least one element along ") &&
           std::ranges::any_of(given, [](const attune::reference::argument& a) {
               const tensor* const of = std::get_if<tensor>(&a.value);
               return of && std::ranges::count(of->shape(), 0) > 0;
           });
}

namespace {

tensor with_extent(const tensor& t, int axis, std::int64_t from, std::int64_t extent) {
    std::vector<std::int64_t> shape(t.shape().begin(), t.shape().end()),
        strides(t.strides().begin(), t.strides().end());
    shape[static_cast<std::size_t>(axis)] = extent;
    const auto bytes = static_cast<std::int64_t>(bytes_of(t.type()));
    auto* const data =
        static_cast<std::byte*>(const_cast<void*>(t.data())) + (extent == 0 ? 0 : from * t.stride(axis) * bytes);
    return tensor(t.type(), static_cast<void*>(data), shape, strides);
}

template <class T> bool lists(const T& all, std::string_view name) {
    return std::ranges::any_of(all, [&](const auto& each) { return each.name == name; });
}

}  // namespace

formula_memory::formula_memory(std::string_view called, const std::vector<std::int64_t>& shape) : name(called) {
    std::int64_t count = 1;
    for (const std::int64_t extent : shape) count *= extent;
    of.reals.assign(static_cast<std::size_t>(count), 0);
    of.view = tensor(of.reals.data(), std::span(shape));
}

void formula_memory::convert(element_type to) {
    if (to == element_type::f32) return;
    for (const float x : of.reals)
        of.halves.push_back(to == element_type::bf16 ? attune::bfloat16(x).bits : attune::float16(x).bits);
    of.reals.clear();
    const std::vector<std::int64_t> shape(of.view.shape().begin(), of.view.shape().end());
    of.view = tensor(to, static_cast<void*>(of.halves.data()), std::span(shape));
}

formula_inputs::formula_inputs(const formula_case& of, const drawn_graph& compiled,
                               const attune::generators::element_types& element_types)
    : it_(of), graph_(compiled), types_(element_types), drawn_(drawn_workload(of, element_types)) {
    for (const attune::detail::named_argument& argument : drawn_.arguments())
        if (!lists(it_.graph.outputs, argument.name)) add(argument);
    const graph_ir forward = it_.graph.view();
    std::vector<attune::reference::results> seen;
    for (std::size_t b = 0; b < parts(); ++b)
        seen.push_back(attune::reference::evaluate(
            forward, for_reference(b),
            {.keep_visible = it_.hidden_nan, .depth = it_.depth, .value_depth = it_.value_depth}));
    if (it_.kernel_of.made == pass::none) {
        expected = seen;
    } else {
        add_saved(seen);
        std::erase_if(arguments,
                      [&](const auto& a) { return !lists(graph_.inputs, a.name) && a.name != "kv_lengths"; });
        for (std::size_t b = 0; b < parts(); ++b) expected.push_back(evaluate(for_reference(b)));
    }
    if (it_.hidden_nan) hide_nan(seen);
    if (!it_.cu_seqlens_q.empty())
        arguments.push_back(
            {.name = "cu_seqlens_q", .view = tensor(it_.cu_seqlens_q.data(), {std::ssize(it_.cu_seqlens_q)})});
}

attune::reference::results formula_inputs::evaluate(std::vector<attune::reference::argument> given) const {
    return attune::reference::evaluate(graph_.view(), given, {.depth = it_.depth, .value_depth = it_.value_depth});
}

std::vector<axis_kind> formula_inputs::axes_of_argument(std::string_view name) const {
    for (const drawn_graph* const graph : {&it_.graph, &graph_})
        for (const input_declaration& d : graph->inputs)
            if (d.name == name) return axes_of(d);
    return {axis_kind::batch};  // kv_lengths
}

/// Packed queries lie in one batch element.
void formula_inputs::add(attune::detail::named_argument argument) {
    const std::vector<axis_kind> axes = axes_of_argument(argument.name);
    const int batch = place_of(axes, axis_kind::batch);
    if (!it_.cu_seqlens_q.empty() && argument.is == form::view && batch >= 0 && place_of(axes, axis_kind::query) >= 0)
        argument.view = with_extent(argument.view, batch, 0, 1);
    arguments.push_back(argument);
}

tensor formula_inputs::part_of(const tensor& t, std::span<const axis_kind> axes, std::size_t part) const {
    if (it_.cu_seqlens_q.empty()) return t;
    const int query = place_of(axes, axis_kind::query), batch = place_of(axes, axis_kind::batch);
    const std::int64_t first = it_.cu_seqlens_q[part], end = it_.cu_seqlens_q[part + 1];
    if (query >= 0) {
        const bool broadcasts = t.extent(query) == 1 && it_.shape.queries != 1;
        return broadcasts ? t : with_extent(t, query, first, end - first);
    }
    return batch < 0 || t.extent(batch) == 1 ? t : with_extent(t, batch, static_cast<std::int64_t>(part), 1);
}

std::vector<attune::reference::argument> formula_inputs::for_reference(std::size_t part) const {
    std::vector<attune::reference::argument> all;
    for (const auto& a : arguments)
        if (a.is == form::view)
            all.push_back({a.name, part_of(a.view, axes_of_argument(a.name), part)});
        else
            all.push_back({a.name, a.real});
    return all;
}

std::int64_t formula_inputs::extent_of(axis_kind axis, bool of_queries) const {
    const attune::support::shape& s = it_.shape;
    switch (axis) {
        case axis_kind::batch: return of_queries && !it_.cu_seqlens_q.empty() ? 1 : s.batches;
        case axis_kind::head: return s.heads;
        case axis_kind::key_head: return s.key_heads;
        case axis_kind::query: return s.queries;
        case axis_kind::key: return s.keys;
        case axis_kind::position: return std::max(s.queries, s.keys);
        case axis_kind::depth: return s.depth;
        case axis_kind::value_depth: return s.value_depth;
        case axis_kind::free: break;
    }
    return it_.lengths.at("width");
}

std::vector<std::int64_t> formula_inputs::shape_of(const attune::output_declaration& output) const {
    const int input = input_of_gradient(graph_.view(), output);
    if (input >= 0) {
        const auto found = std::ranges::find(arguments, graph_.inputs[static_cast<std::size_t>(input)].name,
                                             &attune::detail::named_argument::name);
        return {found->view.shape().begin(), found->view.shape().end()};
    }
    if (graph_.nodes[output.node].kind == attune::kind::precomputed) return expected.front()[output.name].shape;
    const auto axes = attune::detail::axes_of_output(graph_.view(), output);
    const bool of_queries = place_of(axes.view(), axis_kind::query) >= 0;
    std::vector<std::int64_t> shape;
    for (const axis_kind axis : axes.view()) shape.push_back(extent_of(axis, of_queries));
    return shape;
}

element_type formula_inputs::element_of_output(const attune::output_declaration& output) const {
    const graph_ir graph = graph_.view();
    if (!has_open_element(graph, output)) return element_type::f32;
    const int input = input_of_gradient(graph, output);
    return input < 0 ? types_.output : element_of(graph.inputs[static_cast<std::size_t>(input)], types_);
}

/// The results of the forward pass, rounded as it rounds them, and the loss's derivatives by its outputs.
void formula_inputs::add_saved(const std::vector<attune::reference::results>& forward) {
    std::mt19937 random(it_.seed + 11);
    std::normal_distribution<float> normal;
    for (const input_declaration& d : graph_.inputs) {
        if (lists(it_.graph.inputs, d.name)) continue;
        std::vector<std::int64_t> shape;
        for (const axis_kind axis : axes_of(d)) shape.push_back(extent_of(axis, true));
        formula_memory& made = saved_.emplace_back(d.name, shape);
        for (std::size_t b = 0; b < parts(); ++b) {
            const auto& outputs = forward[b].outputs;
            const auto saved = std::ranges::find(outputs, std::string(d.name), &attune::reference::array::name);
            const tensor part = part_of(made.of.view, axes_of(d), b);
            const auto first = static_cast<const float*>(part.data()) - made.of.reals.data();
            std::size_t next = 0;
            attune::support::for_each_offset(part, [&](std::int64_t at) {
                made.of.reals[static_cast<std::size_t>(first + at)] =
                    saved == outputs.end() ? normal(random) : static_cast<float>(saved->values[next++]);
            });
        }
        made.convert(element_of(d, types_));
        arguments.push_back({.name = d.name, .view = made.of.view});
    }
}

/// Where nothing but q * t(k) and weights * v reads them: a formula may read another key than it is asked for.
void formula_inputs::hide_nan(const std::vector<attune::reference::results>& seen) {
    const attune::support::shape& s = it_.shape;
    for (const std::string_view name : {"k", "v"}) {
        if (!it_.has_input(name) || it_.stores_to(name)) continue;
        const auto& nodes = it_.graph.nodes;
        const bool elsewhere = std::ranges::any_of(nodes, [&](const attune::instruction& n) {
            if (n.op != attune::operation::load) return false;
            const attune::instruction& from = nodes[n.arguments[0]];
            return from.input >= 0 && it_.graph.inputs[static_cast<std::size_t>(from.input)].name == name;
        });
        const bool shows_scores = std::ranges::any_of(
            it_.graph.outputs, [&](const auto& o) { return nodes[o.node].kind == attune::kind::scores; });
        if (elsewhere || (name == "k" && shows_scores)) continue;
        attune::support::owned_tensor& t = drawn_[name];
        const std::int64_t group = s.heads / s.key_heads;
        for (std::int64_t at = 0, end = s.batches * s.key_heads * s.keys; at < end; ++at) {
            const std::int64_t key = at % s.keys, head = at / s.keys % s.key_heads, b = at / s.keys / s.key_heads;
            const bool packed = !it_.cu_seqlens_q.empty();
            const std::vector<std::uint8_t>& visible = seen[packed ? static_cast<std::size_t>(b) : 0].visible;
            const std::int64_t rows = std::ssize(visible) / ((packed ? 1 : s.batches) * s.heads * s.keys);
            bool sees = false;
            for (std::int64_t row = 0; row < group * rows; ++row)
                sees = sees || visible[static_cast<std::size_t>(
                                   (((packed ? 0 : b) * s.heads + head * group) * rows + row) * s.keys + key)];
            for (std::int64_t d = 0; !sees && d < t.view.extent(3); ++d)
                put_nan(t, b * t.view.stride(0) + head * t.view.stride(1) + key * t.view.stride(2) + d);
        }
    }
}

}  // namespace fuzz
