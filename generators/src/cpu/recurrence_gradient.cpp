#include "cpu/recurrence_gradient.hpp"

#include "analysis/plan.hpp"
#include "expr/math.hpp"

#include <algorithm>
#include <numeric>

namespace attune::generators::inline cpu {
using namespace Halide;

namespace {

cotangent_arguments cotangents_in(const graph_ir& graph) {
    return cotangents_of(graph.nodes[state_cotangents_of(graph.nodes)]);
}

std::vector<Expr> place_in(const Expr& e, const Expr& slot, const Expr& index, const std::vector<Var>& others) {
    std::vector<Expr> all{e, slot, index};
    all.insert(all.end(), others.begin(), others.end());
    return all;
}

Expr unless_masked(const quantity& x) { return x.masked.defined() ? select(x.masked, 0.0f, x.value) : x.value; }

}  // namespace

recurrence_gradient::recurrence_gradient(const kernel_request& request, const chunk_plan& planned)
    : request_(request),
      inputs_(request),
      flow_(cotangents_in(request.graph())),
      of_(arguments_of(request.graph().nodes[flow_.recurrence])),
      size_{planned.tokens,
            request.depths.depth,
            request.depths.value_depth,
            std::gcd(request.depths.value_depth, std::get<cpu_recurrence>(request.schedule).lanes),
            planned.solves,
            planned.by_channels} {
    define_rows();
    define_walks();
    define_cotangents_of_chunk();
    define_parts();
    define_outputs();
}

/// Additive rules read and erase nothing, so that the cotangents of these parts are 0.
bool recurrence_gradient::is_wanted(step_part part) const {
    if (!size_.solves && (part == step_part::read || part == step_part::erase)) return false;
    return std::ranges::any_of(request_.graph().nodes, [&](const instruction& it) {
        return it.op == operation::part_cotangent && static_cast<step_part>(it.integer) == part;
    });
}

/// The place of a token; one beyond the last is read as the last.
place recurrence_gradient::at(const Expr& t, const Expr& h, const Expr& b) const {
    place where{.b = b, .h = h, .q = clamp(t, 0, max(inputs_.query_length, 1) - 1), .k = 0, .key_limit = 0};
    return where;
}

/// Computes numbers of a token that no channel changes, once.
void recurrence_gradient::know_numbers(place& where, const std::vector<int>& roots, const std::vector<int>& known) {
    for (const int n : hoistable(request_.graph(), request_.facts->depends, roots, known)) {
        number& made = numbers_[n];
        if (!made.value.defined()) {
            place of_token = at(x_.t, x_.h, x_.b);
            if (parts_.all.defined()) know_parts(of_token);
            const quantity x = evaluate(n, of_token);
            // Algorithm
            made.value = Func("value"), made.value(x_.t, x_.h, x_.b) = x.value;
            if (x.masked.defined()) made.masked = Func("masked"), made.masked(x_.t, x_.h, x_.b) = x.masked;
            of_tokens_.push_back(made.value);
            if (made.masked.defined()) of_tokens_.push_back(made.masked);
        }
        const std::vector<Expr> here{where.q, where.h, where.b};
        where.known[n] = {made.value(here), made.masked.defined() ? Expr(made.masked(here)) : Expr()};
    }
}

void recurrence_gradient::define_row(Func& to, int n, bool of_values) {
    place where = at(x_.t, x_.h, x_.b);
    const Var channel = of_values ? x_.e : x_.d;
    know_numbers(where, {n}, {});
    where.d = channel;
    to(channel, x_.t, x_.h, x_.b) = unless_masked(evaluate(n, where));
    of_tokens_.push_back(to);
}

void recurrence_gradient::define_number(Func& to, int n) {
    to(x_.t, x_.h, x_.b) = unless_masked(evaluate(n, at(x_.t, x_.h, x_.b)));
    of_tokens_.push_back(to);
}

void recurrence_gradient::define_rows() {
    define_row(rows_.key, of_.key, false);
    define_row(rows_.value, of_.value, true);
    if (size_.solves) define_row(rows_.read, of_.read, false), define_number(rows_.erase, of_.erase);
    if (!is_constant(node(of_.decay), 1)) {
        if (size_.by_channel)
            define_row(rows_.decay, of_.decay, false);
        else
            define_number(rows_.decay, of_.decay);
    }
    if (has_row()) define_row(rows_.row, flow_.row, false), define_row(rows_.cotangent, flow_.cotangent, true);
}

Expr recurrence_gradient::decay_of(const Expr& d, const Expr& t) const {
    if (!rows_.decay.defined()) return 1.0f;
    return size_.by_channel ? rows_.decay(d, t, x_.h, x_.b) : rows_.decay(t, x_.h, x_.b);
}
Expr recurrence_gradient::erase_of(const Expr& t) const {
    return size_.solves ? Expr(rows_.erase(t, x_.h, x_.b)) : Expr(0.0f);
}
/// What a token's row that reads adds to the cotangent of the state.
Expr recurrence_gradient::read_by_row(const Expr& d, const Expr& t) const {
    return has_row() ? rows_.row(d, t, x_.h, x_.b) * rows_.cotangent(x_.e, t, x_.h, x_.b) : Expr(0.0f);
}

/// The first matrix of a walk, of the elements at (e, d_idx). Others stay undefined until the walk comes to them.
void recurrence_gradient::begin(walk& of, const Expr& element, const std::vector<Var>& others, bool in_chunk,
                                bool sums_first) {
    std::vector<Var> all{x_.e, x_.slot, x_.i};
    all.insert(all.end(), others.begin(), others.end());
    of.states(all) = undef<float>();
    if (element.defined()) of.states(place_in(x_.e, of.first.x, 0, others)) = element;
    of.others = others;
    const Expr count = in_chunk ? Expr(size_.tokens) : tokens();
    of.each = RDom({{0, size_.depth}, {0, sums_first ? 2 : 1}, {0, count}}, "each_token");
}

/// In a first phase over the rows of the state, the sum that a token erases; in a second the state after it.
void recurrence_gradient::step_forward(walk& of, const Expr& from, const Expr& to, const Expr& t) {
    const Expr d = of.each.x, sums = size_.solves ? of.each.y == 0 : Internal::const_false();
    const auto state = [&](const Expr& slot, const Expr& index) {
        return of.states(place_in(x_.e, slot, index, of.others));
    };
    const Expr kept = decay_of(d, t) * state(d, from), found = state(size_.depth, to);
    const Expr read = size_.solves ? select(d == 0, 0.0f, found) + rows_.read(d, t, x_.h, x_.b) * kept : Expr(0.0f);
    const Expr written = rows_.value(x_.e, t, x_.h, x_.b) - (size_.solves ? erase_of(t) * found : Expr(0.0f));
    state(select(sums, size_.depth, d), to) = select(sums, read, kept + rows_.key(d, t, x_.h, x_.b) * written);
}

/// The same backwards: what the values get that a token writes, then the cotangent of the state before it.
void recurrence_gradient::step_back(walk& of, const Expr& from, const Expr& to, const Expr& t) {
    const Expr d = of.each.x, sums = size_.solves ? of.each.y == 0 : Internal::const_false();
    const auto state = [&](const Expr& slot, const Expr& index) {
        return of.states(place_in(x_.e, slot, index, of.others));
    };
    const Expr after = state(d, from) + read_by_row(d, t), found = state(size_.depth, to);
    const Expr sum = size_.solves ? select(d == 0, 0.0f, found) + rows_.key(d, t, x_.h, x_.b) * after : Expr(0.0f);
    const Expr left = size_.solves ? after - erase_of(t) * rows_.read(d, t, x_.h, x_.b) * found : after;
    state(select(sums, size_.depth, d), to) = select(sums, sum, decay_of(d, t) * left);
}

/// Numbers beside E and S are those of (h, b); c counts chunks from the first, backwards from the last.
void recurrence_gradient::define_walks() {
    const int C = size_.tokens;
    const auto rows = [&] { return RDom(0, size_.depth, "row_of_state"); };
    for (walk* each : {&walks_.forward, &walks_.back, &walks_.first, &walks_.states}) each->first = rows();

    place where{.b = x_.b, .h = x_.h, .q = 0, .k = 0, .key_limit = 0};
    const graph_ir& graph = request_.graph();
    const auto element = [&](int n, const Expr& d) {
        place here = where;
        here.d = d;
        for (std::size_t v = 0; v < graph.nodes.size(); ++v)
            if (graph.nodes[v].op == operation::value_idx) here.known[static_cast<int>(v)] = {x_.e, {}};
        return unless_masked(evaluate(n, here));
    };
    // Algorithm
    walk& forward = walks_.forward;
    begin(forward, element(of_.initial, forward.first.x), {x_.h, x_.b}, false, size_.solves);
    const Expr t = forward.each.z, chunk = t / C;
    step_forward(forward, select(t % C == 0, chunk, chunk + 1), chunk + 1, t);

    walk& states = walks_.states;
    begin(states, forward.states(x_.e, states.first.x, x_.c, x_.h, x_.b), {x_.c, x_.h, x_.b}, true, size_.solves);
    step_forward(states, states.each.z, states.each.z + 1, x_.c * C + states.each.z);

    // The heads that read one state: its last cotangent goes through the first of them.
    const bool of_key_heads = has_states_of_key_heads(graph, flow_.recurrence);
    const Expr group = max(inputs_.heads / max(inputs_.key_heads, 1), 1);
    const auto last = [&](const Expr& d) {
        const Expr of_head = element(flow_.last, d);
        return of_key_heads ? select(x_.h % group == 0, of_head, 0.0f) : of_head;
    };
    walk& back = walks_.back;
    begin(back, last(back.first.x), {x_.h, x_.b}, false, size_.solves);
    const Expr from_last = tokens() - 1 - back.each.z, at = chunks() - 1 - from_last / C,
               begins = back.each.z == 0 || from_last % C == C - 1;
    step_back(back, select(begins, at, at + 1), at + 1, from_last);
    if (!is_wanted(step_part::initial)) return;
    walk& first = walks_.first;
    begin(first, last(first.first.x), {x_.h, x_.b}, false, size_.solves);
    step_back(first, 0, 0, tokens() - 1 - first.each.z);
}

/// E of a chunk's tokens, and the sums w behind its rows.
void recurrence_gradient::define_cotangents_of_chunk() {
    const int last = size_.tokens - 1;
    walk& of = walks_.cotangents;
    begin(of, {}, {x_.c, x_.h, x_.b}, true, true);
    const Expr d = of.each.x, makes = of.each.y == 0, i = last - of.each.z, t = x_.c * size_.tokens + i;
    const Expr is_last = i == last || t == tokens() - 1, after = min(i + 1, last), then = t + 1;
    const auto E = [&](const Expr& slot, const Expr& token) {
        return of.states(place_in(x_.e, slot, token, of.others));
    };
    Expr flowing = E(d, after);
    if (size_.solves) flowing -= erase_of(then) * rows_.read(d, then, x_.h, x_.b) * E(size_.depth, after);
    const Expr reached = select(is_last, walks_.back.states(x_.e, d, max(chunks() - 1 - x_.c, 0), x_.h, x_.b),
                                decay_of(d, then) * flowing);
    // Algorithm
    E(select(makes, d, size_.depth), i) =
        select(makes, reached + read_by_row(d, t),
               select(d == 0, 0.0f, E(size_.depth, i)) + rows_.key(d, t, x_.h, x_.b) * E(d, i));
}

void recurrence_gradient::define_parts() {
    using enum step_part;
    const auto& [d, e, slot, i, c, tok, h, b, x, p, lane] = x_;
    const int D = size_.depth, V = size_.value_depth, C = size_.tokens;
    for (const step_part each : {row_that_reads, key, read, decay})
        if (is_wanted(each)) parts_.along_depth.push_back(each);
    int& width = parts_.width;
    for (const step_part each : parts_.along_depth) parts_.first_number[each] = width, width += D;
    for (const auto& [each, numbers] : {std::pair(value, V), std::pair(erase, 1)})
        if (is_wanted(each)) parts_.first_number[each] = width, width += numbers;
    const int decays = width;
    if (is_wanted(decay) && !size_.by_channel) ++width;
    width = std::max((width + size_.lanes - 1) / size_.lanes * size_.lanes, size_.lanes);

    const Expr t = c * C + i;
    const auto S = [&](const Expr& of, const Expr& row, const Expr& token) {
        return Expr(walks_.states.states(of, row, token, c, h, b));
    };
    const auto E = [&](const Expr& of, const Expr& row) { return Expr(walks_.cotangents.states(of, row, i, c, h, b)); };
    // Algorithm
    std::vector<Expr> terms;
    parts_.vectors = RDom(0, V / size_.lanes, "vectors");
    const Expr of = parts_.vectors.x * size_.lanes + lane, w = E(of, D);
    for (const step_part each : parts_.along_depth) {
        if (each == row_that_reads) {
            terms.push_back(S(of, d, i + 1) * rows_.cotangent(of, t, h, b));
        } else if (each == key) {
            const Expr values = rows_.value(of, t, h, b);
            terms.push_back(E(of, d) * (size_.solves ? values - erase_of(t) * S(of, D, i + 1) : values));
        } else if (each == read) {
            terms.push_back(-erase_of(t) * decay_of(d, t) * S(of, d, i) * w);
        } else {
            const Expr left = size_.solves ? E(of, d) - erase_of(t) * rows_.read(d, t, h, b) * w : E(of, d);
            terms.push_back(left * S(of, d, i));
        }
    }
    Func& all = parts_.of_chunk;
    all(x, i, c, h, b) = undef<float>();
    if (!terms.empty()) {
        Expr term = terms.back();
        for (std::size_t n = terms.size() - 1; n-- > 0;) term = select(p == static_cast<int>(n), terms[n], term);
        parts_.in_lanes(lane, p, d, i, c, h, b) = 0.0f;
        parts_.in_lanes(lane, p, d, i, c, h, b) += term;
        parts_.lane = RDom(0, size_.lanes, "lane");
        parts_.row_sums(d, p, i, c, h, b) = 0.0f;
        parts_.row_sums(d, p, i, c, h, b) += parts_.in_lanes(parts_.lane.x, p, d, i, c, h, b);
        const RDom each({{0, D}, {0, static_cast<int>(terms.size())}}, "each");
        all(each.y * D + each.x, i, c, h, b) = parts_.row_sums(each.x, each.y, i, c, h, b);
    }
    if (is_wanted(value)) {
        const RDom channel(0, V, "channel");
        all(parts_.first_number[value] + channel, i, c, h, b) = E(channel.x, D);
    }
    if (is_wanted(erase)) {
        parts_.channels = RDom(0, V, "channels");
        parts_.erased(i, c, h, b) = 0.0f;
        parts_.erased(i, c, h, b) -= E(parts_.channels.x, D) * S(parts_.channels.x, D, i + 1);
        all(parts_.first_number[erase], i, c, h, b) = parts_.erased(i, c, h, b);
    }
    if (is_wanted(decay) && !size_.by_channel) {
        const int first = parts_.first_number[decay];
        const RDom row(0, D, "row");
        all(decays, i, c, h, b) = 0.0f;
        all(decays, i, c, h, b) += all(first + row, i, c, h, b);
        parts_.first_number[decay] = decays;
    }
    parts_.all(x, i, c, h, b) = all(x, i, c, h, b);
}

/// Parts whose channels are loops around a place.
void recurrence_gradient::know_parts(place& where) const {
    for (const int n : part_nodes()) {
        std::vector<Expr> channels;
        for (int i = 1; i < node(n).argument_count; ++i) {
            const instruction& channel = node(node(n).arguments[i]);
            if (channel.op != operation::bound) continue;
            const auto index = where.indices.find(static_cast<int>(channel.integer));
            if (index != where.indices.end()) channels.push_back(index->second);
        }
        if (static_cast<int>(channels.size()) + 1 == node(n).argument_count)
            where.known[n] = {part_at(n, channels, where), {}};
    }
}

/// The cotangent of a part of a token's step.
Expr recurrence_gradient::part_at(int n, const std::vector<Expr>& channels, const place& where) const {
    const auto part = static_cast<step_part>(node(n).integer);
    if (part == step_part::initial) return walks_.first.states(channels.at(1), channels.at(0), 0, where.h, where.b);
    if (!is_wanted(part)) return 0.0f;
    const Expr number = parts_.first_number.at(part) + (channels.empty() ? Expr(0) : channels.front());
    return parts_.all(number, where.q % size_.tokens, where.q / size_.tokens, where.h, where.b);
}

}  // namespace attune::generators::inline cpu
