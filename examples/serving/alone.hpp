#pragma once
#include "decoder.hpp"
#include "engine.hpp"

namespace serving {

/// What a request was told, and what it is told alone: nothing kept from token to token, attention and recurrences by
/// loops in double precision over keys and values that are rounded as the cache rounds them.
struct difference {
    std::size_t tokens{};  ///< that are others
    double logits{};       ///< the largest
};

/// Sums in another order move what a byte is rounded to, now and then, and by that the numbers where one token's draws
/// end: so near to such a number either token is right.
difference difference_alone(const decoder& model, const request& r);

}  // namespace serving
