#pragma once
#include "numbers.hpp"
#include "syntax.hpp"

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

/// A kernel as it is run: instructions whose operands are slots of registers.
namespace ptx {

inline constexpr int lanes = 32;  ///< threads of a warp
inline constexpr u32 all_lanes = 0xffffffffu;

struct execution;
struct instruction;
/// Does what an instruction says for the threads of execution::mask.
using handler = void (*)(execution&, const instruction&);

/// `[%rd1 + 8]`: a slot of 64 bits, or of 32 (`wide` is false), or none, and a number of bytes.
struct memory_operand {
    int slot = -1;
    bool wide = false;
    s64 offset = 0;
};

/// A predicate that decides which threads take part; none: all.
struct guard {
    int predicate = -1;
    bool negated = false;
};

/// A register, a constant or a special register is a slot with a value for each lane: one of 32 bits (also for narrower
/// types) or of 64. A predicate has a bit for each lane. -1: there is none.
struct instruction {
    handler run = nullptr;
    guard when;
    std::array<int, 4> d{-1, -1, -1, -1};  ///< results
    std::array<int, 4> s{-1, -1, -1, -1};  ///< sources
    std::vector<int> fragments;            ///< of tensor cores: the sources of mma in turn, or the sums of wgmma
    memory_operand address, from;          ///< `from` of cp.async: where in global memory
    int vector = 1;                        ///< elements of a load or store, matrices of ldmatrix, bytes of cp.async
    int variant = 0;                       ///< whatever else the words say; each handler says what
    int target = -1;                       ///< of a branch
    int meet = -1;                         ///< where its ways run together again; -1: they end apart
    int operation = 0;                     ///< among those of the program
    int line = 0;
};

/// The units of an SM for which instructions wait.
enum class unit { fma, alu, transcendental, doubles, tensor, memory, control, moves };
inline constexpr int units = 8;
const char* name_of(unit which);

struct operation {
    std::string name;  ///< ld.shared.v4.f32
    unit at;
};

/// The contents of the first slots of 32 bits.
enum class special {
    tid_x,
    tid_y,
    tid_z,
    ntid_x,
    ntid_y,
    ntid_z,
    ctaid_x,
    ctaid_y,
    ctaid_z,
    nctaid_x,
    nctaid_y,
    nctaid_z,
    laneid,
    warpid,
    count
};

struct program {
    std::string name;
    std::vector<instruction> code;
    std::vector<operation> operations;
    std::vector<parameter> parameters;
    std::size_t parameter_bytes = 0;
    std::size_t local_bytes = 0;               ///< of a thread
    std::size_t shared_bytes = 0;              ///< of a block, besides what a launch asks for
    int words = 0, longs = 0, predicates = 0;  ///< slots of each kind
    std::vector<std::pair<int, u32>> constant_words;
    std::vector<std::pair<int, u64>> constant_longs;
    std::shared_ptr<const std::vector<std::string>> lines;  ///< of the module's text
};

}  // namespace ptx
