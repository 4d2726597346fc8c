#include "varlen.hpp"

#include "example.hpp"

int main(int argc, char** argv) {
    const attune::examples::setup setup{.name = "varlen",
                                        .graph = attune::dsl::ir_of<varlen::attention>,
                                        .golden = {},
                                        .fill = [](attune::examples::problem& p) {
                                            std::vector<std::int32_t> q_starts,
                                                k_starts;  // each sequence a third longer than the one before it
                                            const double parts[] = {0, 0.07, 0.16, 0.29, 0.45, 0.68, 1};
                                            for (const double part : parts) {
                                                q_starts.push_back(int(part * double(p.query_length)));
                                                k_starts.push_back(int(part * double(p.key_length)));
                                            }
                                            p.add("cu_seqlens_q", {7}, q_starts);
                                            p.add("cu_seqlens_k", {7}, k_starts);
                                        }};
    return attune::examples::run(argc, argv, setup, [](auto& p) {
        using namespace varlen;
        // Its own, where attune's packs the queries of a call.
        return attune::prepare<attention>(q = p.q, k = p.k, v = p.v, varlen::cu_seqlens_q = p["cu_seqlens_q"],
                                          cu_seqlens_k = p["cu_seqlens_k"], out = p.out);
    });
}
