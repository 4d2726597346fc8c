#pragma once
#include "schedules/database.hpp"

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace attune::generators::inline schedules {

/// The origin of a build's schedules.
struct schedule_source {
    std::filesystem::path folder;  ///< measured schedules, a file for each CPU model; empty: none
    std::string tuned_for;  ///< a file's name without .json; "native": this machine's, else "model"; "model": the cost
                            ///< model's choices; "generic" or empty: none. Or several names with commas between, or
                            ///< "all" of the folder: each CPU then has kernels of its own
};

/// Gives kernels the measured schedules of a CPU: of a kernel's class, types, depths and bucket, or the nearest. If
/// short calls have a schedule of their own, a kernel becomes two, and the runtime chooses by the number of queries.
/// The cost model serves this machine's CPU if it has no file. The schedules of several CPUs become kernels beside the
/// default's, where they gain 5 % or more, and the runtime chooses by the CPU's model. Throws std::runtime_error for a
/// named CPU without a file, and for an invalid file.
void use_measured_schedules(std::vector<listed_kernel>& kernels, const schedule_source& from);

/// The same with the schedules of one CPU; explanations call them by `file`.
void use_measured_schedules(std::vector<listed_kernel>& kernels, const database& measured, const std::string& file);

/// The options --schedules and --tuned-for of a subcommand.
void add_schedules_to(CLI::App& command, build_request& what);

/// The kernels of a build of these variants.
std::vector<listed_kernel> scheduled_kernels(std::span<const variant> variants, const build_request& what);

}  // namespace attune::generators::inline schedules
