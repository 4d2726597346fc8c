#include "commands/tune_command.hpp"

#include "base/about.hpp"
#include "base/formatting.hpp"
#include "commands/schedule_option.hpp"
#include "commands/variant_named.hpp"
#include "inspect/explain_cost.hpp"
#include "tuner/quiet_machine.hpp"
#include "tuner/report.hpp"
#include "tuner/trials.hpp"

#include <attune/runtime/cpu.hpp>

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>
#include <set>
#include <stdexcept>
#include <thread>

namespace attune::generators::inline commands {
namespace {

using json = nlohmann::ordered_json;

/// "3m", "90s" or a number of candidates.
void set_budget(const std::string& text, tune_options& how) {
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    const std::string unit(end, text.data() + text.size());
    const bool time = unit == "s" || unit == "m";
    if (error != std::errc{} || number <= 0 || !std::isfinite(number) || number > 1e6 ||
        (!time && (!unit.empty() || number != std::floor(number))))
        throw std::runtime_error("expected a budget as a time, 90s or 3m, or as a number of candidates, got \"" + text +
                                 "\"");
    how.seconds = unit == "m" ? 60 * number : time ? number : 0;
    how.count = time ? 0 : static_cast<std::size_t>(number);
}

/// A GPU is not kept busy by what keeps a core busy.
call_shape shape_for_device(shape_bucket bucket) {
    return bucket == shape_bucket::decode ? call_shape{1, 32, 8, 1, 65536} : call_shape{1, 16, 16, 2048, 2048};
}

call_shape rounded(const call_sizes& s) {
    const auto size = [](double number) { return static_cast<std::int64_t>(number); };
    return {size(s.batches), size(s.heads), size(s.key_heads), size(s.queries), size(s.keys)};
}

/// As element_types_from reads them.
std::string spelling_of(const element_types& types) {
    return fmt::format("q:{},k:{},v:{},out:{}", name_of(types.query), name_of(types.key), name_of(types.value),
                       name_of(types.output));
}

std::string time_text(double seconds) {
    const auto whole = static_cast<long>(std::ceil(seconds));
    return whole >= 60 ? fmt::format("{} min {:02} s", whole / 60, whole % 60) : fmt::format("{} s", whole);
}

std::string speed_text(double over_default) { return fmt::format("{:+.1f} %", 100 * (1 / over_default - 1)); }

/// The line of a search, rewritten in place on a terminal.
class progress_line {
public:
    explicit progress_line(std::string name) : name_(std::move(name)) {}
    ~progress_line() {
        if (written_ && terminal_) fmt::print(stderr, "\n");
    }
    void operator()(const tune_progress& p) {
        const std::string left = p.tried == 0 ? "" : fmt::format(", {} left", time_text(p.seconds_left));
        fmt::print(stderr, "{}{}  {}/{} tried, best at least {} on the default{}{}{}", terminal_ ? "\r" : "", name_,
                   p.tried, p.of, speed_text(p.best_over_default), left, p.timing ? " (timing)" : "",
                   terminal_ ? "\033[K" : "\n");
        written_ = true;
    }

private:
    std::string name_;
    bool terminal_ = isatty(STDERR_FILENO) != 0, written_ = false;
};

json json_of(const tune_result& r) {
    const search_choice& c = r.choice;
    json wrong = json::array();
    for (const schedule& s : r.wrong) wrong.push_back(json::parse(to_json(s)));
    return {{"search", r.search},
            {"space", r.space},
            {"tried", r.record.tried.size()},
            {"default_seconds", c.default_seconds},
            {"seconds", c.seconds},
            {"gain", 1 / c.over_default.ratio - 1},
            {"noise", c.over_default.noise()},
            {"confidence", c.over_default.confidence},
            {"machine_scatter", r.noise},
            {"rank_correlation", r.is_modelled() ? json(r.rank_correlation) : json()},
            {"schedule", json::parse(to_json(c.schedule))},
            {"up_to_queries", entry_of(r).up_to_queries},
            {"is_default", c.schedule == r.of.kernel.request.schedule},
            {"wrong", wrong}};
}

/// Whether the first is of the usual calls of the kernel that the second is of.
bool is_of_same_kernel(const tune_result& usual, const tune_result& short_prefill) {
    return usual.of.bucket == shape_bucket::prefill && usual.of.kernel.symbol == short_prefill.of.kernel.symbol;
}

std::string table_of(const std::vector<tune_result>& all) {
    std::size_t width = 6;
    for (const tune_result& r : all) width = std::max(width, r.search.size());
    std::string text = fmt::format("{:<{}}  {:>12} {:>12} {:>8} {:>7} {:>9} {:>6}\n", "kernel", width, "default",
                                   "tuned", "gain", "noise", "tried", "model");
    for (const tune_result& r : all)
        text +=
            fmt::format("{:<{}}  {:>9.3f} ms {:>9.3f} ms {:>8} {:>5.1f} % {:>4}/{:<4} {:>6}\n", r.search, width,
                        1e3 * r.choice.default_seconds, 1e3 * r.choice.seconds, speed_text(r.choice.over_default.ratio),
                        100 * r.choice.over_default.noise(), r.record.tried.size(), r.space - 1,
                        r.is_modelled() ? fmt::format("{:.2f}", r.rank_correlation) : "-");
    text += fmt::format(
        "gain and noise: medians of {} interleaved rounds ({} where the machine is noisy) and half of their {:.0f} % "
        "interval; model: rank correlation of estimates and times\n",
        search_state::final_round_count, search_state::noisy_final_round_count,
        100 * (all.empty() ? 0.95 : all.front().record.begin.at("confidence").get<double>()));
    for (const tune_result& r : all) {
        if (r.noise > noisy_scatter)
            text += fmt::format(
                "{}: this machine is noisy: times of one kernel differed by {:.0f} %; smaller differences than the "
                "noise above were not seen\n",
                r.search, 100 * r.noise);
        if (r.choice.schedule == r.of.kernel.request.schedule)
            text += fmt::format("{}: nothing was faster than the default by more than the noise\n", r.search);
    }
    return text;
}

}  // namespace

void tune_command::add_to(CLI::App& command) {
    command.add_option("--variant", variant_, "one variant, by its name or the last part of it; else all");
    command.add_option("--dtypes", what_.dtypes, "element types")->capture_default_str();
    command.add_option("--depths", what_.depths, "depths of q and k, or depth x depth of v")->capture_default_str();
    targets_ = command
                   .add_option("--targets,--target", what_.targets,
                               "ISA levels; those that do not run here are left out. Or opencl or cuda, which have to "
                               "be named: the first such device's")
                   ->capture_default_str();
    command.add_option("--buckets", buckets_,
                       "kinds of calls among prefill, short, decode, gradient; else those that a kernel serves");
    command.add_option("--schedules", schedules_, "the folder of schedules, a file a CPU or GPU, that is updated")
        ->capture_default_str();
    command.add_option("--budget", budget_, "of each search: a time, 90s or 3m, or a number of candidates")
        ->capture_default_str();
    command.add_option("--shape", shape_,
                       "sizes of the calls that are timed, batch x heads x queries x keys; 1x8:2x1x16384 has 2 key "
                       "heads; else those of the kind of calls");
    command.add_option("--seed", how_.seed, "fixes the order in which candidates are tried")->capture_default_str();
    command.add_option("--threads", how_.threads, "threads of timed calls")
        ->check(CLI::Range(1, 1024))
        ->capture_default_str();
    how_.jobs = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    command.add_option("--jobs", how_.jobs, "candidates compiled at a time")
        ->check(CLI::Range(1, 1024))
        ->capture_default_str();
    command.add_option("--confidence", how_.confidence, "with which a candidate must be faster")
        ->check(CLI::Range(0.5, 0.99))
        ->capture_default_str();
    command.add_option("--log", log_, "write a line for each candidate into this file");
    command.add_flag("--resume", resume_, "go on with the searches of --log; what it holds is not done again");
    command.add_option("--replay", replay_, "decide by this log of searches that ended; nothing is compiled or timed");
    command.add_flag("--exhaustive", how_.exhaustive, "try every candidate, each against the default");
    command.add_option("--only", only_, "check and time this schedule alone: a JSON object with some of its fields");
    command.add_flag("--again", again_,
                     "search nothing: check and time the schedules that --schedules holds for this machine, each "
                     "against the default");
    command.add_option(
        "--while-timing", how_.while_timing,
        "a command that runs while times are taken: it prints a line when it is ready, and ends when its input does");
    command.add_option("--report", report_, "draw the search: an .html or .svg file");
    command.add_flag("--json", as_json_, "the final table as JSON");
}

device_access* tune_command::device_for(const level& target) {
    if (!target.is_gpu) return nullptr;
    std::unique_ptr<device_access>& known = devices_[target.name];
    if (!known) known = std::make_unique<device_access>(target);
    return known.get();
}

tune_options tune_command::how_for(const tuned_kernel& of) {
    tune_options how = how_;
    how.device = device_for(*of.kernel.request.target);
    return how;
}

std::vector<tuned_kernel> tune_command::kernels(std::span<const variant> variants) {
    build_request here = what_;
    if (here.targets.empty())
        for (const level& each : levels()) here.targets.emplace_back(each.name);
    // A GPU has to be asked for here, too.
    std::erase_if(here.targets, [&](const std::string& target) {
        return level_named(target).is_gpu ? !names_targets_ : !runs(level_named(target).name);
    });
    if (here.targets.empty())
        throw std::runtime_error(
            "expected a target that runs on this CPU, got none among those asked for; try --targets x86-64-v3, or "
            "--targets opencl for a GPU");
    std::optional<call_shape> asked_shape;
    if (!shape_.empty()) asked_shape = rounded(call_sizes_from(shape_));
    if (asked_shape && (asked_shape->queries < 1 || asked_shape->keys < 1))
        throw std::runtime_error("expected --shape with a query and a key at least, got \"" + shape_ + "\"");
    if (replay_.empty())
        for (const std::string& target : here.targets) device_for(level_named(target));
    std::vector<shape_bucket> buckets;
    for (const std::string& name : buckets_) buckets.push_back(shape_bucket_named(name));
    std::vector<tuned_kernel> all;
    std::set<std::string> keys;  // variants of a class share an entry: the first is searched for all of them
    for (const listed_kernel& kernel : kernels_of(variants, here)) {
        for (const shape_bucket bucket : shape_buckets()) {
            const bool asked = buckets.empty() || std::find(buckets.begin(), buckets.end(), bucket) != buckets.end();
            const bool on_device = kernel.request.on_gpu();
            if (on_device && bucket == shape_bucket::short_prefill) continue;  // it has no kernel of its own there
            if (!serves(kernel.request.schedule, bucket) || !asked ||
                !keys.insert(key_of(kernel, bucket).text()).second)
                continue;
            tuned_kernel each{kernel, bucket};
            if (on_device) {
                if (replay_.empty()) each.shared_memory = device_for(*kernel.request.target)->shared_memory();
                each.shape = shape_for_device(bucket);
            }
            if (asked_shape) each.shape = *asked_shape;
            if (each.shape.queries > kernel.to_queries)
                throw std::runtime_error(
                    fmt::format("expected --shape with {} queries at most for {}, got {}; try --buckets with the kind "
                                "of calls that it is for",
                                kernel.to_queries, name_of(bucket), each.shape.queries));
            all.push_back(each);
        }
    }
    if (all.empty()) throw std::runtime_error("expected a kernel that serves such calls, got none");
    return all;
}

std::string tune_command::reproduction(const tuned_kernel& of, const schedule& cut) const {
    const auto& [facts, types, depths, target, usual, finite, tf32_products] = of.kernel.request;
    return fmt::format("{} tune --variant {} --dtypes {} --depths {}x{} --targets {} --buckets {}{}{} --only '{}'",
                       program_, of.kernel.of->name, spelling_of(types), depths.depth, depths.value_depth, target->name,
                       name_of(of.bucket), finite ? " --finite" : "",
                       tf32_products == 0   ? ""
                       : tf32_products == 1 ? " --f32-products tf32"
                                            : " --f32-products 3xtf32",
                       to_json(cut));
}

std::optional<schedule> tune_command::given_schedule(const tuned_kernel& of) {
    if (!only_.empty()) return schedule_for(*of.kernel.of, of.kernel.request, only_, "--only");
    const database measured = read_database(file_of(of));
    const schedule_key key = key_of(of.kernel, of.bucket);
    const database_entry* const entry = measured.nearest(key);
    if (entry == nullptr || !(entry->key == key)) return std::nullopt;
    return entry->schedule;
}

int tune_command::try_given(const std::vector<tuned_kernel>& all) {
    int problems = 0;
    std::size_t given = 0;
    for (const tuned_kernel& of : all) {
        const std::optional<schedule> cut = given_schedule(of);
        if (!cut) continue;
        ++given;
        listed_kernel other = of.kernel;
        other.request.schedule = *cut;
        const std::unique_ptr<jit_kernel> usual = how_.compile(of.kernel), made = how_.compile(other);
        device_access* const there = device_for(*of.kernel.request.target);
        if (const std::string wrong = checked_calls(other, there ? of.kernel.request.target->called() : "")
                                          .wrong(made->table(), other.request.schedule);
            !wrong.empty()) {
            fmt::print("{}: WRONG: {}\n", name_of_search(of), wrong);
            ++problems;
            continue;
        }
        timed_call call(of.kernel, of.shape, how_.threads, there);
        const companion_process quiet(how_.while_timing);
        for (const auto* kernel : {&usual, &made}) call.seconds((*kernel)->table(), 0);
        std::vector<round_times> rounds;
        std::vector<double> before, now;
        for (std::size_t i = 0; i < search_state::final_round_count; ++i) {
            rounds.push_back(call.seconds(usual->table(), made->table(), how_.timing_seconds, i));
            before.push_back(rounds.back().incumbent), now.push_back(rounds.back().challenger);
        }
        const comparison c = compared(rounds, how_.confidence);
        fmt::print("{}: right; {:.3f} ms -> {:.3f} ms, {} on the default, {:.1f} % noise\n", name_of_search(of),
                   1e3 * median(before), 1e3 * median(now), speed_text(c.ratio), 100 * c.noise());
        std::fflush(stdout);
    }
    if (given == 0)
        throw std::runtime_error(fmt::format(
            "expected measured schedules of these kernels in \"{}\", got none; try tune without --again", schedules_));
    return problems == 0 ? 0 : 1;
}

std::filesystem::path tune_command::file_of(const tuned_kernel& of) {
    return std::filesystem::path(schedules_) / (measured_machine(of, how_for(of)).id() + ".json");
}

void tune_command::keep(const tuned_kernel& of, const database_entry& entry) {
    if (!schedules_.empty()) update_database(schedules_, measured_machine(of, how_for(of)), {entry});
}

int tune_command::run(const std::string& program, std::span<const variant> variants) {
    program_ = program;
    names_targets_ = targets_->count() > 0;
    if (!variant_.empty()) variants = {&variant_named(variants, variant_), 1};
    set_budget(budget_, how_);
    if (how_.exhaustive) how_.seconds = 0, how_.count = 0;
    if (resume_ && log_.empty()) throw std::runtime_error("expected --log with --resume, got none");
    const std::vector<tuned_kernel> all = kernels(variants);
    if (!only_.empty() || again_) return try_given(all);

    std::vector<tune_result> results;
    std::size_t wrong = 0;
    const auto report_wrong = [&](const tune_result& r) {
        for (const tried_candidate& t : r.record.tried) {
            if (t.wrong.empty()) continue;
            ++wrong;
            fmt::print(stderr,
                       "{}: BUG: a schedule changes results: {}\n    please report it; to see it again:\n    {}\n",
                       r.search, t.wrong, reproduction(r.of, t.schedule));
        }
    };
    if (!replay_.empty()) {
        const auto searches = tune_log::read(replay_);
        for (const tuned_kernel& of : all)
            if (const auto known = searches.find(name_of_search(of)); known != searches.end()) {
                tuned_kernel there = of;
                const json& begin = known->second.begin;
                there.shared_memory = begin.value("shared_memory", 0);
                if (const auto s = begin.value("shape", std::vector<std::int64_t>()); s.size() == 5)
                    there.shape = {s[0], s[1], s[2], s[3], s[4]};
                results.push_back(about(replay_, [&] { return replayed(there, known->second); }));
            }
        if (results.empty())
            throw std::runtime_error(
                fmt::format("expected a log with searches of these kernels, got \"{}\", which has none", replay_));
        for (const tune_result& r : results) report_wrong(r);
    } else {
        tune_log log(log_, resume_);
        how_.note = [](const std::string& sentence) { fmt::print(stderr, "{}\n", sentence); };
        for (const tuned_kernel& of : all) {
            progress_line line(name_of_search(of));
            const tune_options how = how_for(of);
            const auto keep_best = [&](const search_state& state) { keep(of, preliminary_entry_of(of, how, state)); };
            results.push_back(about(of.kernel.of->name, [&] { return tune(of, how, log, std::ref(line), keep_best); }));
            report_wrong(results.back());
            if (of.bucket == shape_bucket::short_prefill && results.size() > 1 &&
                is_of_same_kernel(results[results.size() - 2], results.back()))
                compare_lengths(results.back(), results[results.size() - 2].choice.schedule, how, log);
            keep(of, entry_of(results.back()));
        }
        std::set<std::string> files;
        for (const tune_result& r : results) files.insert(file_of(r.of).string());
        if (!schedules_.empty()) fmt::print(stderr, "schedules kept in {}\n", fmt::join(files, " and "));
    }
    if (!report_.empty()) write_report(report_, results);
    if (as_json_) {
        json list = json::array();
        for (const tune_result& r : results) list.push_back(json_of(r));
        fmt::print("{}\n", list.dump(1));
    } else {
        fmt::print("{}", table_of(results));
    }
    return wrong == 0 ? 0 : 1;
}

void merge_command::add_to(CLI::App& command) {
    command.add_option("files", files_, "files of schedules, all of one CPU")->required();
    command.add_option("--into", into_, "the file that is written")->required();
}

void merge_command::run() const {
    std::vector<database> all;
    for (const std::string& file : files_) all.push_back(read_database(file));
    write_database(into_, merged(all));
}

}  // namespace attune::generators::inline commands
