#include "packed.hpp"

#include "stores.hpp"
#include "view.hpp"

#include <attune/ir/gradient_outputs.hpp>
#include <attune/ir/stores.hpp>
#include <attune/runtime/detail/call.hpp>

#include <deque>
#include <numeric>
#include <stdexcept>

namespace attune::reference {
namespace {

constexpr std::string_view packed_name = "cu_seqlens_q";

/// The position of an axis in a tensor or an array; -1 if it has none.
struct axes_of_sequences {
    int batch = -1, query = -1;
    template <class Axes, class Kind> axes_of_sequences(const Axes& axes, Kind kind_of) {
        int at = 0;
        for (const auto& axis : axes) {
            if (kind_of(axis) == axis_kind::batch) batch = at;
            if (kind_of(axis) == axis_kind::query) query = at;
            ++at;
        }
    }
};
axes_of_sequences axes_of_input(const input_declaration& d) {
    return {std::span(d.axes).first(d.rank), [](const auto& axis) { return axis.kind; }};
}
axes_of_sequences axes_of_result(const graph_ir& graph, const output_declaration& o) {
    if (const int input = input_of_gradient(graph, o); input >= 0)
        return axes_of_input(graph.inputs[static_cast<std::size_t>(input)]);
    return {axes_of(graph.nodes[o.node].kind), [](axis_kind axis) { return axis; }};
}

struct sequence {
    std::int64_t number, first_query, queries, sequences, all_queries;
};

tensor cut(const tensor& t, std::span<const std::int64_t> first, std::span<const std::int64_t> extents) {
    std::int64_t from = 0;
    for (std::size_t axis = 0; axis < first.size(); ++axis) from += first[axis] * t.strides()[axis];
    const auto* const data = static_cast<const std::byte*>(t.data());
    const void* const at = t.empty() ? t.data() : data + from * bytes_of(t.type());
    return {t.type(), at, extents, t.strides()};
}

/// The part of a tensor that a sequence reads. An input that is not of the call's element type, or has no queries,
/// broadcasts along an extent of 1; in a call of one token that extent is the token, as the runtime has it.
tensor part_of(const tensor& t, const axes_of_sequences& axes, bool broadcasts, const sequence& of) {
    std::vector<std::int64_t> first(t.shape().size()), extents(t.shape().begin(), t.shape().end());
    const bool is_one_token = of.all_queries == 1 && (axes.batch < 0 || t.extent(axes.batch) == 1);
    if (axes.query >= 0 && (!broadcasts || t.extent(axes.query) != 1 || is_one_token)) {
        const auto query = static_cast<std::size_t>(axes.query);
        first[query] = of.first_query, extents[query] = of.queries;
    } else if (axes.batch >= 0 && t.extent(axes.batch) == of.sequences) {
        const auto batch = static_cast<std::size_t>(axes.batch);
        first[batch] = of.number, extents[batch] = 1;
    }
    return cut(t, first, extents);
}

std::int64_t product(std::span<const std::int64_t> extents) {
    return std::accumulate(extents.begin(), extents.end(), std::int64_t{1}, std::multiplies<>());
}

/// Puts one array behind another along an axis; all other extents are equal.
void append(array& to, const array& more, std::size_t axis) {
    const std::span<const std::int64_t> shape(to.shape), added(more.shape);
    const std::int64_t before = product(shape.first(axis)), row = product(shape.subspan(axis)),
                       added_row = product(added.subspan(axis));
    std::vector<double> both;
    both.reserve(to.values.size() + more.values.size());
    for (std::int64_t i = 0; i < before; ++i) {
        both.insert(both.end(), to.values.begin() + i * row, to.values.begin() + (i + 1) * row);
        both.insert(both.end(), more.values.begin() + i * added_row, more.values.begin() + (i + 1) * added_row);
    }
    to.values = std::move(both), to.shape[axis] += added[axis];
}

/// The tensors to which a graph stores, as the sequences so far left them.
struct stored_tensor {
    std::size_t input;
    std::vector<std::byte> memory;
    tensor whole;
};

}  // namespace

const tensor* packed_by(const graph_ir& graph, std::span<const argument> arguments) {
    if (!detail::takes_packed_queries(graph)) return nullptr;
    const auto found = std::ranges::find(arguments, packed_name, &argument::name);
    return found == arguments.end() ? nullptr : std::get_if<tensor>(&found->value);
}

namespace {

/// The evaluations of the sequences, put together.
class packed_evaluation {
public:
    packed_evaluation(const graph_ir& graph, std::span<const argument> arguments, const options& how)
        : graph_(graph), arguments_(arguments.begin(), arguments.end()), how_(how) {
        std::erase_if(arguments_, [](const argument& each) { return each.name == packed_name; });
        each_stored(graph, [&](std::size_t input) {
            for (argument& each : arguments_)
                if (auto* const whole = std::get_if<tensor>(&each.value);
                    whole != nullptr && each.name == graph.inputs[input].name)
                    each.value = copy_of(input, *whole);
        });
    }

    /// The stores of all sequences precede every read.
    void store(const sequence& of) {
        const std::vector<argument> arguments = arguments_of(of);
        results part;
        part.stored = stored_copies(graph_, arguments, how_).contents();
        keep_stores(part, of);
    }

