#include "cut_call.hpp"

#include <attune/dsl/sharding.hpp>
#include <attune/workload.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>

namespace attune::testing {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

std::vector<positions> random_sets(std::int64_t count, std::mt19937& random) {
    const auto below = [&](unsigned n) { return random() % n; };
    std::vector<positions> sets(1 + below(5));
    const unsigned way = below(3), weight = below(3);
    for (std::int64_t at = 0; at < count; ++at) {
        std::size_t to = below(static_cast<unsigned>(sets.size()));
        if (way == 0) to = static_cast<std::size_t>(at) % sets.size();
        if (way == 1) to = static_cast<std::size_t>(at) * sets.size() / static_cast<std::size_t>(count);
        if (weight == 0) to = std::min<std::size_t>(to, below(static_cast<unsigned>(sets.size())));
        if (weight == 1 && to == 1) to = 0;  // the second is empty
        sets[to].push_back(static_cast<std::int32_t>(at));
    }
    std::ranges::shuffle(sets, random);
    if (below(3) == 0)
        for (positions& each : sets) std::ranges::shuffle(each, random);
    return sets;
}

const reference::argument* find(std::span<const reference::argument> arguments, std::string_view name) {
    const auto found = std::ranges::find(arguments, name, &reference::argument::name);
    return found == arguments.end() ? nullptr : &*found;
}

/// The output of the calls before the first: whatever lies in a sum that a log-sum-exp of -infinity stands beside.
double at_first(const graph_ir& graph, const output_declaration& output) {
    const auto node = [&](node_id n) -> const instruction& { return graph.nodes[n]; };
    const instruction& it = node(output.node);
    if (it.op == operation::log_sum_exp || it.op == operation::row_maximum) return -infinity;
    const instruction* weights = &node(it.arguments[0]);
    while (weights->op != operation::softmax && weights->op != operation::unnormalized)
        for (std::size_t a = 0; a < weights->argument_count; ++a)
            if (const instruction& argument = node(weights->arguments[a]); argument.kind == kind::weights) {
                weights = &argument;
                break;
            }
    return weights->op == operation::softmax ? std::nan("") : 0.0;
}

}  // namespace

cut random_cut(std::int64_t queries, std::int64_t keys, std::mt19937& random) {
    std::vector<positions> of_queries = random_sets(queries, random);
    return {std::move(of_queries), random_sets(keys, random)};
}

drawn_graph copy_of(const graph_ir& graph) {
    drawn_graph copy;
    copy.nodes.assign(graph.nodes.begin(), graph.nodes.end());
    copy.inputs.assign(graph.inputs.begin(), graph.inputs.end());
    copy.outputs.assign(graph.outputs.begin(), graph.outputs.end());
    copy.indices.assign(graph.indices.begin(), graph.indices.end());
    copy.fingerprint = graph.fingerprint;
    return copy;
}

sharded_graph shard_of(const drawn_graph& graph) {
    const dsl::detail::ir_builder made = dsl::detail::sharding(graph.list()).run();
    if (!made.declared_twice.empty() || made.too_long) throw std::runtime_error("a shard that is no graph");
    sharded_graph result{{}, made.unshardable};
    if (result.is_one()) result.graph = drawn_graph::made_of(made, graph.fingerprint);
    return result;
}

bool make_shardable(drawn_graph& graph) {
    const auto is_sum = [](const instruction& n) {
        return n.op == operation::weighted_sum || n.op == operation::log_sum_exp || n.op == operation::row_maximum ||
               n.op == operation::row_sum;
    };
    graph.forget_unused();
    std::vector<output_declaration> kept;
    const auto keep = [&](std::string_view name, node_id node) {
        if (std::ranges::find(kept, node, &output_declaration::node) == kept.end()) kept.push_back({name, node});
    };
    for (std::size_t n = 0; n < graph.nodes.size(); ++n)
        if (is_sum(graph.nodes[n])) keep(lasting("sum_" + std::to_string(n)), node_at(n));
    for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
        if (graph.nodes[n].op != operation::softmax) continue;
        instruction lse = graph.nodes[n];
        lse.op = operation::log_sum_exp, lse.kind = kind::row;
        const auto same = std::ranges::find(graph.nodes, lse) - graph.nodes.begin();
        if (same == std::ssize(graph.nodes)) graph.nodes.push_back(lse);
        keep(lasting("lse_" + std::to_string(n)), node_at(same));
    }
    // A sum that another one is made of belongs to a layer before this one.
    graph.outputs = std::move(kept);
    graph.forget_unused();
    return !graph.outputs.empty() &&
           std::ranges::none_of(graph.nodes, [](const instruction& n) { return n.op == operation::tokens; });
}

