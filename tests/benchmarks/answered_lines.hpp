#pragma once
#include <nlohmann/json.hpp>

#include <exception>
#include <iostream>
#include <string>

namespace bench {

/// Answers each line of standard input, until it ends, by a line of JSON: what `answer` makes of it, or {"error": what
/// it threw}. The other side is `program` of turns.py.
template <class Answer> void answer_lines(Answer answer) {
    for (std::string line; std::getline(std::cin, line);) {
        nlohmann::json reply;
        try {
            reply = answer(line);
        } catch (const std::exception& error) {
            reply = {{"error", error.what()}};
        }
        std::cout << reply.dump() << std::endl;
    }
}

}  // namespace bench
