#pragma once
#include "inspect/draw.hpp"

#include <CLI/CLI.hpp>

#include <span>

namespace attune::generators::inline commands {

/// The subcommand `draw`.
class draw_command {
public:
    explicit draw_command(const build_request& built) : built_(built) {}
    void add_to(CLI::App& command);
    void run(std::span<const variant> variants) const;

private:
    const build_request& built_;
    draw_request request_;
    draw_style style_;
    std::vector<std::string> scalars_;
    std::string variant_, target_, depths_, schedule_, file_;
    std::optional<float> product_;
    bool json_{};
};

}  // namespace attune::generators::inline commands
