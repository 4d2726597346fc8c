#include "schedules/database.hpp"

#include "base/formatting.hpp"
#include "base/whole_file.hpp"

#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <set>
#include <stdexcept>

namespace attune::generators::inline schedules {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::ordered_json;

constexpr const char* schema = "attune-schedules";
constexpr int version = 1;

auto order_of(const schedule_key& k) {
    return std::tie(k.variants, k.types, k.depth, k.value_depth, k.level, k.bucket);
}

/// Reads the fields of one object, each once, and none besides.
class fields {
public:
    fields(const json& object, std::string where) : object_(object), where_(std::move(where)) {
        if (!object.is_object()) refuse("an object", describe(object));
    }
    const json& operator[](const char* name) {
        known_.insert(name);
        const auto at = object_.find(name);
        if (at == object_.end()) refuse(fmt::format("the field \"{}\"", name), "none");
        return *at;
    }
    bool has(const char* name) {
        known_.insert(name);
        return object_.contains(name);
    }
    std::string text(const char* name) {
        const json& value = (*this)[name];
        if (!value.is_string()) refuse(fmt::format("text in \"{}\"", name), describe(value));
        return value.get<std::string>();
    }
    std::int64_t integer(const char* name, std::int64_t least, std::int64_t most = std::numeric_limits<int>::max()) {
        const json& value = (*this)[name];
        const std::string wanted = fmt::format("an integer from {} to {} in \"{}\"", least, most, name);
        if (!value.is_number_integer()) refuse(wanted, describe(value));
        if (value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(most))
            refuse(wanted, value.dump());
        if (value.get<std::int64_t>() < least || value.get<std::int64_t>() > most) refuse(wanted, value.dump());
        return value.get<std::int64_t>();
    }
    double positive(const char* name, bool or_zero = false) {
        const json& value = (*this)[name];
        const std::string wanted = fmt::format("a {} number in \"{}\"", or_zero ? "non-negative" : "positive", name);
        if (!value.is_number()) refuse(wanted, describe(value));
        const double number = value.get<double>();
        if (!std::isfinite(number) || number < 0 || (number == 0 && !or_zero)) refuse(wanted, value.dump());
        return number;
    }
    void end() const {
        for (const auto& [name, value] : object_.items())
            if (!known_.contains(name))
                refuse(fmt::format("the fields {}", fmt::join(known_, ", ")), fmt::format("\"{}\"", name));
    }
    [[noreturn]] void refuse(const std::string& wanted, const std::string& got) const {
        throw std::runtime_error(fmt::format("{}: expected {}, got {}; try the tuner again, or the file's last version",
                                             where_, wanted, got));
    }

private:
    static std::string describe(const json& value) {
        const std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
        return text.size() > 40 ? text.substr(0, 40) + "..." : text;
    }

