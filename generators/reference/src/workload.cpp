#include <attune/workload.hpp>

#include "index_limits.hpp"

#include <attune/ir/element.hpp>
#include <attune/ir/gradient_outputs.hpp>
#include <attune/ir/operations.hpp>
#include <attune/ir/own_axes.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>

namespace attune::support {
namespace {
/// Bytes up to it make no element of more than one byte, nor one of eight bits, that is larger than 2, or NaN.
constexpr int largest_byte_of_small_numbers = 0x3f;
constexpr std::int64_t longest_made = 1 << 24;  // of an axis that a formula alone lengthens

/// How many positions of a kind there are, or which length a terminal says.
using length_of = std::int64_t shape::*;
constexpr length_of none = nullptr;  // not asked for: index_limits_of knows it, or it is above
constexpr by_operation<family::terminal, length_of> lengths_of_terminals{{operation::constant, none},
                                                                         {operation::d_idx, none},
                                                                         {operation::bound, none},
                                                                         {operation::input, none},
                                                                         {operation::scalar, none},
                                                                         {operation::b, &shape::batches},
                                                                         {operation::batches, &shape::batches},
                                                                         {operation::h, &shape::heads},
                                                                         {operation::heads, &shape::heads},
                                                                         {operation::key_heads, &shape::key_heads},
                                                                         {operation::q_idx, &shape::queries},
                                                                         {operation::query_length, &shape::queries},
                                                                         {operation::kv_idx, &shape::keys},
                                                                         {operation::key_length, &shape::keys},
                                                                         {operation::kv_lengths, &shape::keys},
                                                                         {operation::depth, &shape::depth},
                                                                         {operation::value_depth, &shape::value_depth}};
}  // namespace

std::string shape::text() const {
    const auto s = [](std::int64_t i) { return std::to_string(i); };
    return s(batches) + "x" + s(heads) + "/" + s(key_heads) + "x" + s(queries) + "x" + s(keys) + "x" + s(depth) + "/" +
           s(value_depth) + (gaps ? " with gaps" : "");
}

workload::workload(const graph_ir& graph, const shape& of, unsigned seed, std::map<std::string, double> numbers,
                   std::map<std::string, std::int64_t> lengths)
    : graph_(graph), shape_(of), random_(seed), numbers_(std::move(numbers)), lengths_(std::move(lengths)) {
    numbers_.try_emplace("scale", 1.0 / std::sqrt(static_cast<double>(of.depth)));
    const std::vector<std::int64_t> places = lengthen_axes();
    for (const input_declaration& declared : graph.inputs) {
        if (declared.is_scalar) {
            if (!numbers_.contains(std::string(declared.name)))
                throw std::invalid_argument("workload: no number for `" + std::string(declared.name) + "`");
            continue;
        }
        std::vector<std::int64_t> extents;
        for (std::size_t a = 0; a < declared.rank; ++a) extents.push_back(extent(declared.axes[a]));
        const element_type element = declared.element == element_type::any ? element_type::f32 : declared.element;
        add(declared.name, element, extents, of.gaps && declared.rank == 4 && declared.element == element_type::any);
        fill(declared.name);
        const auto counts_blocks = [](const axis_declaration& axis) { return axis.counts != axis_kind::free; };
        if (std::ranges::any_of(declared.axes, counts_blocks)) draw(declared.name, 0, largest_byte_of_small_numbers);
        if (const std::int64_t below = places[static_cast<std::size_t>(&declared - graph.inputs.data())]; below > 0)
            draw(declared.name, 0, static_cast<int>(below) - 1);
        if (declared.element == element_type::bf16 || declared.element == element_type::f16)
            convert(declared.name, declared.element);
    }
    for (const output_declaration& output : graph.outputs) {
        const kind is = graph.nodes[output.node].kind;
        std::vector<std::int64_t> extents;
        if (const int of = input_of_gradient(graph, output); of >= 0) {
            const input_declaration& same = graph.inputs[static_cast<std::size_t>(of)];
            for (std::size_t a = 0; a < same.rank; ++a) extents.push_back(extent(same.axes[a]));
        }
        for (const axis_kind axis : reference::axes_of(is)) extents.push_back(extent({axis, {}}));
        while (is == kind::precomputed && extents.size() < rank_of_precomputed(graph.nodes[output.node]))
            extents.push_back(extent({axis_kind::free, name_of_own_axis(graph, output, extents.size())}));
        add(output.name, element_type::f32, extents, of.gaps && is == kind::output);
    }
    reset_outputs();
}

/// Calls whose indices leave an axis are refused: axes of inputs are as long as positions reach, unless a length is
/// given. Returns, by input, the bound of elements that become indices.
std::vector<std::int64_t> workload::lengthen_axes() {
    const std::map<std::string, std::int64_t> said = lengths_;
    const auto number = [&](const instruction& n) -> std::int64_t {
        if (n.op == operation::extent) {
            const auto input = graph_.nodes[n.arguments[0]].input;
            return input < 0
                       ? 1
                       : extent(
                             graph_.inputs[static_cast<std::size_t>(input)].axes[static_cast<std::size_t>(n.integer)]);
        }
        if (n.op != operation::scalar) return shape_.*lengths_of_terminals[n.op];
        const auto known = numbers_.find(std::string(graph_.inputs[static_cast<std::size_t>(n.input)].name));
        return known == numbers_.end() ? 0 : static_cast<std::int64_t>(known->second);
    };
    index_limits limits;
    for (int pass = 0; pass < 3; ++pass) {  // an axis may be as long as another says
        limits = index_limits_of(graph_, number);
        for (std::size_t i = 0; i < graph_.inputs.size(); ++i)
            for (std::size_t a = 0; a < graph_.inputs[i].rank; ++a)
                if (const axis_declaration& axis = graph_.inputs[i].axes[a];
                    axis.kind == axis_kind::free && axis.length == 0 && !said.contains(std::string(axis.name))) {
                    std::int64_t& length = lengths_.try_emplace(std::string(axis.name), usual_length).first->second;
                    if (limits.reached[i][a] <= longest_made) length = std::max(length, limits.reached[i][a]);
                }
    }
    return limits.below;
}

std::int64_t workload::extent(const axis_declaration& axis) const {
    switch (axis.kind) {
        case axis_kind::batch: return shape_.batches;
        case axis_kind::head: return shape_.heads;
        case axis_kind::key_head: return shape_.key_heads;
        case axis_kind::query: return shape_.queries;
        case axis_kind::key: return shape_.keys;
        case axis_kind::position: return std::max(shape_.queries, shape_.keys);
        case axis_kind::depth: return shape_.depth;
        case axis_kind::value_depth: return shape_.value_depth;
        case axis_kind::free: break;
    }
    if (axis.counts != axis_kind::free) return extent({axis.counts, {}}) / axis.length;
    if (axis.length != 0) return axis.length;
    const auto said = lengths_.find(std::string(axis.name));
    return said == lengths_.end() ? usual_length : said->second;
}

owned_tensor& workload::add(std::string_view name, element_type element, std::vector<std::int64_t> extents, bool gaps) {
    owned_tensor& t = tensors_[std::string(name)];
    std::vector<std::int64_t> strides(extents.size());
    std::int64_t room = 1;
    if (gaps) {  // (batch, length, head, depth): 3 elements behind every vector, 5 behind every position, 7 behind
                 // every batch element
        strides[3] = 1;
        strides[1] = extents[3] + 3;
        strides[2] = extents[1] * strides[1] + 5;
        strides[0] = extents[2] * strides[2] + 7;
        room = extents[0] * strides[0];
    } else {
        for (std::size_t a = extents.size(); a-- > 0; room *= extents[a]) strides[a] = room;
    }
    const auto size = static_cast<std::size_t>(room);
    switch (element) {
        case element_type::i32: t.integers.assign(size, 0), t.view = tensor(t.integers.data(), extents, strides); break;
        case element_type::i64: t.wide.assign(size, 0), t.view = tensor(t.wide.data(), extents, strides); break;
        case element_type::i16: t.narrow.assign(size, 0), t.view = tensor(t.narrow.data(), extents, strides); break;
        case element_type::u8: t.bytes.assign(size, 0), t.view = tensor(t.bytes.data(), extents, strides); break;
        case element_type::boolean:
        case element_type::i8:
        case element_type::f8_e4m3:
        case element_type::f8_e5m2:
            t.bytes.assign(size, 0), t.view = tensor(element, static_cast<void*>(t.bytes.data()), extents, strides);
            break;
        default: t.reals.assign(size, std::nanf("")), t.view = tensor(t.reals.data(), extents, strides); break;
    }
    return t;
}

void workload::fill(std::string_view name) {
    owned_tensor& t = (*this)[name];
    const auto count_up = [&]<class T>(std::vector<T>& documents) {
        T document = 0;
        for (T& x : documents) x = document = static_cast<T>(document + (random_() % 11 == 0 ? 1 : 0));
    };
    if (!t.integers.empty() || !t.wide.empty() || !t.narrow.empty()) {
        count_up(t.integers), count_up(t.wide), count_up(t.narrow);
    } else if (!t.bytes.empty()) {
        for (std::uint8_t& x : t.bytes) x = random_() % 10 == 0 ? 1 : 0;
    } else {
        std::normal_distribution<float> normal;
        for_each_offset(t.view, [&](std::int64_t at) { t.reals[static_cast<std::size_t>(at)] = normal(random_); });
    }
}

void workload::put(std::string_view input, std::span<const float> elements) {
    std::vector<float>& to = (*this)[input].reals;
    if (to.size() != elements.size())
        throw std::invalid_argument("workload: another number of elements for `" + std::string(input) + "`");
    std::ranges::copy(elements, to.begin());
}

void workload::draw(std::string_view input, int first, int last) {
    owned_tensor& t = (*this)[input];
    std::uniform_int_distribution<int> any(first, last);
    for (std::int32_t& x : t.integers) x = any(random_);
    for (std::int64_t& x : t.wide) x = any(random_);
    for (std::int16_t& x : t.narrow) x = static_cast<std::int16_t>(any(random_));
    for (std::uint8_t& x : t.bytes) x = static_cast<std::uint8_t>(any(random_));
}

void workload::convert(std::string_view name, element_type element) {
    if (element == element_type::f32) return;
    owned_tensor& t = (*this)[name];
    t.halves.clear();
    for (const float x : t.reals)
        t.halves.push_back(element == element_type::bf16 ? bfloat16(x).bits : float16(x).bits);
    t.reals.clear();
    std::vector<std::int64_t> extents, strides;
    for (int axis = 0; axis < t.view.rank(); ++axis)
        extents.push_back(t.view.extent(axis)), strides.push_back(t.view.stride(axis));
    t.view = tensor(element, static_cast<void*>(t.halves.data()), extents, strides);
}

void workload::set_lengths(std::vector<std::int32_t> lengths) {
    for (const char* name : {"k", "v"}) {
        if (!tensors_.contains(name)) continue;
        owned_tensor& t = (*this)[name];
        for (std::int64_t b = 0; b < shape_.batches; ++b)
            for (std::int64_t h = 0; h < shape_.key_heads; ++h)
                for (std::int64_t key = lengths[static_cast<std::size_t>(b)]; key < shape_.keys; ++key)
                    for (std::int64_t d = 0; d < t.view.extent(3); ++d)
                        t.reals[static_cast<std::size_t>(b * t.view.stride(0) + h * t.view.stride(1) +
                                                         key * t.view.stride(2) + d)] = std::nanf("");
    }
    owned_tensor& t = add("kv_lengths", element_type::i32, {shape_.batches}, false);
    t.integers = std::move(lengths);
    t.view = tensor(t.integers.data(), {shape_.batches});
}

std::vector<reference::argument> workload::reference_arguments() const {
    std::vector<reference::argument> arguments;
    for (const auto& [name, t] : tensors_) arguments.push_back({name, t.view});
    for (const auto& [name, number] : numbers_) arguments.push_back({name, number});
    return arguments;
}

reference::results workload::expected(bool keep_visible) const {
    return reference::evaluate(
        graph_, reference_arguments(),
        {.rows = {}, .keep_visible = keep_visible, .depth = shape_.depth, .value_depth = shape_.value_depth});
}

std::vector<detail::named_argument> workload::arguments() const {
    using form = detail::named_argument::form;
    std::vector<detail::named_argument> arguments;
    for (const auto& [name, t] : tensors_) arguments.push_back({.name = name, .is = form::view, .view = t.view});
    for (const input_declaration& declared : graph_.inputs) {
        if (!declared.is_scalar) continue;
        const double number = numbers_.at(std::string(declared.name));
        const bool integer = declared.element == element_type::i32;
        arguments.push_back({.name = declared.name,
                             .is = integer ? form::integer : form::real,
                             .view = {},
                             .integer = static_cast<std::int64_t>(number),
                             .real = number});
    }
    return arguments;
}

void workload::reset_outputs() {
    for (const output_declaration& output : graph_.outputs) {
        std::ranges::fill((*this)[output.name].reals, pattern);
        std::ranges::fill((*this)[output.name].halves, half_pattern);
    }
}

}  // namespace attune::support
