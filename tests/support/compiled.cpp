#include "compiled.hpp"

#include "codegen/object.hpp"
#include "emit/kernel_record.hpp"

#include <attune/runtime/cpu.hpp>

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>

namespace attune::support {
namespace {

std::string best_level() {
    for (const generators::level& each : generators::levels())
        if (runs(each.name)) return std::string(each.name);
    throw std::runtime_error("no ISA level of attune's runs on this machine");
}

/// A folder of its own, gone with the object.
struct temporary_folder {
    std::filesystem::path path = make();
    ~temporary_folder() { std::filesystem::remove_all(path); }

private:
    static std::filesystem::path make() {
        std::string name = (std::filesystem::temp_directory_path() / "attune_XXXXXX").string();
        if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no folder can be made beside " + name);
        return name;
    }
};

}  // namespace

compiled_graphs::compiled_graphs(const std::vector<request>& requests) {
    const std::string level = best_level();
    std::vector<generators::listed_kernel> list;
    for (const request& each : requests) {
        variants_.push_back({"random_" + std::to_string(variants_.size()), each.graph});
        for (auto& k : generators::kernels_of({&variants_.back(), 1},
                                              {.targets = {level}, .dtypes = {"f32"}, .depths = {each.depths}}))
            list.push_back(std::move(k));
    }
    const temporary_folder folder;
    const auto object = folder.path / "kernels.o", library = folder.path / "kernels.so";
#if defined(__SANITIZE_ADDRESS__)
    constexpr bool checked = true;
#else
    constexpr bool checked = false;
#endif
    generators::emit_object(list, object.string(), checked);
    const std::string link = "'" ATTUNE_COMPILER "' -shared -o '" + library.string() + "' '" + object.string() + "'";
    if (std::system(link.c_str()) != 0) throw std::runtime_error("could not link: " + link);
    library_ = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) throw std::runtime_error(dlerror());

    for (const generators::listed_kernel& k : list) {
        const auto text = [this](std::string s) { return texts_.emplace_back(std::move(s)).c_str(); };
        const auto entry = [&](const char* suffix) {
            return reinterpret_cast<int (*)(void**)>(dlsym(library_, (k.symbol + suffix).c_str()));
        };
        attune::kernel& row = kernels_.emplace_back(generators::kernel_record(k));
        row.symbol = text(k.symbol), row.target = text(std::string(k.isa->name));
        row.schedule = text(generators::to_json(k.request.schedule));
        row.call = entry("_argv"), row.blocks = entry("_blocks_argv");
        tables_.push_back({.version = kernel_table_version,
                           .variant = k.of->name.c_str(),
                           .graph = k.request.graph,
                           .kernels = {&row, 1}});
    }
}

compiled_graphs::~compiled_graphs() {
    if (library_ != nullptr) dlclose(library_);
}

}  // namespace attune::support
