#pragma once
#include <attune/generators/main.hpp>

#include <CLI/CLI.hpp>

#include <map>
#include <span>
#include <string>
#include <vector>

namespace attune::generators::inline commands {

/// The subcommand `bench`: times a program's kernels on this machine, compiled in process.
class bench_command {
public:
    explicit bench_command(const build_request& built) : what_(built) {}
    void add_to(CLI::App& command);
    void run(std::span<const variant> variants) const;

private:
    std::map<std::string, double> numbers() const;

    build_request what_;
    std::string variant_, shape_{"1x8x1024x1024"}, schedule_;
    std::vector<std::string> set_;
    double seconds_{0.3};
    int threads_{};
    bool json_{};
};

}  // namespace attune::generators::inline commands
