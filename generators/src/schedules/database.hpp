#pragma once
#include "kernel/kernel_list.hpp"
#include "schedules/cpu_model.hpp"
#include "schedules/shape_bucket.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace attune::generators::inline schedules {

/// The kernels and calls for which a schedule was found.
struct schedule_key {
    std::string variants;  ///< the class of variants: "full", "masked" or "window", with "+pair_outputs" if something
                           ///< of size queries x keys is written, and "+codes" if codes are multiplied; "recurrence"
                           ///< and what it does (recurrences.hpp)
    std::string types;     ///< "f32", "q_f32_k_bf16_v_bf16_out_f32"
    int depth{}, value_depth{};
    std::string level;
    shape_bucket bucket{};

    bool operator==(const schedule_key&) const = default;
    std::string text() const;  ///< "masked f32 64x64 x86-64-v3 prefill"
};
schedule_key key_of(const listed_kernel& kernel, shape_bucket bucket);

/// A schedule and where it comes from.
struct database_entry {
    schedule_key key;
    generators::schedule schedule;
    std::int64_t up_to_queries{};  ///< the most queries of its calls, if the tuner found another schedule that serves
                                   ///< longer calls better; else 0

    call_shape shape;  ///< of the calls by which it was measured
    int threads{};
    double seconds{};            ///< of such a call
    double default_over_this{};  ///< the default schedule's time over this one's: 1.1 is 10 % faster
    double noise{};              ///< half of the interval around it, relative
    int tried{};                 ///< candidates
    std::string attune, halide, date;

    bool operator==(const database_entry&) const = default;
};

/// The known schedules of one CPU model or GPU: one JSON file, in the format of generators/schedules/schema.json.
struct database {
    cpu_model cpu;
    std::vector<database_entry> entries;  ///< by key, each once

    /// Replaces the entry of that key, or adds it in its place.
    void put(database_entry entry);
    /// The entry of the key; else, of those with the same class, types, level and bucket, the one with the nearest
    /// depths; else null. A schedule that is not valid for the key's depths is no candidate. On a GPU, and for a
    /// recurrence, neither is one of other depths.
    const database_entry* nearest(const schedule_key& key) const;
};

std::string database_to_json(const database& all);

/// Throws std::runtime_error, "expected ..., got ...", for text that is not such a file: cut short, another version,
/// unknown or missing fields, numbers out of range, entries out of order or twice, schedules that break their rules.
/// Errors call the text by `name`.
database database_from_json(std::string_view text, const std::string& name);

/// The same for a file, which must exist.
database read_database(const std::filesystem::path& file);

/// Writes a file beside it and renames it, so that readers always see the old file or the new one.
void write_database(const std::filesystem::path& file, const database& all);

/// Reads, changes and writes a CPU's file in a folder, one process at a time. The file is made if it is not there.
void update_database(const std::filesystem::path& folder, const cpu_model& cpu,
                     const std::vector<database_entry>& entries);

/// All entries of several files of one CPU. Of entries with equal keys the newest is taken, of equal dates the last.
/// Throws std::runtime_error if the CPUs differ.
database merged(const std::vector<database>& all);

}  // namespace attune::generators::inline schedules
