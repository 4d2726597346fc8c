#include "tuner/tuner.hpp"

#include "base/formatting.hpp"
#include "codegen/object.hpp"
#include "kernel/shared_memory.hpp"
#include "tuner/quiet_machine.hpp"
#include "tuner/trials.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <mutex>
#include <stdexcept>
#include <thread>

namespace attune::generators::inline tuner {
namespace {

using json = nlohmann::ordered_json;
using clock = std::chrono::steady_clock;

/// Candidates a phase: those at hand, which a kill loses, are as few as can be compiled at a time, unless phases are
/// costly to others.
std::size_t candidates_a_phase(const tune_options& how) {
    return how.while_timing.empty() ? static_cast<std::size_t>(std::max(1, how.jobs)) : 16;
}

std::string today() {
    const std::time_t now = std::time(nullptr);
    char text[16];
    std::strftime(text, sizeof text, "%Y-%m-%d", std::gmtime(&now));
    return text;
}

listed_kernel under(const tuned_kernel& of, const schedule& s) {
    listed_kernel k = of.kernel;
    k.request.schedule = s;
    return k;
}

search_state state_of(const tuned_kernel& of, const std::vector<schedule>& space, const json& begin) {
    duel_rules rules;
    rules.confidence = begin.at("confidence").get<double>();
    return {space, costs_of(of, space), begin.at("seed").get<unsigned>(), rules, begin.at("exhaustive").get<bool>()};
}

tune_result result_of(const tuned_kernel& of, const std::vector<schedule>& space, const search_state& state,
                      const recorded_search& record) {
    tune_result result{name_of_search(of), of, record, state.decide(*record.last), space.size(), state.noise(), 0, {}};
    std::vector<schedule> timed;
    std::vector<double> times;
    for (const auto& [s, score] : state.scores()) timed.push_back(s), times.push_back(score);
    result.rank_correlation = rank_correlation(costs_of(of, timed), times);
    for (const tried_candidate& t : record.tried)
        if (!t.wrong.empty()) result.wrong.push_back(t.schedule);
    return result;
}

device_access* device_of(const tuned_kernel& of, const tune_options& how) {
    return of.kernel.request.on_gpu() ? how.device : nullptr;
}

/// A candidate that was compiled and is right, or not.
struct compiled_candidate {
    schedule cut;
    std::shared_ptr<jit_kernel> kernel;
    std::string wrong;
    double seconds{};
    bool fits{true};  ///< a GPU's shared memory: how much of it a kernel takes is known once it is compiled
};

/// One kernel's search while it goes on.
class running_search {
public:
    running_search(const tuned_kernel& of, const tune_options& how, tune_log& log,
                   const std::function<void(const tune_progress&)>& progress,
                   const std::function<void(const search_state&)>& best_so_far)
        : of_(of),
          how_(how),
          log_(log),
          progress_(progress),
          best_so_far_(best_so_far),
          name_(name_of_search(of)),
          space_(candidates(of)),
          record_(begun()),
          state_(state_of(of, space_, record_.begin)),
          checks_(of.kernel, device_of(of, how) ? of.kernel.request.target->called() : ""),
          call_(of.kernel, of.shape, how.threads, device_of(of, how)) {
        for (const tried_candidate& t : record_.tried) state_.record(t);
        before_ = record_.tried.empty() ? 0 : record_.tried.back().at;
    }

