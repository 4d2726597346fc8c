#pragma once
#include "schedules/database.hpp"

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace attune::generators {

/// Where a build's schedules come from.
struct schedule_source {
    std::filesystem::path folder;  ///< measured schedules, a file a CPU model; empty: none
    std::string tuned_for;  ///< a file's name without .json; "native": this machine's, else "model"; "model": what the
                            ///< cost model says; "generic" or empty: none. Or several, with commas between
};

/// Gives kernels the measured schedules of a CPU: of a kernel's class, types, depths and bucket, or the nearest. Where
/// short calls have one of their own a kernel becomes two, which the runtime chooses between by the number of queries.
/// This machine's CPU, if it has no file, is served by the cost model. Throws std::runtime_error for a CPU named that
/// has no file, a file that is none.
void use_measured_schedules(std::vector<listed_kernel>& kernels, const schedule_source& from);

/// The same with a CPU's schedules at hand; `file` is how explanations call them.
void use_measured_schedules(std::vector<listed_kernel>& kernels, const database& measured, const std::string& file);

/// The options --schedules and --tuned-for of a subcommand.
void add_schedules_to(CLI::App& command, build_request& what);

/// The kernels that a build of these has.
std::vector<listed_kernel> scheduled_kernels(std::span<const variant> variants, const build_request& what);

}  // namespace attune::generators
