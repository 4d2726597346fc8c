#include "evaluation.hpp"

#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>

namespace attune::reference {
namespace {

constexpr double masked = -std::numeric_limits<double>::infinity();

std::string quoted(std::string_view s) { return "`" + std::string(s) + "`"; }

void softmax(const std::vector<double>& scores, std::vector<double>& weights) {
    const double top = scores.empty() ? masked : *std::ranges::max_element(scores);
    weights.assign(scores.size(), 0.0);
    if (top == masked) return;
    double sum = 0;
    for (std::size_t i = 0; i < scores.size(); ++i)
        if (scores[i] != masked) sum += weights[i] = std::exp(scores[i] - top);
    for (double& w : weights) w /= sum;
}

double log_sum_exp(const std::vector<double>& scores) {
    const double top = scores.empty() ? masked : *std::ranges::max_element(scores);
    if (top == masked) return masked;
    double sum = 0;
    for (double s : scores)
        if (s != masked) sum += std::exp(s - top);
    return top + std::log(sum);
}

}  // namespace

evaluation::evaluation(const listing& graph, std::span<const argument> arguments)
    : graph_(graph), views_(graph.inputs.size()), scalars_(graph.inputs.size()), columns_(graph.nodes.size()) {
    bind(arguments);
    measure();
}

void evaluation::bind(std::span<const argument> arguments) {
    const auto find = [arguments](std::string_view name) {
        return std::ranges::find_if(arguments, [name](const argument& a) { return a.name == name; });
    };
    for (std::size_t i = 0; i < graph_.inputs.size(); ++i) {
        const auto& declared = graph_.inputs[i];
        const auto given = find(declared.name);
        if (given == arguments.end()) throw std::invalid_argument("reference: the graph reads " + quoted(declared.name) + ", which is not among the arguments");
        if (declared.is_scalar != std::holds_alternative<double>(given->value))
            throw std::invalid_argument("reference: " + quoted(declared.name) + (declared.is_scalar ? " is a number" : " is a tensor"));
        if (declared.is_scalar) {
            const double x = std::get<double>(given->value);
            scalars_[i] = declared.element == element_type::f32 ? static_cast<double>(static_cast<float>(x)) : x;
        } else {
            views_[i] = view(std::get<tensor>(given->value));
            if (views_[i].extents.size() != declared.rank)
                throw std::invalid_argument("reference: " + quoted(declared.name) + " has rank " + std::to_string(views_[i].extents.size()) +
                                            ", expected " + std::to_string(declared.rank));
        }
    }
    if (const auto given = find("kv_lengths"); given != arguments.end()) {
        const view lengths(std::get<tensor>(given->value));
        for (std::int64_t b = 0; b < lengths.extents.at(0); ++b) lengths_.push_back(static_cast<std::int64_t>(lengths.at({{b}})));
    }
}

void evaluation::measure() {
    for (const instruction& n : graph_.nodes) {
        if (n.op == operation::contract) {
            const auto& q = tensor_of(n.arguments[0]).extents;
            const auto& k = tensor_of(node(n.arguments[1]).arguments[0]).extents;
            size.batches = q[0], size.heads = q[1], size.queries = q[2], size.depth = q[3];
            size.key_heads = k[1], size.keys = k[2];
        } else if (n.op == operation::weighted_sum) {
            size.value_depth = tensor_of(n.arguments[1]).extents[3];
        }
    }
}

const view& evaluation::tensor_of(std::int16_t i) const {
    return views_[static_cast<std::size_t>(node(i).input)];
}

std::int64_t evaluation::keys_in_use(std::int64_t b) const {
    if (lengths_.empty()) return size.keys;
    const std::size_t at = lengths_.size() == 1 ? 0 : static_cast<std::size_t>(b);
    return std::clamp<std::int64_t>(lengths_.at(at), 0, size.keys);
}

std::int64_t evaluation::key_head() const { return h_ / std::max<std::int64_t>(1, size.heads / std::max<std::int64_t>(1, size.key_heads)); }

void evaluation::evaluate_row(std::int64_t b, std::int64_t h, std::int64_t q) {
    b_ = b, h_ = h, q_ = q, n_ = keys_in_use(b);
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
        const instruction& n = graph_.nodes[i];
        column& to = columns_[i];
        switch (n.op) {
            case operation::input: case operation::transpose: break;
            case operation::load: load(n, to); break;
            case operation::contract: contract(static_cast<std::int16_t>(i), to); break;
            case operation::softmax: softmax(value(n.arguments[0]).real, to.real); break;
            case operation::log_sum_exp: to.real.assign(1, log_sum_exp(value(n.arguments[0]).real)); break;
            case operation::weighted_sum: weighted_sum(static_cast<std::int16_t>(i), to); break;
            default:
                if (n.argument_count == 0) {
                    terminal(n, to);
                } else {
                    std::array<kind, max_rank + 1> kinds{};
                    std::array<const column*, max_rank + 1> arguments{};
                    for (std::size_t a = 0; a < n.argument_count; ++a) kinds[a] = node(n.arguments[a]).is, arguments[a] = &value(n.arguments[a]);
                    const std::span all_kinds(kinds.data(), n.argument_count);
                    if (!evaluate_pointwise(n, all_kinds, {arguments.data(), n.argument_count}, to))
                        throw std::invalid_argument("reference: operation " + std::to_string(static_cast<int>(n.op)) + " is not known here");
                }
        }
    }
}

