#include "flex.hpp"

#include "../alibi/alibi.hpp"
#include "example.hpp"

#include <cmath>

// However it is spelt, a graph is its formula.
static_assert(attune::dsl::fingerprint<flex_example::attention> == attune::dsl::fingerprint<alibi::attention>);

int main(int argc, char** argv) {
    const attune::examples::setup setup{.name = "flex",
                                        .graph = attune::dsl::ir_of<flex_example::attention>,
                                        .golden = {},
                                        .fill = [](attune::examples::problem& p) {
                                            std::vector<float> slopes;
                                            for (int h = 0; h < p.heads; ++h)
                                                slopes.push_back(std::exp2(-8.0f * float(h + 1) / float(p.heads)));
                                            p.add("slopes", {p.heads}, slopes);
                                        }};
    return attune::examples::run(argc, argv, setup, [](auto& p) {
        using namespace flex_example;
        return attune::prepare<attention>(q = p.q, k = p.k, v = p.v, slopes = p["slopes"], out = p.out);
    });
}
