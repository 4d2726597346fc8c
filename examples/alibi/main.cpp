#include "alibi.hpp"

#include "example.hpp"

#include <cmath>

int main(int argc, char** argv) {
    const attune::examples::setup setup{.name = "alibi",
                                        .graph = attune::dsl::ir_of<alibi::attention>,
                                        .golden = "score_alibi_causal",
                                        .fill = [](attune::examples::problem& p) {
                                            std::vector<float> slopes;  // 2^(-8 (h + 1) / heads)
                                            for (int h = 0; h < p.heads; ++h)
                                                slopes.push_back(std::exp2(-8.0f * float(h + 1) / float(p.heads)));
                                            p.add("slopes", {p.heads}, slopes);
                                        }};
    return attune::examples::run(argc, argv, setup, [](auto& p) {
        using namespace alibi;
        return attune::prepare<attention>(q = p.q, k = p.k, v = p.v, slopes = p["slopes"], out = p.out);
    });
}
