#include "cpu/recurrence.hpp"

#include "analysis/plan.hpp"
#include "expr/math.hpp"

#include <algorithm>
#include <numeric>

namespace attune::generators::inline cpu {
using namespace Halide;

namespace {

constexpr float most_negative_log = -200.0f;  ///< a lower one is raised to this: sums stay finite, and its decay is 0

chunk_sizes sizes_of(const depth_pair& depths, const chunk_plan& planned, const recurrence_arguments& of) {
    return {.tokens = planned.tokens,
            .pairs = of.has_second_pair() ? 2 : 1,
            .depth = depths.depth,
            .value_depth = depths.value_depth,
            .by_channel = planned.by_channels,
            .erases = planned.solves};
}

}  // namespace

recurrent_chunk::recurrent_chunk(const kernel_request& request, const chunk_plan& planned)
    : request_(request),
      cut_(std::get<cpu_recurrence>(request.schedule)),
      inputs_(request),
      of_(form_of_recurrence(request.graph().nodes)),
      size_(sizes_of(request.depths, planned, of_)),
      planned_(planned) {
    const bool of_key_heads = has_states_of_key_heads(request.graph(), recurrence_of(request.graph().nodes));
    place_.group = of_key_heads ? max(inputs_.heads / max(inputs_.key_heads, 1), 1) : Expr(1);
    place_.state_before.dim(0).set_bounds(0, size_.value_depth).set_stride(1);
    place_.state_before.dim(1).set_bounds(0, size_.depth);
    find_readers();
    keep_numbers();
    define_keys();
    if (size_.by_channel)
        define_decay_of_channels();
    else
        define_decay_of_tokens();
    define_written();
    for (reader& each : readers_) define_reader(each);
    define_state_after();
    define_outputs();
}

std::vector<Argument> recurrent_chunk::arguments() const {
    std::vector<Argument> all = inputs_.arguments();
    all.insert(all.end(), {place_.at_batch, place_.at_state_head, place_.first_token, place_.state_before});
    return all;
}

/// The place of a token of the chunk and a head of the group: tokens beyond the last are read as the last.
place recurrent_chunk::at(const Expr& i, const Expr& g, const Expr& channel) const {
    place where{.b = place_.at_batch,
                .h = place_.at_state_head * place_.group + g,
                .q = clamp(place_.first_token + i, 0, max(inputs_.query_length, 1) - 1),
                .k = 0,
                .key_limit = 0};
    where.d = channel;
    for (const auto& [n, made] : kept_) {
        const auto& [value, masked] = made;
        where.known[n] = {value(i, g), masked.defined() ? Expr(masked(i, g)) : Expr()};
    }
    return where;
}

Expr recurrent_chunk::is_of_second(const Expr& m) const {
    return size_.pairs == 1 ? Internal::const_false() : m % size_.pairs == 0;
}

void recurrent_chunk::find_readers() {
    const graph_ir& graph = request_.graph();
    for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
        const instruction& it = graph.nodes[n];
        if (it.op != operation::read_states) continue;
        reader& each = readers_.emplace_back();
        each.node = static_cast<int>(n), each.row = it.arguments[0];
        each.before = node(it.arguments[1]).op == operation::earlier;
    }
}

/// sum(n, depth, body), whose body has no other channel: sums in lanes of channels first, and then the sum of the
/// lanes.
void recurrent_chunk::keep_sum(int n) {
    const instruction& it = node(n);
    const int lanes = std::gcd(size_.depth, cut_.lanes);
    RDom each_channel(0, size_.depth / lanes, "each_channel"), lane(0, lanes, "lane");
    Var u("u");
    const auto& [i, g] = std::pair(x_.i, x_.g);
    place where = at(i, g, 0);
    where.indices[static_cast<int>(node(it.arguments[0]).integer)] = each_channel * lanes + u;
    // Algorithm
    Func partial_sum("partial_sum"), sum_of_row("sum_of_row");
    partial_sum(u, i, g) = 0.0f;
    partial_sum(u, i, g) += pointwise(request_, inputs_, where)(it.arguments[2]).value;
    sum_of_row(i, g) = 0.0f;
    sum_of_row(i, g) += partial_sum(lane, i, g);
    sums_.push_back({partial_sum, sum_of_row, each_channel.x, u, lanes});
    kept_[n] = {sum_of_row, Func()};
}

