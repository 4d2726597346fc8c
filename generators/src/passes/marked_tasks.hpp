#pragma once
#include <Halide.h>

#include <map>
#include <string>

namespace attune::generators::inline passes {

/// Lowering pass: limits a launch that makes outputs again to the tasks that the launch before it marked.
///
/// A mark is a NaN in the first channel of a row; rows are marked together. All threads of a block look at the same
/// marks before anything else. The task's own outputs are written after a barrier, so that no thread looks too late.
class marked_tasks : public Halide::Internal::IRMutator {
public:
    /// The marks of a function whose blocks of threads go along rows (x), heads (y) and batches (z): its first update
    /// makes it again.
    struct marks {
        std::string function, buffer;  ///< the function, and the one of its buffers that has marks
        Halide::Type element{};
        int rows_of_task{}, rows_together{};
    };
    explicit marked_tasks(marks of) : of_(std::move(of)) {}

    /// A value that is made again. For Halide it depends on the value before: Halide warns of an update that hides all
    /// earlier values, since it knows of no skipped tasks.
    static Halide::Expr again(const Halide::Expr& value, const Halide::Expr& before);

    /// Throws std::runtime_error if there is no such launch.
    using IRMutator::mutate;
    Halide::Internal::Stmt mutate(const Halide::Internal::Stmt& s) override;

protected:
    using IRMutator::visit;
    Halide::Internal::Stmt visit(const Halide::Internal::For* loop) override;
    Halide::Expr visit(const Halide::Internal::Call* call) override;

private:
    Halide::Expr is_marked() const;

    const marks of_;
    std::map<char, Halide::Expr> block_;  ///< the number of the block of threads, by axis
    bool inside_{}, found_{};
};

}  // namespace attune::generators::inline passes