whole_call::whole_call(const graph_ir& of, std::vector<reference::argument> given, const reference::options& options)
    : graph(of), arguments(std::move(given)), how(options) {
    reference::options seen = how;
    seen.keep_visible = true;
    expected = reference::evaluate(graph, arguments, seen);
    const std::vector<std::int64_t>& shape = expected.outputs.at(0).shape;
    queries = shape.at(2), heads = shape[1];
    for (const input_declaration& input : graph.inputs)
        for (int axis = 0; axis < input.rank; ++axis)
            if (const reference::argument* const a = find(arguments, input.name);
                a && input.axes[static_cast<std::size_t>(axis)].kind == axis_kind::key_head)
                key_heads = std::max(key_heads, std::get<tensor>(a->value).extent(axis));
    const std::int64_t rows = shape[0] * shape[1] * queries;
    if (rows == 0) throw std::runtime_error("a call without queries");
    keys = static_cast<std::int64_t>(expected.visible.size()) / rows;
}

detail::named_argument named(const reference::argument& a, const graph_ir& graph) {
    using form = detail::named_argument::form;
    detail::named_argument to{.name = a.name};
    if (const auto* view = std::get_if<tensor>(&a.value)) {
        to.view = *view;
        return to;
    }
    const auto input = std::ranges::find(graph.inputs, a.name, &input_declaration::name);
    to.is = input->element == element_type::i32 ? form::integer : form::real;
    to.real = std::get<double>(a.value), to.integer = static_cast<std::int64_t>(to.real);
    return to;
}

std::vector<some_heads> random_heads(const whole_call& whole, std::mt19937& random) {
    if (whole.key_heads <= 1 || random() % 2) return {{0, whole.heads, 0, whole.key_heads}};
    std::vector<some_heads> all;
    const std::int64_t of_key_head = whole.heads / whole.key_heads;
    for (std::int64_t k = 0; k < whole.key_heads; ++k) all.push_back({k * of_key_head, of_key_head, k, 1});
    return all;
}

tensor cut_arguments::rows_of(const tensor& all, const input_declaration& declared, const positions& queries,
                              const positions& keys, const some_heads& heads) {
    positions of_heads(static_cast<std::size_t>(heads.count)), of_key_heads(static_cast<std::size_t>(heads.key_heads));
    std::iota(of_heads.begin(), of_heads.end(), static_cast<std::int32_t>(heads.first));
    std::iota(of_key_heads.begin(), of_key_heads.end(), static_cast<std::int32_t>(heads.first_key_head));
    std::vector<std::int64_t> extents(all.shape().begin(), all.shape().end());
    std::vector<const positions*> chosen(extents.size());
    for (std::size_t a = 0; a < extents.size(); ++a) {
        const auto choose = [&](const positions& rows, std::int64_t whole) {
            if (extents[a] == 1 && whole != 1) return;  // broadcasts
            chosen[a] = &rows, extents[a] = std::ssize(rows);
        };
        switch (declared.axes[a].kind) {
            case axis_kind::query: choose(queries, whole_.queries); break;
            case axis_kind::key: choose(keys, whole_.keys); break;
            case axis_kind::head: choose(of_heads, whole_.heads); break;
            case axis_kind::key_head:
                if (whole_.key_heads != 0) choose(of_key_heads, whole_.key_heads);
                break;
            default: break;
        }
    }
    const auto bytes = static_cast<std::size_t>(bytes_of(all.type()));
    const std::int64_t size = std::accumulate(extents.begin(), extents.end(), std::int64_t{1}, std::multiplies<>());
    std::vector<std::byte>& to = held_.emplace_back(static_cast<std::size_t>(size) * bytes);
    const tensor rows(all.type(), static_cast<const void*>(to.data()), extents);
    std::vector<std::int64_t> at(extents.size());
    for (std::int64_t element = 0; element < size; ++element) {
        std::int64_t rest = element, from = 0;
        for (std::size_t a = extents.size(); a-- > 0; rest /= extents[a]) {
            const std::int64_t i = rest % extents[a];
            from += all.stride(static_cast<int>(a)) * (chosen[a] ? (*chosen[a])[static_cast<std::size_t>(i)] : i);
        }
        std::memcpy(to.data() + static_cast<std::size_t>(element) * bytes,
                    static_cast<const std::byte*>(all.data()) + from * static_cast<std::int64_t>(bytes), bytes);
    }
    return rows;
}

