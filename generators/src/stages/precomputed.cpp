#include "stages/precomputed.hpp"

#include "analysis/listed_keys.hpp"
#include "analysis/narrow_rows.hpp"
#include "expr/math.hpp"

#include <algorithm>
#include <set>
#include <string>

namespace attune::generators::inline stages {
using namespace Halide;

namespace {

constexpr int bits_of_digit = 2, digits_of_number = 32 / bits_of_digit;

int formula_of(const graph_ir& graph, int tensor) {
    const instruction& node = graph.nodes[tensor];
    return chooses(node.op) ? formula_of(graph, node.arguments[0]) : node.arguments[0];
}

/// The index that counts the rows: the one before the last, if there are two. -1 for a choice.
int row_index(const graph_ir& graph, int tensor) {
    const instruction& made = graph.nodes[tensor];
    if (chooses(made.op)) return -1;
    return static_cast<int>(graph.nodes[made.arguments[made.argument_count > 3 ? made.argument_count - 4 : 1]].integer);
}

/// The bound index that a load has in place of the rows' index; -2 if anything else stands there.
int row_read_by(const graph_ir& graph, int load, int tensor) {
    const instruction &read = graph.nodes[load], &made = graph.nodes[tensor];
    const int argument = made.argument_count > 3 ? read.argument_count - 2 : read.argument_count - 1;
    const instruction& index = graph.nodes[read.arguments[argument]];
    return index.op == operation::bound ? static_cast<int>(index.integer) : -2;
}

constexpr int no_tensor = -1;

std::vector<int> users_of(const graph_ir& graph, int node) {
    std::vector<int> users;
    for (int user = node + 1; user < static_cast<int>(graph.nodes.size()); ++user) {
        const instruction& it = graph.nodes[user];
        const auto end = it.arguments.begin() + it.argument_count;
        if (std::find(it.arguments.begin(), end, node) != end) users.push_back(user);
    }
    return users;
}

/// The precomputed tensors whose formulas an element that is read belongs to; `no_tensor` for all else that it is for.
std::set<int> made_from(const graph_ir& graph, int load) {
    std::set<int> made, values{load};
    for (auto value = values.begin(); value != values.end(); ++value) {  // users stand behind what they use
        const std::vector<int> users = users_of(graph, *value);
        if (users.empty()) made.insert(no_tensor);
        for (const int user : users) (graph.nodes[user].kind == kind::precomputed ? made : values).insert(user);
    }
    return made;
}

}  // namespace

bool runs_over_keys(const graph_ir& graph, int tensor) {
    const instruction& made = graph.nodes[tensor];
    return graph.nodes[made.arguments[made.argument_count - 1]].op == operation::key_length;
}

precomputed_tensor::precomputed_tensor(const kernel_frame& frame, int node)
    : width(lanes_of(frame.request.schedule)), f_(frame) {
    const instruction& made = f_.node(attune::chooses(f_.node(node).op) ? f_.node(node).arguments[0] : node);
    for (int a = 1; a < made.argument_count; a += 2) axes.insert(axes.begin(), Var("index_" + std::to_string(a / 2)));
    axes.insert(axes.end(), {f_.h, f_.b});
    if (attune::chooses(f_.node(node).op))
        define_choice(node);
    else
        define_reals(node);
}

Expr precomputed_tensor::number(int node) const { return max(f_.evaluate(node, {}).value, 0); }

void precomputed_tensor::define_reals(int node) {
    const graph_ir& graph = f_.graph();
    const instruction& made = f_.node(node);
    const int indices = made.argument_count / 2;
    // Algorithm
    place here{f_.b, f_.h, 0, 0, f_.inputs.keys_in_use(f_.b)};
    of_query_heads_ = f_.request.facts->of_query_heads[node];
    if (!of_query_heads_) here.h = clamp(f_.h * f_.group(), 0, f_.inputs.heads - 1);
    for (int i = 0; i < indices; ++i) {
        const int index = index_of(made.arguments[1 + 2 * i]);
        here.indices[index] = axes[indices - 1 - i], here.extents[index] = made.arguments[2 + 2 * i];
    }
    along = RDom(0, number(made.arguments[made.argument_count - 1]), "along");
    const std::vector<bool> read = under(graph, {formula_of(graph, node)},
                                         [&](int n) { return n < node && graph.nodes[n].kind == kind::precomputed; });
    const Expr hidden = f_.decodes() ? Expr() : hidden_without_sums(made.arguments[0], here, read);
    for (int n = 0; n < node; ++n) {
        if (!read[n]) continue;
        const auto along_sum = read_along(n, here);
        const std::vector<int> loads = along_sum.value_or(std::vector<int>{});
        quantity sum;
        if (!along_sum || (loads.empty() && !has_products_of(n))) {
            // It is made where it is needed.
        } else if (!is_within(n, here)) {
            sum = products_within_sum(n, loads, here, made, read, hidden);
        } else {
            if (indices > 1 && !f_.decodes())  // in decode there are few rows
                sum = product_of_rows(n, loads, here,
                                      {axes, index_of(made.arguments[made.argument_count - 2]),
                                       index_of(made.arguments[made.argument_count - 4]), hidden});
            if (!sum.value.defined()) sum = reduced_by_vectors(n, loads, here);
        }
        if (sum.value.defined())
            here.known[n] = sum;
        else
            leave_products_of(n, here);
    }
    const quantity x = f_.evaluate(made.arguments[0], here);
    const bool of_keys = std::ranges::any_of(graph.inputs, [](const input_declaration& input) {
        return std::any_of(input.axes.begin(), input.axes.begin() + input.rank,
                           [](const axis_declaration& axis) { return axis.kind == axis_kind::key; });
    });
    if (of_keys) along.where(f_.inputs.key_length > 0);
    std::vector<Expr> at(axes.begin(), axes.end());
    at[0] = along.x;
    may_be_masked = x.masked.defined();
    const Expr value = codes_made_before(graph, node)
                           ? cast<std::int8_t>(f_.evaluate(f_.node(made.arguments[0]).arguments[0], here).value)
                       : x.masked.defined() ? or_negative_infinity(!x.masked, x.value)
                                            : x.value;
    if (indices == 1 && is_of_made(formula_of(graph, node))) {  // it can be made for some rows alone
        precomputed(axes) = value;
        return;
    }
    precomputed(axes) = Internal::make_zero(value.type());
    precomputed(at) = Internal::graph_substitute(axes[0].name(), along.x, value);
}

/// Whether the kernel makes all tensors that a formula reads, none of them an output: then there are elements after the
/// last.
bool precomputed_tensor::is_of_made(int formula) const {
    const graph_ir& graph = f_.graph();
    const std::vector<bool> read =
        under(graph, {formula}, [&](int n) { return graph.nodes[n].kind == kind::precomputed; });
    for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n)
        if (read[n] && graph.nodes[n].op == operation::load && !is_followed({n})) return false;
    return true;
}

