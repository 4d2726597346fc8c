#pragma once
#include <attune/ir/derivatives.hpp>

#include <limits>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"  // the lists of a graph are indexed by int

namespace attune::dsl::detail {

/// The terms of a gradient: it appends to the forward pass's list, and says which nodes of that list a pair's number
/// may use.
class gradient_terms {
protected:
    constexpr explicit gradient_terms(const ir_builder& forward) : forward_(forward), list_(forward) {
        name_channels();
    }

    ir_builder forward_, list_;
    std::array<std::int16_t, max_nodes> value_{};  // of a node in the gradient, plus one; 0: not asked yet
    std::string_view channel_ = "channel", value_channel_ = "value_channel";
    gradient_fault fault_{};
    std::string_view fault_name_{};

    constexpr real_writer write() { return {list_}; }
    constexpr const instruction& node(std::int16_t n) const { return list_.nodes[n]; }
    constexpr bool failed() const { return fault_ != gradient_fault::none; }
    constexpr void fail(gradient_fault why, std::string_view name = {}) {
        if (!failed()) fault_ = why, fault_name_ = name;
    }
    constexpr ir_builder failure() const {
        ir_builder none = forward_;
        none.fault = fault_, none.fault_name = fault_name_;
        return none;
    }

    constexpr void name_channels() {
        const auto taken = [&](std::string_view name) {
            for (int i = 0; i < forward_.input_count; ++i)
                if (forward_.inputs[i].name == name) return true;
            for (int i = 0; i < forward_.index_count; ++i)
                if (forward_.indices[i] == name) return true;
            return false;
        };
        for (const std::string_view other : {"channel_", "gradient_channel"})
            if (taken(channel_)) channel_ = other;
        for (const std::string_view other : {"value_channel_", "gradient_value_channel"})
            if (taken(value_channel_)) value_channel_ = other;
    }

    // --- terms

    constexpr std::int16_t terminal(operation op) { return list_.add({.op = op, .kind = kind::integer}); }
    constexpr std::int16_t bound(std::string_view name) {
        return list_.add({.op = operation::bound, .kind = kind::integer, .integer = list_.add_index(name)});
    }

    constexpr std::int16_t whole_number(std::int64_t x) {
        return list_.add({.op = operation::constant, .kind = kind::integer, .integer = x});
    }
    constexpr std::int16_t of_integers(operation op, std::int16_t x, std::int16_t y) {
        return list_.add({.op = op, .kind = kind::integer, .argument_count = 2, .arguments = {x, y}});
    }

    /// Where the channel d_idx of head h is among those of all heads, one after another.
    constexpr std::int16_t merged_channel() {
        const std::int16_t first =
            of_integers(operation::multiply, terminal(operation::h), terminal(operation::value_depth));
        return of_integers(operation::add, first, terminal(operation::d_idx));
    }

    /// Whether an output is read at the channels of all heads, one after another, as merge_heads does.
    constexpr bool reads_merged_heads(const instruction& load) const {
        const auto is = [&](std::int16_t n, operation op) {
            return node(n).op == op && node(node(n).arguments[0]).op == operation::d_idx &&
                   node(node(n).arguments[1]).op == operation::value_depth;
        };
        return load.op == operation::load && load.argument_count == 5 && node(load.arguments[1]).op == operation::b &&
               is(load.arguments[2], operation::divide) && node(load.arguments[3]).op == operation::q_idx &&
               is(load.arguments[4], operation::remainder);
    }

    /// A row (b, h, q_idx), or an output (b, h, q_idx, d_idx), that the caller passes.
    constexpr std::int16_t load_rows(std::string_view name, kind is) {
        input_declaration d{name,
                            element_type::f32,
                            false,
                            3,
                            {{{axis_kind::batch, "batch"}, {axis_kind::head, "head"}, {axis_kind::query, "query"}}}};
        if (is == kind::output)
            d.element = element_type::any, d.rank = 4, d.axes[3] = {axis_kind::value_depth, "value_depth"};
        return load(list_.add({.op = operation::input, .kind = kind::tensor, .input = list_.add_input(d)}),
                    operation::q_idx, is == kind::output);
    }

    /// Tokens (b, q_idx, d_idx), as wide as the forward pass's, that the caller passes.
    constexpr std::int16_t load_tokens(std::string_view name, std::int16_t width) {
        const input_declaration d{
            name,
            element_type::f32,
            false,
            3,
            {{{axis_kind::batch, "batch"}, {axis_kind::query, "query"}, {axis_kind::free, "channel"}}}};
        const std::int16_t tensor =
            list_.add({.op = operation::input, .kind = kind::tensor, .input = list_.add_input(d)});
        const std::int16_t extent = list_.add(
            {.op = operation::extent, .kind = kind::integer, .argument_count = 1, .arguments = {tensor}, .integer = 2});
        const std::int16_t last =
            of_integers(operation::subtract, of_integers(operation::same, extent, width), whole_number(1));
        const std::int16_t channel = of_integers(operation::minimum, terminal(operation::d_idx), last);
        return list_.add({.op = operation::load,
                          .kind = kind::real,
                          .argument_count = 4,
                          .arguments = {tensor, terminal(operation::b), terminal(operation::q_idx), channel}});
    }

