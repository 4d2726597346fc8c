#pragma once
#include <cstdint>
#include <string_view>

namespace attune {

/// The shapes of calls that a kernel is made for. Every kernel gives right results for every shape.
enum class shape_class : std::uint8_t {
    prefill,  ///< a task is a block of queries of one head
    decode,   ///< few queries: a task is all queries of a key head, with one split of its keys
};

constexpr std::string_view name_of(shape_class c) {
    switch (c) {
        case shape_class::prefill: return "prefill";
        case shape_class::decode: return "decode";
    }
    return "?";
}

}  // namespace attune
