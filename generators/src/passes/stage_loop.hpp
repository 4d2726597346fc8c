#pragma once
#include <Halide.h>

#include <string>

namespace attune::generators::inline passes {

/// A loop of a stage as its schedule has it, which a lowering pass finds again. Halide calls the loop over v of f's
/// first update `f.s1.v`, behind the names of enclosing loops; update -1 is f's own definition.
class stage_loop {
public:
    explicit stage_loop(const Halide::Func& stage, const Halide::VarOrRVar& over, int update = 0)
        : function_(stage.name()), name_(function_ + ".s" + std::to_string(update + 1) + "." + over.name()) {}

    /// The loops over a variable, or over the part that a split calls so, in all definitions of a stage.
    static stage_loop any_over(const Halide::Func& stage, const Halide::VarOrRVar& variable) {
        stage_loop all(stage, variable);
        all.name_ = "." + variable.name();
        all.of_any_definition_ = true;
        return all;
    }

    /// The loop over a part of the variable, as `split` calls it.
    stage_loop part(const std::string& of_split) const {
        stage_loop within = *this;
        within.name_ += "." + of_split;
        return within;
    }

    bool is(const std::string& loop) const { return Halide::Internal::ends_with(loop, name_) && may_be_of_stage(loop); }
    /// The same loop if it does not begin at 0.
    bool is_rebased(const std::string& loop) const {
        return Halide::Internal::ends_with(loop, name_ + ".rebased") && may_be_of_stage(loop);
    }
    /// The same loop, wherever it begins.
    bool begins_anywhere(const std::string& loop) const { return is(loop) || is_rebased(loop); }

    /// The same loop over blocks of threads of a GPU.
    bool is_of_blocks(const std::string& loop) const { return loop.find(name_ + ".block_id_") != std::string::npos; }

    const std::string& function() const { return function_; }
    const std::string& name() const { return name_; }  ///< for messages

private:
    bool may_be_of_stage(const std::string& loop) const {
        return !of_any_definition_ || Halide::Internal::starts_with(loop, function_ + ".s");
    }

    std::string function_, name_;
    bool of_any_definition_{};
};

}  // namespace attune::generators::inline passes
