#include <attune/generators/main.hpp>

#include "base/about.hpp"
#include "base/formatting.hpp"
#include "base/whole_file.hpp"
#include "codegen/object.hpp"
#include "commands/bench_command.hpp"
#include "commands/draw_command.hpp"
#include "commands/schedule_option.hpp"
#include "commands/tune_command.hpp"
#include "commands/variant_named.hpp"
#include "emit/c_header.hpp"
#include "emit/kernel_cache.hpp"
#include "emit/registry.hpp"
#include "inspect/describe.hpp"
#include "inspect/dump_passes.hpp"
#include "inspect/explain.hpp"
#include "inspect/explain_semantics.hpp"
#include "inspect/halide_error.hpp"
#include "inspect/index_warnings.hpp"
#include "inspect/loops_text.hpp"
#include "inspect/notes.hpp"
#include "inspect/plan_text.hpp"
#include "schedules/schedule_source.hpp"

#include <CLI/CLI.hpp>

#include <fstream>
#include <optional>
#include <stdexcept>

namespace attune::generators::inline commands {
namespace {

/// The options of the request, shared by all subcommands.
void add_to(CLI::App& command, build_request& what) {
    command.add_option("--dtypes", what.dtypes, "element types: f32, or q:f32,k:bf16,v:bf16")->capture_default_str();
    command.add_option("--depths", what.depths, "depths of q and k, or depth x depth of v: 64, 64x32")
        ->capture_default_str();
    command
        .add_option("--shapes", what.shapes,
                    "classes of shapes that get a kernel each: prefill, decode (1 to 16 queries, where the graph "
                    "allows it); decode:GRAPH for one graph alone")
        ->capture_default_str();
    command.add_flag(
        "--finite", what.finite,
        "no element that calls read below kv_lengths will be NaN or infinite: kernels need not look for them");
    command
        .add_option("--f32-products", what.f32_products,
                    "how CUDA multiplies f32: f32, or by tensor cores tf32 or 3xtf32, where they can")
        ->capture_default_str();
}

struct emit_command {
    build_request what;
    std::string target, graph, object, key, registry, header, c_header, cut, cache, sanitizer, passes, ptxas;
    std::vector<std::string> code, cubins;
    std::optional<assembler> assembles;

    void add_to(CLI::App& command) {
        generators::add_to(command, what);
        add_schedules_to(command, what);
        command.add_option("--target", target, "compile for this ISA level (with --object)");
        command.add_option("--object", object, "write the kernels of --target into this object file");
        command.add_option("--graph", graph,
                           "of this graph alone, by its name or the last part of it (with --object, --key)");
        command.add_option("--key", key,
                           "write what such an object depends on into this file, if that is another than what the file "
                           "says (with --target, --code)");
        command.add_option("--targets", what.targets,
                           "ISA levels that the registry lists (with --registry); those of the whole library, --target "
                           "among them (with --object, --key)");
        command
            .add_option("--cache", cache,
                        "keep objects in this folder, and take from it what was compiled before (with --code)")
            ->envname("ATTUNE_KERNEL_CACHE");
        command.add_option("--code", code,
                           "the libraries that say what a kernel is, which this program was linked with: their bytes "
                           "are part of what an object depends on");
        command.add_option("--sanitize", sanitizer, "instrument the kernels: address (with --object)")
            ->check(CLI::IsMember({"address"}));
        command.add_option("--cubins", cubins,
                           "compile CUDA kernels for these cards, sm_80, sm_90a or all, beside PTX for others (with "
                           "--object, --key, --ptxas)");
        command.add_option("--ptxas", ptxas, "the ptxas of a CUDA toolkit, which does so (with --cubins)");
        command.add_option("--dump-passes", passes,
                           "write each kernel's statement, as Halide lowers it and after each pass, into files of this "
                           "folder, each named by its pass (with --object)");
        command.add_option("--registry", registry, "write the source of the registry into this file");
        command.add_option("--header", header, "the variant header, as the registry includes it");
        command.add_option("--c-header", c_header, "write the variants' C header into this file (with --registry)");
        command.add_option("--schedule", cut,
                           "another schedule than the default: a JSON object with some of its fields; the same for "
                           "--object and --registry");
    }

