#include "ptx/instructions.hpp"

#include "ptx/warpgroup.hpp"

#include <algorithm>

namespace attune::generators::inline ptx {
namespace {

// A product of 16 x 16 by 16 x 8: a fragment of four words of two elements, one of two words, and four sums.
#define ATTUNE_MMA(shape, element)                                \
    "mma.sync.aligned." shape ".row.col.f32." element "." element \
    ".f32 {%0, %1, %2, %3}, {$0, $1, $2, $3}, "                   \
    "{$4, $5}, {$6, $7, $8, $9};"

constexpr instruction table[] = {
    {"attune_mma_m16n8k16_bf16", 4, 10, true, ATTUNE_MMA("m16n8k16", "bf16")},
    {"attune_mma_m16n8k16_f16", 4, 10, true, ATTUNE_MMA("m16n8k16", "f16")},
    // The same of 16 x 8 by 8 x 8 reals of 32 bits, of which 19 are read (TF32): an element a word.
    {"attune_mma_m16n8k8_tf32", 4, 10, true, ATTUNE_MMA("m16n8k8", "tf32")},
    // Four matrices of 8 x 8 elements of 16 bits. The threads give the places of their rows, eight threads a matrix.
    {"attune_ldmatrix_x4", 4, 1, true, "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [$0];", 0},
    {"attune_ldmatrix_x4_trans", 4, 1, true, "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [$0];",
     0},
    // The first number in the lower half of the word.
    {"attune_pack_bf16", 1, 2, false, "cvt.rn.bf16x2.f32 %0, $1, $0;"},
    {"attune_pack_f16", 1, 2, false, "cvt.rn.f16x2.f32 %0, $1, $0;"},
    // Products of 16 x 32 by 32 x 8 codes of 8 bits, four a word, with integer sums.
    {"attune_mma_m16n8k32_i8", 4, 10, true,
     "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {$0, $1, $2, $3}, {$4, $5}, {$6, $7, $8, $9};"},
    {"attune_round_tf32", 1, 1, false, "cvt.rna.tf32.f32 %0, $0;"},
    // A word of which LLVM knows nothing.
    {"attune_kept", 1, 1, false, "mov.b32 %0, $0;"},
    {commit_copies, 0, 0, false, "cp.async.commit_group;"},
    {"attune_async_wait", 0, 1, false, "cp.async.wait_group $0;"},
    // Makes this thread's writes to shared memory visible to products of warpgroups behind the next barrier.
    {"attune_fence_of_products", 0, 0, false, "fence.proxy.async.shared::cta;"},
};
#undef ATTUNE_MMA

}  // namespace

const instruction* instruction_named(std::string_view name) {
    const auto* const found = std::ranges::find(table, name, &instruction::name);
    return found == std::end(table) ? product_of_warpgroup(name) : found;
}

}  // namespace attune::generators::inline ptx