/// Computes numbers of a token that all channels of its rows share once; sums over channels come before the formulas
/// that read them.
void recurrent_chunk::keep_numbers() {
    const graph_ir& graph = request_.graph();
    std::vector<int> roots{of_.decay, of_.key, of_.value, of_.erase, of_.read}, known;
    if (of_.has_second_pair()) roots.insert(roots.end(), {of_.second_key, of_.second_read});
    for (const reader& each : readers_) roots.push_back(each.row), known.push_back(each.node);
    for (const output_declaration& output : graph.outputs)
        if (node(output.node).kind == kind::output) roots.push_back(output.node);
    const std::vector<bool> reached =
        under(graph, roots, [&](int n) { return std::ranges::find(known, n) != known.end(); });
    const std::vector<dependence>& depends = request_.facts->depends;
    for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
        const instruction& it = graph.nodes[n];
        if (!reached[n] || it.op != operation::sum || it.kind != kind::real) continue;
        const bool of_row = node(it.arguments[1]).op == operation::depth && !depends[n].channel &&
                            depends[n].bound == 0 && (depends[it.arguments[2]].bound != 0);
        if (of_row) keep_sum(static_cast<int>(n)), known.push_back(static_cast<int>(n));
    }
    std::map<int, std::pair<Func, Func>> numbers;
    for (const int n : hoistable(graph, depends, roots, known)) {
        const quantity made = evaluate(n, at(x_.i, x_.g, 0));
        // Algorithm
        Func number("number"), masked;
        number(x_.i, x_.g) = made.value;
        if (made.masked.defined()) masked = Func("number_masked"), masked(x_.i, x_.g) = made.masked;
        numbers[n] = {number, masked};
    }
    kept_.merge(numbers);
}

/// A row of each token: 0 beyond the last.
Func recurrent_chunk::row(int n, const std::string& name, bool of_values) {
    const int key = 2 * n + of_values;
    if (const auto known = rows_.find(key); known != rows_.end()) return known->second;
    Func made(name);
    const Var channel = of_values ? x_.e : x_.d;
    made(channel, x_.i) = select(is_there(x_.i), evaluate(n, at(x_.i, 0, channel)).value, 0.0f);
    stages_.push_back({made, channel, of_values ? size_.value_depth : size_.depth, n});
    return rows_[key] = made;
}

Func recurrent_chunk::multiply(const std::string& name, const Expr& terms, const RVar& along,
                               const std::vector<Var>& over, int width, int height) {
    Func sums(name + "_sums"), result(name);
    const std::vector<Expr> where(over.begin(), over.end());
    sums(over) = 0.0f;
    sums(where) += terms;
    result(over) = sums(where);
    products_.push_back({result, sums, along, over[0], over[1], width, height, over.size() > 2});
    return result;
}

/// The keys that multiply the rows that tokens write, and the keys by which tokens read, in the order of the rows.
void recurrent_chunk::define_keys() {
    const auto stacked = [&](Func& to, int first, int second) {
        const Func of_first = row(first, "row");
        if (size_.pairs == 1) return void(to = of_first);
        const Func of_second = row(second, "row");
        to(x_.d, x_.m) = select(is_of_second(x_.m), of_second(x_.d, token_of(x_.m)), of_first(x_.d, token_of(x_.m)));
        stages_.push_back({to, x_.d, size_.depth});
    };
    stacked(system_.keys, of_.key, of_.second_key);
    if (size_.erases) stacked(system_.reads, of_.read, of_.second_read);

    place where{.b = place_.at_batch, .h = place_.at_state_head * place_.group, .q = 0, .k = 0, .key_limit = 0};
    where.d = x_.d;
    const graph_ir& graph = request_.graph();
    for (std::size_t n = 0; n < graph.nodes.size(); ++n)
        if (graph.nodes[n].op == operation::value_idx) where.known[static_cast<int>(n)] = {x_.e, {}};
    system_.copies_state = !is(of_.initial, 0) && !is_a_state_as_passed(graph, recurrence_of(graph.nodes));
    const Expr before = place_.state_before(x_.e, x_.d);
    system_.state(x_.e, x_.d) =
        system_.copies_state
            ? select(place_.first_token == 0, pointwise(request_, inputs_, where)(of_.initial).value, before)
            : before;
}

