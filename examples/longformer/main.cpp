#include "longformer.hpp"

#include "example.hpp"

int main(int argc, char** argv) {
    const attune::examples::setup setup{.name = "longformer",
                                        .graph = attune::dsl::ir_of<longformer::attention>,
                                        .golden = {},
                                        .fill = [](attune::examples::problem& p) {
                                            std::vector<std::uint8_t> is_global(static_cast<std::size_t>(p.key_length));
                                            for (std::size_t key = 0; key < is_global.size(); key += 500)
                                                is_global[key] = 1;
                                            p.add("is_global", {p.key_length}, is_global);
                                            p.set("w", 63);
                                        }};
    return attune::examples::run(argc, argv, setup, [](auto& p) {
        using namespace longformer;
        return attune::prepare<attention>(q = p.q, k = p.k, v = p.v, w = int(p.number("w")), is_global = p["is_global"],
                                          out = p.out);
    });
}
