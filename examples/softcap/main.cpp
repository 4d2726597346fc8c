#include "softcap.hpp"

#include "example.hpp"

int main(int argc, char** argv) {
    const attune::examples::setup setup{.name = "softcap",
                                        .graph = attune::dsl::ir_of<softcap_example::attention>,
                                        .golden = "score_softcap",
                                        .fill = [](auto& p) { p.set("cap", 20); }};
    return attune::examples::run(argc, argv, setup, [](auto& p) {
        using namespace softcap_example;
        return attune::prepare<attention>(q = p.q, k = p.k, v = p.v, cap = p.number("cap"), out = p.out);
    });
}
