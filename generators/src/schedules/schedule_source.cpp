#include "schedules/schedule_source.hpp"

#include "base/formatting.hpp"
#include "schedules/search_space.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <stdexcept>
#include <utility>

namespace attune::generators::inline schedules {
namespace {

namespace fs = std::filesystem;

/// An entry's schedule for a kernel of perhaps other depths: what has to fit the depths is the kernel's own.
schedule fitted(const database_entry& entry, const listed_kernel& kernel) {
    const depth_pair depths = kernel.request.depths;
    const bool same_depths = depths.depth == entry.key.depth && depths.value_depth == entry.key.value_depth;
    const auto fit = [&]<class Cut>(Cut s) -> schedule {
        const Cut& usual = std::get<Cut>(kernel.request.schedule);
        if constexpr (requires { s.pairing; })
            s.pairing = usual.pairing;  // as the element types and the formula allow; not searched
        if (same_depths) return s;
        if constexpr (requires { s.depth_unroll; }) s.depth_unroll = usual.depth_unroll;
        if constexpr (requires { s.query_tile + s.query_block; })
            s.query_block =
                std::min(s.query_block, std::max(s.query_tile, usual.query_block / s.query_tile * s.query_tile));
        if constexpr (std::is_same_v<Cut, cpu_prefill>)
            if (depths.value_depth % s.chunk != 0) s.value_tile = usual.value_tile, s.chunk = usual.chunk;
        return s;
    };
    return std::visit(fit, entry.schedule);
}

std::string provenance(const database_entry& entry, const schedule_key& wanted, const std::string& file) {
    return fmt::format("{}: {}{}, {:+.1f} % on the default ({:.1f} % noise), measured {} by attune {}", file,
                       entry.key.text(), entry.key == wanted ? "" : ", the nearest to this",
                       100 * (entry.default_over_this - 1), 100 * entry.noise, entry.date, entry.attune);
}

bool use(listed_kernel& kernel, const database& measured, shape_bucket bucket, const std::string& file) {
    const schedule_key wanted = key_of(kernel, bucket);
    const database_entry* const entry = measured.nearest(wanted);
    // Schedules that were measured with tiles, or with products of codes, are of no use to a formula without them.
    if (entry == nullptr || entry->schedule.index() != kernel.request.schedule.index() ||
        is_tiled(entry->schedule) != is_tiled(kernel.request.schedule) ||
        multiplies_codes(entry->schedule) != multiplies_codes(kernel.request.schedule))
        return false;
    const schedule s = fitted(*entry, kernel);
    try {
        check(s, kernel.request.depths);
    } catch (const std::runtime_error&) {
        return false;
    }
    if (kernel.request
            .on_gpu()) {  // the variant that it was measured with may keep less in shared memory than this one
        kernel_request there = kernel.request;
        there.schedule = s;
        if (!fits_device(there)) return false;
    }
    kernel.request.schedule = s, kernel.schedule_from = provenance(*entry, wanted, file);
    return true;
}

/// The schedule of a kernel's space that the cost model estimates to be fastest.
void use_model(listed_kernel& kernel) {
    if (kernel.request.on_gpu() || is_for_gradient(kernel.request.schedule) ||
        is_for_recurrence(kernel.request.schedule) || multiplies_codes(kernel.request.schedule))
        return;
    const auto [best, part] = modelled_choice({kernel, bucket_of(kernel.request.schedule)});
    if (best == kernel.request.schedule) return;
    kernel.request.schedule = best;
    kernel.schedule_from = fmt::format("the cost model: {:.0f} % of the default's cycles", 100 * part);
}

std::vector<std::string> names_in(const fs::path& folder) {
    std::vector<std::string> names;
    std::error_code problem;
    for (const auto& each : fs::directory_iterator(folder, problem))
        if (each.path().extension() == ".json" && each.path().filename() != "schema.json")
            names.push_back(each.path().stem().string());
    std::sort(names.begin(), names.end());
    return names;
}

struct measured_file {
    database measured;
    std::string name;
};

measured_file read_measured(const fs::path& folder, const std::string& id) {
    const fs::path file = folder / (id + ".json");
    if (!fs::exists(file)) {
        const std::vector<std::string> names = names_in(folder);
        throw std::runtime_error(
            fmt::format("expected schedules of {} in {}, got those of: {}; try \"native\", \"model\" or \"generic\"",
                        id, folder.string(), names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
    }
    database measured = read_database(file);
    if (measured.cpu.id() != id)
        throw std::runtime_error(
            fmt::format("{}: expected schedules of {}, got those of {}", file.string(), id, measured.cpu.id()));
    return {std::move(measured), file.filename().string()};
}

/// The least gain over the default of a kernel that one CPU alone runs, to be worth its size in every library. It must
/// exceed its measurement's noise as well.
constexpr double least_gain = 0.05;

/// Adds beside each kernel those for the models of some CPUs alone; one kernel for all models that want the same.
void add_measured_kernels(std::vector<listed_kernel>& kernels, std::vector<measured_file> files) {
    for (measured_file& file : files)
        std::erase_if(file.measured.entries, [](const database_entry& entry) {
            return entry.default_over_this - 1 < std::max(least_gain, entry.noise);
        });
    std::vector<listed_kernel> all;
    for (const listed_kernel& kernel : kernels) {
        std::vector<listed_kernel> own;
        for (const auto& [measured, name] : files) {
            std::vector<listed_kernel> tuned{kernel};
            use_measured_schedules(tuned, measured, name);
            const std::string id = measured.cpu.id();
            for (listed_kernel& each : tuned) {
                const auto is_same = [&each = std::as_const(each)](const listed_kernel& other) {
                    return each.request.schedule == other.request.schedule && each.to_queries == other.to_queries;
                };
                if (is_same(kernel)) continue;
                if (const auto same = std::ranges::find_if(own, is_same); same != own.end()) {
                    same->cpus += "," + id, same->schedule_from += "; " + each.schedule_from;
                    continue;
                }
                std::string words = id;
                std::ranges::replace_if(words, [](unsigned char c) { return !std::isalnum(c); }, '_');
                each.cpus = id, each.symbol.insert(each.symbol.size() - 16, "for_" + words + "_");
                own.push_back(std::move(each));
            }
        }
        std::ranges::move(own, std::back_inserter(all));
        all.push_back(kernel);
    }
    kernels = std::move(all);
}

}  // namespace

void use_measured_schedules(std::vector<listed_kernel>& kernels, const database& measured, const std::string& file) {
    std::vector<listed_kernel> all;
    for (listed_kernel& kernel : kernels) {
        const shape_bucket usual = bucket_of(kernel.request.schedule);
        listed_kernel short_prefill = kernel;
        use(kernel, measured, usual, file);
        if (usual == shape_bucket::prefill && !is_for_recurrence(kernel.request.schedule)) {
            const database_entry* const entry = measured.nearest(key_of(kernel, shape_bucket::short_prefill));
            if (entry != nullptr && entry->up_to_queries > 0 && entry->up_to_queries < kernel.to_queries &&
                use(short_prefill, measured, shape_bucket::short_prefill, file) &&
                !(short_prefill.request.schedule == kernel.request.schedule)) {
                short_prefill.to_queries = static_cast<int>(entry->up_to_queries);
                short_prefill.symbol.insert(
                    short_prefill.symbol.size() - 16,
                    fmt::format("short{}_", short_prefill.to_queries));  // before the fingerprint
                all.push_back(short_prefill);
            }
        }
        all.push_back(std::move(kernel));
    }
    kernels = std::move(all);
}

void use_measured_schedules(std::vector<listed_kernel>& kernels, const schedule_source& from) {
    std::vector<measured_file> cpus, devices;
    const auto add = [&](const std::string& id) {
        measured_file file = read_measured(from.folder, id);
        (file.measured.cpu.is_device ? devices : cpus).push_back(std::move(file));
    };
    bool all = false;
    for (std::size_t at = 0; at <= from.tuned_for.size();) {
        const std::size_t comma = std::min(from.tuned_for.find(',', at), from.tuned_for.size());
        const std::string name = from.tuned_for.substr(at, comma - at), here = this_cpu_model().id();
        at = comma + 1;
        const bool has_own = name == "native" && fs::exists(from.folder / (here + ".json"));
        if (name == "model" || (name == "native" && !from.folder.empty() && !has_own))
            std::for_each(kernels.begin(), kernels.end(), use_model);
        if (from.folder.empty() || name.empty() || name == "generic" || name == "model") continue;
        if (name == "all") {
            all = true;
            for (const std::string& each : names_in(from.folder))
                if (!read_database(from.folder / (each + ".json")).cpu.is_device) add(each);
        } else if (name != "native" || has_own) {
            add(name == "native" ? here : name);
        }
    }
    if (all || cpus.size() > 1)
        add_measured_kernels(kernels, std::move(cpus));
    else if (!cpus.empty())
        use_measured_schedules(kernels, cpus.front().measured, cpus.front().name);
    for (const auto& [measured, name] : devices) use_measured_schedules(kernels, measured, name);
}

void add_schedules_to(CLI::App& command, build_request& what) {
    command.add_option("--schedules", what.schedules, "a folder of measured schedules, a file a CPU or GPU")
        ->capture_default_str();
    command
        .add_option("--tuned-for", what.tuned_for,
                    "the CPU whose measured schedules are used: a file's name without .json, native (this machine's, "
                    "else model), model (what the cost model says) or generic (none); a GPU's, too, after a comma; of "
                    "several CPUs, or all of the folder, each has kernels of its own beside the default's")
        ->capture_default_str();
}

std::vector<listed_kernel> scheduled_kernels(std::span<const variant> variants, const build_request& what) {
    auto all = kernels_of(variants, what);
    use_measured_schedules(all, {what.schedules, what.tuned_for});
    return all;
}

}  // namespace attune::generators::inline schedules
