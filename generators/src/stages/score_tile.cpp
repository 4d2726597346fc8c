#include "stages/score_tile.hpp"

#include "expr/math.hpp"
#include "kernel/gpu_schedule.hpp"
#include "stages/fragment_scores.hpp"
#include "stages/kept_number.hpp"
#include "stages/masked_values.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <numeric>

namespace attune::generators::inline stages {
using namespace Halide;

namespace {

/// Stands for a product that is defined once the scale is known.
std::string product_name(int contraction) { return "product_of_" + std::to_string(contraction); }

/// Whether scores are capped: then no product makes a score lower than real scores may be.
bool is_small(const graph_ir& graph, int scores) {
    const instruction& node = graph.nodes[scores];
    const auto is_number = [&](int n) {
        return graph.nodes[n].op == operation::constant && graph.nodes[n].kind == kind::real;
    };
    if (node.op == operation::tanh || node.op == operation::erf) return true;
    if (node.op == operation::mask) return is_small(graph, node.arguments[0]);
    return node.op == operation::multiply && ((is_number(node.arguments[0]) && is_small(graph, node.arguments[1])) ||
                                              (is_number(node.arguments[1]) && is_small(graph, node.arguments[0])));
}

/// Whether numbers of a key are added up or multiplied; each of them may be as low as an f32 can be.
bool may_leave_f32(const kernel_frame& f, int scores) {
    const auto is_number_of_key = [&](int n) {
        const instruction& node = f.node(n);
        if (node.op != operation::load || node.kind != kind::real || f.node(node.arguments[0]).op != operation::input)
            return false;
        const element_type element = f.graph().inputs[f.node(node.arguments[0]).input].element;
        return f.depends[n].key && !f.depends[n].channel &&
               (element == element_type::f32 || element == element_type::bf16 || element == element_type::any);
    };
    const std::vector<bool> below = under(f.graph(), {scores}, [&](int n) {
        return f.node(n).op == operation::contract || f.node(n).kind == kind::integer ||
               f.node(n).kind == kind::condition || is_number_of_key(n);
    });
    int count = 0;
    for (int n = 0; n <= scores; ++n) count += below[n] && is_number_of_key(n) ? 1 : 0;
    return count > 1;
}

/// A score whose formula leaves f32 is -infinity, yet not masked: it becomes a number that is lower than all others.
Expr above_masked(const Expr& formula) {
    const float lowest_of_f32 = std::nextafter(lowest_score, 0.0f);
    const Expr score = perhaps_infinite(formula), bits = reinterpret<std::uint32_t>(score),
               infinity = Expr(std::uint32_t{0xff800000});
    const Expr is_beyond = bits > Expr(std::bit_cast<std::uint32_t>(lowest)) && bits <= infinity;
    return select(is_beyond, lowest_score, at_least(score, lowest_of_f32));
}

}  // namespace

score_tile::score_tile(const kernel_frame& frame, std::string pass, const score_plan& planned)
    : along(planned.along),
      channel_vector(
          std::gcd(frame.request.on_gpu() ? gpu_threads_a_key : lanes_of(frame.request.schedule), frame.depth())),
      f_(frame),
      planned_(planned),
      pass_(std::move(pass)),
      lane_(queries_first(along) ? frame.qi : frame.ki),
      other_(queries_first(along) ? frame.ki : frame.qi) {
    // Algorithm
    keys = Func(pass_ + "keys"), last_key = Func(pass_ + "last_key");
    keys(f_.b) = f_.inputs.keys_in_use(f_.b);
    last_key(f_.b) = max(f_.inputs.keys_in_use(f_.b), 1) - 1;
    // A task with queries in lanes also computes queries beyond the last, which are not written.
    at_ = {f_.b, f_.row_head(f_.qi), queries_first(along) && !f_.decodes() ? f_.query_at(f_.qi) : f_.row_query(f_.qi),
           f_.key_at(f_.ki), keys(f_.b)};
    const auto add = [&](int node, bool fixed) {
        at_.known[node] = {Internal::Variable::make(Float(32), product_name(node)), {}};
        contraction c;
        c.node = node, c.fixed = fixed;
        if (fixed) c.how = planned_.how;
        contractions.push_back(c);
    };
    add(f_.core.contraction, true);
    for (const int further : planned_.further) add(further, false);
    hoist(planned_.kept, at_);
    transpose_pairs();
    if (along == lanes::fragments) know_terms_of_scores(f_, at_);
    factor_out_scale();
    if (along != lanes::fragments)
        for (contraction& c : contractions) contract(c, along == lanes::queries && &c == &contractions.front());
    masked_by_product = !is_free_of_products(masked);
    if (along != lanes::queries)
        real = Internal::graph_substitute(
            product_name(f_.core.contraction),
            Internal::Variable::make(Float(32), product_name(f_.core.contraction)) * sign_, real);
    real = with_products(real);
    masked = with_products(masked);
}

/// Whether neighbouring keys lie side by side in the tables from which a number of keys is made, or, if queries are not
/// in lanes, in the table of which it is an element. Undefined if there is no such table, or if they always do.
Expr score_tile::dense_along_keys(int n) const {
    const bool is_element = along != lanes::queries;
    const std::vector<bool> made =
        under(f_.graph(), {n}, [&](int m) { return is_element || f_.node(m).kind == kind::precomputed; });
    Expr all;
    for (int m = 0; m <= n; ++m) {
        const instruction& node = f_.node(m);
        if (!made[m]) continue;
        // Saturating conversions are made one by one: Halide folds sums of their limits that no integer holds.
        if (node.op == operation::to_integer && f_.node(node.arguments[0]).kind == kind::real) return {};
        if (node.op != operation::load || f_.node(node.arguments[0]).op != operation::input ||
            f_.node(node.arguments[node.argument_count - 1]).op != operation::kv_idx)
            continue;
        const Expr dense = f_.inputs.tensor(f_.node(node.arguments[0]).input).dim(0).stride() == 1;
        if (!is_const(dense)) all = all.defined() ? all && dense : dense;
    }
    return all;
}

/// Computes numbers that depend on the query alone, the key alone or neither once a task or once a block.
void score_tile::hoist(const std::vector<kept_node>& numbers, place& at, bool with_masks) {
    for (const auto& [n, of] : numbers) {
        const bool of_query = of == owner::query, of_key = of == owner::key;
        const Expr dense = of_key ? dense_along_keys(n) : Expr();
        const bool by_vectors = dense.defined() && along == lanes::queries && !f_.request.on_gpu();
        const Expr key = f_.key_at(f_.ki);  // likely: if all keys of a vector exist, they are read as one
        const quantity x = f_.evaluate(n, {f_.b, of_query ? f_.row_head(f_.qi) : f_.some_head(), f_.row_query(f_.qi),
                                           min(by_vectors ? likely(key) : key, last_key(f_.b)), keys(f_.b)});
        if (is_const(x.value)) continue;
        std::vector<Var> over{f_.h, f_.b};
        if (of_query) over.insert(over.begin(), {f_.qi, f_.qt});
        if (of_key) over.insert(over.begin(), {f_.ki, f_.kb});
        const char* name = of_query ? "hoisted_of_queries_" : of_key ? "hoisted_of_keys_" : "hoisted_of_task_";
        const kept_number kept(pass_ + name + std::to_string(n), {x.value, with_masks ? x.masked : Expr()}, over);
        at.known.emplace(n, kept.at({over.begin(), over.end()}));
        (of_query ? hoisted_of_queries : of_key ? hoisted_of_keys : hoisted_of_task).push_back(kept.values);
        if (of_key && f_.node(n).kind == kind::integer) places_of_keys.push_back(kept.values.name());
        if (dense.defined()) dense_where[kept.values.name()] = dense;
    }
}

void score_tile::transpose_pairs() {
    const place at = at_;
    for (const int n : planned_.turned) {
        transposed.emplace_back(f_, n, at, pair(), pass_);
        at_.known[n] = transposed.back().number;
    }
}

bool score_tile::varies(const Expr& e) const {
    for (const Var& v : {f_.qi, f_.ki, f_.kb, f_.qt})
        if (Internal::expr_uses_var(e, v.name())) return true;
    return !is_free_of_products(e);
}

bool score_tile::is_free_of_products(const Expr& e) const {
    for (const contraction& c : contractions)
        if (Internal::expr_uses_var(e, product_name(c.node))) return false;
    return true;
}

/// A factor that is one number for the task is applied after the maximum is subtracted. This saves a multiplication a
/// score, and spares large scores its rounding. `real` is the rest of the score, `scale` the positive factor.
void score_tile::factor_out_scale() {
    const quantity score = f_.evaluate(f_.core.scores, at_);
    const Expr beyond = f_.key_at(f_.ki) >= at_.key_limit;
    masked = score.masked.defined() ? score.masked || beyond : beyond;
    masked_beyond_keys = !score.masked.defined();
    const std::string product = product_name(f_.core.contraction);
    Expr left = score.value, factor = 1.0f;
    while (const auto* times = left.as<Internal::Mul>()) {
        const bool first = Internal::expr_uses_var(times->a, product);
        const Expr other = first ? times->b : times->a;
        if (varies(other)) break;
        factor = factor * other;
        left = first ? times->a : times->b;
    }
    factor = Internal::simplify(factor);
    const float smallest = 1e-25f;
    const auto* alone = left.as<Internal::Variable>();
    if (!alone || alone->name != product) {
        // The factor of any other score, such as a capped one, is taken out if it is a positive constant.
        const auto constant = as_const_float(factor);
        const bool waits = constant && *constant > smallest;
        scale = waits ? factor : 1.0f;
        left = waits ? left : score.value;
    } else {
        // The sign moves into the queries. A factor of zero makes all products zero, never masked pairs visible.
        scale = at_least(Internal::simplify(abs(factor)), smallest);
        sign_ = Internal::simplify(select(abs(factor) < smallest, 0.0f, select(factor < 0.0f, -1.0f, 1.0f)));
    }
    if (along == lanes::fragments)
        if (const auto* less = left.as<Internal::Sub>())
            if (const auto term = as_const_float(less->b)) left_out = static_cast<float>(-*term), left = less->a;
    // A maximum in a fragment is at least `least_maximum` (tensor_state.hpp): scores there need no lower bound.
    if (along == lanes::fragments || is_small(f_.graph(), f_.core.scores))
        real = left;
    else
        real = may_leave_f32(f_, f_.core.scores) ? above_masked(left) : at_least(left, lowest_score);
}

place score_tile::at_row(bool of_query, const std::map<int, quantity>& known) const {
    return {f_.b,
            of_query ? f_.row_head(f_.qi) : f_.some_head(),
            f_.row_query(f_.qi),
            min(f_.key_at(f_.ki), last_key(f_.b)),
            keys(f_.b),
            known,
            f_.d};
}

Func score_tile::rows_of_formula(int formula, bool of_query, const std::string& name,
                                 const std::map<int, quantity>& known) {
    const Var i = of_query ? f_.qi : f_.ki, block = of_query ? f_.qt : f_.kb;
    place at = at_row(of_query, known);
    hoist(planned_.rows_of(formula).kept, at);
    hoist_rows(planned_.rows_of(formula).placed, name, at);
    Func rows(pass_ + name);
    rows(f_.d, i, block, f_.h, f_.b) = f_.evaluate(formula, at).value;
    return rows;
}

Expr score_tile::element_of(int tensor, bool of_query, const Expr& channel, const Expr& position) const {
    const int input = input_of_rows(f_.graph(), tensor);
    if (const int load = load_of_rows(f_.graph(), tensor); load >= 0) {
        place of_row = at_row(of_query, {});
        of_row.d = channel;
        return f_.inputs.tensor(input)(pointwise(f_.request, f_.inputs, of_row).place_of(load));
    }
    const Expr at = of_query ? f_.row_query(position) : min(f_.key_at(position), last_key(f_.b));
    const Expr of_head = of_query ? f_.row_head(position) : Expr(f_.h);
    const bool as_it_is = f_.graph().inputs[input].axes[1].kind != axis_kind::key_head || (f_.decodes() && !of_query);
    const Expr head = as_it_is ? of_head : f_.inputs.key_head(of_head);
    return f_.inputs.tensor(input)(channel, at, head, f_.b);
}

Expr score_tile::computed_element(int tensor, bool of_query, const Expr& channel, const Expr& position) const {
    place at = at_row(of_query, {});
    at.d = channel;
    const Expr made = f_.evaluate(f_.node(tensor).arguments[0], at).value;
    return Internal::substitute((of_query ? f_.qi : f_.ki).name(), position, made);
}

Func score_tile::rows_of(int tensor, bool of_query, const std::string& name) {
    const instruction& node = f_.node(tensor);
    const Var i = of_query ? f_.qi : f_.ki, block = of_query ? f_.qt : f_.kb;
    if (node.op == operation::input) {
        const input_declaration& input = f_.graph().inputs[node.input];
        Func rows(pass_ + name);
        rows(f_.d, i, block, f_.h, f_.b) = cast<float>(element_of(tensor, of_query, f_.d, i));
        // Elements that are read by broadcast are converted once a block, by vectors.
        const bool in_lanes = of_query == (along == lanes::queries);
        if (!in_lanes && f_.inputs.is_converted(node.input))
            stored.push_back(
                {rows, input.axes[3].kind == axis_kind::value_depth ? f_.value_depth() : f_.depth(), of_query});
        return rows;
    }
    if (const auto computed = f_.inputs.computed.find(tensor); computed != f_.inputs.computed.end()) {
        Func rows(pass_ + name);
        rows(f_.d, i, block, f_.h, f_.b) =
            computed->second(f_.d, of_query ? f_.read_query(i) : min(f_.key_at(i), last_key(f_.b)), f_.h, f_.b);
        return rows;
    }
    const Func rows = rows_of_formula(node.arguments[0], of_query, name, {});
    stored.push_back({rows, node.op == operation::values ? f_.value_depth() : f_.depth(), of_query});
    return rows;
}

/// The panel holds, for each pair of neighbouring channels, that pair of every query of a vector. A key's pairs lie in
/// memory already.
void score_tile::contract_pairs(contraction& c) {
    const Var j("j");
    c.panel = Func(pass_ + "panel");
    c.product = Func(pass_ + "product");
    c.each = RDom({{0, 2}, {0, f_.depth() / 2}}, pass_ + "each_channel");
    const auto element = [&](const Expr& which) {
        const Expr of_query = element_of(f_.core.query, true, 2 * f_.d + which, f_.qi);
        return is_const_one(sign_) ? of_query : stored_as(BFloat(16), cast<float>(of_query) * sign_);
    };
    c.product(pair()) = 0.0f;
    if (made_by<bf16_tiles>(c.how)) {
        c.query_rows = Func(pass_ + "query_rows"), c.key_rows = Func(pass_ + "key_rows");
        c.query_rows(f_.d, f_.qi, f_.qt, f_.h, f_.b) = word_of(element(0), element(1));
        c.key_rows(f_.d, f_.ki, f_.kb, f_.h, f_.b) = element_of(f_.core.key, false, f_.d, f_.ki);
        c.panel(lane_, f_.d, f_.qt, f_.h, f_.b) = c.query_rows(f_.d, lane_, f_.qt, f_.h, f_.b);
        c.product(pair()) += cast<float>(half_of(c.panel(lane_, c.each.y, f_.qt, f_.h, f_.b), c.each.x)) *
                             cast<float>(c.key_rows(2 * c.each.y + c.each.x, other_, f_.kb, f_.h, f_.b));
        return;
    }
    c.panel(j, lane_, f_.d, f_.qt, f_.h, f_.b) = element(j);
    c.product(pair()) += cast<float>(c.panel(c.each.x, lane_, c.each.y, f_.qt, f_.h, f_.b)) *
                         cast<float>(element_of(f_.core.key, false, 2 * c.each.y + c.each.x, other_));
}

void score_tile::contract(contraction& c, bool signs_queries) {
    if (is_of_bf16(c.how)) return contract_pairs(c);
    if (made_by<integer_dots>(c.how) && along == lanes::queries) return sum_words(c);
    if (c.fixed) {
        c.query_rows = rows_of(f_.core.query, true, "query_rows");
        if (made_by<integer_dots>(c.how)) return sum_integers(c);
        const scaled_rows narrow = is_of_codes(c.how) ? narrow_rows_of(f_.core.key, "key_rows") : scaled_rows{};
        c.key_rows = narrow.codes.defined() ? narrow.codes : rows_of(f_.core.key, false, "key_rows");
        c.pieces = narrow.pieces, c.of_key = narrow.factor;
        c.each = RDom(0, f_.depth(), pass_ + "each_channel");
    } else {
        const further_contraction& further = f_.core.further[&c - &contractions.front() - 1];
        const std::map<int, quantity> index{{further.index, {f_.d, {}}}};
        c.query_rows = rows_of_formula(further.of_query, true, "query_rows", index);
        c.key_rows = rows_of_formula(further.of_key, false, "key_rows", index);
        const bool other_is_query = along == lanes::keys;
        stored.push_back({other_is_query ? c.query_rows : c.key_rows, 0, other_is_query});
        c.each = RDom(0, max(f_.evaluate(further.extent, {}).value, 0), pass_ + "each_channel");
    }
    c.panel = Func(pass_ + "panel");
    c.product = Func(pass_ + "product");
    if (along == lanes::channels) return sum_in_lanes(c);
    const auto side = [&](const Expr& channel, bool query) -> Expr {
        return query ? c.query_rows(channel, f_.qi, f_.qt, f_.h, f_.b) : c.key_rows(channel, f_.ki, f_.kb, f_.h, f_.b);
    };
    const bool queries = along == lanes::queries;
    const Var block = queries ? f_.qt : f_.kb;
    c.panel(lane_, f_.d, block, f_.h, f_.b) = signs_queries ? side(f_.d, queries) * sign_ : side(f_.d, queries);
    c.product(pair()) = 0.0f;
    c.product(pair()) += c.panel(lane_, c.each, block, f_.h, f_.b) * side(c.each, !queries);
}

void score_tile::sum_in_lanes(contraction& c) {
    const int vector = channel_vector;
    const Var l("l");
    c.each = RDom(0, f_.depth() / vector, pass_ + "each_channel");
    c.lane = RDom(0, vector, pass_ + "lane");
    c.dots = Func(pass_ + "dots");
    c.collected = Func(pass_ + "collected");
    std::vector<Var> over = pair();
    over.insert(over.begin(), l);
    const Expr channel = c.each * vector + l;
    c.dots(over) = 0.0f;
    c.dots(over) += c.key_rows(channel, f_.ki, f_.kb, f_.h, f_.b) * c.query_rows(channel, f_.qi, f_.qt, f_.h, f_.b);
    c.collected(over) = c.dots(over);
    std::vector<Expr> at{c.lane.x};
    for (const Var& v : pair()) at.push_back(v);
    c.product(pair()) = 0.0f;
    c.product(pair()) += c.collected(at);
}

Expr score_tile::with_products(const Expr& e) const {
    Expr with = e;  // an expression that is used in many places, such as a function's argument, stays shared
    if (along == lanes::fragments) return with;
    for (const contraction& c : contractions)
        with = Internal::graph_substitute(
            product_name(c.node), c.of_key.defined() ? c.product(pair()) * c.of_key : Expr(c.product(pair())), with);
    return with;
}

Expr score_tile::at_fragment(const Expr& of_pair, const Expr& query, const Expr& key, const Expr& product) const {
    Expr there = Internal::graph_substitute(f_.qi.name(), query, of_pair);
    there = Internal::graph_substitute(f_.ki.name(), key, there);
    return Internal::graph_substitute(product_name(f_.core.contraction), product, there);
}

quantity score_tile::operator()(int scores) const {
    const quantity x = f_.evaluate(scores, at_);
    const Expr beyond = f_.key_at(f_.ki) >= at_.key_limit;
    return {with_products(x.value), x.masked.defined() ? with_products(x.masked) || beyond : beyond};
}

Expr score_tile::of_query(const Expr& row) const {
    Expr all = 0.0f;
    for (const Func& kept : hoisted_of_queries) {
        const FuncRef at = kept(row, f_.qt, f_.h, f_.b);
        for (int i = 0; i < kept.outputs(); ++i) all = all + cast<float>(number_at(at, i));
    }
    for (const contraction& c : contractions)
        if (c.fixed && along == lanes::queries) all = all + c.panel(row, 0, f_.qt, f_.h, f_.b);
    return all;
}

Expr score_tile::weights(int node, const Expr& weight) const {
    place at = at_;
    at.known[f_.core.statistic_node] = {weight, {}};
    const Expr made = f_.evaluate(node, at).value;
    // What a masked pair is multiplied by may be NaN or an infinity.
    return node == f_.core.statistic_node || f_.request.finite ? made : masked_values::unless_masked(weight, made);
}

}  // namespace attune::generators::inline stages
