#include "context_parallel.hpp"

#include <attune/mpi.hpp>
#include <attune/mpi/exchange.hpp>
#include <attune/runtime.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <vector>

namespace {

constexpr int heads = 8, key_heads = 2, width = 64;

/// A tensor (1, heads, tokens, width), or (1, heads, tokens) without a width.
struct array {
    array(int heads, int tokens, int width) : heads(heads), tokens(tokens), width(width) {
        values.resize(std::size_t(heads) * std::size_t(tokens) * std::size_t(width > 0 ? width : 1));
    }
    attune::tensor view() {
        if (width == 0) return attune::tensor(values.data(), {1, heads, tokens});
        return attune::tensor(values.data(), {1, heads, tokens, width});
    }
    float* row(int head, int token) {
        return values.data() +
               (std::size_t(head) * std::size_t(tokens) + std::size_t(token)) * std::size_t(width > 0 ? width : 1);
    }

    int heads, tokens, width;
    std::vector<float> values;
};

array made_of(int heads, int tokens, float step) {
    array all(heads, tokens, width);
    for (std::size_t i = 0; i < all.values.size(); ++i) all.values[i] = std::sin(step * static_cast<float>(i % 100003));
    return all;
}

/// The tokens of one rank.
array rows_of(array& whole, std::span<const std::int32_t> positions) {
    array part(whole.heads, static_cast<int>(positions.size()), whole.width);
    for (int head = 0; head < part.heads; ++head)
        for (int row = 0; row < part.tokens; ++row)
            std::copy_n(whole.row(head, positions[std::size_t(row)]), whole.width > 0 ? whole.width : 1,
                        part.row(head, row));
    return part;
}

float largest_difference(const array& a, const array& b) {
    float most = 0;
    for (std::size_t i = 0; i < a.values.size(); ++i) {
        const float here = std::fabs(a.values[i] - b.values[i]) / (1 + std::fabs(b.values[i]));
        if (!(here <= most)) most = here;  // a NaN stays
    }
    return most;
}

/// Returns whether the ranks' results are those of one call.
bool compute(attune::mpi::context& world, int tokens) {
    using namespace context_parallel;
    std::vector<float> rates;
    for (int head = 0; head < heads; ++head) rates.push_back(std::exp2(-8.0f * float(head + 1) / float(heads)));
    const attune::tensor of_heads(rates.data(), {heads});

    // Which tokens this rank has. A program reads those alone; this one makes all, to compare.
    const auto layout = attune::mpi::plan<attention_shard>(
        world, {.heads = heads, .key_heads = key_heads, .tokens = tokens, .depth = width});
    array all_q = made_of(heads, tokens, 0.1f), all_k = made_of(key_heads, tokens, 0.2f),
          all_v = made_of(key_heads, tokens, 0.3f);
    array my_q = rows_of(all_q, layout.positions()), my_k = rows_of(all_k, layout.positions()),
          my_v = rows_of(all_v, layout.positions());

    array my_out(heads, my_q.tokens, width), my_lse(heads, my_q.tokens, 0);
    const auto sent =
        attune::mpi::run<attention_shard>(world, layout, q = my_q.view(), k = my_k.view(), v = my_v.view(),
                                          slopes = of_heads, out = my_out.view(), lse = my_lse.view());

    array all_out(heads, tokens, width), all_lse(heads, tokens, 0);
    attune::run<attention>(q = all_q.view(), k = all_k.view(), v = all_v.view(), slopes = of_heads,
                           out = all_out.view(), lse = all_lse.view());
    const float mine[] = {largest_difference(my_out, rows_of(all_out, layout.positions())),
                          largest_difference(my_lse, rows_of(all_lse, layout.positions()))};
    const bool is_right = mine[0] < 2e-5f && mine[1] < 2e-5f;

    int right = is_right, all_right = 0;
    MPI_Allreduce(&right, &all_right, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
    if (world.rank() == 0) std::printf("%s", layout.explain().text().c_str());
    std::printf("rank %d of %d: %d of %d tokens, %lld bytes received; largest difference from one call %.1e\n",
                world.rank(), world.size(), my_q.tokens, tokens, static_cast<long long>(sent.bytes_received),
                static_cast<double>(std::fmax(mine[0], mine[1])));
    return all_right != 0;
}

}  // namespace

/// mpirun -np 2 context_parallel [tokens]
int main(int argc, char** argv) {
    const int tokens = argc > 1 ? std::atoi(argv[1]) : 4096;
    int provided = 0;
    bool is_right = false;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    try {
        attune::mpi::context world(MPI_COMM_WORLD);
        is_right = compute(world, tokens);
    } catch (const attune::error& problem) {  // the same on all ranks
        std::fprintf(stderr, "%s\n", problem.what());
    }
    MPI_Finalize();
    return is_right ? 0 : 1;
}