    const json& object_;
    std::string where_;
    std::set<std::string> known_;
};

json json_of(const database_entry& e) {
    json entry;
    entry["variants"] = e.key.variants, entry["types"] = e.key.types, entry["depth"] = e.key.depth,
    entry["value_depth"] = e.key.value_depth;
    entry["level"] = e.key.level, entry["bucket"] = name_of(e.key.bucket);
    if (e.up_to_queries != 0) entry["up_to_queries"] = e.up_to_queries;
    entry["schedule"] = json::parse(to_json(e.schedule));
    entry["measured"] = {{"shape", {e.shape.batches, e.shape.heads, e.shape.key_heads, e.shape.queries, e.shape.keys}},
                         {"threads", e.threads},
                         {"seconds", e.seconds},
                         {"default_over_this", e.default_over_this},
                         {"noise", e.noise},
                         {"tried", e.tried}};
    entry["made_by"] = {{"attune", e.attune}, {"halide", e.halide}, {"date", e.date}};
    return entry;
}

std::string_view tokens_of_chunk(shape_bucket bucket) {
    switch (bucket) {
        case shape_bucket::prefill: return "a chunk of 5 tokens or more";
        case shape_bucket::short_prefill: return "a chunk of 2 to 4 tokens";
        case shape_bucket::decode: return "a chunk of one token";
        case shape_bucket::gradient: break;
    }
    return "no schedule";
}

/// "+pair_outputs" was spelled "+pairs", which pairing is another thing than.
std::string variants_from(const std::string& text) {
    constexpr std::string_view before = "+pairs";
    return text.ends_with(before) ? text.substr(0, text.size() - before.size()) + "+pair_outputs" : text;
}

database_entry entry_from(const json& object, const std::string& where) {
    database_entry e;
    fields entry(object, where);
    e.key.variants = variants_from(entry.text("variants")), e.key.types = entry.text("types");
    e.key.depth = static_cast<int>(entry.integer("depth", 1, 4096)),
    e.key.value_depth = static_cast<int>(entry.integer("value_depth", 1, 4096));
    e.key.level = entry.text("level");
    const std::string bucket = entry.text("bucket");
    if (entry.has("up_to_queries")) e.up_to_queries = entry.integer("up_to_queries", 1);
    try {
        const level& isa = level_named(e.key.level);
        e.key.bucket = shape_bucket_named(bucket);
        e.schedule = schedule_from_json(entry["schedule"].dump(), isa);
        if (is_for_recurrence(e.schedule) && e.key.bucket != bucket_of(e.schedule))
            throw std::runtime_error(fmt::format("expected {} for a recurrence in the bucket {}, got {}",
                                                 tokens_of_chunk(e.key.bucket), bucket,
                                                 blocks_of(e.schedule).query_block));
        if (!serves(e.schedule, e.key.bucket))
            throw std::runtime_error(
                fmt::format("expected a schedule for {} in the bucket {}, got one for {}",
                            name_of(e.key.bucket == shape_bucket::short_prefill ? shape_bucket::prefill : e.key.bucket),
                            bucket, purpose_of(e.schedule)));
        check(e.schedule, {e.key.depth, e.key.value_depth});
    } catch (const std::runtime_error& problem) {
        throw std::runtime_error(fmt::format("{}: {}", where, problem.what()));
    }
    fields measured(entry["measured"], where + ", measured");
    const json& shape = measured["shape"];
    std::vector<std::int64_t> sizes;
    if (shape.is_array())
        for (const json& size : shape)
            if (size.is_number_integer() && size.get<std::int64_t>() > 0) sizes.push_back(size.get<std::int64_t>());
    if (sizes.size() != 5 || shape.size() != 5)
        measured.refuse("five positive integers in \"shape\": batches, heads, key heads, queries, keys", shape.dump());
    e.shape = {sizes[0], sizes[1], sizes[2], sizes[3], sizes[4]};
    e.threads = static_cast<int>(measured.integer("threads", 1)), e.seconds = measured.positive("seconds");
    e.default_over_this = measured.positive("default_over_this"), e.noise = measured.positive("noise", true),
    e.tried = static_cast<int>(measured.integer("tried", 1));
    measured.end();
    fields made(entry["made_by"], where + ", made_by");
    e.attune = made.text("attune"), e.halide = made.text("halide"), e.date = made.text("date");
    made.end();
    entry.end();
    return e;
}

/// Closes the file that it holds.
struct descriptor {
    int fd;
    explicit descriptor(int fd) : fd(fd) {}
    ~descriptor() {
        if (fd >= 0) close(fd);
    }
    descriptor(const descriptor&) = delete;
};

}  // namespace

std::string schedule_key::text() const {
    return fmt::format("{} {} {}x{} {} {}", variants, types, depth, value_depth, level, name_of(bucket));
}

void database::put(database_entry entry) {
    const auto before = [](const database_entry& a, const database_entry& b) {
        return order_of(a.key) < order_of(b.key);
    };
    const auto at = std::lower_bound(entries.begin(), entries.end(), entry, before);
    if (at != entries.end() && at->key == entry.key)
        *at = std::move(entry);
    else
        entries.insert(at, std::move(entry));
}

const database_entry* database::nearest(const schedule_key& key) const {
    const database_entry* best = nullptr;
    double best_distance = 0;
    for (const database_entry& e : entries) {
        if (e.key.variants != key.variants || e.key.types != key.types || e.key.level != key.level ||
            e.key.bucket != key.bucket)
            continue;
        // Of other depths it need not fit a GPU's shared memory; tiles of a recurrence divide the depths.
        if ((level_named(key.level).is_gpu || is_for_recurrence(e.schedule)) && !(e.key == key)) continue;
        try {
            check(e.schedule, {key.depth, key.value_depth});
        } catch (const std::runtime_error&) {
            continue;
        }
        const double distance = std::abs(std::log2(double(e.key.depth) / key.depth)) +
                                std::abs(std::log2(double(e.key.value_depth) / key.value_depth));
        if (best == nullptr || distance < best_distance) best = &e, best_distance = distance;
    }
    return best;
}

