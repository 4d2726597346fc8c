#pragma once
#include <Halide.h>

#include <string>
#include <utility>
#include <vector>

namespace attune::generators::inline passes {

/// Names and values of the lets around a place, outermost first.
using named_values = std::vector<std::pair<std::string, Halide::Expr>>;

/// The same with the values of such lets in place of their names.
inline Halide::Expr written_out(Halide::Expr e, const named_values& lets) {
    for (auto let = lets.rbegin(); let != lets.rend(); ++let)
        if (Halide::Internal::expr_uses_var(e, let->first))
            e = Halide::Internal::substitute(let->first, let->second, e);
    return e;
}
inline Halide::Internal::Stmt written_out(Halide::Internal::Stmt s, const named_values& lets) {
    for (auto let = lets.rbegin(); let != lets.rend(); ++let)
        if (Halide::Internal::stmt_uses_var(s, let->first))
            s = Halide::Internal::substitute(let->first, let->second, s);
    return s;
}

/// Whether a buffer is a function's: its name, or that with a number behind a dot.
inline bool is_buffer_of(const std::string& buffer, const std::string& function) {
    return buffer == function || Halide::Internal::starts_with(buffer, function + ".");
}

}  // namespace attune::generators::inline passes
