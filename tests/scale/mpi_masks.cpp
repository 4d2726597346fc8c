// One rank of a job that computes by twenty masks, prefill and decode, against the reference's call of the whole:
// mpi_masks masks <file>, as mpi_ranks. Its kernels are compiled for this alone.
#include <attune/mpi.hpp>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "masks.hpp"
#include "over_mpi.hpp"

namespace {

using attune::support::shape, attune::testing::compute;

/// Two sequences of other lengths, with grouped heads.
template <const auto& Whole, const auto& Shard>
void both(attune::mpi::context& world, const std::string& name, const std::vector<std::string>& deciding = {}) {
    const auto guarded = [&](const char* what, const shape& of, const std::vector<std::string>& in_plan) {
        try {
            compute<Whole, Shard>(world, of, in_plan, {224, 131});
        } catch (const std::exception& reason) {
            throw std::runtime_error(std::string(what) + " by the mask " + name + ": " + reason.what());
        }
    };
    guarded("prefill", {.batches = 2, .heads = 4, .key_heads = 2, .queries = 224, .keys = 224}, deciding);
    guarded("decode", {.batches = 2, .heads = 4, .key_heads = 2, .queries = 3, .keys = 224}, {});
}

void all_masks(attune::mpi::context& world) {
    both<masked::everything, masked::everything_shard>(world, "everything");
    both<masked::before, masked::before_shard>(world, "before");
    both<masked::before_last, masked::before_last_shard>(world, "before_last");
    both<masked::near, masked::near_shard>(world, "near");
    both<masked::near_last, masked::near_last_shard>(world, "near_last");
    both<masked::far_ahead, masked::far_ahead_shard>(world, "far_ahead");
    both<masked::dilated, masked::dilated_shard>(world, "dilated");
    both<masked::dilated_before, masked::dilated_before_shard>(world, "dilated_before");
    both<masked::global, masked::global_shard>(world, "global", {"is_global"});
    both<masked::of_heads, masked::of_heads_shard>(world, "of_heads", {"reach"});
    both<masked::unpadded, masked::unpadded_shard>(world, "unpadded", {"is_padding"});
    both<masked::range, masked::range_shard>(world, "range", {"of_query"});
    both<masked::blocks, masked::blocks_shard>(world, "blocks");
    both<masked::documents, masked::documents_shard>(world, "documents", {"document"});
    both<masked::prefix, masked::prefix_shard>(world, "prefix");
    both<masked::prefix_both, masked::prefix_both_shard>(world, "prefix_both");
    both<masked::drafts, masked::drafts_shard>(world, "drafts");
    both<masked::image, masked::image_shard>(world, "image");
    both<masked::odd_heads, masked::odd_heads_shard>(world, "odd_heads");
    both<masked::far_apart, masked::far_apart_shard>(world, "far_apart");
}

}  // namespace

int main(int count, char** arguments) {
    if (count < 3) return 2;
    std::ofstream file(arguments[2], std::ios::app);
    int provided = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
    try {
        attune::mpi::context world(MPI_COMM_WORLD);
        all_masks(world);
        file << "computed\n" << std::flush;
    } catch (const std::exception& e) {
        file << "FAILED  " + std::string(e.what()) + "\n" << std::flush;
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
}