std::string database_to_json(const database& all) {
    json file;
    file["schema"] = schema, file["version"] = version;
    const char* const kind = all.cpu.is_device ? "device" : "cpu";
    if (all.cpu.is_device)
        file[kind] = {{"name", all.cpu.name}};
    else
        file[kind] = {
            {"vendor", all.cpu.vendor}, {"family", all.cpu.family}, {"model", all.cpu.model}, {"name", all.cpu.name}};
    file["entries"] = json::array();
    for (const database_entry& e : all.entries) file["entries"].push_back(json_of(e));
    // One line each for an entry's key, schedule, measurement and origin, so that differences can be read.
    std::string text = fmt::format("{{\n\"schema\": {}, \"version\": {},\n\"{}\": {},\n\"entries\": [",
                                   file["schema"].dump(), version, kind, file[kind].dump());
    for (std::size_t i = 0; i < file["entries"].size(); ++i) {
        json entry = file["entries"][i];
        std::string parts;
        for (const char* part : {"schedule", "measured", "made_by"}) {
            parts += fmt::format(",\n \"{}\": {}", part, entry[part].dump());
            entry.erase(part);
        }
        std::string head = entry.dump();
        head.pop_back();
        text += fmt::format("{}\n{}{}}}", i == 0 ? "" : ",", head, parts);
    }
    return text + "\n]\n}\n";
}

database database_from_json(std::string_view text, const std::string& name) {
    const json parsed = json::parse(text, nullptr, false);
    if (parsed.is_discarded())
        throw std::runtime_error(name +
                                 ": expected a JSON file of schedules, got text that is no JSON: cut short or damaged; "
                                 "try the file's last version");
    fields file(parsed, name);
    if (const std::string is = file.text("schema"); is != schema)
        file.refuse(fmt::format("\"schema\": \"{}\"", schema), "\"" + is + "\"");
    if (const auto is = file.integer("version", 0); is != version)
        file.refuse(fmt::format("\"version\": {}", version), std::to_string(is));
    database all;
    if (file.has("device")) {
        fields device(file["device"], name + ", device");
        all.cpu = {"", 0, 0, device.text("name"), true};
        if (all.cpu.id().empty())
            device.refuse("a name with a letter or digit in \"name\"", "\"" + all.cpu.name + "\"");
        device.end();
    } else {
        fields cpu(file["cpu"], name + ", cpu");
        all.cpu = {cpu.text("vendor"), static_cast<int>(cpu.integer("family", 0)),
                   static_cast<int>(cpu.integer("model", 0)), cpu.text("name")};
        cpu.end();
    }
    const json& entries = file["entries"];
    if (!entries.is_array()) file.refuse("a list in \"entries\"", "something else");
    file.end();
    for (const json& each : entries) {
        const std::string where = fmt::format("{}, entry {}", name, all.entries.size() + 1);
        database_entry e = entry_from(each, where);
        if (!all.entries.empty() && !(order_of(all.entries.back().key) < order_of(e.key)))
            throw std::runtime_error(fmt::format(
                "{}: expected a key after \"{}\", got \"{}\"; entries are in the order of their keys, each once", where,
                all.entries.back().key.text(), e.key.text()));
        all.entries.push_back(std::move(e));
    }
    return all;
}

database read_database(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    if (!in) throw std::runtime_error("expected a file of schedules that can be read, got \"" + file.string() + "\"");
    return database_from_json(std::string(std::istreambuf_iterator<char>(in), {}), file.string());
}

void write_database(const fs::path& file, const database& all) { write_whole(file, database_to_json(all), true); }

void update_database(const fs::path& folder, const cpu_model& cpu, const std::vector<database_entry>& entries) {
    std::error_code problem;
    fs::create_directories(folder, problem);
    const descriptor lock(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (lock.fd < 0 || flock(lock.fd, LOCK_EX) != 0)
        throw std::runtime_error("expected a folder of schedules that can be used, got \"" + folder.string() +
                                 "\": " + std::strerror(errno));
    // Half-written files of a killed process; nobody else writes now.
    for (const auto& each : fs::directory_iterator(folder, problem))
        if (const std::string name = each.path().filename().string(); name.starts_with(cpu.id() + ".json."))
            fs::remove(each.path(), problem);
    const fs::path file = folder / (cpu.id() + ".json");
    database all{cpu, {}};
    if (fs::exists(file)) {
        all = read_database(file);
        if (!all.cpu.same_as(cpu))
            throw std::runtime_error(fmt::format("{}: expected schedules of {}, got those of {}; try another folder",
                                                 file.string(), cpu.id(), all.cpu.id()));
    }
    for (const database_entry& e : entries) all.put(e);
    write_database(file, all);
}

database merged(const std::vector<database>& all) {
    if (all.empty()) throw std::runtime_error("expected files of schedules to merge, got none");
    database result{all.front().cpu, {}};
    for (const database& each : all) {
        if (!each.cpu.same_as(result.cpu))
            throw std::runtime_error(
                fmt::format("expected files of one CPU or GPU, {}, got one of {}; each has a file of its own",
                            result.cpu.id(), each.cpu.id()));
        for (const database_entry& e : each.entries) {
            const auto before = std::find_if(result.entries.begin(), result.entries.end(),
                                             [&](const database_entry& other) { return other.key == e.key; });
            if (before == result.entries.end() || before->date <= e.date) result.put(e);
        }
    }
    return result;
}

}  // namespace attune::generators::inline schedules
