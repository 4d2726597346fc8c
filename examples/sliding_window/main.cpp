#include "sliding_window.hpp"

#include "example.hpp"

int main(int argc, char** argv) {
    const attune::examples::setup setup{.name = "sliding_window",
                                        .graph = attune::dsl::ir_of<sliding_window::attention>,
                                        .golden = "mask_sliding_window",
                                        .fill = [](auto& p) { p.set("w", 127); }};
    return attune::examples::run(argc, argv, setup, [](auto& p) {
        using namespace sliding_window;
        return attune::prepare<attention>(q = p.q, k = p.k, v = p.v, w = int(p.number("w")), out = p.out);
    });
}
