#include "stages/capped_scores.hpp"

#include "expr/math.hpp"

namespace attune::generators::inline stages {
namespace {

void know_caps_under(int score, const kernel_frame& f, place& at) {
    const instruction& node = f.node(score);
    const auto is_uniform = [&](int n) { return f.depends[static_cast<std::size_t>(n)].uniform(); };
    switch (node.op) {
        case operation::mask:
        case operation::negate: return know_caps_under(node.arguments[0], f, at);
        case operation::add:
        case operation::subtract:
            for (const int side : {0, 1}) know_caps_under(node.arguments[side], f, at);
            return;
        case operation::multiply:
            for (const int side : {0, 1})
                if (is_uniform(node.arguments[1 - side])) know_caps_under(node.arguments[side], f, at);
            return;
        case operation::tanh: {
            const quantity of = f.evaluate(node.arguments[0], at);
            if (!of.masked.defined()) at.known.emplace(score, quantity{hyperbolic_tangent_by_exp2(of.value), {}});
            return;
        }
        default: return;
    }
}

}  // namespace

void know_caps(const kernel_frame& frame, place& at) { know_caps_under(frame.core.scores, frame, at); }

}  // namespace attune::generators::inline stages
