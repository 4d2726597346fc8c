// The times of exhaustive searches (exhaustive/*.json, made by condense.py), against what the cost model and the tuner
// would have chosen from it.
#include "schedules/database.hpp"
#include "schedules/search_space.hpp"
#include "tuned_variants.hpp"
#include "tuner/search.hpp"

#include <catch2/catch_test_macros.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

using namespace attune;
using namespace attune::generators;
using namespace attune::testing;

namespace {
struct measured_space {
    tuned_kernel of;
    std::vector<schedule> space;
    std::vector<double> over_default;  ///< of each, over the default of the day of measuring
    double seconds_a_candidate{};      ///< compiling on one core, and timing
};

measured_space read(const std::filesystem::path& file) {
    const auto data = nlohmann::json::parse(std::ifstream(file));
    const std::string about = data.at("class");
    measured_space m;
    for (const variant* of : {&full, &causal})
        for (const char* depths : {"64", "128"})
            for (const listed_kernel& k : kernels_of({of, 1}, {.targets = {"x86-64-v3"},
                                                               .dtypes = {"f32"},
                                                               .depths = {depths},
                                                               .shapes = {"prefill", "decode"}}))
                for (const shape_bucket bucket : shape_buckets())
                    if (key_of(k, bucket).text() == about &&
                        (bucket == shape_bucket::decode) == decodes(k.request.schedule))
                        m.of = {k, bucket};
    REQUIRE(m.of.kernel.of != nullptr);
    const std::vector<std::string> fields = data.at("fields").get<std::vector<std::string>>();
    const auto& rows = data.at("candidates");
    // Fields that the search did not vary may have another default today.
    const auto today = nlohmann::json::parse(to_json(m.of.kernel.request.schedule));
    const auto is_searched = [&](std::size_t i) {
        return std::any_of(rows.begin(), rows.end(),
                           [&](const auto& row) { return row[i] != data.at("default").at(fields[i]); });
    };
    nlohmann::json usual = data.at("default");
    std::vector<std::size_t> searched;
    for (std::size_t i = 0; i + 1 < fields.size(); ++i)
        if (is_searched(i))
            searched.push_back(i);
        else if (today.contains(fields[i]))
            usual[fields[i]] = today.at(fields[i]);
    m.space = candidates(m.of);
    m.over_default.assign(m.space.size(), 0);
    const auto put = [&](const nlohmann::json& schedule, double ratio) {
        const auto at =
            std::find(m.space.begin(), m.space.end(), schedule_from_json(schedule.dump(), *m.of.kernel.request.target));
        CAPTURE(schedule.dump());
        REQUIRE(at != m.space.end());
        m.over_default[static_cast<std::size_t>(at - m.space.begin())] = ratio;
    };
    put(usual, 1);
    for (const auto& row : rows) {
        nlohmann::json schedule = usual;
        for (const std::size_t i : searched) schedule[fields[i]] = row[i];
        put(schedule, row.back());
    }
    m.seconds_a_candidate = data.at("compile_seconds").get<double>() + 0.3;
    return m;
}
}  // namespace

TEST_CASE("of spaces measured throughout, the cost model alone and three minutes of search come near to the best") {
    std::size_t files = 0;
    for (const auto& file : std::filesystem::directory_iterator(ATTUNE_EXHAUSTIVE)) {
        if (file.path().extension() != ".json") continue;
        ++files;
        const measured_space m = read(file.path());
        CAPTURE(file.path().string());
        CHECK(m.space.size() >= 300);
        CHECK(std::count(m.over_default.begin(), m.over_default.end(), 0) ==
              0);  // every candidate of today's space was measured
        const std::vector<double> costs = costs_of(m.of, m.space);
        const auto time_of = [&](const schedule& s) {
            return m
                .over_default[static_cast<std::size_t>(std::find(m.space.begin(), m.space.end(), s) - m.space.begin())];
        };
        const double best = *std::min_element(m.over_default.begin(), m.over_default.end());
        const double modelled = time_of(modelled_choice(m.of).first);
        // Three minutes on two cores; a candidate's timing needs the machine for itself.
        const auto count = static_cast<std::size_t>(180 / (m.seconds_a_candidate / 2 + 0.15));
        double worst_search = 0;
        for (unsigned seed = 1; seed <= 20; ++seed) {
            const search_state state(m.space, costs, seed, {}, false);
            double found = m.over_default.front();  // today's default
            for (std::size_t i = 0; i < std::min(count, state.order().size()); ++i)
                found = std::min(found, time_of(state.order()[i]));
            worst_search = std::max(worst_search, found);
        }
        const double correlation = rank_correlation(costs, m.over_default);
        std::printf(
            "%-24s %zu candidates: best %.3f of the default's time; model's pick %.3f; searches of %zu candidates at "
            "worst %.3f; rank correlation %.2f\n",
            file.path().filename().c_str(), m.space.size(), best, modelled, count, worst_search, correlation);
        CHECK(best / worst_search >= 0.95);
        CHECK(worst_search / modelled >= 0.90);
        CHECK(correlation > 0.5);
    }
    CHECK(files >= 3);
}