    void add(const sequence& of) {
        std::vector<std::int64_t> rows;
        for (const std::int64_t row : how_.rows)
            if (row >= of.first_query && row < of.first_query + of.queries) rows.push_back(row - of.first_query);
        const bool has_none = !how_.rows.empty() && rows.empty();
        options how = how_;
        how.rows = rows;
        if (has_none && of.queries > 0) how.rows = {0};  // an empty list stands for all
        results part = evaluate(graph_, arguments_of(of), how);
        if (has_none) part = without_rows(std::move(part));
        for (const std::int64_t row : part.rows) all_.rows.push_back(of.first_query + row);
        if (all_.outputs.empty()) {
            all_.outputs = std::move(part.outputs);
            return;
        }
        for (std::size_t i = 0; i < part.outputs.size(); ++i) {
            const axes_of_sequences axes = axes_of_result(graph_, graph_.outputs[i]);
            append(all_.outputs[i], part.outputs[i],
                   static_cast<std::size_t>(axes.query >= 0 ? axes.query : axes.batch));
        }
    }

    results take() {
        for (const stored_tensor& each : stored_) {
            array& to = all_.stored.emplace_back(array{std::string(graph_.inputs[each.input].name), {}, {}, -1});
            to.shape.assign(each.whole.shape().begin(), each.whole.shape().end());
            for (std::int64_t i = 0; i < product(to.shape); ++i)
                to.values.push_back(
                    read_element(each.memory.data() + i * bytes_of(each.whole.type()), each.whole.type()));
        }
        return std::move(all_);
    }

private:
    tensor copy_of(std::size_t input, const tensor& from) {
        stored_tensor& to = stored_.emplace_back(input);
        const view elements(from);
        const auto size = static_cast<std::size_t>(bytes_of(from.type()));
        const std::int64_t count = product(from.shape());
        to.memory.resize(static_cast<std::size_t>(count) * size);
        std::vector<std::int64_t> index(from.shape().size());
        for (std::int64_t i = 0; i < count; ++i) {
            auto rest = i;
            for (std::size_t axis = index.size(); axis-- > 0; rest /= from.shape()[axis])
                index[axis] = rest % from.shape()[axis];
            const std::byte* const at = elements.data + elements.offset(index) * static_cast<std::int64_t>(size);
            std::copy(at, at + size, to.memory.begin() + i * static_cast<std::int64_t>(size));
        }
        return to.whole = tensor(from.type(), static_cast<const void*>(to.memory.data()), from.shape());
    }

    std::vector<argument> arguments_of(const sequence& of) const {
        std::vector<argument> arguments;
        for (const argument& each : arguments_) {
            const auto input = std::ranges::find(graph_.inputs, each.name, &input_declaration::name);
            const auto* const whole = std::get_if<tensor>(&each.value);
            if (each.name == "kv_lengths" && whole != nullptr && input == graph_.inputs.end()) {
                const std::int64_t first[] = {whole->extent(0) == 1 ? 0 : of.number}, one[] = {1};
                arguments.push_back({each.name, cut(*whole, first, one)});
            } else if (input == graph_.inputs.end()) {
                continue;  // outputs, and names that the graph does not read
            } else if (whole == nullptr || whole->rank() != input->rank) {
                arguments.push_back(each);  // the evaluation refuses another rank
            } else {
                const axes_of_sequences axes = axes_of_input(*input);
                const bool broadcasts = input->element != element_type::any || axes.query < 0;
                arguments.push_back({each.name, part_of(*whole, axes, broadcasts, of)});
            }
        }
        return arguments;
    }

    /// The results of a sequence of which no row was asked for: arrays of rows are empty.
    static results without_rows(results part) {
        part.rows.clear();
        for (array& each : part.outputs)
            if (each.query_axis >= 0) each.shape[static_cast<std::size_t>(each.query_axis)] = 0, each.values.clear();
        return part;
    }

    void keep_stores(const results& part, const sequence& of) {
        for (stored_tensor& each : stored_) {
            const input_declaration& d = graph_.inputs[each.input];
            const axes_of_sequences axes = axes_of_input(d);
            const tensor piece = part_of(each.whole, axes, d.element != element_type::any || axes.query < 0, of);
            const array& now = part[d.name];
            const auto size = static_cast<std::int64_t>(bytes_of(piece.type()));
            std::vector<std::int64_t> index(now.shape.size());
            const view to(piece);
            for (std::int64_t i = 0; i < product(now.shape); ++i) {
                auto rest = i;
                for (std::size_t axis = index.size(); axis-- > 0; rest /= now.shape[axis])
                    index[axis] = rest % now.shape[axis];
                std::byte* const at = each.memory.data() + (to.data - each.memory.data()) + to.offset(index) * size;
                write_element(at, piece.type(), now.values[static_cast<std::size_t>(i)]);
            }
        }
    }

    const graph_ir& graph_;
    std::vector<argument> arguments_;
    options how_;
    std::deque<stored_tensor> stored_;
    results all_;
};

}  // namespace

results evaluate_packed(const graph_ir& graph, std::span<const argument> arguments, const tensor& starts,
                        const options& how) {
    if (how.keep_visible)
        throw std::invalid_argument("reference: which pairs are visible is not kept with cu_seqlens_q");
    const view from(starts);
    if (from.extents.size() != 1 || from.extents[0] < 2)
        throw std::invalid_argument("reference: cu_seqlens_q has no sequence");
    const auto start = [&](std::int64_t b) { return static_cast<std::int64_t>(from.at({{b}})); };
    const std::int64_t sequences = from.extents[0] - 1;
    for (const std::int64_t row : how.rows)
        if (row < 0 || row >= start(sequences))
            throw std::invalid_argument("reference: query " + std::to_string(row) + " of " +
                                        std::to_string(start(sequences)));
    packed_evaluation all(graph, arguments, how);
    const auto sequence_of = [&](std::int64_t b) {
        return sequence{b, start(b), start(b + 1) - start(b), sequences, start(sequences)};
    };
    if (!graph.stores.empty())
        for (std::int64_t b = 0; b < sequences; ++b) all.store(sequence_of(b));
    for (std::int64_t b = 0; b < sequences; ++b) all.add(sequence_of(b));
    return all.take();
}

}  // namespace attune::reference
