#include "documents.hpp"

#include "example.hpp"

#include <algorithm>

int main(int argc, char** argv) {
    const attune::examples::setup setup{
        .name = "documents",
        .graph = attune::dsl::ir_of<documents::attention>,
        .golden = "mask_document_causal",
        .fill = [](attune::examples::problem& p) {
            std::vector<std::int32_t> ids;  // documents of 100, 200, 300, ... tokens
            for (int id = 0, left = 100; static_cast<std::int64_t>(ids.size()) < std::max(p.query_length, p.key_length);
                 ids.push_back(id))
                if (--left < 0) left = 100 * (++id + 1);
            const auto length = static_cast<std::int64_t>(ids.size());
            p.add("doc_id", {length}, ids);
        }};
    return attune::examples::run(argc, argv, setup, [](auto& p) {
        using namespace documents;
        return attune::prepare<attention>(q = p.q, k = p.k, v = p.v, doc_id = p["doc_id"], out = p.out);
    });
}
