#include "random_recurrence.hpp"

#include <algorithm>
#include <limits>

namespace attune::testing {

random_recurrence::random_recurrence(unsigned seed) : random_(seed * 2654435761u + 5), of_key_heads_(below(3) == 0) {
    fingerprint = 0x9e3779b97f4a7c15ull * (seed + 1);
    const node_id first = initial(), decays = decay();
    const int form = below(4);  // additive, erased by the key or by another row, with a second pair
    node_id key{}, erase = real(0), read{};
    if (form == 0) {
        read = key = any_row("k");
    } else {
        key = unit_row("k", 1);
        read = form == 2 ? unit_row("reading", 0.25) : key;
        if (form != 3 || one_in(3)) erase = one_in(3) ? real(0.75) : function(operation::sigmoid, number("beta"));
    }
    const node_id values = value();
    instruction it{.op = operation::recurrence,
                   .kind = kind::states,
                   .argument_count = 6,
                   .arguments = {first, decays, key, values, erase, read}};
    if (form == 3) {
        const node_id rate = function(operation::sigmoid, row("rate", index(operation::d_idx)));
        const node_id kappa = unit_row("kappa", one_in(2) ? 1 : 0.5);
        it.argument_count = 8;
        it.arguments[6] = of_two(operation::multiply, rate, kappa);
        it.arguments[7] = function(operation::negate, kappa);
    }
    const node_id states = add(it);
    const int rows = 1 + one_in(3);
    for (int i = 0; i < rows; ++i) outputs.push_back({lasting(i == 0 ? "out" : "other_out"), rows_read(states, i)});
    if (one_in(2)) {
        const output_declaration last{lasting("state_out"), add(operation::last, kind::last_state, {states})};
        outputs.insert(one_in(4) ? outputs.begin() : outputs.end(), last);
    }
    forget_unused();
}

node_id random_recurrence::add(instruction n) {
    const auto same = std::ranges::find(nodes, n);
    if (same == nodes.end()) return nodes.push_back(n), static_cast<node_id>(nodes.size() - 1);
    return static_cast<node_id>(same - nodes.begin());
}
node_id random_recurrence::add(operation op, kind is, std::initializer_list<node_id> arguments) {
    instruction n{.op = op, .kind = is, .argument_count = static_cast<std::uint8_t>(arguments.size())};
    std::ranges::copy(arguments, n.arguments.begin());
    return add(n);
}
node_id random_recurrence::of_two(operation op, node_id x, node_id y) {
    const auto is_output = [&](node_id n) { return nodes[n].kind == kind::output; };
    return add(op, is_output(x) || is_output(y) ? kind::output : kind::real, {x, y});
}

input_declaration random_recurrence::declared(std::string_view name, std::initializer_list<axis_kind> axes) const {
    input_declaration d{.name = name, .element = element_type::f32, .rank = static_cast<std::uint8_t>(axes.size())};
    std::ranges::transform(axes, d.axes.begin(), [](axis_kind axis) {
        return axis_declaration{axis, axis == axis_kind::free ? std::string_view("entry") : name_of(axis)};
    });
    return d;
}
node_id random_recurrence::input(const input_declaration& d) {
    const auto known = std::ranges::find(inputs, d);
    const auto at = static_cast<std::int16_t>(known - inputs.begin());
    if (known == inputs.end()) inputs.push_back(d);
    return add({.op = operation::input, .kind = kind::tensor, .input = at});
}
/// Of a step: over the heads of its states, or over key heads whose numbers several states share.
node_id random_recurrence::heads_of_step(std::string_view name, std::initializer_list<axis_kind> axes) {
    const auto known = std::ranges::find(inputs, name, &input_declaration::name);
    if (known != inputs.end()) return input(*known);
    input_declaration d = declared(name, axes);
    if (of_key_heads_ || one_in(4))
        for (axis_declaration& axis : d.axes)
            if (axis.kind == axis_kind::head) axis = {axis_kind::key_head, name_of(axis_kind::key_head)};
    return input(d);
}

/// A number of each token.
node_id random_recurrence::number(std::string_view name) {
    const node_id tensor = heads_of_step(name, {axis_kind::batch, axis_kind::head, axis_kind::query});
    return add(operation::load, kind::real,
               {tensor, index(operation::b), index(operation::h), index(operation::q_idx)});
}
/// A number of each token and channel.
node_id random_recurrence::row(std::string_view name, node_id channel) {
    const node_id tensor = heads_of_step(name, {axis_kind::batch, axis_kind::head, axis_kind::query, axis_kind::depth});
    return add(operation::load, kind::real,
               {tensor, index(operation::b), index(operation::h), index(operation::q_idx), channel});
}

node_id random_recurrence::any_row(std::string_view name) {
    const node_id d = index(operation::d_idx), x = row(name, d);
    switch (below(5)) {
        case 0: return of_two(operation::multiply, x, function(operation::sigmoid, x));
        case 1: return of_two(operation::multiply, x, number("gain"));
        case 2: {
            const node_id is_first = add(operation::less, kind::condition, {d, integer(1 + below(4))});
            return add(operation::where, kind::real, {is_first, x, real(0.25)});
        }
        case 3: return unit_row(name, 1);
        default: return x;
    }
}

/// x / sqrt(sum of x^2 over the channels), times a length.
node_id random_recurrence::unit_row(std::string_view name, double length) {
    if (indices.empty()) indices.push_back("channel");
    const node_id bound = add({.op = operation::bound, .kind = kind::integer, .integer = 0}), x = row(name, bound),
                  squares = add(operation::sum, kind::real,
                                {bound, index(operation::depth), of_two(operation::multiply, x, x)}),
                  scale = function(operation::rsqrt, of_two(operation::add, squares, real(1e-6)));
    const node_id unit = of_two(operation::multiply, row(name, index(operation::d_idx)), scale);
    return length == 1 ? unit : of_two(operation::multiply, unit, real(length));
}

/// From 0 to 1. As an exponential, sums of its logarithm are kept; else products of decays are.
node_id random_recurrence::decay() {
    const bool of_channels = one_in(3);
    const auto drawn = [&] { return of_channels ? row("decaying", index(operation::d_idx)) : number("decaying"); };
    const auto negated_square = [&](node_id x) {
        return function(operation::negate, of_two(operation::multiply, x, x));
    };
    switch (below(of_key_heads_ ? 6 : 8)) {
        case 0: return real(1);
        case 1: return real(0.875);
        case 2: return function(operation::exp, negated_square(drawn()));
        case 3: {
            const node_id x = drawn(), forgets = add(operation::greater, kind::condition, {x, real(1.25)});
            const node_id none = real(-std::numeric_limits<double>::infinity());
            return function(operation::exp, add(operation::where, kind::real, {forgets, none, negated_square(x)}));
        }
        case 4: {
            const node_id x = drawn(), forgets = add(operation::greater, kind::condition, {x, real(1.25)});
            return add(operation::where, kind::real, {forgets, real(0), function(operation::sigmoid, x)});
        }
        case 5: return function(operation::sigmoid, drawn());
        case 6: {  // of heads, by a tensor
            const node_id slopes = input(declared("slopes", {axis_kind::head}));
            const node_id slope = add(operation::load, kind::real, {slopes, index(operation::h)});
            return function(operation::exp, negated_square(slope));
        }
        default: {  // of heads, by their numbers
            const node_id head = add(operation::to_real, kind::real, {index(operation::h)});
            const node_id exponent = of_two(operation::subtract, real(-2), head);
            return of_two(operation::subtract, real(1), function(operation::exp2, exponent));
        }
    }
}

node_id random_recurrence::value() {
    const node_id tensor =
        heads_of_step("v", {axis_kind::batch, axis_kind::head, axis_kind::query, axis_kind::value_depth});
    const node_id x =
        add(operation::load, kind::real,
            {tensor, index(operation::b), index(operation::h), index(operation::q_idx), index(operation::d_idx)});
    switch (below(4)) {
        case 0: return of_two(operation::multiply, function(operation::sigmoid, number("beta")), x);
        case 1: return add(operation::as_output, kind::output, {x});
        default: return x;
    }
}

/// None, a state that is passed, a slot of a pool, a formula of its channels.
node_id random_recurrence::initial() {
    const node_id b = index(operation::b), h = index(operation::h), d = index(operation::d_idx),
                  e = index(operation::value_idx);
    const auto passed = [&] {
        const node_id tensor =
            heads_of_step("state_in", {axis_kind::batch, axis_kind::head, axis_kind::depth, axis_kind::value_depth});
        return add(operation::load, kind::real, {tensor, b, h, d, e});
    };
    switch (below(7)) {
        case 0:
        case 1: return real(0);
        case 2: return of_two(operation::multiply, passed(), real(0.5));
        case 3: {
            const node_id pool =
                heads_of_step("pool", {axis_kind::free, axis_kind::head, axis_kind::depth, axis_kind::value_depth});
            input_declaration slots = declared("slot", {axis_kind::batch});
            slots.element = element_type::i32;
            const node_id slot = add(operation::load, kind::integer, {input(slots), b});
            const node_id entries =
                add({.op = operation::extent, .kind = kind::integer, .argument_count = 1, .arguments = {pool}});
            const node_id entry = add(operation::remainder, kind::integer, {slot, entries});
            const node_id begins = add(operation::equal, kind::condition, {entry, integer(0)});
            const node_id state = add(operation::load, kind::real, {pool, entry, h, d, e});
            return add(operation::where, kind::real, {begins, real(0), state});
        }
        case 4: {
            const node_id difference = add(operation::subtract, kind::integer, {d, e});
            return of_two(operation::multiply, add(operation::to_real, kind::real, {difference}), real(0.0625));
        }
        default: return passed();
    }
}

/// A row read at the states, scaled or gated, or beside the token's own values.
node_id random_recurrence::rows_read(node_id states, int which) {
    const std::string_view name = which == 0 ? "q" : "other_q";
    const node_id tensor =
        input(declared(name, {axis_kind::batch, axis_kind::head, axis_kind::query, axis_kind::depth}));
    const node_id q =
        one_in(3)
            ? unit_row(name, 1)
            : add(operation::load, kind::real,
                  {tensor, index(operation::b), index(operation::h), index(operation::q_idx), index(operation::d_idx)});
    const node_id read_from = one_in(3) ? add(operation::earlier, kind::states, {states}) : states;
    const node_id read = add(operation::read_states, kind::output, {q, read_from});
    const auto value_of_token = [&] {
        const node_id values = input(*std::ranges::find(inputs, "v", &input_declaration::name));
        return add(
            operation::load, kind::real,
            {values, index(operation::b), index(operation::h), index(operation::q_idx), index(operation::d_idx)});
    };
    switch (below(5)) {
        case 0: return of_two(operation::multiply, read, real(0.5));
        case 1: return of_two(operation::multiply, read, function(operation::sigmoid, value_of_token()));
        case 2: return of_two(operation::add, read, value_of_token());
        case 3: {
            const node_id before = add(operation::earlier, kind::states, {states});
            return of_two(operation::subtract, read, add(operation::read_states, kind::output, {q, before}));
        }
        default: return read;
    }
}

}  // namespace attune::testing
