// Searches of small kernels, with compiling and timing.
#include "tuner/tuner.hpp"
#include "tuned_variants.hpp"
#include "tuner/quiet_machine.hpp"
#include "tuner/trials.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

using namespace attune;
using namespace attune::generators;
using namespace attune::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {
tuned_kernel small_kernel() { return {kernel_of(causal, "8", best_level_here()), shape_bucket::short_prefill}; }

tune_options few(std::size_t count) {
    tune_options how;
    how.seconds = 0, how.count = count, how.timing_seconds = 1e-4;
    return how;
}

const auto no_progress = [](const tune_progress&) {};
const auto no_incumbent = [](const search_state&) {};
}  // namespace

TEST_CASE("a candidate whose results are wrong is reported with what is wrong, and cannot win") {
    const tuned_kernel of = small_kernel();
    tune_log log({}, false);
    tune_options how = few(3);
    how.jobs = 1;
    std::optional<schedule> planted;  // the first candidate that is compiled
    how.compile = [&](const listed_kernel& k) {
        listed_kernel other = k;
        if (!planted && !(k.request.schedule == of.kernel.request.schedule)) planted = k.request.schedule;
        if (k.request.schedule == planted) other.request.facts = facts_of(full.graph);  // no mask, so wrong
        return std::make_unique<jit_kernel>(other);
    };
    const tune_result result = tune(of, how, log, no_progress, no_incumbent);
    REQUIRE(planted);
    CHECK(result.wrong == std::vector{*planted});
    REQUIRE(result.record.tried.size() == 3);
    CHECK_THAT(result.record.tried[0].wrong, ContainsSubstring("of the double-precision reference, got an error of"));
    CHECK(result.record.tried[0].rounds.empty());
    CHECK_FALSE(result.record.tried[1].rounds.empty());
    CHECK_FALSE(result.choice.schedule == *planted);
}

TEST_CASE("a gradient is searched as others are: wrong candidates are found, and the log gives the same entry again") {
    const tuned_kernel of{kernel_of(backward_of_causal, "8", best_level_here()), shape_bucket::gradient};
    const temporary_path file("gradient");
    tune_options how = few(2);
    how.jobs = 1;
    std::optional<schedule> planted;
    how.compile = [&](const listed_kernel& k) {
        listed_kernel other = k;
        if (!planted && !(k.request.schedule == of.kernel.request.schedule)) planted = k.request.schedule;
        if (k.request.schedule == planted) other.request.facts = facts_of(backward_of_full.graph);  // no mask, so wrong
        return std::make_unique<jit_kernel>(other);
    };
    tune_log log(file.path, false);
    const tune_result result = tune(of, how, log, no_progress, no_incumbent);
    REQUIRE(planted);
    CHECK(result.wrong == std::vector{*planted});
    REQUIRE(result.record.tried.size() == 2);
    CHECK_THAT(result.record.tried[0].wrong, ContainsSubstring("of the double-precision reference, got an error of"));
    CHECK(result.record.tried[1].wrong.empty());
    CHECK_FALSE(result.record.tried[1].rounds.empty());
    const database_entry entry = entry_of(result);
    CHECK(entry.key.text() == "masked f32 8x8 " + std::string(best_level_here()) + " gradient");
    CHECK(entry_of(replayed(of, tune_log::read(file.path).at(name_of_search(of)))) == entry);
}

TEST_CASE("a default schedule whose results are wrong is no start for a search") {
    const tuned_kernel of = small_kernel();
    tune_log log({}, false);
    tune_options how = few(1);
    how.compile = [&](const listed_kernel& k) {
        listed_kernel other = k;
        other.request.facts = facts_of(full.graph);
        return std::make_unique<jit_kernel>(other);
    };
    CHECK_THROWS_MATCHES(tune(of, how, log, no_progress, no_incumbent), std::runtime_error,
                         MessageMatches(ContainsSubstring("expected a default schedule whose results are right")));
}