    void run(std::span<const variant> variants) {
        if (!object.empty() + !key.empty() + !registry.empty() != 1) {
            throw std::runtime_error(
                "expected one of --object with --target, --key with --target and --code, and --registry with --targets "
                "and --header");
        }
        const kernel_cache kept(cache);
        if (!registry.empty()) return write_registry(variants);
        if (target.empty())
            throw std::runtime_error("expected --target with --object and --key, got none; try --target x86-64-v3");
        what.targets.push_back(target);
        if (!graph.empty()) variants = {&variant_named(variants, graph), 1};
        const auto made = kernels(variants);
        find_assembler();
        if (!key.empty()) return write_key(object_key(made, code, how()));
        // Passes afterwards, so that Halide's numbers in names, which are those of the process, are the object's own.
        try {
            write_object(made, kept);
        } catch (const std::exception&) {  // whose cause they may show
            write_passes(made);
            throw;
        }
        write_passes(made);
    }

    void write_passes(std::span<const listed_kernel> made) const {
        if (!passes.empty() && !made.empty()) dump_passes(made, passes, !sanitizer.empty());
    }

    void find_assembler() {
        if (cubins.empty() != ptxas.empty())
            throw std::runtime_error(
                "expected --cubins and --ptxas, got one of them; try --cubins all --ptxas "
                "/usr/local/cuda/bin/ptxas");
        if (cubins.empty()) return;
        if (level_named(target).called() != "cuda")
            throw std::runtime_error("expected --target cuda with --cubins, got " + target);
        assembles.emplace(ptxas, cubins);
    }

    /// Further inputs of an object.
    std::string how() const {
        return "Halide " + halide_version() + " " + sanitizer + (assembles ? assembles->identity() : "");
    }

    void write_object(std::span<const listed_kernel> made, const kernel_cache& kept) const {
        const std::string depends_on = cache.empty() ? "" : object_key(made, code, how());
        std::string problem;
        if (kept.fetch(depends_on, object, problem)) {
            fmt::print(stderr, "  {} kernels as compiled before, from {}\n", made.size(), cache);
            return;
        }
        if (!problem.empty()) fmt::print(stderr, "  {}\n", problem);
        emit_object(made, level_named(target), object, !sanitizer.empty(), assembles ? &*assembles : nullptr);
        problem = kept.store(depends_on, object);
        if (!problem.empty()) fmt::print(stderr, "  {}\n", problem);
    }

    /// A build compiles an object anew when this file changes: it is untouched if nothing changed.
    void write_key(const std::string& text) const {
        if (text.empty()) throw std::runtime_error("expected --code with --key to name files that can be read");
        std::string before;
        if (std::ifstream(key) >> before && before == text) return;
        write_whole(key, text + '\n');
    }

    void write_registry(std::span<const variant> variants) const {
        if (what.targets.empty() || header.empty())
            throw std::runtime_error("expected --targets and --header with --registry");
        const auto made = kernels(variants);
        for (const variant& each : variants) {
            std::vector<std::string> notices = indices_that_may_leave(each.graph);
            notices.push_back(missing_level_of(made, each));
            notices.push_back(alignment_to_look_at(each.graph, what.shapes));
            for (const std::string& said : notices)
                if (!said.empty()) fmt::print(stderr, "{}: {}\n", each.name, said);
        }
        emit_registry(variants, made, notes_of(variants, made), header, registry);
        if (!c_header.empty()) emit_c_header(variants, made, c_header);
    }

    std::vector<listed_kernel> kernels(std::span<const variant> variants) const {
        auto all = scheduled_kernels(variants, what);
        if (!target.empty())
            std::erase_if(all, [&](const listed_kernel& each) { return each.request.target->name != target; });
        use_schedule(all, cut);
        return all;
    }
};

struct explain_command {
    build_request what;
    std::string variant_name{}, shape{"1x8x1024x1024"}, cut{};
    bool as_json{};

    void add_to(CLI::App& command) {
        generators::add_to(command, what);
        add_schedules_to(command, what);
        command.add_option("--targets", what.targets, "ISA levels")->capture_default_str();
        command.add_option("--variant", variant_name, "one variant, by its name or the last part of it; else all");
        command
            .add_option(
                "--shape", shape,
                "sizes of a call whose cost is given, batch x heads x queries x keys; 1x8:2x1024x1024 has 2 key heads")
            ->capture_default_str();
        command.add_option("--schedule", cut, "another schedule: a JSON object with some of its fields");
        command.add_flag("--json", as_json, "as JSON");
    }

    void run(std::span<const variant> variants) {
        const call_sizes call = call_sizes_from(shape);
        if (!variant_name.empty()) variants = {&variant_named(variants, variant_name), 1};
        auto kernels = scheduled_kernels(variants, what);
        use_schedule(kernels, cut);
        fmt::print("{}", as_json ? explain_json(variants, kernels, call) : explain_text(variants, kernels, call));
    }
};

/// `plan` and `loops`: for each kernel its decisions, or its loops in the order of its schedule.
struct kernels_command {
    std::string (*text)(const listed_kernel&);
    std::string (*json)(std::span<const listed_kernel>);
    build_request what;
    std::string graph{}, cut{};
    bool as_json{};

