#include "evaluation.hpp"

#include <attune/ir/operations.hpp>

#include "random.hpp"
#include "statistics.hpp"

#include <numeric>
#include <optional>
#include <stdexcept>
#include <tuple>

namespace attune::reference {
namespace {

[[noreturn]] void refuse(const std::string& why) { throw std::invalid_argument("reference: " + why); }

column one(std::int64_t i) { return {{}, {static_cast<std::int32_t>(i)}}; }
column one(double x) { return {{x}, {}}; }

enum class way : std::uint8_t {
    pointwise,
    unchanged,  ///< its argument, of another kind
    of_row,
    weighted,
    over_rows,  ///< reference.cpp and gradients.cpp add up rows
};
constexpr by_operation<family::attention, way> ways_of_attention{{operation::mask, way::pointwise},
                                                                 {operation::softmax, way::of_row},
                                                                 {operation::log_sum_exp, way::of_row},
                                                                 {operation::row_maximum, way::of_row},
                                                                 {operation::row_sum, way::of_row},
                                                                 {operation::weighted_sum, way::weighted},
                                                                 {operation::unnormalized, way::unchanged},
                                                                 {operation::in_u8, way::unchanged},
                                                                 {operation::in_i16, way::unchanged},
                                                                 {operation::as_row, way::unchanged},
                                                                 {operation::as_output, way::unchanged},
                                                                 {operation::tokens, way::unchanged},
                                                                 {operation::sum_over_queries, way::over_rows},
                                                                 {operation::mean_over_heads, way::over_rows},
                                                                 {operation::each, way::over_rows},
                                                                 {operation::deposit, way::over_rows}};

column counting(std::int64_t first, std::int64_t count) {
    column c{{}, std::vector<std::int32_t>(static_cast<std::size_t>(count))};
    std::iota(c.integer.begin(), c.integer.end(), static_cast<std::int32_t>(first));
    return c;
}

}  // namespace

std::int64_t known_depth(std::int64_t depth, const char* what) {
    if (depth > 0) return depth;
    refuse(std::string("no input says how many channels ") + what + " have; say it in the options");
}

evaluation::evaluation(const graph_ir& graph, std::span<const argument> arguments, const options& how)
    : graph_(graph), bound_(bind(graph, arguments, how)), depends_(dependences(graph)), kept_(graph.nodes.size()) {
    stamps_.fill(++clock_);
    measure_formed();
}

/// Formed tensors may give the lengths and the number of heads, by formulas over the sizes of the arguments' shapes.
void evaluation::measure_formed() {
    std::optional<std::int64_t> queries, keys, heads;
    const auto say = [this](std::optional<std::int64_t>& number, node_id formula, const char* what) {
        const std::int64_t said = std::max<std::int64_t>(value(formula)->integer.at(0), 0);
        if (number && *number != said)
            refuse(std::string("two ") + what + ": " + std::to_string(*number) + " and " + std::to_string(said));
        number = said;
    };
    for (const instruction& n : graph_.nodes) {
        const bool forms = n.op == operation::queries || n.op == operation::keys || n.op == operation::values;
        if (forms && n.argument_count > 1)
            say(n.op == operation::queries ? queries : keys, n.arguments[1], "lengths for one axis");
        if (forms && n.argument_count > 2) say(heads, n.arguments[2], "numbers of heads");
        if (forms && n.argument_count > 3)
            (n.op == operation::values ? bound_.size.value_depth : bound_.size.depth) =
                value(n.arguments[3])->integer.at(0);
    }
    keys_are_stated_ = keys.has_value();
    bound_.size.queries = queries.value_or(bound_.size.queries);
    bound_.size.keys = keys.value_or(bound_.size.keys);
    if (heads) bound_.size.heads = bound_.size.key_heads = *heads;
    kept_ = node_map<kept>(graph_.nodes.size());
}

std::int64_t evaluation::keys_in_use(std::int64_t b) const {
    if (bound_.lengths.empty()) return size().keys;
    const std::size_t at = bound_.lengths.size() == 1 ? 0 : static_cast<std::size_t>(b);
    return std::clamp<std::int64_t>(bound_.lengths.at(at), 0, size().keys);
}

std::int64_t evaluation::key_head() const {
    return h_ / std::max<std::int64_t>(1, size().heads / std::max<std::int64_t>(1, size().key_heads));
}

void evaluation::go_to(std::int64_t b, std::int64_t h, std::int64_t q, channels these) {
    if (b != b_ || n_ != keys_in_use(b)) changed(batch_index), changed(key_index);
    if (h != h_) changed(head_index);
    if (q != q_) changed(query_index);
    if (channels_.first != these.first || channels_.count != these.count) changed(channel_index);
    b_ = b, h_ = h, q_ = q, n_ = keys_in_use(b), channels_ = these;
}

evaluation::shared_column evaluation::tokens(node_id i, std::int64_t b, std::int64_t q) {
    go_to(b, 0, q, {0, width_of(i)});
    return value(i);
}

evaluation::shared_column evaluation::value(node_id i) {
    std::uint64_t newest = 0;
    for (std::size_t v = 0; v < stamps_.size(); ++v)
        if (depends_[i][v]) newest = std::max(newest, stamps_[v]);
    if (!kept_[i].is || kept_[i].when < newest) {
        auto computed = std::make_shared<const column>(compute(i));
        kept_[i] = {clock_, std::move(computed)};
    }
    return kept_[i].is;
}

column evaluation::compute(node_id i) {
    const instruction& n = node(i);
    switch (family_of(n.op)) {
        case family::terminal: return terminal(n);
        case family::tensors:
            if (n.op == operation::load) return load(n);
            if (n.op == operation::extent) return one(extent(n));
            if (n.op == operation::contract) return contract(i);
            refuse("a tensor is no number");
        case family::sums: return over_bound_index(n);
        case family::random: return keep(n);
        case family::attention:
            switch (ways_of_attention[n.op]) {
                case way::pointwise: break;
                case way::unchanged: return *value(n.arguments[0]);
                case way::of_row: return statistic(n);
                case way::weighted: return weighted_sum(i);
                case way::over_rows: refuse("what is summed over rows has no value in one");
            }
            break;
        case family::recurrent:
            if (n.op == operation::value_idx) return one(bound_indices_[value_index]);
            if (n.op == operation::read_states) return read_states(n);
            if (n.op == operation::part_cotangent) return part_cotangent(n);
            refuse("states are no numbers");
        case family::conversion:
        case family::arithmetic:
        case family::bits:
        case family::function:
        case family::function_of_two:
        case family::classification:
        case family::selection:
        case family::comparison:
        case family::logic:
        case family::patterns: break;
    }
    std::array<kind, max_rank + 1> is{};
    std::array<shared_column, max_rank + 1> held;
    std::array<const column*, max_rank + 1> of{};
    for (std::size_t a = 0; a < n.argument_count; ++a)
        is[a] = node(n.arguments[a]).kind, held[a] = value(n.arguments[a]), of[a] = held[a].get();
    column result;
    if (!evaluate_pointwise(n, {is.data(), n.argument_count}, {of.data(), n.argument_count}, result, makes_gradients_))
        refuse("operation " + std::to_string(static_cast<int>(n.op)) + " is not known here");
    return result;
}

column evaluation::terminal(const instruction& n) const {
    using number_of = std::int64_t (*)(const evaluation&);
    constexpr number_of no_single = nullptr;  // below
    static constexpr by_operation<family::terminal, number_of> numbers{
        {operation::constant, no_single},
        {operation::input, no_single},
        {operation::scalar, no_single},
        {operation::kv_idx, no_single},
        {operation::d_idx, no_single},
        {operation::bound, no_single},
        {operation::b, [](const evaluation& e) { return e.b_; }},
        {operation::h, [](const evaluation& e) { return e.h_; }},
        {operation::q_idx, [](const evaluation& e) { return e.q_; }},
        {operation::depth, [](const evaluation& e) { return known_depth(e.size().depth, "q and k"); }},
        {operation::value_depth, [](const evaluation& e) { return known_depth(e.size().value_depth, "the values"); }},
        {operation::query_length, [](const evaluation& e) { return e.size().queries; }},
        {operation::key_length, [](const evaluation& e) { return e.size().keys; }},
        {operation::heads, [](const evaluation& e) { return e.size().heads; }},
        {operation::key_heads, [](const evaluation& e) { return e.size().key_heads; }},
        {operation::batches, [](const evaluation& e) { return e.size().batches; }},
        {operation::kv_lengths, [](const evaluation& e) { return e.n_; }}};
    if (const number_of number = numbers[n.op]) return one(number(*this));
    if (n.op == operation::constant) return n.kind == kind::real ? one(n.number) : one(n.integer);
    if (n.op == operation::kv_idx) return counting(0, n_);
    if (n.op == operation::d_idx) return counting(channels_.first, channels_.count);
    if (n.op == operation::bound) return one(std::int64_t{bound_indices_[bound_variable(n)]});
    if (n.op != operation::scalar) refuse("a tensor is no number");
    const double x = bound_.scalars[static_cast<std::size_t>(n.input)];
    return n.kind == kind::real ? one(x) : one(static_cast<std::int64_t>(x));
}

std::int64_t evaluation::extent(const instruction& n) const {
    return extent_of(node(n.arguments[0]).input, static_cast<std::size_t>(n.integer));
}

/// An axis of the call that an input broadcasts along is as long as the call's.
std::int64_t evaluation::extent_of(std::int16_t input, std::size_t axis) const {
    const input_declaration& declared = graph_.inputs[static_cast<std::size_t>(input)];
    const std::int64_t own = bound_.views[static_cast<std::size_t>(input)].extents.at(axis);
    if (own != 1 || declared.element == element_type::any) return own;
    switch (declared.axes[axis].kind) {
        case axis_kind::batch: return size().batches;
        case axis_kind::head: return size().heads;
        case axis_kind::key_head: return size().key_heads;
        case axis_kind::query: return size().queries;
        case axis_kind::key: return size().keys;
        case axis_kind::position: return std::max(size().queries, size().keys);
        default: return own;
    }
}

column evaluation::load(const instruction& n) {
    const source from = source_of(n.arguments[0]);
    const places all = places_of(n, from.extents.size());
    const bool integer = n.kind == kind::integer || n.kind == kind::condition;
    column to{std::vector<double>(integer ? 0 : all.count), std::vector<std::int32_t>(integer ? all.count : 0)};
    for (std::size_t i = 0; i < all.count; ++i) {
        const auto at = all.at(i);
        const double x = from.at({at.data(), all.rank});
        if (integer)
            to.integer[i] = static_cast<std::int32_t>(x);
        else
            to.real[i] = x;
    }
    return to;
}

/// sum, any and largest: arguments are the bound index, its extent, and the joined number.
column evaluation::over_bound_index(const instruction& n) {
    const instruction join{.op = n.op == operation::any       ? operation::logical_or
                                 : n.op == operation::largest ? operation::maximum
                                                              : operation::add};
    const std::array kinds{node(n.arguments[2]).kind, node(n.arguments[2]).kind};
    column joined = n.op == operation::largest ? one(masked) : n.kind == kind::real ? one(0.0) : one(std::int64_t{0});
    for_each(n.arguments[0], n.arguments[1], [&] {
        const shared_column term = value(n.arguments[2]);
        column next;
        evaluate_pointwise(join, kinds, std::array{static_cast<const column*>(&joined), term.get()}, next);
        joined = std::move(next);
    });
    return joined;
}

column evaluation::keep(const instruction& n) {
    const double p = value(n.arguments[0])->real.at(0);
    const std::int32_t seed = value(n.arguments[1])->integer.at(0), upper_half = value(n.arguments[2])->integer.at(0);
    column kept = counting(0, n_);
    if (n.argument_count == 3) {
        for (std::int32_t& key : kept.integer) key = keeps(p, seed, upper_half, {b_, h_, q_, key});
        return kept;
    }
    std::array<shared_column, 4> drawn_for;
    for (std::size_t a = 0; a < drawn_for.size(); ++a) drawn_for[a] = value(n.arguments[a + 3]);
    for (std::size_t key = 0; key < kept.integer.size(); ++key) {
        const auto at = [&](std::size_t a) {
            const auto& of = drawn_for[a]->integer;
            return of[of.size() == 1 ? 0 : key];
        };
        kept.integer[key] = keeps(p, seed, upper_half, {at(0), at(1), at(2), at(3)});
    }
    return kept;
}

column evaluation::statistic(const instruction& n) {
    const shared_column from = value(n.arguments[0]);
    const double sink = n.op != operation::row_sum && n.argument_count > 1 ? value(n.arguments[1])->real.at(0) : masked;
    if (n.op == operation::softmax) return {softmax(from->real, sink), {}};
    if (n.op == operation::log_sum_exp) return one(log_sum_exp(from->real, sink));
    return one(n.op == operation::row_maximum ? largest(from->real) : sum_of_weights(from->real));
}

std::vector<double> evaluation::query(node_id tensor) {
    const bool formed = node(tensor).op == operation::queries;
    const std::int64_t depth = formed ? known_depth(size().depth, "q and k") : tensor_of(tensor).extents[3];
    std::vector<double> channels(static_cast<std::size_t>(depth));
    if (!formed) {
        for (std::int64_t d = 0; d < depth; ++d)
            channels[static_cast<std::size_t>(d)] = tensor_of(tensor).at({{b_, h_, q_, d}});
    } else {
        with_channels({0, depth}, [&] {
            const shared_column all = value(node(tensor).arguments[0]);
            for (std::size_t d = 0; d < channels.size(); ++d) channels[d] = all->real[all->real.size() == 1 ? 0 : d];
        });
    }
    return channels;
}

const std::vector<double>& evaluation::panel_of(node_id user, node_id tensor, std::int64_t depth) {
    const bool formed = node(tensor).op != operation::input;
    const std::int64_t head = formed ? h_ : key_head();
    panel& cached = panels_[user];
    if (cached.b == b_ && cached.head == head) return cached.values;
    cached = {b_, head, std::vector<double>(static_cast<std::size_t>(depth * n_))};
    for (std::int64_t d = 0; d < depth; ++d) {
        double* to = cached.values.data() + d * n_;
        if (!formed) {
            for (std::int64_t key = 0; key < n_; ++key) to[key] = tensor_of(tensor).at({{b_, head, key, d}});
        } else {
            with_channels({d, 1}, [&] {
                const shared_column keys = value(node(tensor).arguments[0]);
                for (std::int64_t key = 0; key < n_; ++key)
                    to[key] = keys->real[keys->real.size() == 1 ? 0 : static_cast<std::size_t>(key)];
            });
        }
    }
    return cached.values;
}

column evaluation::contract(node_id i) {
    const std::vector<double> channels = query(node(i).arguments[0]);
    const std::vector<double>& keys =
        panel_of(i, node(node(i).arguments[1]).arguments[0], static_cast<std::int64_t>(channels.size()));
    const auto count = static_cast<std::size_t>(n_);
    column to{std::vector<double>(count), {}};
    for (std::size_t d = 0; d < channels.size(); ++d)
        for (std::size_t key = 0; key < count; ++key) to.real[key] += channels[d] * keys[d * count + key];
    return to;
}

column evaluation::weighted_sum(node_id i) {
    const node_id tensor = node(i).arguments[1];
    const bool formed = node(tensor).op == operation::values;
    const std::int64_t depth = formed ? known_depth(size().value_depth, "the values") : tensor_of(tensor).extents[3];
    const shared_column weights = value(node(i).arguments[0]);
    const std::vector<double>& values = panel_of(i, tensor, depth);
    struct term {
        std::size_t key;
        double weight;
    };
    std::vector<term> terms;  // what weighs nothing is left out, whatever its value is: NaN included
    for (std::size_t key = 0; key < static_cast<std::size_t>(n_); ++key) {
        const double w = weight_of(weights->real[weights->real.size() == 1 ? 0 : key]);
        if (w != 0.0) terms.push_back({key, w});
    }
    column to{std::vector<double>(static_cast<std::size_t>(depth)), {}};
    for (std::size_t d = 0; d < to.real.size(); ++d) {
        const double* channel = values.data() + d * static_cast<std::size_t>(n_);
        for (const term& t : terms) to.real[d] += t.weight * channel[t.key];
    }
    return to;
}

}  // namespace attune::reference
