#include "rotary.hpp"

#include "example.hpp"

#include <algorithm>
#include <cmath>

int main(int argc, char** argv) {
    const attune::examples::setup setup{
        .name = "rotary",
        .graph = attune::dsl::ir_of<rotary::attention>,
        .golden = {},
        .fill = [](attune::examples::problem& p) {
            const auto length = std::max(p.query_length, p.key_length), pairs = p.depth / 2;
            std::vector<float> cosine, sine, q_gain, k_gain;
            for (int at = 0; at < length; ++at)
                for (int pair = 0; pair < pairs; ++pair) {
                    const double angle = at * std::pow(10000.0, -double(pair) / double(pairs));
                    cosine.push_back(float(std::cos(angle)));
                    sine.push_back(float(std::sin(angle)));
                }
            for (int d = 0; d < p.depth; ++d) {
                q_gain.push_back(1 + 0.01f * float(d));
                k_gain.push_back(1 - 0.005f * float(d));
            }
            p.add("cosine", {length, pairs}, cosine);
            p.add("sine", {length, pairs}, sine);
            p.add("q_gain", {p.depth}, q_gain);
            p.add("k_gain", {p.depth}, k_gain);
        }};
    return attune::examples::run(argc, argv, setup, [](auto& p) {
        using namespace rotary;
        return attune::prepare<attention>(q = p.q, k = p.k, v = p.v, cosine = p["cosine"], sine = p["sine"],
                                          q_gain = p["q_gain"], k_gain = p["k_gain"], out = p.out);
    });
}
