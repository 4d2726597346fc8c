#include "causal.hpp"

#include "example.hpp"

int main(int argc, char** argv) {
    const attune::examples::setup setup{
        .name = "causal", .graph = attune::dsl::ir_of<causal_example::attention>, .golden = "mask_causal", .fill = {}};
    return attune::examples::run(argc, argv, setup, [](auto& p) {
        using namespace causal_example;
        return attune::prepare<attention>(q = p.q, k = p.k, v = p.v, out = p.out, lse = p.output("lse"));
    });
}