/// Decays that are one number a token. If the formula is an exponential, they are exponentials of sums of logarithms in
/// f64: a weak decay behind a strong one is not lost.
void recurrent_chunk::define_decay_of_tokens() {
    const auto& [i, j] = std::pair(x_.i, x_.j);
    const instruction& decay = node(of_.decay);
    const int last = size_.tokens - 1;
    if (is(of_.decay, 1)) return;
    RDom later(1, std::max(last, 1), "later");
    decay_.of_sums = decay.op == operation::exp;
    if (decay_.of_sums) {
        const quantity log = evaluate(decay.arguments[0], at(i, 0, 0));
        const Expr bounded = at_least(log.value, most_negative_log);  // NaN stays NaN
        decay_.log_decays(i) = cast<double>(
            select(is_there(i), log.masked.defined() ? select(log.masked, most_negative_log, bounded) : bounded, 0.0f));
        if (last > 0) decay_.log_decays(later) = decay_.log_decays(later - 1) + decay_.log_decays(later);
        decay_.running_decay(i) = exponential(cast<float>(decay_.log_decays(i)));
        decay_.decay_between(j, i) =
            select(j <= i, exponential(cast<float>(decay_.log_decays(i) - decay_.log_decays(min(j, i)))), 0.0f);
        return;
    }
    decay_.decays(i) = select(is_there(i), evaluate(of_.decay, at(i, 0, 0)).value, 1.0f);
    decay_.decay_between(j, i) = select(j == i, 1.0f, 0.0f);
    if (last > 0)
        decay_.decay_between(j, later) = select(j < later, decay_.decay_between(j, later - 1) * decay_.decays(later),
                                                decay_.decay_between(j, later));
    decay_.running_decay(i) = decay_.decays(0) * decay_.decay_between(0, i);
}

/// Decays that are a number for each channel: products, so that no factor is above 1.
void recurrent_chunk::define_decay_of_channels() {
    const auto& [d, i] = std::pair(x_.d, x_.i);
    const int last = size_.tokens - 1;
    RDom later(1, std::max(last, 1), "later");
    const quantity decay = evaluate(of_.decay, at(i, 0, d));
    const Expr value = decay.masked.defined() ? select(decay.masked, 0.0f, decay.value) : decay.value;
    decay_.decays(d, i) = select(is_there(i), value, 1.0f);
    stages_.push_back({decay_.decays, d, size_.depth, of_.decay});
    decay_.running_decay(d, i) = decay_.decays(d, i);
    decay_.remaining_decay(d, i) = 1.0f;
    if (last == 0) return;
    decay_.running_decay(d, later) = decay_.running_decay(d, later) * decay_.running_decay(d, later - 1);
    const Expr next = last + 1 - later;
    decay_.remaining_decay(d, last - later) = decay_.remaining_decay(d, next) * decay_.decays(d, next);
}

/// Keys as each token finds them, in registers: faded by the decays since their own token.
Func recurrent_chunk::fading_keys() const {
    const auto& [m, d, i] = std::tuple(x_.m, x_.d, x_.i);
    Func fading_keys("fading_keys");
    fading_keys(m, d, i) = system_.keys_transposed(m, d);
    if (size_.tokens == 1) return fading_keys;
    RDom later(1, size_.tokens - 1, "later");
    const Expr before = fading_keys(m, d, later - 1);
    fading_keys(m, d, later) = select(token_of(m) < later, before * decay_.decays(d, later), before);
    return fading_keys;
}

