#include "execution.hpp"
#include "translator.hpp"

#include <charconv>
#include <string>

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
            int numbers[2]{};
            for (const std::size_t i : {0, 1}) {
                const std::string& text = from.operands[i];
                const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), numbers[i]);
                if (error != std::errc() || end != text.data() + text.size())
                    refuse_text(from.line, "expected the numbers of a barrier and of its threads, got " + text);
            }
            const auto [number, threads] = numbers;
            if (number < 1 || number > 15) refuse_text(from.line, "expected a barrier from 1 to 15, got another");
            if (threads < 1 || threads % lanes != 0)
                refuse_text(from.line, "expected threads of whole warps at a barrier, got " + std::to_string(threads));
            to.vector = number, to.variant = 2 * threads + (has_word(from, "sync") ? 1 : 0);
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