    tune_result run() {
        if (record_.last) {
            how_.note(name_ +
                      ": the log holds the whole search, and nothing is timed again; without that log, or without "
                      "--resume, it is");
        } else {
            default_ = compiled(space_.front());
            if (!default_.wrong.empty())
                throw std::runtime_error(fmt::format("{}: expected a default schedule whose results are right, got {}",
                                                     name_, default_.wrong));
            if (!default_.fits)
                throw no_room(name_ +
                              ": expected a default schedule that fits the device's shared memory, got one that does "
                              "not; try other --depths");
            kept_.push_back(default_);
            for (std::vector<schedule> next = next_batch(); !next.empty(); next = next_batch()) {
                const auto made = compiled_together(next);
                report(true);
                const companion_process quiet(how_.while_timing);
                for (const compiled_candidate& c : made) try_out(c);
                report(false);
            }
            record_.last = finals();
            log_.end(name_, *record_.last);
        }
        return result_of(of_, space_, state_, record_);
    }

private:
    /// The log's record of this search, or a new one: times hold for one kernel, space, machine and version. The user's
    /// options are compared apart.
    recorded_search begun() {
        const call_shape& shape = of_.shape;
        const json asked{{"threads", how_.threads},
                         {"seed", how_.seed},
                         {"confidence", how_.confidence},
                         {"exhaustive", how_.exhaustive}};
        json about{{"class", key_of(of_.kernel, of_.bucket).text()},
                   {"fingerprint", fmt::format("{:016x}", of_.kernel.request.graph().fingerprint)},
                   {"shape", {shape.batches, shape.heads, shape.key_heads, shape.queries, shape.keys}},
                   {"threads", how_.threads},
                   {"space", space_.size()},
                   {"default", json::parse(to_json(space_.front()))},
                   {"seed", how_.seed},
                   {"confidence", how_.confidence},
                   {"exhaustive", how_.exhaustive},
                   {"cpu", measured_machine(of_, how_).id()},
                   {"attune", ATTUNE_VERSION},
                   {"halide", halide_version()},
                   {"date", today()}};
        if (of_.shared_memory > 0) about["shared_memory"] = of_.shared_memory;
        const auto known = log_.searches().find(name_);
        if (known == log_.searches().end()) return begun_anew(about);
        const auto before = [&](const std::string& field) { return known->second.begin.value(field, json()); };
        for (const auto& [field, value] : about.items())
            if (field != "date" && !asked.contains(field) && before(field) != value) {
                how_.note(fmt::format("{}: the log's search had {} {}, today's has {}: a new one begins", name_, field,
                                      before(field).dump(), value.dump()));
                return begun_anew(about);
            }
        for (const auto& [field, value] : asked.items())
            if (before(field) != value)
                throw std::runtime_error(
                    fmt::format("{}: expected a log whose search has {} {}, got {}; try another --log, or no --resume",
                                name_, field, value.dump(), before(field).dump()));
        for (const tried_candidate& t : known->second.tried)
            if (std::find(space_.begin(), space_.end(), t.schedule) == space_.end()) {
                how_.note(fmt::format("{}: the log's search tried {}, which is not in today's space: a new one begins",
                                      name_, to_json(t.schedule)));
                return begun_anew(about);
            }
        return known->second;
    }

    recorded_search begun_anew(const json& about) {
        log_.begin(name_, about);
        return {about, {}, {}, {}};
    }

    double elapsed() const { return before_ + std::chrono::duration<double>(clock::now() - start_).count(); }

    std::vector<schedule> next_batch() const {
        std::vector<schedule> next;
        const std::size_t limit = how_.count == 0 ? state_.order().size() : std::min(how_.count, state_.order().size());
        if (how_.seconds > 0 && elapsed() >= how_.seconds) return {};
        for (const schedule& s : state_.order())
            if (state_.tried() + next.size() < limit && next.size() < candidates_a_phase(how_) && !state_.knows(s))
                next.push_back(s);
        return next;
    }

    compiled_candidate compiled(const schedule& s) {
        const auto start = clock::now();
        compiled_candidate c{s, nullptr, {}, 0};
        try {
            c.kernel = how_.compile(under(of_, s));
            c.seconds = std::chrono::duration<double>(clock::now() - start).count();
            c.wrong = checks_.wrong(c.kernel->table(), s);
        } catch (const no_room&) {
            c.fits = false;
        } catch (const std::exception& problem) {
            c.wrong = problem.what();
        }
        return c;
    }

    std::vector<compiled_candidate> compiled_together(const std::vector<schedule>& all) {
        std::vector<compiled_candidate> made(all.size());
        std::atomic<std::size_t> next{0};
        const auto work = [&] {
            // A candidate that the budget has no time for is left for another day.
            for (std::size_t i; (i = next++) < all.size();)
                if (how_.seconds <= 0 || elapsed() < how_.seconds) made[i] = compiled(all[i]);
        };
        std::vector<std::thread> others;
        for (int i = 1; i < how_.jobs; ++i) others.emplace_back(work);
        work();
        for (std::thread& t : others) t.join();
        std::erase_if(made, [](const compiled_candidate& c) { return !c.kernel && c.wrong.empty() && c.fits; });
        return made;
    }

