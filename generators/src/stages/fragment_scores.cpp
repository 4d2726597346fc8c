#include "stages/fragment_scores.hpp"

#include "expr/math.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <variant>
#include <vector>

namespace attune::generators::inline stages {
namespace {

/// The sign with which a term is added to a score.
enum class sign : std::uint8_t { plus, any };

/// -infinity as the lowest number: arithmetic is compiled as if there were no infinities. Such a score weighs nothing
/// either way. LLVM cannot see into the instruction and remove it.
Halide::Expr not_below_lowest(const Halide::Expr& x) {
    return Halide::Internal::Call::make(Halide::Float(32), "llvm.nvvm.fmax.ftz.f", {x, Halide::Expr(lowest)},
                                        Halide::Internal::Call::PureExtern);
}

bool is_of_pair(const kernel_frame& f, int load) {
    const instruction& node = f.node(load);
    const dependence& on = f.depends[static_cast<std::size_t>(load)];
    if (node.kind != kind::real || f.node(node.arguments[0]).op != operation::input) return false;
    const element_type element = f.graph().inputs[static_cast<std::size_t>(f.node(node.arguments[0]).input)].element;
    return on.query && on.key && !on.channel && element != element_type::f8_e4m3 && element != element_type::f8_e5m2;
}

/// Whether products are as exact as those of f32. Those of values say so: scores of codes are exact beside any.
bool keeps_f32(const kernel_frame& f) {
    const auto* how = f.keys().values ? std::get_if<warp_fragments>(&f.keys().values->how) : nullptr;
    return how && how->products > 1;
}

/// `times`: the factor of the term; infinity if it is unknown.
void know_terms_under(int score, sign as, double times, const kernel_frame& f, place& at) {
    constexpr double largest_cap = 100;  // up to it the error of 5e-7 stays below the rounding of a score to bf16
    const instruction& node = f.node(score);
    const auto below = [&](int side, sign term, double factor) {
        know_terms_under(node.arguments[side], term, times * factor, f, at);
    };
    if (node.op == operation::mask) {
        below(0, as, 1);
    } else if (node.op == operation::negate) {
        below(0, sign::any, 1);
    } else if (node.op == operation::add || node.op == operation::subtract) {
        below(0, as, 1);
        below(1, node.op == operation::add ? as : sign::any, 1);
    } else if (node.op == operation::multiply) {
        for (const int side : {0, 1}) {
            const instruction& factor = f.node(node.arguments[1 - side]);
            const bool is_known = factor.op == operation::constant && factor.kind == kind::real;
            if (f.depends[node.arguments[1 - side]].uniform())
                below(side, sign::any, is_known ? std::abs(factor.number) : std::numeric_limits<double>::infinity());
        }
    } else if (node.op == operation::tanh && times <= largest_cap && !keeps_f32(f)) {
        const quantity of = f.evaluate(node.arguments[0], at);
        if (!of.masked.defined()) at.known.emplace(score, quantity{hyperbolic_tangent_by_exp2(of.value), {}});
    } else if (node.op == operation::load && as == sign::plus && is_of_pair(f, score)) {
        const Halide::ImageParam& tensor = f.inputs.tensor(f.node(node.arguments[0]).input);
        const std::vector<Halide::Expr> place = pointwise(f.request, f.inputs, at).place_of(score);
        at.known.emplace(score, quantity{not_below_lowest(Halide::cast<float>(tensor(place))), {}});
    }
}

}  // namespace

void know_terms_of_scores(const kernel_frame& frame, place& at) {
    know_terms_under(frame.core.scores, sign::plus, 1, frame, at);
}

}  // namespace attune::generators::inline stages
