#include "inspect/dump_passes.hpp"

#include "base/formatting.hpp"
#include "base/whole_file.hpp"
#include "codegen/halide_target.hpp"
#include "lower.hpp"

#include <filesystem>
#include <sstream>
#include <stdexcept>
#include <utility>
#include <vector>

namespace attune::generators::inline inspect {

void dump_passes(std::span<const listed_kernel> kernels, const std::string& folder, bool checked) {
    Halide::Target target = halide_target(*kernels.front().request.target);
    if (checked) target.set_feature(Halide::Target::ASAN);
    std::string refused;  // all failures are reported together, after the passes before them are written
    for (const listed_kernel& k : kernels) {
        std::vector<std::pair<std::string, std::string>> seen;  // a pass, and the statement after it
        const auto see = [&](const std::string& pass, const Halide::Internal::Stmt& after) {
            std::ostringstream text;
            text << after;
            seen.emplace_back(pass, text.str());
        };
        const auto refuse = [&](const std::string& sentence) {
            refused += (refused.empty() ? "" : "\n") + k.of->name + ": " + sentence;
        };
        try {
            lower(k.request).module(k.symbol, target, see);
        } catch (const Halide::Error& problem) {  // not a std::exception
            refuse(std::string("Halide could not compile it: ") + problem.what());
        } catch (const std::exception& problem) {
            refuse(problem.what());
        }
        const std::filesystem::path to = std::filesystem::path(folder) / k.symbol;
        std::error_code problem;
        std::filesystem::create_directories(to, problem);
        for (int number = 0; const auto& [pass, text] : seen)
            write_whole(to / fmt::format("{:02}_{}.stmt", number++, pass), text);
    }
    if (!refused.empty()) throw std::runtime_error(refused);
}

}  // namespace attune::generators::inline inspect