int precomputed_tensor::index_of(int bound) const { return static_cast<int>(f_.node(bound).integer); }

bool precomputed_tensor::has_products_of(int outer) const {
    return f_.node(outer).op == operation::sum && std::ranges::find(products, outer, &product::outer) != products.end();
}

/// Products within a sum are of no use without it.
void precomputed_tensor::leave_products_of(int outer, place& here) {
    for (const product& each : products)
        if (each.outer == outer) here.known.erase(each.node);
    std::erase_if(products, [&](const product& each) { return each.outer == outer; });
}

/// The loads that depend on a sum's index, if it is the last index of each of them and the sum contains no other sum
/// but those that are made already.
std::optional<std::vector<int>> precomputed_tensor::read_along(int sum, const place& here) const {
    const instruction& it = f_.node(sum);
    if ((it.op != operation::sum && it.op != operation::largest) || it.kind != kind::real) return {};
    const std::uint64_t index = std::uint64_t{1} << f_.node(it.arguments[0]).integer;
    const std::vector<bool> body = under(f_.graph(), {it.arguments[2]}, [&](int n) {
        return (f_.depends[n].bound & index) == 0 || here.known.contains(n);
    });
    std::vector<int> loads;
    for (int n = 0; n < sum; ++n) {
        const instruction& load = f_.node(n);
        if (!body[n] || (f_.depends[n].bound & index) == 0 || n == it.arguments[0] || here.known.contains(n)) continue;
        if (load.op == operation::sum || load.op == operation::largest || load.op == operation::any) return {};
        if (load.op != operation::load) continue;
        for (int i = 1; i < load.argument_count; ++i) {
            const bool last = i + 1 == load.argument_count;
            if (last != (load.arguments[i] == it.arguments[0])) return {};
            if (!last && (f_.depends[load.arguments[i]].bound & index)) return {};
        }
        loads.push_back(n);
    }
    return loads;
}

