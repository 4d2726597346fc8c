#pragma once
#include <string>
#include <string_view>
#include <vector>

/// The text of kernels for NVIDIA's devices. Nothing here knows of attune or of Halide: text comes in, text goes out.
namespace attune::generators::inline ptx {

using names = std::vector<std::string>;

/// Text without blanks at its ends and without a comment after "//".
std::string trimmed(std::string_view text);

/// The registers that a text mentions, in order; special ones (%tid.x) with their dot.
names registers_in(std::string_view text);

inline bool mentions(const names& where, std::string_view name) {
    for (const std::string& each : where)
        if (each == name) return true;
    return false;
}

/// One line of a function: its operation, and the registers that it reads and writes. All else remains text.
struct statement {
    explicit statement(std::string line);

    std::string text;       ///< as it stands
    std::string code;       ///< trimmed, without a predicate
    std::string predicate;  ///< the register that decides whether it is executed; empty: it always is
    std::string operation;  ///< "ld.shared.b32"
    names written, read;

    bool is(std::string_view begins) const { return operation.starts_with(begins); }
    bool is_label() const { return !code.empty() && code.back() == ':'; }
    bool is_branch() const { return is("bra"); }
    /// Whether control may go elsewhere than to the next line.
    bool ends_block() const { return is_branch() || is("ret") || is("exit") || is("trap"); }
    std::string label() const { return code.substr(0, code.size() - 1); }
    std::string branch_target() const;
    /// The operand in brackets; empty if there is none.
    std::string address() const;
};

}  // namespace attune::generators::inline ptx