    const jit_kernel& incumbent() {
        for (const compiled_candidate& c : kept_)
            if (c.cut == state_.incumbent()) return *c.kernel;
        kept_.push_back(compiled(state_.incumbent()));  // of an interrupted search
        if (!kept_.back().kernel) throw std::runtime_error(name_ + ": " + kept_.back().wrong);
        return *kept_.back().kernel;
    }

    void try_out(const compiled_candidate& c) {
        tried_candidate tried{c.cut, {}, c.wrong, c.seconds, 0};
        const bool is_right = c.fits && c.wrong.empty();
        if (is_right) {
            const kernel_table &before = incumbent().table(), &now = c.kernel->table();
            for (const kernel_table* table : {&before, &now})
                call_.seconds(*table, 0);  // caches, and memory of the first call
            while (judged(tried.rounds, state_.rules()) == standing::undecided)
                tried.rounds.push_back(call_.seconds(before, now, how_.timing_seconds, tried.rounds.size()));
        }
        tried.at = elapsed();
        log_.add(name_, tried);
        record_.tried.push_back(tried);
        const bool won = state_.record(tried) == standing::faster && state_.incumbent() == c.cut;
        if (is_right && state_.scores().back().second < state_.incumbent_over_default() * 1.05) kept_.push_back(c);
        if (won) best_so_far_(state_);
    }

    final_rounds finals() {
        final_rounds last{state_.finalists(), {}};
        std::vector<std::shared_ptr<jit_kernel>> kernels;
        for (const schedule& s : last.schedules) {
            const auto known =
                std::find_if(kept_.begin(), kept_.end(), [&](const compiled_candidate& c) { return c.cut == s; });
            kernels.push_back(known != kept_.end() ? known->kernel : compiled(s).kernel);
        }
        report(true);
        const companion_process quiet(how_.while_timing);
        for (const auto& k : kernels) call_.seconds(k->table(), 0);
        for (std::size_t round = 0; round < state_.final_rounds_needed(); ++round) {
            // No two always in the same order: forwards and backwards, beginning with another one each time.
            last.seconds.emplace_back(kernels.size());
            for (std::size_t i = 0; i < kernels.size(); ++i) {
                const std::size_t turn = (round + i * (round % 2 == 0 ? 1 : kernels.size() - 1)) % kernels.size();
                last.seconds.back()[turn] = call_.seconds(kernels[turn]->table(), how_.timing_seconds);
            }
        }
        return last;
    }

    void report(bool timing) const {
        const std::size_t of = how_.count == 0 ? state_.order().size() : std::min(how_.count, state_.order().size());
        const double now = elapsed(), rest = state_.tried() == 0
                                                 ? 0
                                                 : now / static_cast<double>(state_.tried()) *
                                                       static_cast<double>(of - std::min(of, state_.tried()));
        progress_({state_.tried(), of, state_.cautious_over_default(), now,
                   how_.seconds > 0 ? std::min(rest, std::max(0.0, how_.seconds - now)) : rest, timing});
    }