Expr recurrent_chunk::decay_from(const Expr& j, const Expr& i) const {
    return is(of_.decay, 1) ? select(j <= i, 1.0f, 0.0f) : decay_.decay_between(j, i);
}
Expr recurrent_chunk::decay_to(const Expr& i) const { return is(of_.decay, 1) ? Expr(1.0f) : decay_.running_decay(i); }

/// U: the values that each row writes, less those that it erases and those that the second pair reads.
void recurrent_chunk::define_written() {
    const auto& [d, e, i, j, m] = std::tuple(x_.d, x_.e, x_.i, x_.j, x_.m);
    const int rows = size_.rows(), last = size_.tokens - 1;
    const Func values = row(of_.value, "values", true);
    const Expr t = token_of(m), second = is_of_second(m), before = max(t - 1, 0);
    RDom channel(0, size_.depth, "channel");
    system_.keys_transposed(m, d) = system_.keys(d, m);
    const Expr own = size_.pairs == 1 ? values(e, m) : select(second, 0.0f, values(e, t));
    if (!size_.erases) {
        system_.written(e, m) = own;
    } else {
        // The factor of a row's read: the second pair adds its read, from before its token's decay.
        const Expr erase = select(is_there(t), evaluate(of_.erase, at(t, 0, 0)).value, 0.0f),
                   factor = size_.pairs == 1 ? erase : select(second, -1.0f, erase);
        const Expr read = system_.reads(channel, m);
        const auto of_token = [&](const Expr& with, const Expr& without) {
            return size_.pairs == 1 ? with : select(second, without, with);
        };
        Func reads_decayed("reads_decayed"), scores("scores");
        Var n("n");  // an earlier row
        if (size_.by_channel) {
            const Expr at_first = select(t == 0, 1.0f, decay_.running_decay(d, before));
            reads_decayed(d, m) = system_.reads(d, m) * of_token(decay_.running_decay(d, t), at_first);
            stages_.push_back({reads_decayed, d, size_.depth});
            const Func fading = fading_keys();
            scores = multiply("scores", read * fading(n, channel, of_token(t, before)), channel, {n, m}, rows, rows);
            products_.back().fading = fading;
        } else {
            reads_decayed = system_.reads;
            scores = multiply("scores", read * system_.keys_transposed(n, channel), channel, {n, m}, rows, rows);
        }
        const Func of_state = multiply("reads_of_state", reads_decayed(channel, m) * system_.state(e, channel), channel,
                                       {e, m}, size_.value_depth, rows);
        Expr pair = scores(n, m), from_state = of_state(e, m);
        if (!size_.by_channel) {
            pair *= of_token(decay_from(token_of(n), t), decay_from(token_of(n), before));
            from_state *= of_token(decay_to(t), select(t == 0, 1.0f, decay_to(before)));
        }
        system_.lower(n, m) = factor * pair;
        stages_.push_back({system_.lower, n, rows});
        system_.written(e, m) = own - factor * from_state;
        // Forward substitution. A row adds those of earlier tokens alone, so that no later token's NaN reaches it.
        RDom solved(0, rows, 0, rows, "solved");
        solved.where(token_of(solved.x) < token_of(solved.y));
        system_.written(e, solved.y) -= system_.lower(solved.x, solved.y) * system_.written(e, solved.x);
    }
    system_.faded(d, m) =
        system_.keys(d, m) * (size_.by_channel ? Expr(decay_.remaining_decay(d, t)) : decay_from(t, last));
    stages_.push_back({system_.faded, d, size_.depth});
}

