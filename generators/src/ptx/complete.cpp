#include "ptx/complete.hpp"

#include "ptx/convergence.hpp"

#include <algorithm>
#include <regex>
#include <sstream>

namespace attune::generators::inline ptx {
namespace {

/// Whether a line calls, or declares, a name that stands for an instruction.
bool names_one(const std::string& line) {
    const std::string code = trimmed(line);
    return (code.starts_with("call") || code.starts_with(".extern .func")) &&
           code.find(" " + std::string(prefix)) != code.npos;
}

body completed_body(const std::vector<std::string>& lines) {
    body made(lines);
    made.copy_asynchronously();
    made.remove_idle_loads();
    check_convergence(made.steps());
    return made;
}

/// A module that has products of warpgroups is for the cards that have them.
std::string for_warpgroups(const std::string& module) {
    static const std::regex version("\\.version[^\n]*"), target("\\.target[^\n]*");
    return std::regex_replace(std::regex_replace(module, version, ".version 8.0"), target, ".target sm_90a");
}

}  // namespace

std::string completed(const std::string& module) {
    std::vector<std::string> lines;
    std::stringstream all(module);
    for (std::string each; std::getline(all, each);) lines.push_back(each);
    std::string result;
    bool of_warpgroups = false;
    for (std::size_t at = 0; at < lines.size(); ++at) {
        const std::string code = trimmed(lines[at]);
        if (code.starts_with(".extern .func")) {  // to its `;`
            const bool is_one = names_one(code);
            for (; at < lines.size(); ++at) {
                if (!is_one) result += lines[at] + "\n";
                if (trimmed(lines[at]).ends_with(";")) break;
            }
            continue;
        }
        result += lines[at] + "\n";
        if (code != "{") continue;  // of a kernel
        std::vector<std::string> body;
        for (++at; at < lines.size() && lines[at] != "}"; ++at) body.push_back(lines[at]);
        if (std::ranges::any_of(body, names_one)) {
            const ptx::body made = completed_body(body);
            result += made.text();
            of_warpgroups |= std::ranges::any_of(made.steps(),
                                                 [](const step& each) { return each.made && each.made->of_warpgroup; });
        } else {
            for (const std::string& each : body) result += each + "\n";
        }
        if (at < lines.size()) result += lines[at] + "\n";
    }
    return of_warpgroups ? for_warpgroups(result) : result;
}

}  // namespace attune::generators::inline ptx
