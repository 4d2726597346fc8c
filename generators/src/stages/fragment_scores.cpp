#include "stages/fragment_scores.hpp"

#include "expr/math.hpp"

#include <cstdint>
#include <vector>

namespace attune::generators::inline stages {
namespace {

/// What a term is added to a score as.
enum class sign : std::uint8_t { plus, any };

bool is_of_pair(const kernel_frame& f, int load) {
    const instruction& node = f.node(load);
    const dependence& on = f.depends[static_cast<std::size_t>(load)];
    if (node.kind != kind::real || f.node(node.arguments[0]).op != operation::input) return false;
    const element_type element = f.graph().inputs[static_cast<std::size_t>(f.node(node.arguments[0]).input)].element;
    return on.query && on.key && !on.channel && element != element_type::f8_e4m3 && element != element_type::f8_e5m2;
}

void know_terms_under(int score, sign as, const kernel_frame& f, place& at) {
    const instruction& node = f.node(score);
    const auto below = [&](int side, sign term) { know_terms_under(node.arguments[side], term, f, at); };
    if (node.op == operation::mask) {
        below(0, as);
    } else if (node.op == operation::negate) {
        below(0, sign::any);
    } else if (node.op == operation::add || node.op == operation::subtract) {
        below(0, as);
        below(1, node.op == operation::add ? as : sign::any);
    } else if (node.op == operation::multiply) {
        for (const int side : {0, 1})
            if (f.depends[node.arguments[1 - side]].uniform()) below(side, sign::any);
    } else if (node.op == operation::tanh) {
        const quantity of = f.evaluate(node.arguments[0], at);
        if (!of.masked.defined()) at.known.emplace(score, quantity{hyperbolic_tangent_by_exp2(of.value), {}});
    } else if (node.op == operation::load && as == sign::plus && is_of_pair(f, score)) {
        const Halide::ImageParam& tensor = f.inputs.tensor(f.node(node.arguments[0]).input);
        const std::vector<Halide::Expr> place = pointwise(f.request, f.inputs, at).place_of(score);
        at.known.emplace(score, quantity{Halide::cast<float>(tensor(place)), {}});
    }
}

}  // namespace

void know_terms_of_scores(const kernel_frame& frame, place& at) {
    know_terms_under(frame.core.scores, sign::plus, frame, at);
}

}  // namespace attune::generators::inline stages
