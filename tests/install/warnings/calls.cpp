// Every header of an installation, and templates of theirs as an application instantiates them.
#include "every_header.hpp"

#include "language.hpp"
#include "layers.hpp"

#include <array>
#include <vector>

#if __has_include(<attune/mpi.hpp>)
// Outside the unnamed namespace, as graphs are whose kernels a registry defines.
namespace shared {
using namespace attune::dsl;
inline constexpr auto scores = mask(q * t(k), causal);
inline constexpr auto attended = outputs(out = softmax(scores) * v, lse = log_sum_exp(scores));
inline constexpr auto attended_shard = shard(attended);
}  // namespace shared
#endif

namespace {

template <const auto& Graph> std::size_t length_of_text() { return attune::dsl::ir_of<Graph>.text.size(); }

namespace trained {
using namespace attune::dsl;
inline constexpr auto gates = input<"gates", f32>(axis<"slot">);
inline constexpr auto slot = input<"slot", i32>(batch, query);
inline constexpr auto scores = mask(q * t(k), causal);
inline constexpr auto attended = softmax(scores) * v;
inline constexpr auto gated =
    outputs(out = attended * tanh(gates(slot(b, q_idx))), output<"attended"> = attended, lse = log_sum_exp(scores));
inline constexpr auto gated_gradient = gradient(gated, of(out));
}  // namespace trained

float called() {
    using namespace attune::common;
    std::vector<float> data(1 * 8 * 256 * 64, 1.0f), result(data.size());
    const std::array<std::int32_t, 1> lengths{256};
    const auto view = [](auto& x) { return attune::tensor(x.data(), {1, 8, 256, 64}); };
    attune::options how;
    how.threads = 2;
    attune::run<causal_attention>(q = view(data), k = view(data), v = view(data), out = view(result),
                                  attune::dsl::kv_lengths = attune::tensor(lengths.data(), {1}), how);
    attune::run<decode_attention>(q = view(data), k = view(data), v = view(data), out = view(result));
    return result.back();
}

#if __has_include(<attune/mpi.hpp>)
[[maybe_unused]] std::int64_t called_over_ranks(attune::mpi::context& world, attune::tensor heads,
                                                attune::tensor rows) {
    using namespace attune::dsl;
    const auto plan = attune::mpi::plan<shared::attended_shard>(world, {.heads = 8, .key_heads = 8, .tokens = 256});
    const auto call = attune::mpi::prepare<shared::attended_shard>(world, plan, q = heads, k = heads, v = heads,
                                                                   out = heads, lse = rows);
    return call().bytes_sent + attune::mpi::run<shared::attended_shard>(world, plan, q = heads, k = heads, v = heads,
                                                                        out = heads, lse = rows)
                                   .bytes_sent;
}
#endif

}  // namespace

int main() {
    const std::size_t gradients = attune::dsl::ir_of<trained::gated_gradient>.outputs.size();
    return called() > 0.0f && gradients == 4 &&
                   length_of_text<under_test::with_sink>() > length_of_text<under_test::plus_one>()
               ? 0
               : 1;
}