    constexpr std::int16_t load(std::int16_t tensor, operation position, bool channels = true) {
        instruction i{.op = operation::load,
                      .kind = kind::real,
                      .argument_count = 4,
                      .arguments = {tensor, terminal(operation::b), terminal(operation::h), terminal(position)}};
        if (channels) i.arguments[i.argument_count++] = terminal(operation::d_idx);
        return list_.add(i);
    }

    /// An element of q, k, v or of a tensor in their place, at d_idx: of a projected one what was made once, of other
    /// formulas what they are.
    constexpr std::int16_t element(std::int16_t tensor, operation position) {
        const bool formula = node(tensor).op != operation::input && !is_projected(node(tensor).arguments[0]);
        return formula ? node(tensor).arguments[0] : load(tensor, position);
    }

    /// Whether a formula has a sum for each channel.
    constexpr bool is_projected(std::int16_t formula) const {
        std::array<bool, max_nodes> of_channel{}, below{};
        for (std::int16_t n = 0; n <= formula; ++n)
            of_channel[n] =
                dependences_at(node(n), [&](std::int16_t argument) {
                    return dependences_of_node{.on = of_channel[argument] ? variable::channel : variable::none};
                }).has(variable::channel);
        below[formula] = true;
        for (std::int16_t n = formula; n >= 0; --n) {
            if (!below[n]) continue;
            if (node(n).op == operation::sum && of_channel[n]) return true;
            for (int a = 0; a < node(n).argument_count; ++a) below[node(n).arguments[a]] = true;
        }
        return false;
    }

    /// The same expression with another channel than d_idx. The channels that a contraction or a computed tensor counts
    /// are its own and stay.
    constexpr std::int16_t with_channel(std::int16_t n, std::int16_t channel) {
        std::array<std::int16_t, max_nodes> done{};
        return with_channel(n, channel, done);
    }
    constexpr std::int16_t with_channel(std::int16_t n, std::int16_t channel,
                                        std::array<std::int16_t, max_nodes>& done) {
        instruction it = node(n);
        if (it.op == operation::d_idx) return channel;
        const bool own = it.op == operation::contract || it.kind == kind::tensor || it.kind == kind::transposed;
        if (own || it.argument_count == 0) return n;
        if (done[n] != 0) return static_cast<std::int16_t>(done[n] - 1);
        for (int a = 0; a < it.argument_count; ++a) it.arguments[a] = with_channel(it.arguments[a], channel, done);
        const std::int16_t made = list_.add(it);
        done[n] = static_cast<std::int16_t>(made + 1);
        return made;
    }

    /// An expression of d_idx, summed over the channels of the values.
    constexpr std::int16_t over_channels(std::int16_t expression) {
        const std::int16_t index = bound(value_channel_);
        return list_.add({.op = operation::sum,
                          .kind = kind::real,
                          .argument_count = 3,
                          .arguments = {index, terminal(operation::value_depth), with_channel(expression, index)}});
    }

    /// A forward node in the gradient: computed again if that takes no pass over the keys, else read from what the
    /// forward pass wrote.
    constexpr std::int16_t value(std::int16_t n) {
        if (value_[n] == 0) value_[n] = static_cast<std::int16_t>(find_value(n) + 1);
        return static_cast<std::int16_t>(value_[n] - 1);
    }
    constexpr std::int16_t find_value(std::int16_t n) {
        instruction it = node(n);
        if (it.op == operation::softmax) return weights_by(it.arguments[0], lse_of(it));
        if (it.op == operation::unnormalized) return it.arguments[0];
        if (it.op == operation::as_row || it.op == operation::as_output) return value(it.arguments[0]);
        if (family_of(it.op) == family::attention && (it.kind == kind::row || it.kind == kind::output)) return saved(n);
        if (it.kind != kind::weights && it.kind != kind::row && it.kind != kind::output && it.kind != kind::condition)
            return n;
        for (int a = 0; a < it.argument_count; ++a) it.arguments[a] = value(it.arguments[a]);
        if (it.kind != kind::condition) it.kind = kind::real;
        return list_.add(it);
    }
    constexpr std::int16_t saved(std::int16_t n) {
        for (int i = 0; i < forward_.output_count; ++i)
            if (forward_.outputs[i].node == n) return load_rows(forward_.outputs[i].name, node(n).kind);
        for (int i = 0; i < forward_.output_count; ++i)
            if (const instruction& it = node(forward_.outputs[i].node); it.kind == kind::tokens)
                if (const instruction& read = node(it.arguments[0]); reads_merged_heads(read) && read.arguments[0] == n)
                    return with_channel(load_tokens(forward_.outputs[i].name, it.arguments[1]), merged_channel());
        fail(gradient_fault::value_not_named,
             about(node(n).op).precedence ? "weights * values" : about(node(n).op).text);
        return write().number(0);
    }
    /// The log-sum-exp of the same scores and sink as a softmax.
    constexpr std::int16_t lse_of(const instruction& softmax) {
        for (int i = 0; i < forward_.output_count; ++i) {
            const instruction& it = node(forward_.outputs[i].node);
            if (it.op == operation::log_sum_exp && it.arguments == softmax.arguments)
                return load_rows(forward_.outputs[i].name, kind::row);
        }
        fail(gradient_fault::no_log_sum_exp);
        return write().number(0);
    }
    constexpr std::int16_t weights_by(std::int16_t score, std::int16_t lse) {
        auto w = write();
        return w.apply(operation::exp, w.apply(operation::minimum, w.subtract(score, lse), w.number(0)));
    }
};

}  // namespace attune::dsl::detail

#pragma GCC diagnostic pop
