#include "inspect/dump_passes.hpp"

#include "base/formatting.hpp"
#include "base/whole_file.hpp"
#include "codegen/halide_target.hpp"
#include "lower.hpp"

#include <filesystem>
#include <sstream>
#include <stdexcept>

namespace attune::generators {

void dump_passes(std::span<const listed_kernel> kernels, const std::string& folder, bool checked) {
    Halide::Target target = halide_target(*kernels.front().request.target);
    if (checked) target.set_feature(Halide::Target::ASAN);
    for (const listed_kernel& k : kernels) {
        const std::filesystem::path to = std::filesystem::path(folder) / k.symbol;
        std::error_code problem;
        std::filesystem::create_directories(to, problem);
        int number = 0;
        const auto write = [&](const std::string& pass, const Halide::Internal::Stmt& after) {
            const std::filesystem::path file = to / fmt::format("{:02}_{}.stmt", number++, pass);
            std::ostringstream text;
            text << after;
            write_whole(file, text.str());
        };
        try {
            lower(k.request).module(k.symbol, target, write);
        } catch (const Halide::Error& error) {  // not a std::exception
            throw std::runtime_error(k.of->name + ": Halide could not compile it: " + error.what());
        }
    }
}

}  // namespace attune::generators
