#pragma once
#include <Halide.h>

#include <string>

namespace attune::generators::inline passes {

/// A loop of a stage as its schedule has it, which a lowering pass finds again. Halide calls the loop over v of f's
/// first update `f.s1.v`, behind the names of enclosing loops; update -1 is f's own definition.
class stage_loop {
public:
    explicit stage_loop(const Halide::Func& stage, const Halide::VarOrRVar& over, int update = 0)
        : name_(stage.name() + ".s" + std::to_string(update + 1) + "." + over.name()) {}

    /// The loop over a part of the variable, as `split` calls it.
    stage_loop part(const std::string& of_split) const {
        stage_loop within = *this;
        within.name_ += "." + of_split;
        return within;
    }

    bool is(const std::string& loop) const { return Halide::Internal::ends_with(loop, name_); }
    /// The same loop if it does not begin at 0.
    bool is_rebased(const std::string& loop) const { return Halide::Internal::ends_with(loop, name_ + ".rebased"); }

    /// The same loop over blocks of threads of a GPU.
    bool is_of_blocks(const std::string& loop) const { return loop.find(name_ + ".block_id_") != std::string::npos; }

    const std::string& name() const { return name_; }  ///< for messages

private:
    std::string name_;
};

}  // namespace attune::generators::inline passes
