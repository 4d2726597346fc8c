// rejects: 'silu2'.*; did you mean 'silu'\?
#include "language.hpp"

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(attune::dsl::silu2(scores)) * v;
#else
inline constexpr auto variant = softmax(attune::dsl::silu(scores)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my
