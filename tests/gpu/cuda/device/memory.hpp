#pragma once
#include "execution.hpp"

#include <string_view>

/// Loads, stores and sums in memory, with the checks of each space.
namespace ptx {

enum class space { global, shared, local, parameters, generic };

/// Where shared memory lies among generic addresses.
inline constexpr u64 shared_window = 0x7f00000000000000;

/// Of elements of a type (b32, s8, f64), in registers of 64 bits or of at most 32. Null for what is no type of memory.
handler load_of(space where, std::string_view type, bool in_longs);
handler store_of(space where, std::string_view type, bool in_longs);
/// `red` and `atom`, of sums alone.
handler atomic_sum_of(space where, std::string_view type);

/// cp.async: variant 1 if the operand s[2] is the number of bytes that come from memory, the others being 0.
void begin_copy(execution& e, const instruction& i);
void commit_copies(execution& e, const instruction& i);
/// Waits for all groups but the last `variant` ones; -1: for what is not committed, too.
void wait_for_copies(execution& e, const instruction& i);

/// The addresses of all lanes.
void addresses_of(const execution& e, const memory_operand& operand, u64* addresses);
/// Shared memory that a lane reads, checked.
const u8* shared_bytes_read(execution& e, const instruction& i, int lane, u64 at, u32 bytes);

}  // namespace ptx