    void add_to(CLI::App& command) {
        generators::add_to(command, what);
        add_schedules_to(command, what);
        command.add_option("--targets", what.targets, "ISA levels")->capture_default_str();
        command.add_option("--graph", graph, "of this graph alone, by its name or the last part of it; else of all");
        command.add_option("--schedule", cut, "another schedule: a JSON object with some of its fields");
        command.add_flag("--json", as_json, "as JSON");
    }

    void run(std::span<const variant> variants) {
        if (!graph.empty()) variants = {&variant_named(variants, graph), 1};
        auto kernels = scheduled_kernels(variants, what);
        use_schedule(kernels, cut);
        if (as_json) return fmt::print("{}", json(kernels));
        for (const listed_kernel& each : kernels) fmt::print("{}\n", text(each));
    }
};

struct describe_command {
    std::string variant_name;
    bool header{};

    void add_to(CLI::App& command) {
        command.add_option("--variant", variant_name,
                           "which variant, by its name or the last part of it; else the first");
        command.add_flag("--header", header, "as a whole header");
    }

    void run(std::span<const variant> variants) const {
        fmt::print("{}", described(variant_named(variants, variant_name), header));
    }
};

}  // namespace
}  // namespace attune::generators::inline commands

int attune::generators::generator_main(int argc, char** argv, std::span<const variant> variants,
                                       const build_request& built) {
    std::string names;
    for (const variant& v : variants) names += "\n  " + v.name;
    CLI::App app{"Compiles attention variants into kernels and says what they are:" + names};
    app.require_subcommand(1);

    emit_command emit;
    CLI::App& emit_app =
        *app.add_subcommand("emit", "write kernels as an object file, or the registry by which applications find them");
    emit.add_to(emit_app);

    explain_command explain{built};
    CLI::App& explain_app = *app.add_subcommand(
        "explain", "print formula, inputs, outputs, blocks, conventions, costs, kernels and schedules");
    explain.add_to(explain_app);

    kernels_command plan{plan_text, plans_json, built};
    CLI::App& plan_app = *app.add_subcommand(
        "plan", "print what is decided of each kernel: blocks, products, what is kept, outputs, passes, bytes");
    plan.add_to(plan_app);

    kernels_command loops{loops_text, loops_json, built};
    CLI::App& loops_app =
        *app.add_subcommand("loops", "print the loops of each kernel as its schedule orders them, for Halide to lower");
    loops.add_to(loops_app);

    describe_command describe;
    CLI::App& describe_app =
        *app.add_subcommand("describe", "print a formula as canonical C++, which has the same fingerprint");
    describe.add_to(describe_app);

    draw_command draw(built);
    CLI::App& draw_app = *app.add_subcommand(
        "draw",
        "write a picture of the mask, the scores and the blocks that a kernel visits, as an SVG file or as JSON");
    draw.add_to(draw_app);

    bench_command bench(built);
    CLI::App& bench_app = *app.add_subcommand("bench", "compile kernels in this process and time them on this machine");
    bench.add_to(bench_app);
    tune_command tune(built);
    CLI::App& tune_app = *app.add_subcommand(
        "tune", "search schedules for this machine: compile, check and time candidates, and keep the best");
    tune.add_to(tune_app);

    merge_command merge;
    CLI::App& merge_app =
        *app.add_subcommand("merge", "make one file of measured schedules out of several of the same CPU");
    merge.add_to(merge_app);

    CLI11_PARSE(app, argc, argv);
    try {
        if (tune_app.parsed()) return tune.run(argv[0], variants);
        if (merge_app.parsed()) merge.run();
        if (emit_app.parsed()) emit.run(variants);
        if (draw_app.parsed()) draw.run(variants);
        if (explain_app.parsed()) explain.run(variants);
        if (plan_app.parsed()) plan.run(variants);
        if (loops_app.parsed()) loops.run(variants);
        if (describe_app.parsed()) describe.run(variants);
        if (bench_app.parsed()) bench.run(variants);
    } catch (const std::exception& problem) {
        fmt::print(stderr, "{}: {}\n", argv[0], problem.what());
        return 1;
    } catch (...) {
        fmt::print(stderr, "{}: {}\n", argv[0], said_by_halide());
        return 1;
    }
    return 0;
}
