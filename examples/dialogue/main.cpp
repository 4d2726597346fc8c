#include "dialogue.hpp"

#include "example.hpp"

#include <algorithm>

int main(int argc, char** argv) {
    const attune::examples::setup setup{.name = "dialogue",
                                        .graph = attune::dsl::ir_of<dialogue::attention>,
                                        .golden = {},
                                        .fill = [](attune::examples::problem& p) {
                                            // Two speakers take turns of 20 tokens; a conversation is 15 turns.
                                            const auto length = std::max(p.query_length, p.key_length);
                                            std::vector<std::int32_t> conversation, speaker, turn;
                                            std::vector<std::uint8_t> opens_turn;
                                            for (int at = 0; at < length; ++at) {
                                                conversation.push_back(at / 300);
                                                turn.push_back(at % 300 / 20);
                                                speaker.push_back(turn.back() % 2);
                                                opens_turn.push_back(at % 20 == 0);
                                            }
                                            std::vector<float> turn_bias;
                                            for (int h = 0; h < p.heads; ++h)
                                                for (int ago = 0; ago < 15; ++ago)
                                                    turn_bias.push_back(-0.1f * float(h) * float(ago));
                                            p.add("conversation", {length}, conversation);
                                            p.add("speaker", {length}, speaker);
                                            p.add("turn", {length}, turn);
                                            p.add("opens_turn", {length}, opens_turn);
                                            p.add("turn_bias", {p.heads, 15}, turn_bias);
                                            p.set("w", 31);
                                            p.set("cap", 30);
                                        }};
    return attune::examples::run(argc, argv, setup, [](auto& p) {
        using namespace dialogue;
        return attune::prepare<attention>(q = p.q, k = p.k, v = p.v, conversation = p["conversation"],
                                          speaker = p["speaker"], turn = p["turn"], opens_turn = p["opens_turn"],
                                          turn_bias = p["turn_bias"], w = int(p.number("w")), cap = p.number("cap"),
                                          out = p.out);
    });
}
