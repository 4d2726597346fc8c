#include "split_kv.hpp"

#include "example.hpp"

namespace {

/// Keys from `first` up to `end`: (b, hk, end - first, d) of (b, hk, lk, d).
attune::tensor keys_of(const attune::tensor& whole, std::int64_t first, std::int64_t end) {
    const auto* start = static_cast<const float*>(whole.data()) + first * whole.stride(2);
    return attune::tensor(start, {whole.extent(0), whole.extent(1), end - first, whole.extent(3)},
                          {whole.stride(0), whole.stride(1), whole.stride(2), whole.stride(3)});
}

attune::examples::bound prepare(attune::examples::problem& p) {
    using namespace split_kv;
    const auto half = p.key_length / 2, all = p.key_length;
    const attune::tensor a = p.make({p.batches, p.heads, p.query_length, p.value_depth}),
                         a_lse = p.make({p.batches, p.heads, p.query_length});
    const attune::tensor c = p.make({p.batches, p.heads, p.query_length, p.value_depth}),
                         c_lse = p.make({p.batches, p.heads, p.query_length});

    auto early = attune::prepare<attention>(q = p.q, k = keys_of(p.k, 0, half), v = keys_of(p.v, 0, half),
                                            first_key = 0, out = a, lse = a_lse);
    auto late = attune::prepare<attention>(q = p.q, k = keys_of(p.k, half, all), v = keys_of(p.v, half, all),
                                           first_key = half, out = c, lse = c_lse);
    auto join =
        attune::prepare<merged>(out_a = a, lse_a = a_lse, out_b = c, lse_b = c_lse, out = p.out, lse = p.output("lse"));
    return {[=] { early(), late(), join(); },
            [=] {
                attune::explanation both = early.explain();
                const attune::explanation second = late.explain();
                both.blocks += second.blocks, both.blocks_visited += second.blocks_visited;
                return both;
            }};
}

}  // namespace

int main(int argc, char** argv) {
    // What it must equal: one call over all the keys.
    const attune::examples::setup setup{
        .name = "split_kv", .graph = attune::dsl::ir_of<split_kv::attention>, .golden = {}, .fill = [](auto& p) {
            p.set("first_key", 0);
        }};
    return attune::examples::run_example(argc, argv, setup, prepare);
}
