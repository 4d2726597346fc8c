// rejects: a plan is made for graphs: plan<my::alibi_shard>(world, ...)
#include "language.hpp"

#include <attune/mpi/plan.hpp>

namespace my {
inline constexpr auto part = shard(outputs(out = softmax(scores) * v, lse = log_sum_exp(scores)));
attune::mpi::layout of(attune::mpi::context& world) {
#ifdef REJECT
    return attune::mpi::plan<>(world, {});
#else
    return attune::mpi::plan<part>(world, {});
#endif
}
}  // namespace my
