#include "plain.hpp"

#include "example.hpp"

int main(int argc, char** argv) {
    const attune::examples::setup setup{
        .name = "plain", .graph = attune::dsl::ir_of<plain::attention>, .golden = "conv_depth_128", .fill = {}};
    return attune::examples::run(argc, argv, setup, [](auto& p) {
        using namespace plain;
        return attune::prepare<attention>(q = p.q, k = p.k, v = p.v, out = p.out);
    });
}
