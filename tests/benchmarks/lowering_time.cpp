// How long Halide takes to lower each graph of the catalogue, and formulas with several softmaxes, before LLVM compiles
// them: a bound or a simplification that grows with a formula shows here first.
//
//     attune_lowering_time [--most 3] [--level LEVEL] [--json]
#include "../../dsl/docs/catalogue/pictures.hpp"
#include "../generators/cores_formulas.hpp"
#include "codegen/halide_target.hpp"
#include "kernel/kernel_list.hpp"
#include "lower.hpp"
#include "selecting_variants.hpp"

#include <attune/dsl.hpp>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <ctime>
#include <exception>
#include <string>
#include <vector>

namespace {

using attune::dsl::ir_of;
namespace generators = attune::generators;

const std::vector<generators::variant>& catalogue() {
    static const std::vector<generators::variant> all{
#include "catalogue_graphs.inc"
    };
    return all;
}

/// In no entry of the catalogue: several softmaxes, some with a choice, which take longer.
const std::vector<generators::variant>& beside() {
    static const std::vector<generators::variant> all{
        {"bench::moba_attention", ir_of<bench::moba_attention>},
        {"bench::nsa_attention", ir_of<bench::nsa_attention>},
        {"cores::recent_and_first", ir_of<cores::recent_and_first>},
        {"cores::shared_and_own", ir_of<cores::shared_and_own>},
        {"cores::either_longer", ir_of<cores::either_longer>},
        {"cores::differential", ir_of<cores::differential>},
        {"cores::gated", ir_of<cores::gated>},
        {"cores::merged", ir_of<cores::merged>},
    };
    return all;
}

struct timed {
    std::string kernel;
    bool of_catalogue{};
    double seconds{};  ///< of the processor: other programs of the machine do not count
};

double seconds_of(const generators::listed_kernel& kernel) {
    const std::clock_t start = std::clock();
    generators::lower(kernel.request).module(kernel.symbol, generators::halide_target(*kernel.request.target));
    return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

std::vector<timed> measured(const std::string& level) {
    std::vector<timed> all;
    for (const auto* graphs : {&catalogue(), &beside()})
        for (const generators::listed_kernel& each : generators::kernels_of(
                 *graphs, {.targets = {level}, .dtypes = {"f32"}, .depths = {"64"}, .shapes = {"prefill", "decode"}}))
            all.push_back({each.symbol, graphs == &catalogue(), seconds_of(each)});
    std::ranges::stable_sort(all, std::ranges::greater{}, &timed::seconds);
    return all;
}

void print(const std::vector<timed>& all) {
    double together = 0;
    for (const timed& each : all) {
        fmt::print("{:6.2f} s  {}{}\n", each.seconds, each.kernel, each.of_catalogue ? "" : "  (not of the catalogue)");
        together += each.seconds;
    }
    fmt::print("{:6.2f} s  all {}\n", together, all.size());
}

void print_json(const std::vector<timed>& all, const std::string& level, double most) {
    nlohmann::ordered_json kernels = nlohmann::ordered_json::array();
    for (const timed& each : all)
        kernels.push_back({{"kernel", each.kernel}, {"catalogue", each.of_catalogue}, {"seconds", each.seconds}});
    const nlohmann::ordered_json report{{"level", level}, {"most_seconds", most}, {"kernels", kernels}};
    fmt::print("{}\n", report.dump(2));
}

}  // namespace

int main(int argc, char** argv) try {
    std::string level = ATTUNE_LEVEL;
    double most = 3;
    bool json = false;
    CLI::App app{
        "Prints the CPU seconds that each kernel takes to be lowered, the longest first. Ends with 1 where one of the "
        "catalogue's takes too long."};
    app.add_option("--most", most, "CPU seconds that a kernel of the catalogue may take")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    app.add_option("--level", level, "ISA level of the kernels; it need not run here")->capture_default_str();
    app.add_flag("--json", json, "print the same as JSON");
    CLI11_PARSE(app, argc, argv);

    const std::vector<timed> all = measured(level);
    json ? print_json(all, level, most) : print(all);
    int too_long = 0;
    for (const timed& each : all) {
        if (!each.of_catalogue || each.seconds <= most) continue;
        fmt::print(stderr, "expected {} to be lowered in {} s, got {:.2f} s\n", each.kernel, most, each.seconds);
        ++too_long;
    }
    return too_long == 0 ? 0 : 1;
} catch (const std::exception& problem) {
    fmt::print(stderr, "{}\n", problem.what());
    return 2;
}
