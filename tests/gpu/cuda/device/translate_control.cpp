#include "execution.hpp"
#include "translator.hpp"

namespace ptx {

unit translate_control(translator&, const statement& from, instruction& to) {
    const std::string& name = from.words[0];
    if (name == "ret" || name == "exit")
        to.run = leave;
    else if (name == "trap")
        to.run = trap;
    else if (name == "membar" || name == "fence" || name == "prefetch")
        to.run = nothing;
    else if (name == "call")
        refuse_text(from.line, "expected a kernel without calls, got one of " +
                                   (from.operands.empty() ? std::string("nothing") : from.operands[0]));
    else if (name == "bar" || name == "barrier") {
        if (!has_word(from, "sync") || from.operands.size() != 1 || from.operands[0] != "0")
            refuse_text(from.line, "expected bar.sync 0, the barrier of all threads of a block, got another");
        to.run = barrier;
    }
    return unit::control;
}

}  // namespace ptx
