#include "quantized_cache.hpp"

#include "example.hpp"

#include <algorithm>
#include <cmath>

namespace {

/// (b, hk, lk, d) as bytes and a scale a key.
void quantize(attune::examples::problem& p, const attune::tensor& of, const std::string& name,
              const std::string& scale_name) {
    const auto rows = of.extent(0) * of.extent(1) * of.extent(2), width = of.extent(3);
    const auto* values = static_cast<const float*>(of.data());
    std::vector<std::uint8_t> bytes;
    std::vector<float> scales;
    for (std::int64_t row = 0; row < rows; ++row, values += width) {
        float largest = 0;
        for (std::int64_t d = 0; d < width; ++d) largest = std::max(largest, std::abs(values[d]));
        scales.push_back(largest / 127);
        for (std::int64_t d = 0; d < width; ++d)
            bytes.push_back(static_cast<std::uint8_t>(std::lround(values[d] / scales.back()) + 128));
    }
    p.add(name, {of.extent(0), of.extent(1), of.extent(2), width}, bytes);
    p.add(scale_name, {of.extent(0), of.extent(1), of.extent(2)}, scales);
}

/// The queries are a chunk, the last ones of what the cache holds, which has room for more.
void fill_in_part(attune::examples::problem& p) {
    p.query_length = std::max<std::int64_t>(p.query_length / 4, 1);
    const std::int64_t chunk[] = {p.batches, p.heads, p.query_length, p.depth};
    p.q = attune::tensor(p.q.type(), p.q.data(), chunk, p.q.strides());
    const auto in_use = static_cast<std::int32_t>(p.key_length - p.key_length / 8);
    p.add("kv_lengths", {p.batches}, std::vector<std::int32_t>(static_cast<std::size_t>(p.batches), in_use));
}

}  // namespace

int main(int argc, char** argv) {
    const attune::examples::setup setup{.name = "quantized_cache",
                                        .graph = attune::dsl::ir_of<quantized_cache::attention>,
                                        .golden = {},
                                        .fill = [](attune::examples::problem& p) {
                                            quantize(p, p.k, "k8", "k_scale");
                                            quantize(p, p.v, "v8", "v_scale");
                                            fill_in_part(p);
                                        }};
    return attune::examples::run(argc, argv, setup, [](auto& p) {
        using namespace quantized_cache;
        return attune::prepare<attention>(q = p.q, k8 = p["k8"], k_scale = p["k_scale"], v8 = p["v8"],
                                          v_scale = p["v_scale"], kv_lengths = p["kv_lengths"], out = p.out);
    });
}
