#include "attention_sink.hpp"

#include "example.hpp"

int main(int argc, char** argv) {
    const attune::examples::setup setup{.name = "attention_sink",
                                        .graph = attune::dsl::ir_of<attention_sink::attention>,
                                        .golden = {},
                                        .fill = [](attune::examples::problem& p) {
                                            std::vector<float> sink;
                                            for (int h = 0; h < p.heads; ++h) sink.push_back(0.5f * float(h) - 1);
                                            p.add("sink", {p.heads}, sink);
                                        }};
    return attune::examples::run(argc, argv, setup, [](auto& p) {
        using namespace attention_sink;
        return attune::prepare<attention>(q = p.q, k = p.k, v = p.v, sink = p["sink"], out = p.out,
                                          lse = p.output("lse"));
    });
}