void recurrent_chunk::define_state_after() {
    const auto& [d, e] = std::pair(x_.d, x_.e);
    const int last = size_.tokens - 1;
    RDom row_of_chunk(0, size_.rows(), "row_of_chunk");
    Expr done = 0.0f;
    for (const reader& each : readers_) done += each.of_state(0, 0, 0);
    system_.order() = select(place_.first_token < 0, done, 0.0f);

    Func& after = outputs.emplace_back("state_after");
    multiply("added", system_.written(e, row_of_chunk) * system_.faded(d, row_of_chunk), row_of_chunk, {e, d},
             size_.value_depth, size_.depth);
    products_.back().result = after;
    // The state after may lie in the memory of the state before: all reads of the latter are done first.
    after(e, d) = ((size_.by_channel ? Expr(decay_.running_decay(d, last)) : decay_to(last)) + system_.order()) *
                      system_.state(e, d) +
                  products_.back().sums(e, d);
}

void recurrent_chunk::define_reader(reader& each) {
    const auto& [d, e, i, m, g] = std::tuple(x_.d, x_.e, x_.i, x_.m, x_.g);
    const int rows = size_.rows();
    RDom channel(0, size_.depth, "channel"), row_of_chunk(0, rows, "row_of_chunk");
    const Expr before = max(i - 1, 0), t = token_of(m), at_first = i == 0, written = token_of(row_of_chunk);
    row_of_chunk.where(each.before ? written < i : written <= i);
    each.q_rows(d, i, g) = select(is_there(i), evaluate(each.row, at(i, g, d)).value, 0.0f);
    stages_.push_back({each.q_rows, d, size_.depth, each.row});
    const auto decayed = [&](const Expr& with, const Expr& without) {
        return each.before ? select(at_first, 1.0f, without) : with;
    };
    Func scores;
    if (size_.by_channel) {
        each.q_decayed(d, i, g) =
            each.q_rows(d, i, g) * decayed(decay_.running_decay(d, i), decay_.running_decay(d, before));
        stages_.push_back({each.q_decayed, d, size_.depth});
        const Func fading = fading_keys();
        scores = multiply("scores_of_q", each.q_rows(channel, i, g) * fading(m, channel, each.before ? before : i),
                          channel, {m, i, g}, rows, size_.tokens);
        products_.back().fading = fading;
        each.weights(m, i, g) = scores(m, i, g);
    } else {
        each.q_decayed = each.q_rows;
        scores = multiply("scores_of_q", each.q_rows(channel, i, g) * system_.keys_transposed(m, channel), channel,
                          {m, i, g}, rows, size_.tokens);
        each.weights(m, i, g) = scores(m, i, g) * decay_from(t, each.before ? before : Expr(i));
    }
    stages_.push_back({each.weights, m, rows});
    each.of_state = multiply("q_of_state", each.q_decayed(channel, i, g) * system_.state(e, channel), channel,
                             {e, i, g}, size_.value_depth, size_.tokens);
    multiply("rows_read", system_.written(e, row_of_chunk) * each.weights(row_of_chunk, i, g), row_of_chunk, {e, i, g},
             size_.value_depth, size_.tokens);
    products_.back().result = each.rows_read, products_.back().triangular = true;
    const Expr of_state = each.of_state(e, i, g);
    each.rows_read(e, i, g) = (size_.by_channel ? of_state : decayed(decay_to(i), decay_to(before)) * of_state) +
                              products_.back().sums(e, i, g);
}

void recurrent_chunk::define_outputs() {
    const graph_ir& graph = request_.graph();
    Var q("q"), h("h"), b("b");
    std::vector<Func> all;
    for (const output_declaration& output : graph.outputs) {
        if (node(output.node).kind == kind::last_state) continue;
        const Expr i = q - place_.first_token, g = h - place_.at_state_head * place_.group;
        place where = at(i, g, x_.d);
        where.q = q;
        for (reader& each : readers_) where.known[each.node] = {each.rows_read(x_.d, i, g), {}};
        Func& made = all.emplace_back("output_" + std::string(output.name));
        made(x_.d, q, h, b) = stored_as(halide_type(request_.types.output), evaluate(output.node, where).value);
    }
    for (const Func& each : all) stages_.push_back({each, x_.d, size_.value_depth});
    outputs.insert(outputs.begin(), all.begin(), all.end());
}

}  // namespace attune::generators::inline cpu
