#include "sigmoid_attention.hpp"

#include "example.hpp"

int main(int argc, char** argv) {
    const attune::examples::setup setup{.name = "sigmoid_attention",
                                        .graph = attune::dsl::ir_of<sigmoid_attention::attention>,
                                        .golden = {},
                                        .fill = {}};
    return attune::examples::run(argc, argv, setup, [](auto& p) {
        using namespace sigmoid_attention;
        return attune::prepare<attention>(q = p.q, k = p.k, v = p.v, out = p.out);
    });
}
