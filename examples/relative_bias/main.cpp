#include "relative_bias.hpp"

#include "example.hpp"

int main(int argc, char** argv) {
    const attune::examples::setup setup{
        .name = "relative_bias",
        .graph = attune::dsl::ir_of<relative_bias::attention>,
        .golden = {},
        .fill = [](attune::examples::problem& p) {
            std::normal_distribution<float> normal;
            std::vector<float> bias(static_cast<std::size_t>(p.heads * (2 * relative_bias::reach + 1)));
            for (float& x : bias) x = normal(p.random);
            p.add("bias", {p.heads, 2 * relative_bias::reach + 1}, bias);
        }};
    return attune::examples::run(argc, argv, setup, [](auto& p) {
        using namespace relative_bias;
        return attune::prepare<attention>(q = p.q, k = p.k, v = p.v, bias = p["bias"], out = p.out);
    });
}
