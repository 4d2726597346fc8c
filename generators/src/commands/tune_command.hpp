#pragma once
#include "tuner/tuner.hpp"

#include <CLI/CLI.hpp>

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string_view>

namespace attune::generators::inline commands {

/// `tune`: searches the schedules of a program's kernels on this machine.
class tune_command {
public:
    explicit tune_command(const build_request& built) : what_(built), schedules_(built.tuned_into) {}

    void add_to(CLI::App& command);
    /// Returns 1 if results were wrong, else 0.
    int run(const std::string& program, std::span<const variant> variants);

private:
    std::vector<tuned_kernel> kernels(std::span<const variant> variants);
    /// The GPU for kernels of a target; null for a CPU.
    device_access* device_for(const level& target);
    tune_options how_for(const tuned_kernel& of);
    /// The schedule that --only names, or that --again takes from the measured ones.
    std::optional<schedule> given_schedule(const tuned_kernel& of);
    int try_given(const std::vector<tuned_kernel>& all);
    std::string reproduction(const tuned_kernel& of, const schedule& cut) const;
    std::filesystem::path file_of(const tuned_kernel& of);  ///< the file of kept schedules
    void keep(const tuned_kernel& of, const database_entry& entry);

    build_request what_;
    std::string program_, variant_, budget_{"3m"}, log_, replay_, report_, only_, schedules_, shape_;
    std::vector<std::string> buckets_;
    std::map<std::string_view, std::unique_ptr<device_access>> devices_;  ///< by target
    CLI::Option* targets_{};
    bool names_targets_{};
    tune_options how_;
    bool resume_{}, again_{}, as_json_{};
};

/// `merge`: makes one file of schedules from several of the same CPU.
class merge_command {
public:
    void add_to(CLI::App& command);
    void run() const;

private:
    std::vector<std::string> files_;
    std::string into_;
};

}  // namespace attune::generators::inline commands
