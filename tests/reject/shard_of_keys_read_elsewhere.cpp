// rejects: a shard has some rows of q, k and v; the formula reads rows of one of them at another index, too
#include "language.hpp"

namespace my {
inline constexpr auto before_last = max(kv_idx - 1, 0);
#ifdef REJECT
inline constexpr auto variant = shard(outputs(out = unnormalized(q * t(k) + k(b, h, before_last, 0)) * v));
#else
inline constexpr auto variant = shard(outputs(out = unnormalized(q * t(k) + more_keys(b, h, before_last, 0)) * v));
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my
