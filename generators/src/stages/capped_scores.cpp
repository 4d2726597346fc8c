#include "stages/capped_scores.hpp"

#include "expr/math.hpp"

namespace attune::generators::inline stages {
namespace {

void know_caps_under(int score, const kernel_frame& f, place& at) {
    const instruction& node = f.node(score);
    if (node.op == operation::tanh) {
        const quantity of = f.evaluate(node.arguments[0], at);
        if (!of.masked.defined()) at.known.emplace(score, quantity{hyperbolic_tangent_by_exp2(of.value), {}});
        return;
    }
    const bool is_factor = node.op == operation::multiply,
               is_sum = node.op == operation::add || node.op == operation::subtract;
    if (node.op == operation::mask || node.op == operation::negate) return know_caps_under(node.arguments[0], f, at);
    if (!is_factor && !is_sum) return;
    for (const int side : {0, 1})
        if (is_sum || f.depends[node.arguments[1 - side]].uniform()) know_caps_under(node.arguments[side], f, at);
}

}  // namespace

void know_caps(const kernel_frame& frame, place& at) { know_caps_under(frame.core.scores, frame, at); }

}  // namespace attune::generators::inline stages
