// rejects: the outputs look at different scores; name them in different graphs
#include "language.hpp"

namespace my {
inline constexpr auto highest = output<"highest">;
#ifdef REJECT
inline constexpr auto variant = outputs(out = softmax(mask(scores, causal)) * v, highest = row_maximum(scores));
#else
inline constexpr auto variant =
    outputs(out = softmax(mask(scores, causal)) * v, highest = row_maximum(mask(scores, causal)));
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my
