#pragma once
#include "call/run/packed.hpp"

#include <atomic>
#include <cstdint>
#include <string>

#pragma GCC visibility push(hidden)
namespace attune::detail {

/// Whether the process was told of a call that may not mean what its formula says. Tests set it back.
inline std::atomic<bool> was_noticed{false};

/// Whether both positions count from the first, as the generators say of `causal`.
bool is_top_left(const kernel_table& table);
/// What it means for so many queries, fewer than keys.
std::string what_causal_counts(std::int64_t queries);

/// A line on stderr, once a process, of a call whose formula counts from the first key and which has fewer queries than
/// keys in use: those of a cache are the last. ATTUNE_NOTICES=0 keeps it back. Silent where the host cannot read
/// kv_lengths.
void note_few_queries(const kernel_table& table, const bound_call& call);
/// Of packed queries without kv_lengths, the longest sequence may be as long as all keys that there is room for.
void note_few_queries(const kernel_table& table, const packed_call& call);

}  // namespace attune::detail
#pragma GCC visibility pop
