#pragma once
#include <Halide.h>

#include <map>
#include <string>

namespace attune::generators::inline passes {

/// Lowering pass: a launch that makes outputs once more does so for tasks that the launch before it marked.
///
/// A mark is a NaN in the first channel of a row, of all rows that were marked together. All threads of a block look at
/// the same marks before anything else. The task's own outputs are written after a barrier, so that none looks too
/// late.
class marked_tasks : public Halide::Internal::IRMutator {
public:
    /// The marks of a function whose blocks of threads go along rows (x), heads (y) and batches (z): its first update
    /// makes it once more.
    struct marks {
        std::string function, buffer;  ///< what is made, and that of its buffers which has marks
        Halide::Type element{};
        int rows_of_task{}, rows_together{};
    };
    explicit marked_tasks(marks of) : of_(std::move(of)) {}

    /// A value that is made once more. Halide is told that it depends on the one before: it warns of what hides all
    /// that was made, since it knows of no tasks that are passed over.
    static Halide::Expr again(const Halide::Expr& value, const Halide::Expr& before);

    /// Throws std::runtime_error where there is no such launch.
    using IRMutator::mutate;
    Halide::Internal::Stmt mutate(const Halide::Internal::Stmt& s) override;

protected:
    using IRMutator::visit;
    Halide::Internal::Stmt visit(const Halide::Internal::For* loop) override;
    Halide::Expr visit(const Halide::Internal::Call* call) override;

private:
    Halide::Expr is_marked() const;

    const marks of_;
    std::map<char, Halide::Expr> block_;  ///< by the axis: which block of threads this is
    bool inside_{}, found_{};
};

}  // namespace attune::generators::inline passes
