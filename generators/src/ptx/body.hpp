#pragma once
#include "ptx/instructions.hpp"
#include "ptx/statement.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace attune::generators::inline ptx {

/// A line of a function, or an instruction that replaces some calls.
struct step {
    std::optional<statement> line{};
    const instruction* made{};
    names results{}, operands{};  ///< of the instruction; an unused result is empty

    const names& written() const { return line ? line->written : results; }
    /// The registers that it reads.
    names read() const;
    bool is(std::string_view operation) const { return line && line->is(operation); }
    bool is_of_warp() const {
        return line ? line->is("shfl.sync") || line->is("vote.sync") || line->is("bar.") : made->of_warp;
    }
};

/// A kernel's lines with instructions in the place of calls.
///
/// LLVM leaves a call of an undefined function as a block of lines: parameters are stored, the call is made, its result
/// is loaded. Calls of name_d0, name_d1, ... with the same operands are the results of one instruction.
class body {
public:
    /// Throws std::runtime_error for a call of another form, of a name without an instruction, with other operands.
    explicit body(const std::vector<std::string>& lines);

    /// If the kernel waits for copies, turns loads of 16 bytes whose only use is a store to shared memory into copies.
    void copy_asynchronously();
    /// Removes loads of shared memory that gave their address to an instruction, and that nobody reads.
    void remove_idle_loads();

    const std::vector<step>& steps() const { return steps_; }
    std::string text() const;

private:
    struct call {
        std::string name;
        names operands;
        std::string result;  ///< empty if nobody reads it
    };
    static call call_at(const std::vector<std::string>& lines, std::size_t& at);
    void add(call made);
    static std::size_t take_number(call& made);
    void take_address(call& made, const instruction& of) const;
    std::string constant_of(const std::string& address) const;
    bool merge(const call& made, const instruction& of, std::size_t which);

    std::vector<step> steps_;
    std::size_t block_ = 0;  ///< where the present basic block begins
};

}  // namespace attune::generators::inline ptx