void evaluation::terminal(const instruction& n, column& to) const {
    const auto integer = [&to](std::int64_t i) { to.integer.assign(1, static_cast<std::int32_t>(i)); };
    switch (n.op) {
        case operation::constant:
            if (n.is == kind::integer) integer(n.integer);
            else to.real.assign(1, n.number);
            return;
        case operation::scalar:
            if (n.is == kind::integer) integer(static_cast<std::int64_t>(scalars_[static_cast<std::size_t>(n.input)]));
            else to.real.assign(1, scalars_[static_cast<std::size_t>(n.input)]);
            return;
        case operation::kv_idx:
            to.integer.resize(static_cast<std::size_t>(n_));
            std::iota(to.integer.begin(), to.integer.end(), 0);
            return;
        case operation::b: return integer(b_);
        case operation::h: return integer(h_);
        case operation::q_idx: return integer(q_);
        case operation::depth: return integer(size.depth);
        case operation::value_depth: return integer(size.value_depth);
        case operation::query_length: return integer(size.queries);
        case operation::key_length: return integer(size.keys);
        case operation::heads: return integer(size.heads);
        case operation::key_heads: return integer(size.key_heads);
        case operation::batches: return integer(size.batches);
        case operation::kv_lengths: return integer(n_);
        default: throw std::invalid_argument("reference: terminal " + std::to_string(static_cast<int>(n.op)) + " is not known here");
    }
}

void evaluation::load(const instruction& n, column& to) const {
    const view& from = tensor_of(n.arguments[0]);
    const input_declaration& declared = graph_.inputs[static_cast<std::size_t>(node(n.arguments[0]).input)];
    const std::size_t rank = from.extents.size();
    std::array<const std::vector<std::int32_t>*, max_rank> indices{};
    std::size_t count = 1;
    for (std::size_t a = 0; a < rank; ++a) {
        indices[a] = &value(n.arguments[a + 1]).integer;
        if (indices[a]->size() != 1) count = indices[a]->size();
    }
    const bool real = n.is == kind::real || n.is == kind::scores;
    to.real.resize(real ? count : 0);
    to.integer.resize(real ? 0 : count);
    for (std::size_t i = 0; i < count; ++i) {
        std::array<std::int64_t, max_rank> at{};
        for (std::size_t a = 0; a < rank; ++a) {
            at[a] = (*indices[a])[indices[a]->size() == 1 ? 0 : i];
            if (declared.axes[a].is == axis_kind::key) at[a] = std::min(at[a], n_ - 1);  // beyond the keys in use nothing is read
        }
        const double x = from.empty() ? 0.0 : from.at({at.data(), rank});
        if (real) to.real[i] = x;
        else to.integer[i] = static_cast<std::int32_t>(x);
    }
}

void evaluation::contract(std::int16_t i, column& to) {
    const instruction& n = node(i);
    const view& q = tensor_of(n.arguments[0]);
    const view& k = tensor_of(node(n.arguments[1]).arguments[0]);
    const std::int64_t depth = q.extents[3];
    const auto keys = static_cast<std::size_t>(n_);
    panel& cached = panels_[i];
    if (cached.b != b_ || cached.key_head != key_head()) {  // (depth, key): the loop over keys below is contiguous
        cached = {b_, key_head(), std::vector<double>(static_cast<std::size_t>(depth) * keys)};
        for (std::int64_t d = 0; d < depth; ++d)
            for (std::int64_t key = 0; key < n_; ++key)
                cached.values[static_cast<std::size_t>(d * n_ + key)] = k.at({{b_, key_head(), key, d}});
    }
    to.real.assign(keys, 0.0);
    for (std::int64_t d = 0; d < depth; ++d) {
        const double x = q.at({{b_, h_, q_, d}});
        const double* row = cached.values.data() + d * n_;
        for (std::size_t key = 0; key < keys; ++key) to.real[key] += x * row[key];
    }
}

void evaluation::weighted_sum(std::int16_t i, column& to) {
    const instruction& n = node(i);
    const view& v = tensor_of(n.arguments[1]);
    const auto depth = static_cast<std::size_t>(v.extents[3]);
    panel& cached = panels_[i];
    if (cached.b != b_ || cached.key_head != key_head()) {
        cached = {b_, key_head(), {}};
        cached.values.reserve(static_cast<std::size_t>(n_) * depth);
        for (std::int64_t key = 0; key < n_; ++key)
            for (std::int64_t d = 0; d < v.extents[3]; ++d) cached.values.push_back(v.at({{b_, key_head(), key, d}}));
    }
    to.real.assign(depth, 0.0);
    const auto& weights = value(n.arguments[0]).real;
    for (std::size_t key = 0; key < weights.size(); ++key) {
        if (weights[key] == 0.0) continue;  // masked: whatever its value is, NaN included
        const double* row = cached.values.data() + key * depth;
        for (std::size_t d = 0; d < depth; ++d) to.real[d] += weights[key] * row[d];
    }
}

}  // namespace attune::reference