/// Whether a sum is inside no other sum.
bool precomputed_tensor::is_within(int sum, const place& here) const {
    for (std::size_t bound = 0; bound < f_.graph().indices.size(); ++bound)
        if ((f_.depends[sum].bound >> bound & 1) && !here.indices.contains(static_cast<int>(bound))) return false;
    return true;
}

/// Whether every tensor that is read has elements after its last one: tensors that the kernel makes do, unless they are
/// outputs.
bool precomputed_tensor::is_followed(const std::vector<int>& loads) const {
    return std::ranges::all_of(loads, [&](int load) {
        const int tensor = f_.node(load).arguments[0];
        return f_.node(tensor).kind == kind::precomputed &&
               std::ranges::none_of(f_.graph().outputs, [&](const auto& output) { return output.node == tensor; });
    });
}

/// A sum or a maximum, in lanes.
quantity precomputed_tensor::reduced_by_vectors(int node, const std::vector<int>& loads, const place& here) {
    const instruction& it = f_.node(node);
    const int index = index_of(it.arguments[0]);
    const bool is_sum = it.op == operation::sum;
    const Expr extent = number(it.arguments[1]);
    const auto known = as_const_int(extent);
    const bool whole = known && *known % width == 0;
    // Algorithm
    dot made;
    made.lane = Var("lane"), made.partial = Func("partial_sums"), made.sum = Func("dot_sum");
    made.steps = RDom(0, (extent + width - 1) / width, "steps");
    place within = here;
    const Expr element = made.steps * width + made.lane;
    within.indices[index] = element;
    if (whole || is_followed(loads)) within.extents[index] = it.arguments[1];
    if (has_products_of(node))
        for (const int load : loads) within.known[load] = factor(load, within);
    quantity x = f_.evaluate(it.arguments[2], within);
    if (is_sum && x.masked.defined()) return {};
    for (const product& each : products)  // of each element
        if (each.outer == node) x.value = Internal::graph_substitute(each.axes[0].name(), element, x.value);
    const Expr amount = is_sum ? x.value : in_order(x.value), nothing = Internal::make_zero(amount.type());
    Expr counts = whole ? Internal::const_true() : element < extent;
    if (x.masked.defined()) counts = counts && !x.masked;
    const auto both = [&](const Expr& a, const Expr& b) { return is_sum ? a + b : max(a, b); };
    std::vector<Var> of_lane{made.lane};
    of_lane.insert(of_lane.end(), axes.begin(), axes.end());
    made.partial(of_lane) = nothing;
    made.partial(of_lane) = both(made.partial(of_lane), select(counts, amount, nothing));
    std::vector<Expr> at(of_lane.begin(), of_lane.end()), all;
    for (int lane = 0; lane < width; ++lane) at[0] = lane, all.emplace_back(made.partial(at));
    for (std::size_t half = all.size() / 2; half > 0; half /= 2)  // halves: no addition waits for all before it
        for (std::size_t i = 0; i < half; ++i) all[i] = both(all[i], all[i + half]);
    made.sum(axes) = all[0];
    dots.push_back(made);
    const Expr result = made.sum(std::vector<Expr>(axes.begin(), axes.end()));
    if (is_sum) return {result, {}};
    return {select(result == nothing, 0.0f, from_order(result)), result == nothing};
}

