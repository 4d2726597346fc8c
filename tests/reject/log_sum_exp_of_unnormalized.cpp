// rejects: the graph asks for log_sum_exp beside unnormalized weights; a kernel makes either: name them in different
// graphs
#include "language.hpp"

namespace my {
inline constexpr auto weighted = unnormalized(scores) * v;
#ifdef REJECT
inline constexpr auto variant = outputs(out = weighted, lse = log_sum_exp(scores));
#else
inline constexpr auto variant = outputs(out = weighted, output<"highest"> = row_maximum(scores));
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my