tensor cut_arguments::lengths() {
    const reference::argument* given = find(whole_.arguments, "kv_lengths");
    lengths_ = {static_cast<std::int32_t>(whole_.keys)};
    if (given != nullptr) {
        const tensor& t = std::get<tensor>(given->value);
        lengths_.assign(static_cast<std::size_t>(t.extent(0)), 0);
        for (std::int64_t b = 0; b < t.extent(0); ++b)
            lengths_[static_cast<std::size_t>(b)] = std::clamp(
                static_cast<const std::int32_t*>(t.data())[b * t.stride(0)], 0, static_cast<std::int32_t>(whole_.keys));
    }
    return {lengths_.data(), {std::ssize(lengths_)}};
}

std::vector<reference::argument> cut_arguments::of(const positions& queries, const positions& keys, bool with_sinks) {
    return of(queries, keys, with_sinks, {0, whole_.heads, 0, whole_.key_heads});
}

std::vector<reference::argument> cut_arguments::of(const positions& queries, const positions& keys, bool with_sinks,
                                                   const some_heads& heads) {
    held_.clear(), held_.reserve(shard_.inputs.size());
    queries_ = queries, keys_ = keys;
    std::vector<reference::argument> all{{"query_positions", tensor(queries_.data(), {std::ssize(queries_)})},
                                         {"key_positions", tensor(keys_.data(), {std::ssize(keys_)})},
                                         {"all_queries", static_cast<double>(whole_.queries)},
                                         {"all_keys", static_cast<double>(whole_.keys)},
                                         {"lengths", lengths()},
                                         {"with_sinks", with_sinks ? 1.0 : 0.0},
                                         {"first_head", static_cast<double>(heads.first)},
                                         {"all_heads", static_cast<double>(whole_.heads)},
                                         {"all_key_heads", static_cast<double>(whole_.key_heads)}};
    for (const input_declaration& declared : shard_.inputs) {
        const reference::argument* given = find(whole_.arguments, declared.name);
        if (given == nullptr) continue;
        if (declared.is_scalar)
            all.push_back(*given);
        else
            all.push_back({declared.name, rows_of(std::get<tensor>(given->value), declared, queries, keys, heads)});
    }
    return all;
}

namespace {

/// The results of the calls for one set of queries.
class left_behind {
public:
    left_behind(const whole_call& whole, const graph_ir& shard, std::int64_t queries, std::int64_t heads)
        : whole_(whole), shard_(shard), queries_(queries), heads_(heads) {
        for (const output_declaration& output : whole.graph.outputs) empty_.push_back(at_first(whole.graph, output));
    }

    void pass_to(std::vector<reference::argument>& call) const {
        for (std::size_t i = 0; i < whole_.graph.outputs.size(); ++i) {
            const std::string_view name = lasting(std::string(whole_.graph.outputs[i].name) + "_before");
            if (std::ranges::find(shard_.inputs, name, &input_declaration::name) != shard_.inputs.end())
                call.push_back({name, outputs.empty() ? nothing_yet(i) : tensor_of(outputs[i])});
        }
    }

