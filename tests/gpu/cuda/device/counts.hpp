#pragma once
#include "program.hpp"

#include <array>
#include <map>
#include <string>
#include <vector>

/// Exact numbers of what a launch did.
namespace ptx {

/// Of one operation, or of one line of PTX; a warp's instruction counts once.
struct operation_count {
    u64 issued = 0;      ///< also where no thread takes part
    u64 lanes = 0;       ///< threads that took part
    u64 requests = 0;    ///< of memory: where some thread takes part
    u64 wavefronts = 0;  ///< of shared memory: times that its 32 banks were asked
    u64 sectors = 0;     ///< of global memory: pieces of 32 bytes, each once a request
    operation_count& operator+=(const operation_count& other);
};

struct line_count {
    std::string text;
    operation_count count;
};

struct counts {
    std::map<std::string, operation_count> operations;
    std::map<int, line_count> memory_lines;  ///< of the module's text, those that asked memory for something
    std::array<u64, units> issued_of_unit{};
    void add(const program& of, const std::vector<operation_count>& of_instructions);
    void add(const counts& other);
    operation_count all() const;
};

/// How often the banks are asked for what the lanes of `mask` want: a bank serves a word of 4 bytes at a time, all
/// lanes that want the same word at once. What is 8 or 16 bytes wide is asked for by halves or quarters of a warp.
u64 wavefronts(const u64* addresses, u32 bytes, u32 mask);
/// Pieces of 32 bytes.
u64 sectors(const u64* addresses, u32 bytes, u32 mask);

/// One line of JSON: {"entry": .., "grid": [..], "block": [..], "warp_instructions": .., "operations": {..}, ..}.
struct launch_shape {
    std::string entry;
    std::array<unsigned, 3> grid{}, block{};
    std::size_t shared_bytes{};
    double seconds{};
};
std::string json_line(const launch_shape& of, const counts& made);

}  // namespace ptx
