#pragma once
#include "execution.hpp"

#include <string_view>
#include <vector>

/// Instructions of all 32 threads of a warp together.
namespace ptx {

/// mma.sync: D = A B + C of 16 x 8 x `depth`. A register of A or B has as many elements side by side as fit into 32
/// bits. Products are exact; sums of reals are made in double precision and rounded once, which is nearer than a
/// device's. fragments: registers of A, B and C. Null for elements or depths that tensor cores do not have.
handler multiply_of(std::string_view elements, int depth);
/// How many registers of A, B and C there are; 0, 0, 0 as above.
struct fragment_sizes {
    int a = 0, b = 0, c = 0;
};
fragment_sizes fragments_of(std::string_view elements, int depth);

/// ldmatrix: lanes 8n to 8n + 7 say where the rows of matrix n of 8 x 8 elements of 16 bits lie. variant 1: transposed.
void load_matrices(execution& e, const instruction& i);

/// wgmma: D = A B + D of 64 x N x 16 by four warps, each with 16 rows. A lies in registers (s), B in shared memory, as
/// a descriptor says. `address` is the descriptor's slot, `from` the slot of the predicate that adds D; fragments are
/// D's registers, which have the sums once they were waited for. variant: 1 if B is transposed, 2 if elements are f16,
/// else bf16.
void multiply_of_warpgroup(execution& e, const instruction& i);
void wait_for_sums(execution& e, const instruction& i);

/// shfl.sync: variant 0 idx, 1 up, 2 down, 3 bfly; d[1] is the predicate that says whether the source was in its
/// segment.
void shuffle(execution& e, const instruction& i);

}  // namespace ptx