/// Counts in lanes of elements, whose conditions are 0 beyond the row.
Func precomputed_tensor::tallied(const std::string& name, int conditions, const Expr& length,
                                 const std::function<Expr(const Expr&)>& holds) {
    // Algorithm
    tally made;
    made.conditions = conditions;
    made.partial = Func("partial_" + name), made.sum = Func("sum_" + name);
    made.steps = RDom(0, (length + width - 1) / width, "steps_" + name), made.lanes = RDom(0, width, "lanes_" + name);
    std::vector<Var> of_lane{lane, condition};
    of_lane.insert(of_lane.end(), axes.begin() + 1, axes.end());
    const std::vector<Var> of_condition(of_lane.begin() + 1, of_lane.end());
    std::vector<Expr> element(axes.begin(), axes.end()), each(of_lane.begin(), of_lane.end());
    element[0] = made.steps * width + lane, each[0] = made.lanes.x;
    const Expr amount = shares.defined() ? Expr(shares(element)) : Expr(1),
               nothing = Internal::make_zero(amount.type());
    made.partial(of_lane) = nothing;
    made.partial(of_lane) += select(holds(ordered(element)), amount, nothing);
    made.sum(of_condition) = nothing;
    made.sum(of_condition) += made.partial(each);
    tallies.push_back(made);
    return made.sum;
}

/// Finds the smallest chosen element a digit at a time, the highest digit first: it is the largest threshold that
/// enough elements reach.
void precomputed_tensor::define_choice(int node) {
    const instruction& it = f_.node(node);
    const instruction& made = f_.node(it.arguments[0]);
    const Expr zero = cast<std::uint32_t>(0);
    const Func& of = f_.inputs.computed.at(it.arguments[0]);
    const Expr length = number(made.arguments[made.argument_count - 1]);
    const std::vector<Var> row(axes.begin() + 1, axes.end());
    const auto in_row = [&](const Expr& element) {
        std::vector<Expr> at(axes.begin(), axes.end());
        at[0] = element;
        return at;
    };
    const auto of_condition = [&](const Func& sum, int i) {
        std::vector<Expr> at(row.begin(), row.end());
        at.insert(at.begin(), i);
        return Expr(sum(at));
    };
    const bool by_share = it.op == operation::top_p;
    // Algorithm
    along = RDom(0, length, "along");
    ordered(axes) = zero;
    ordered(in_row(along.x)) = in_order(of(in_row(along.x)));
    Expr wanted = f_.evaluate(it.arguments[1], {}).value;
    if (by_share) {
        shares = Func("shares");
        const Expr x = of(in_row(along.x));
        shares(axes) = 0.0f;
        shares(in_row(along.x)) = select(holds_nan(x), 0.0f, max(x, 0.0f));
        wanted =
            wanted * of_condition(tallied("all", 1, length, [](const Expr&) { return Internal::const_true(); }), 0);
    }
    Expr threshold = zero;
    for (int i = 0; i < digits_of_number; ++i) {
        const Expr shift = cast<std::uint32_t>(32 - bits_of_digit * (i + 1));
        constexpr int digits = (1 << bits_of_digit) - 1;  // but for 0
        const Func sum = tallied("digit_" + std::to_string(i), digits, length, [&](const Expr& x) {
            return x >= threshold + (cast<std::uint32_t>(condition + 1) << shift);
        });
        Expr highest = zero;
        for (int d = 0; d < digits; ++d) highest += cast<std::uint32_t>(of_condition(sum, d) >= wanted);
        Func threshold_found("threshold_" + std::to_string(i));
        threshold_found(row) = threshold + (highest << shift);
        thresholds.push_back(threshold_found);
        threshold = threshold_found(row);
    }
    const Func reached = tallied("reached", 2, length,
                                 [&](const Expr& x) { return x > threshold || (condition == 1 && x == threshold); });
    const Expr above = of_condition(reached, 0), nothing = Internal::make_zero(above.type());
    const auto tie = [&](const Expr& element) {
        const Expr amount = by_share ? Expr(shares(in_row(element))) : Expr(1);
        return select(ordered(in_row(element)) == threshold, amount, nothing);
    };
    RDom behind(1, max(length - 1, 0), "behind");
    if (!by_share) behind.where(of_condition(reached, 1) > wanted);  // else all that equal the threshold are chosen
    ties(axes) = nothing;
    ties(in_row(behind.x)) = ties(in_row(behind.x - 1)) + tie(behind.x - 1);
    precomputed(axes) = cast<std::uint8_t>(
        ordered(axes) > threshold || (threshold > zero && ordered(axes) == threshold && ties(axes) + above < wanted));
}

