#include "cpu/backward.hpp"

#include <algorithm>
#include <numeric>

/// Terms of gradients that are matrix products: rows made of the sweep's sums times weights, or times the rows that
/// weights project; and cotangents times the rows that an output projection reads.
namespace attune::generators::inline cpu {
using namespace Halide;

namespace {

/// An axis that a term counts along, and its extent.
struct counted {
    Var var;
    Expr extent;
};

/// The axes of a product. `places` decide where it adds, the lanes and the row of a tile first; it sums over `summed`.
/// Heads and the batch are last.
struct counted_of_product {
    std::map<int, Expr> indices;  ///< bound indices
    std::vector<counted> places, summed;
};

Expr is_not_zero(const Expr& number) {
    return (reinterpret<std::uint32_t>(number) << 1) != cast<std::uint32_t>(0);  // NaN included
}

std::vector<Range> ranges_of(const std::vector<counted>& all) {
    std::vector<Range> ranges;
    for (const counted& each : all) ranges.emplace_back(0, each.extent);
    return ranges;
}

std::vector<Var> variables_of(const std::vector<counted>& all) {
    std::vector<Var> variables;
    for (const counted& each : all) variables.push_back(each.var);
    return variables;
}

/// The same expression with the loops of a reduction in place of the axes that they count.
Expr over(const RDom& loops, const std::vector<counted>& all, const Expr& e) {
    std::map<std::string, Expr> names;
    for (std::size_t i = 0; i < all.size(); ++i) names[all[i].var.name()] = loops[static_cast<int>(i)];
    return substitute(names, e);
}

counted_of_product count(const kernel_frame& f, const gradient_term& term, const gradient_product& is,
                         const std::vector<counted>& of_row) {
    counted_of_product all;
    counted lanes, channels = of_row[0];
    std::vector<counted> others;
    for (std::size_t k = 0; k < term.over.size(); ++k) {
        const int index = static_cast<int>(f.node(term.over[k].index).integer);
        const counted each{index == is.channel ? channels.var : Var("over_" + std::to_string(index)),
                           max(f.evaluate(term.over[k].extent, {}).value, 0)};
        all.indices[index] = each.var;
        if (k == is.lanes)
            lanes = each;
        else if (index == is.channel)
            channels = each;
        else
            ((is.place.bound >> index & 1) != 0 ? others : all.summed).push_back(each);
    }
    const counted &position = of_row[1], &head = of_row[2], &batch = of_row[3];
    all.places = {lanes, is.by_position ? position : channels};
    all.places.insert(all.places.end(), others.begin(), others.end());
    all.summed.push_back(is.by_position ? channels : position);
    (is.place.head ? all.places : all.summed).push_back(head);
    (is.place.batch ? all.places : all.summed).push_back(batch);
    return all;
}

}  // namespace

/// A sum of the sweep: the parts' sums, in order.
Func backward_sweep::all_of(std::size_t number) {
    if (const auto before = wholes.find(number); before != wholes.end()) return before->second;
    const gradient_sum& sum = plan.sums[number];
    const bool of_heads = sum.of_queries || sum.per_head;
    // Algorithm
    Func whole_sum("whole_" + std::to_string(number));
    const RDom part(0, sum.of_queries ? Expr(1) : tasks.parts, "part");
    whole_sum(f_.d, i, f_.h, f_.b) = 0.0f;
    whole_sum(f_.d, i, f_.h, f_.b) += made(number, f_.d, i, of_heads ? Expr(f_.h) : f_.h * tasks.group, part, f_.b);
    return wholes[number] = whole_sum;
}

Expr backward_sweep::whole(std::size_t number, const Expr& d) { return all_of(number)(d, i, f_.h, f_.b); }

/// The rows of a product, for each position of each head: a sum as it is, or a formula.
Func backward_sweep::rows_of(const gradient_term& term, const gradient_product& is, bool of_heads) {
    if (const auto sum = term.sums.find(is.rows); sum != term.sums.end()) return all_of(sum->second);
    const auto [at, is_new] = formed.try_emplace({is.rows, of_heads}, "rows_" + std::to_string(is.rows));
    if (!is_new) return at->second;
    // Algorithm
    place here = at_position(term, of_heads);
    here.indices = {{is.channel, f_.d}};
    std::vector<int> known;
    if (term.added_first >= 0) {
        here.known[term.added_first] = made_of_pairs(number_of(term, of_heads)(i, f_.h, f_.b));
        known.push_back(term.added_first);
    } else {
        for (const auto& [node, number] : term.sums) {
            here.known[node] = made_of_pairs(all_of(number)(f_.d, i, f_.h, f_.b));
            known.push_back(node);
        }
    }
    know_numbers(here, is.rows, known, {here.q, here.h, here.b});
    const quantity x = f_.evaluate(is.rows, here);
    at->second(f_.d, i, f_.h, f_.b) = x.masked.defined() ? select(x.masked, 0.0f, x.value) : x.value;
    return at->second;
}

/// Multiplies all rows with a matrix, summing over the axes that decide no place; then adds the products to the
/// gradient.
void backward_sweep::add_product(Func gradient, const gradient_term& term, const gradient_product& is) {
    const bool of_heads = term.of_queries || term.sums.empty() || plan.sums[term.sums.begin()->second].per_head;
    const Expr positions = term.of_queries ? f_.inputs.query_length : f_.inputs.key_length;
    const std::vector<counted> of_row{{f_.d, is.of_values ? f_.value_depth() : f_.depth()},
                                      {i, positions},
                                      {f_.h, of_heads ? f_.inputs.heads : tasks.key_heads},
                                      {f_.b, max(f_.inputs.batches, 0)}};
    const counted_of_product counts = count(f_, term, is, of_row);
    const std::vector<Var> places = variables_of(counts.places);
    const std::string name = "_" + std::to_string(term.deposit) + "_" + std::to_string(term.value);

    // Algorithm
    place here = at_position(term, of_heads);
    const Func rows = rows_of(term, is, of_heads);
    const Expr row = rows(f_.d, clamp(i, 0, positions - 1), f_.h, f_.b);  // tiles end beyond the positions
    here.indices = counts.indices;
    here.known[is.rows] = {1.0f, {}};
    const quantity x = f_.evaluate(term.value, here);
    Expr factor = x.masked.defined() ? select(x.masked, 0.0f, x.value) : x.value;

    product_term made;
    if (!is.by_position && !term.sums.empty()) {  // a position whose sums are 0 adds nothing
        std::vector<Var> asked{i};
        std::vector<counted> reduced{of_row[0]};
        for (const counted& each : {of_row[2], of_row[3]})
            if (Internal::expr_uses_var(factor, each.var.name()))
                asked.push_back(each.var);
            else
                reduced.push_back(each);
        const RDom looked_at(ranges_of(reduced), "looked_at");
        made.weighs = Func("weighs" + name);
        made.weighs(asked) = cast<std::uint8_t>(0);
        made.weighs(asked) = max(made.weighs(asked), over(looked_at, reduced, cast<std::uint8_t>(is_not_zero(row))));
        factor = select(made.weighs(asked) != cast<std::uint8_t>(0), factor, 0.0f);
    }
    std::vector<Var> of_matrix{places[0]};
    for (const std::vector<counted>* some : {&counts.places, &counts.summed})
        for (const counted& each : *some)
            if (each.var.name() != places[0].name() && Internal::expr_uses_var(factor, each.var.name()))
                of_matrix.push_back(each.var);
    made.matrix = Func("matrix" + name), made.products = Func("products" + name), made.total = Func("total" + name);
    made.matrix(of_matrix) = factor;
    made.summed = RDom(ranges_of(counts.summed), "summed");
    made.products(places) = 0.0f;
    made.products(places) += over(made.summed, counts.summed, row * made.matrix(of_matrix));
    made.total(places) = made.products(places);

    const RDom each_place(ranges_of(counts.places), "each_place");
    std::vector<Expr> to = indices(term, here);
    for (Expr& index : to) index = over(each_place, counts.places, index);
    gradient(to) += over(each_place, counts.places, made.total(places));
    const std::size_t parallel = indexes(term, axis_kind::batch, operation::b) ? 1 : 0;
    placed.push_back({gradient, gradient.num_update_definitions(), each_place, places.size() - parallel});

    const int tile = f_.schedule_as<cpu_gradient>().sum_rows;
    made.lanes = places[0], made.row = places[1], made.others.assign(places.begin() + 2, places.end());
    made.rows = is.by_position ? tile : std::gcd(tile, is.of_values ? f_.value_depth() : f_.depth());
    products.push_back(made);
}

}  // namespace attune::generators::inline cpu