    const tuned_kernel& of_;
    const tune_options& how_;
    tune_log& log_;
    const std::function<void(const tune_progress&)>& progress_;
    const std::function<void(const search_state&)>& best_so_far_;
    const std::string name_;
    const std::vector<schedule> space_;
    recorded_search record_;
    search_state state_;
    checked_calls checks_;
    timed_call call_;
    const clock::time_point start_ = clock::now();
    double before_ = 0;  ///< seconds spent before an interruption
    compiled_candidate default_;
    std::vector<compiled_candidate> kept_;  ///< what may be an incumbent or a finalist
};

}  // namespace

cpu_model measured_machine(const tuned_kernel& of, const tune_options& how) {
    if (!of.kernel.request.on_gpu() || !how.device) return this_cpu_model();
    return {"", 0, 0, how.device->name(), true};
}

std::string name_of_search(const tuned_kernel& of) {
    const auto& [facts, types, depths, target, cut, finite, tf32_products] = of.kernel.request;
    return fmt::format("{} {} {}x{} {} {}", of.kernel.of->name, symbol_part(types), depths.depth, depths.value_depth,
                       target->name, name_of(of.bucket));
}

tune_result tune(const tuned_kernel& of, const tune_options& how, tune_log& log,
                 const std::function<void(const tune_progress&)>& progress,
                 const std::function<void(const search_state&)>& best_so_far) {
    return running_search(of, how, log, progress, best_so_far).run();
}

void compare_lengths(tune_result& short_prefill, const schedule& usual, const tune_options& how, tune_log& log) {
    if (!short_prefill.record.lengths.empty() || short_prefill.choice.schedule == usual) return;
    const std::unique_ptr<jit_kernel> longer = how.compile(under(short_prefill.of, usual)),
                                      shorter = how.compile(under(short_prefill.of, short_prefill.choice.schedule));
    duel_rules rules;
    rules.confidence = how.confidence;
    const companion_process quiet(how.while_timing);
    for (const std::int64_t queries : {16, 32, 48, 64, 96, 128, 192, 256, 384, 512}) {
        const std::int64_t heads = std::max<std::int64_t>(1, 262144 / (queries * queries));
        timed_call call(short_prefill.of.kernel, {1, heads, heads, queries, queries}, how.threads);
        length_rounds at{queries, {}};
        for (const auto* kernel : {&longer, &shorter}) call.seconds((*kernel)->table(), 0);
        while (judged(at.rounds, rules) == standing::undecided)
            at.rounds.push_back(call.seconds(longer->table(), shorter->table(), how.timing_seconds, at.rounds.size()));
        short_prefill.record.lengths.push_back(std::move(at));
    }
    log.compare(short_prefill.search, short_prefill.record.lengths);
}

tune_result replayed(const tuned_kernel& of, const recorded_search& record) {
    const std::vector<schedule> space = candidates(of);
    if (record.begin.at("space") != space.size() ||
        schedule_from_json(record.begin.at("default").dump(), *of.kernel.request.target) != space.front())
        throw std::runtime_error(name_of_search(of) +
                                 ": expected the log of a search of today's space of schedules, got one of another; "
                                 "try tune without --replay");
    if (!record.last)
        throw std::runtime_error(name_of_search(of) +
                                 ": expected the log of a search that ended, got one that did not; try --resume");
    const auto known = [&](const schedule& s) { return std::ranges::find(space, s) != space.end(); };
    const auto refuse_strange = [&](const schedule& s) {
        if (!known(s))
            throw std::runtime_error(
                fmt::format("{}: expected schedules of the search's space, got {}; try tune "
                            "without --replay",
                            name_of_search(of), to_json(s)));
    };
    for (const tried_candidate& t : record.tried) refuse_strange(t.schedule);
    for (const schedule& s : record.last->schedules) refuse_strange(s);
    search_state state = state_of(of, space, record.begin);
    for (const tried_candidate& t : record.tried) state.record(t);
    return result_of(of, space, state, record);
}

std::vector<std::pair<schedule, double>> scores_of(const tune_result& result) {
    search_state state = state_of(result.of, candidates(result.of), result.record.begin);
    for (const tried_candidate& t : result.record.tried) state.record(t);
    return state.scores();
}

database_entry entry_of(const tune_result& result) {
    const search_choice& c = result.choice;
    const json& begin = result.record.begin;
    const auto text = [&](const char* field) { return begin.at(field).get<std::string>(); };
    duel_rules rules;
    rules.confidence = begin.at("confidence").get<double>();
    return {key_of(result.of.kernel, result.of.bucket),
            c.schedule,
            longest_served(result.record.lengths, rules),
            result.of.shape,
            begin.at("threads").get<int>(),
            c.seconds,
            1 / c.over_default.ratio,
            c.over_default.noise(),
            static_cast<int>(std::max<std::size_t>(1, result.record.tried.size())),
            text("attune"),
            text("halide"),
            text("date")};
}

database_entry preliminary_entry_of(const tuned_kernel& of, const tune_options& how, const search_state& state) {
    const comparison c = state.last_victory();
    return {key_of(of.kernel, of.bucket),
            state.incumbent(),
            0,
            of.shape,
            how.threads,
            state.incumbent_seconds(),
            1 / state.cautious_over_default(),
            c.noise(),
            static_cast<int>(state.tried()),
            ATTUNE_VERSION,
            halide_version(),
            today()};
}

}  // namespace attune::generators::inline tuner
