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
        if (from.operands.size() == 2 && (has_word(from, "sync") || has_word(from, "arrive"))) {
            to.vector = std::stoi(from.operands[0]);
            to.variant = 2 * std::stoi(from.operands[1]) + (has_word(from, "sync") ? 1 : 0);
            if (to.vector < 1 || to.vector > 15) refuse_text(from.line, "expected a barrier from 1 to 15, got another");
            to.run = meet;
            return unit::control;
        }
        if (!has_word(from, "sync") || from.operands.size() != 1 || from.operands[0] != "0")
            refuse_text(
                from.line,
                "expected bar.sync 0, of all threads of a block, or bar.sync and bar.arrive of another barrier and "
                "some threads, got another");
        to.run = barrier;
    }
    return unit::control;
}

}  // namespace ptx