    std::vector<reference::array> outputs;

private:
    static tensor tensor_of(const reference::array& made) {
        return {element_type::f64, static_cast<const void*>(made.values.data()), made.shape};
    }
    /// One number everywhere.
    tensor nothing_yet(std::size_t output) const {
        std::vector<std::int64_t> extents = whole_.expected.outputs[output].shape;
        extents[1] = heads_, extents[2] = queries_;
        const std::vector<std::int64_t> strides(extents.size(), 0);
        return {element_type::f64, static_cast<const void*>(&empty_[output]), extents, strides};
    }

    const whole_call& whole_;
    const graph_ir& shard_;
    std::int64_t queries_, heads_;
    std::vector<double> empty_;
};

/// Puts rows where the whole call has them.
void place(const reference::array& rows, const positions& queries, const some_heads& heads, const whole_call& whole,
           reference::array& to) {
    if (to.shape.empty()) {
        to.shape = rows.shape, to.shape[1] = whole.heads, to.shape[2] = whole.queries;
        std::int64_t size = 1;
        for (const std::int64_t extent : to.shape) size *= extent;
        to.values.assign(static_cast<std::size_t>(size), std::nan(""));
    }
    const std::int64_t width = to.shape.size() > 3 ? to.shape[3] : 1, count = std::ssize(queries);
    for (std::int64_t b = 0; b < to.shape[0]; ++b)
        for (std::int64_t h = 0; h < heads.count; ++h)
            for (std::int64_t row = 0; row < count; ++row) {
                const std::int64_t head = b * whole.heads + heads.first + h;
                std::copy_n(
                    rows.values.begin() + ((b * heads.count + h) * count + row) * width, width,
                    to.values.begin() + (head * whole.queries + queries[static_cast<std::size_t>(row)]) * width);
            }
}

}  // namespace

reference::results in_parts(const whole_call& whole, const graph_ir& shard, const cut& by, std::mt19937& random) {
    return in_parts(whole, shard, by, random, [&](const std::vector<reference::argument>& call) {
        return reference::evaluate(shard, call, whole.how).outputs;
    });
}

reference::results in_parts(const whole_call& whole, const graph_ir& shard, const cut& by, std::mt19937& random,
                            const shard_call& run) {
    reference::results all;
    for (const output_declaration& output : whole.graph.outputs)
        all.outputs.push_back({std::string(output.name), {}, {}});
    cut_arguments arguments(whole, shard);
    for (const some_heads& heads : random_heads(whole, random))
        for (const positions& queries : by.queries) {
            if (queries.empty()) continue;
            const std::size_t sinks_in = random() % by.keys.size();
            left_behind left(whole, shard, std::ssize(queries), heads.count);
            for (std::size_t part = 0; part < by.keys.size(); ++part) {
                std::vector<reference::argument> call = arguments.of(queries, by.keys[part], part == sinks_in, heads);
                left.pass_to(call);
                left.outputs = run(call);
            }
            for (std::size_t i = 0; i < left.outputs.size(); ++i)
                place(left.outputs[i], queries, heads, whole, all.outputs[i]);
        }
    return all;
}

double largest_difference(const reference::results& got, const whole_call& whole) {
    double worst = 0;
    for (std::size_t i = 0; i < whole.expected.outputs.size(); ++i) {
        const reference::array &x = got.outputs.at(i), &y = whole.expected.outputs[i];
        if (x.shape != y.shape) return infinity;
        for (std::size_t at = 0; at < y.values.size(); ++at) {
            if (x.values[at] == y.values[at] || (std::isnan(x.values[at]) && std::isnan(y.values[at]))) continue;
            const double error = std::abs(x.values[at] - y.values[at]) / (1 + std::abs(y.values[at]));
            worst = std::max(worst, std::isnan(error) ? infinity : error);
        }
    }
    return worst;
}

}  // namespace attune::testing
