#pragma once
#include <string>

namespace attune::generators::inline ptx {

/// A module of PTX with calls of undefined functions replaced by instructions.
///
/// Halide and LLVM have no word for an instruction such as mma.sync, which has four results. A kernel calls it by a
/// name that nobody defines, once for each result (Halide's Call::Extern: attune_mma_m16n8k16_bf16_d0 to _d3, gathered,
/// and scattered to four registers); instructions.cpp says what the names stand for. LLVM writes each call as a block
/// of lines, `.param` in and `.param` out, and knows nothing of what happens inside. This function turns calls with the
/// same operands into one instruction, whose operands and results are the registers that LLVM has chosen.
///
/// Products of warpgroups (warpgroup.hpp) exist on sm_90a alone; a module with them is for sm_90a.
///
/// Kernels without such calls stay as they are, letter for letter. Throws std::runtime_error for a call that is not
/// understood, and if a part of a warp alone may reach an instruction of a whole warp (convergence.hpp).
std::string completed(const std::string& module);

}  // namespace attune::generators::inline ptx