void precomputed_tensor::define_output() {
    // Algorithm
    written = precomputed;
    if (of_query_heads_) return;
    written = Func("written");
    std::vector<Expr> at(axes.begin(), axes.end());
    at[at.size() - 2] = f_.inputs.key_head(f_.h);
    written(axes) = precomputed(at);
}

precomputed_tensors::precomputed_tensors(kernel_frame& frame) {
    const graph_ir& graph = frame.graph();
    for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) {
        if (graph.nodes[n].kind != kind::precomputed) continue;
        if (lists_keys(graph, n)) {
            frame.inputs.computed[n] = list.emplace(frame, n).listed;
            frame.inputs.never_masked.insert(n);
            continue;
        }
        all.emplace_back(frame, n);
        nodes.push_back(n);
        frame.inputs.computed[n] = all.back().precomputed;
        if (!all.back().may_be_masked) frame.inputs.never_masked.insert(n);
    }
    for (std::size_t i = all.size(); i-- > 0;)  // users stand behind what they use
        if (std::ranges::any_of(graph.outputs, [&](const auto& output) { return output.node == nodes[i]; }))
            all[i].define_output();
        else
            find_chooser(frame, i);
}

/// If tensor i is needed for one top_k or top_p alone, it is computed inside that row loop. In decode it is computed
/// apart if loads need it or its rows are all keys: there are too few rows for parallel tasks.
void precomputed_tensors::find_chooser(const kernel_frame& frame, std::size_t i) {
    const graph_ir& graph = frame.graph();
    const auto place_of = [&](int tensor) {
        return static_cast<int>(std::ranges::find(nodes, tensor) - nodes.begin());
    };
    std::set<int> choosers;
    bool by_choice = false, by_loads = false;
    for (const int user : users_of(graph, nodes[i])) {
        if (chooses(graph.nodes[user].op)) {
            choosers.insert(place_of(user)), by_choice = true;
            continue;
        }
        by_loads = true;
        for (const int made : made_from(graph, user))
            choosers.insert(made >= 0 && row_read_by(graph, user, nodes[i]) == row_index(graph, made)
                                ? all[static_cast<std::size_t>(place_of(made))].rows_with
                                : no_tensor);
    }
    const bool is_one = choosers.size() == 1 && !choosers.contains(no_tensor);
    if (!is_one || (frame.decodes() && (by_loads || runs_over_keys(graph, nodes[i])))) return;
    all[i].rows_with = *choosers.begin(), all[i].by_row = by_choice && !by_loads;
}

const precomputed_tensor& precomputed_tensors::of(int node) const {
    return all[static_cast<std::size_t>(std::ranges::find(nodes, node) - nodes.begin())];
}

}  // namespace attune::generators::inline stages
