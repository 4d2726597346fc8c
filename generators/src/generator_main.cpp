#include <attune/generators/main.hpp>

#include "c_header.hpp"
#include "draw_command.hpp"
#include "emit.hpp"
#include "explain.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <stdexcept>

namespace attune::generators {
namespace {

/// What to compile: shared by all subcommands.
void add_to(CLI::App& command, build_request& what) {
    command.add_option("--dtypes", what.dtypes, "element types: f32, or q:f32,k:bf16,v:bf16")->capture_default_str();
    command.add_option("--depths", what.depths, "depths of q and k, or depth x depth of v: 64, 64x32")->capture_default_str();
}

struct emit_command {
    build_request what;
    std::string target, object, registry, header, c_header;

    void add_to(CLI::App& command) {
        generators::add_to(command, what);
        command.add_option("--target", target, "compile for this ISA level (with --object)");
        command.add_option("--object", object, "write the kernels of --target into this object file");
        command.add_option("--targets", what.targets, "ISA levels that the registry lists (with --registry)");
        command.add_option("--registry", registry, "write the source of the registry into this file");
        command.add_option("--header", header, "the variant header, as the registry includes it");
        command.add_option("--c-header", c_header, "write the variants' C header into this file (with --registry)");
    }

    void run(std::span<const variant> variants) {
        if (object.empty() == registry.empty()) throw std::runtime_error("expected either --object with --target, or --registry with --targets and --header");
        if (!object.empty()) {
            if (target.empty()) throw std::runtime_error("expected --target with --object, got none; try --target x86-64-v3");
            what.targets = {target};
            emit_object(kernels_of(variants, what), object);
        } else {
            if (what.targets.empty() || header.empty()) throw std::runtime_error("expected --targets and --header with --registry");
            const auto kernels = kernels_of(variants, what);
            emit_registry(variants, kernels, header, registry);
            if (!c_header.empty()) emit_c_header(variants, kernels, c_header);
        }
    }
};

}  // namespace

int generator_main(int argc, char** argv, std::span<const variant> variants, const build_request& built) {
    std::string names;
    for (const variant& v : variants) names += "\n  " + v.name;
    CLI::App app{"Compiles attention variants into kernels and says what they are:" + names};
    app.require_subcommand(1);

    emit_command emit;
    CLI::App& emit_app = *app.add_subcommand("emit", "write kernels as an object file, or the registry by which applications find them");
    emit.add_to(emit_app);

    build_request explained = built;
    bool as_json = false;
    CLI::App& explain_app = *app.add_subcommand("explain", "print formula, inputs, outputs, kernels and schedules");
    add_to(explain_app, explained);
    explain_app.add_option("--targets", explained.targets, "ISA levels")->capture_default_str();
    explain_app.add_flag("--json", as_json, "as JSON");

    draw_command draw(built);
    CLI::App& draw_app = *app.add_subcommand("draw", "write a picture of the mask, the scores and the blocks that a kernel visits, as an SVG file or as JSON");
    draw.add_to(draw_app);

    CLI11_PARSE(app, argc, argv);
    try {
        if (emit_app.parsed()) emit.run(variants);
        if (draw_app.parsed()) draw.run(variants);
        if (explain_app.parsed()) {
            const auto kernels = kernels_of(variants, explained);
            fmt::print("{}", as_json ? explain_json(variants, kernels) : explain_text(variants, kernels));
        }
    } catch (const std::exception& problem) {
        fmt::print(stderr, "{}: {}\n", argv[0], problem.what());
        return 1;
    }
    return 0;
}

}  // namespace attune::generators
