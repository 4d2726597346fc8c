#include "key_eviction.hpp"

#include "example.hpp"

int main(int argc, char** argv) {
    const attune::examples::setup setup{
        .name = "key_eviction", .graph = attune::dsl::ir_of<key_eviction::attention>, .golden = {}, .fill = {}};
    return attune::examples::run(argc, argv, setup, [](auto& p) {
        using namespace key_eviction;
        return attune::prepare<attention>(q = p.q, k = p.k, v = p.v, out = p.out, received = p.output("received"));
    });
}
