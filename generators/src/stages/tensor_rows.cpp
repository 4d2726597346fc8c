#include "stages/tensor_state.hpp"

#include "expr/math.hpp"

#include <cstdint>

/// What others read of the state of tensor cores: the numbers of a row in the threads that have them, and marks.
namespace attune::generators::inline stages {
using namespace Halide;

namespace {

Expr is_not_finite(const Expr& x) {
    const Expr exponent(0x7f800000u);
    return (reinterpret<std::uint32_t>(x) & exponent) == exponent;
}

}  // namespace

Expr tensor_state::left_of_split(const std::vector<Expr>& row, const Expr& number, bool marks) const {
    const FuncRef at = state(row[0] / 8 % 2, row[0] / 16 % tiles(), row[0] % 8, number / 2 % 4, row[0] / (16 * tiles()),
                             row[1], row[2], row[3], row[4]);
    std::vector<Expr> all;
    Expr sums = at[0], part = at[sum_at()];
    for (int n = 0; n < accumulators; ++n) all.push_back(at[n]);
    for (int n = 1; n < accumulators; ++n) sums = sums + at[n];
    if (marks) part = not_a_number_where(is_not_finite(sums), part);
    all.push_back(at[maximum_at()]);
    all.push_back(part);
    return mux(number / 8 * 2 + number % 2, all);
}

/// A warp's rows are marked together, so that a reader of marks looks at one of them. The sum of all sums is not finite
/// if one of them is not. It may overflow for large sums as well, which costs only time.
void tensor_state::define_marks() {
    // Algorithm
    Expr all = 0.0f;
    for (int tile = 0; tile < tiles(); ++tile)
        for (int half = 0; half < 2; ++half) {
            const FuncRef at = state(half, tile, gi, ti, w, f_.qt, f_.h, f_.b);
            Expr of_row = at[0];
            for (int n = 1; n < accumulators; ++n) of_row = of_row + at[n];
            all = all + of_row;
        }
    Expr any = select(is_not_finite(all), 1, 0);
    for (const int lanes : {1, 2, 4, 8, 16}) {
        const std::string name = Internal::unique_name("spoilt");
        const Expr own = Internal::Variable::make(Int(32), name);
        any = Internal::Let::make(
            name, any,
            own | Internal::Call::make(Int(32), "llvm.nvvm.shfl.sync.bfly.i32", {Expr(-1), own, Expr(lanes), Expr(31)},
                                       Internal::Call::Extern));
    }
    spoilt = Func("spoilt");
    spoilt(gi, ti, w, f_.qt, f_.h, f_.b) = any;
}

/// The place of a row of a block, (in block, query block, head, batch), in the thread that has it.
std::vector<Expr> tensor_state::of_queries(const std::vector<Expr>& row, const Expr& lane) const {
    return {row[0] / 8 % 2, row[0] / 16 % tiles(), row[0] % 8, lane, row[0] / (16 * tiles()), row[1], row[2], row[3]};
}

Expr tensor_state::maximum_of(const std::vector<Expr>& row) const {
    return left(of_queries(row, 0))[0] + scores_at.left_out;
}

Expr tensor_state::sum_of(const std::vector<Expr>& row) const {
    Expr all = left(of_queries(row, 0))[1];
    for (int lane = 1; lane < 4 && !sums_by_products; ++lane) all = all + left(of_queries(row, lane))[1];
    return all;
}

Expr tensor_state::summed_of(int, const std::vector<Expr>& row) const { return sum_of(row); }

Expr tensor_state::accumulated_of(const std::vector<Expr>& row, const Expr& d) const {
    const FuncRef at = state(of_queries(row, d / 2 % 4));
    std::vector<Expr> all;
    for (int n = 0; n < accumulators; ++n) all.push_back(at[n]);
    return mux(d / 8 * 2 + d % 2, all);
}

Expr tensor_state::is_marked(const std::vector<Expr>& row, const Expr& d) const {
    if (!spoilt.defined()) return {};
    std::vector<Expr> at = of_queries(row, d / 2 % 4);
    at.erase(at.begin(), at.begin() + 2);  // all rows of the thread share the mark
    return spoilt(at) != 0;
}

}  // namespace attune::generators::inline stages
