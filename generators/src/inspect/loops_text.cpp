#include "inspect/loops_text.hpp"

#include "base/about.hpp"
#include "base/formatting.hpp"
#include "inspect/kernel_name.hpp"
#include "lower.hpp"

#include <nlohmann/json.hpp>

#include <iostream>
#include <regex>
#include <sstream>
#include <vector>

namespace attune::generators::inline inspect {
namespace {

using json = nlohmann::ordered_json;

/// Halide's text of a pipeline's loops: its printer knows no other stream.
std::string printed(Halide::Pipeline all) {
    std::ostringstream text;
    struct redirected {
        std::streambuf* const before;
        explicit redirected(std::streambuf* to) : before(std::cerr.rdbuf(to)) {}
        ~redirected() { std::cerr.rdbuf(before); }
    } const here(text.rdbuf());
    all.print_loop_nest();
    return text.str();
}

struct line {
    std::size_t depth;  ///< how many loops and functions it is in
    std::string text;
};

/// Without the numbers by which a process tells names apart: f$1, x.v17, x.r353.
std::string plain(const std::string& text) {
    static const std::regex numbers(R"(\$\d+|(\.[vr])\d+\b)");
    return std::regex_replace(text, numbers, "$1");
}

/// A function stands beside those that read it; Halide would nest these in a `consume` of it.
std::vector<line> loops_of(const listed_kernel& kernel) {
    std::istringstream text(about(kernel.of->name, [&] { return printed(lower(kernel.request).attention); }));
    std::vector<line> all;
    std::vector<std::size_t> left_out;  // the depths of these lines
    for (std::string each; std::getline(text, each);) {
        const std::size_t first = each.find_first_not_of(' ');
        if (first == each.npos) continue;
        const std::size_t depth = first / 2;
        while (!left_out.empty() && left_out.back() >= depth) left_out.pop_back();
        if (each.compare(first, 8, "consume ") == 0)
            left_out.push_back(depth);
        else
            all.push_back({depth - left_out.size(), plain(each.substr(first))});
    }
    return all;
}

}  // namespace

std::string loops_text(const listed_kernel& kernel) {
    std::string text = heading_of(kernel);
    for (const line& each : loops_of(kernel)) text += std::string(2 + 2 * each.depth, ' ') + each.text + '\n';
    return text;
}

std::string loops_json(std::span<const listed_kernel> kernels) {
    json all = json::array();
    for (const listed_kernel& kernel : kernels) {
        json loops = json::array();
        for (const line& each : loops_of(kernel)) loops.push_back({{"depth", each.depth}, {"text", each.text}});
        json& object = all.emplace_back(named_object(kernel));
        object["loops"] = std::move(loops);
    }
    return all.dump(2) + "\n";
}

}  // namespace attune::generators::inline inspect