TEST_CASE("a search that was interrupted goes on where it was; its log gives the same choice again") {
    const tuned_kernel of = small_kernel();
    const temporary_path log_file("tuner");
    const std::filesystem::path& file = log_file.path;
    std::size_t compiled = 0;
    const auto search = [&](std::size_t count, bool resume) {
        tune_log log(file, resume);
        tune_options how = few(count);
        how.jobs = 1;
        compiled = 0;
        how.compile = [&](const listed_kernel& k) {
            ++compiled;
            return std::make_unique<jit_kernel>(k);
        };
        return tune(of, how, log, no_progress, no_incumbent);
    };
    const tune_result before = search(2, false);
    // As if it had been killed before its end: the line of the last rounds is not there.
    std::string text;
    {
        std::ifstream in(file);
        text.assign(std::istreambuf_iterator<char>(in), {});
    }
    std::filesystem::resize_file(file, text.rfind('\n', text.size() - 2) + 1);
    const tune_result result = search(4, true);
    CHECK(result.record.tried.size() == 4);
    for (std::size_t i = 0; i < 2; ++i)
        CHECK(result.record.tried[i].at == before.record.tried[i].at);  // not done again
    CHECK(compiled <= 5);  // the default, two new ones, and of those before what may still be chosen
    const tune_result again = replayed(of, tune_log::read(file).at(name_of_search(of)));
    CHECK(again.choice.schedule == result.choice.schedule);
    CHECK(again.choice.over_default.ratio == result.choice.over_default.ratio);
    CHECK(again.rank_correlation == result.rank_correlation);
    CHECK(entry_of(again) == entry_of(result));
    search(4, true);
    CHECK(compiled == 0);  // it had ended
    {
        tune_log log(file, true);
        tune_options how = few(4);
        how.seed = 99;
        CHECK_THROWS_MATCHES(tune(of, how, log, no_progress, no_incumbent), std::runtime_error,
                             MessageMatches(ContainsSubstring("expected a log whose search has seed 99, got 1")));
    }
}

TEST_CASE(
    "times of another day's default are no times of today's: the search begins anew, says so, and the log goes on from "
    "there") {
    const tuned_kernel of = small_kernel();
    const temporary_path file("updated");
    std::vector<std::string> notes;
    const auto search = [&](const tuned_kernel& kernel) {
        tune_log log(file.path, true);
        tune_options how = few(2);
        how.note = [&](const std::string& sentence) { notes.push_back(sentence); };
        return tune(kernel, how, log, no_progress, no_incumbent);
    };
    tuned_kernel before = of;  // as an earlier version of attune had it
    std::get<cpu_prefill>(before.kernel.request.schedule).query_block *= 2;
    search(before);
    CHECK(notes.empty());
    const tune_result result = search(of);
    REQUIRE(notes.size() == 1);
    CHECK_THAT(notes[0], ContainsSubstring("the log's search had ") && ContainsSubstring("today's has ") &&
                             ContainsSubstring(": a new one begins"));
    CHECK(result.record.tried.size() == 2);
    CHECK(result.record.last->schedules.front() == of.kernel.request.schedule);
    CHECK(search(of).record.last->seconds == result.record.last->seconds);  // and this one is whole
    REQUIRE(notes.size() == 2);
    CHECK_THAT(notes[1], ContainsSubstring("the log holds the whole search"));
    CHECK(entry_of(replayed(of, tune_log::read(file.path).at(name_of_search(of)))) == entry_of(result));
}

TEST_CASE("a search that ends in the middle of a candidate has kept every one before it") {
    const tuned_kernel of = small_kernel();
    const temporary_path file("ended");
    struct killed {};
    tune_options how = few(4);
    how.jobs = 1;
    int compiled = 0;
    how.compile = [&](const listed_kernel& k) {
        if (++compiled == 4) throw killed{};  // the default, two candidates, and the one at hand
        return std::make_unique<jit_kernel>(k);
    };
    {
        tune_log log(file.path, false);
        CHECK_THROWS_AS(tune(of, how, log, no_progress, no_incumbent), killed);
    }
    CHECK(tune_log::read(file.path).at(name_of_search(of)).tried.size() == 2);
}

TEST_CASE("a companion process runs while times are taken, and is told when they are") {
    const temporary_path sign("companion");
    const std::filesystem::path& file = sign.path;
    {
        const companion_process quiet("echo ready; cat; touch " + file.string());
        CHECK_FALSE(std::filesystem::exists(file));
    }
    CHECK(std::filesystem::exists(file));
    CHECK_NOTHROW(companion_process(""));
    CHECK_THROWS_MATCHES(companion_process("exit 3"), std::runtime_error,
                         MessageMatches(ContainsSubstring("expected --while-timing to name a command")));
}
