#include "codegen/object.hpp"

#include "base/formatting.hpp"
#include "base/whole_file.hpp"
#include "codegen/device_code.hpp"
#include "codegen/halide_target.hpp"
#include "lower.hpp"
#include "passes/gpu_passes.hpp"

#include <algorithm>
#include <chrono>
#include <set>
#include <stdexcept>

namespace attune::generators::inline codegen {

std::string halide_version() {
    return fmt::format("{}.{}.{}", HALIDE_VERSION_MAJOR, HALIDE_VERSION_MINOR, HALIDE_VERSION_PATCH);
}

void emit_object(std::span<const listed_kernel> kernels, const level& isa, const std::string& file, bool checked,
                 const assembler* assembles) {
    Halide::Target target = halide_target(isa);
    if (checked) target.set_feature(Halide::Target::ASAN);
    std::vector<Halide::Module> modules;
    int done = 0;
    std::string refused;  // all that cannot be compiled is said at once
    for (const listed_kernel& k : kernels) {
        const auto start = std::chrono::steady_clock::now();
        const std::size_t before = modules.size();
        std::string takes;
        try {
            lowered_kernel lowered = lower(k.request);
            modules.push_back(lowered.module(k.symbol, target));
            if (k.request.on_gpu()) {
                int shared = 0;
                for (const Halide::Internal::LoweredFunc& function : modules.back().functions())
                    shared = std::max(shared, shared_memory(function.body));
                takes = fmt::format(", {} bytes of shared memory", shared);
            }
            for (Halide::Module& each : lowered.beside(k.symbol, target)) modules.push_back(std::move(each));
            if (assembles)
                for (std::size_t i = before; i < modules.size(); ++i)
                    modules[i] = with_machine_code(modules[i], *assembles);
        } catch (const Halide::Error& problem) {  // not a std::exception
            refused += (refused.empty() ? "" : "\n") + k.of->name + ": Halide could not compile it: " + problem.what();
            continue;
        } catch (const std::exception& problem) {
            refused += (refused.empty() ? "" : "\n") + k.of->name + ": " + problem.what();
            continue;
        }
        fmt::print(stderr, "  {}/{} {} d{}x{} lowered in {:.1f} s{}\n", ++done, kernels.size(), k.of->name,
                   k.request.depths.depth, k.request.depths.value_depth,
                   std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), takes);
    }
    if (!refused.empty()) throw std::runtime_error(refused);
    const auto start = std::chrono::steady_clock::now();
    whole_file object(file);
    try {
        Halide::Module all = modules.empty() ? Halide::Module("attune_kernels", target)
                                             : Halide::link_modules("attune_kernels", modules);
        // Linking forgets it, and every strict operation would be compiled as others are.
        all.set_any_strict_float(std::ranges::any_of(modules, &Halide::Module::any_strict_float));
        all.compile({{Halide::OutputFileType::object, object.part().string()}});
    } catch (const Halide::Error& problem) {
        std::set<std::string> names;
        for (const listed_kernel& k : kernels) names.insert(k.of->name);
        throw std::runtime_error(
            fmt::format("{}: Halide could not write the object: {}", fmt::join(names, ", "), problem.what()));
    }
    object.keep();
    fmt::print(stderr, "  {} kernels compiled in {:.1f} s\n", kernels.size(),
               std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
}

}  // namespace attune::generators::inline codegen
