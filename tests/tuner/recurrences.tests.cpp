// Recurrences: their kinds of calls, the space, the numbers of their calls, searches, and entries in files.
#include "schedules/recurrences.hpp"
#include "kernel/cpu_schedule.hpp"
#include "schedules/schedule_source.hpp"
#include "tuned_variants.hpp"
#include "tuner/recurrent_calls.hpp"
#include "tuner/trials.hpp"
#include "tuner/tuner.hpp"

#include <attune/dsl/recurrent.hpp>
#include <attune/ir/recurrence.hpp>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cmath>
#include <optional>

using namespace attune;
using namespace attune::generators;
using namespace attune::testing;
using Catch::Matchers::ContainsSubstring;

namespace steps {
using namespace attune::dsl;
inline constexpr auto q_new = input<"q_new", f32>(batch, key_head, query, depth);
inline constexpr auto k_new = input<"k_new", f32>(batch, key_head, query, depth);
inline constexpr auto v_new = input<"v_new", f32>(batch, head, query, value_depth);
inline constexpr auto log_decay = input<"log_decay", f32>(batch, head, query);
inline constexpr auto decays = input<"decays", bf16>(batch, head, query, depth);
inline constexpr auto kappa = input<"kappa", f32>(batch, head, query, depth);
inline constexpr auto rates = input<"rates", f32>(batch, head, query, depth);
inline constexpr auto beta = input<"beta", f32>(batch, head, query);
inline constexpr auto state_in = input<"state_in", f32>(batch, head, depth, value_depth);

template <class States> constexpr auto read(States states) {
    return outputs(out = q_new * states, output<"state_out"> = last(states));
}
inline constexpr auto gated = read(recurrence(state_in, [](auto S) {
    const auto kept = exp(log_decay(b, h, q_idx)) * S;
    return kept + t(k_new) * (beta(b, h, q_idx) * (v_new - k_new * kept));
}));
/// The same inputs and another decay.
inline constexpr auto other_gated = read(recurrence(state_in, [](auto S) {
    const auto kept = exp(0.5 * log_decay(b, h, q_idx)) * S;
    return kept + t(k_new) * (beta(b, h, q_idx) * (v_new - k_new * kept));
}));
inline constexpr auto additive = read(recurrence(state_in, [](auto S) { return 0.5 * S + t(k_new) * v_new; }));
inline constexpr auto of_channels =
    read(recurrence(state_in, [](auto S) { return decays(b, h, q_idx, d_idx) * S + t(k_new) * v_new; }));
inline constexpr auto of_pairs = read(recurrence(
    state_in, [](auto S) { return decays(b, h, q_idx, d_idx) * S + t(k_new) * v_new - t(rates) * (kappa * S); }));
inline constexpr auto gated_gradient = gradient(gated);
}  // namespace steps

namespace {
const variant gated{"gated", dsl::ir_of<steps::gated>}, other_gated{"gated", dsl::ir_of<steps::other_gated>},
    additive{"additive", dsl::ir_of<steps::additive>}, of_channels{"of_channels", dsl::ir_of<steps::of_channels>},
    of_pairs{"of_pairs", dsl::ir_of<steps::of_pairs>};

/// Those of 16 tokens, of four and of one.
std::vector<listed_kernel> kernels(const variant& of, std::string_view level, const std::string& depths = "8") {
    return kernels_of(
        {&of, 1},
        {.targets = {std::string(level)}, .dtypes = {"f32"}, .depths = {depths}, .shapes = {"prefill", "decode"}});
}

tuned_kernel tuned(const variant& of, shape_bucket bucket, std::string_view level = best_level_here(),
                   const std::string& depths = "8") {
    for (const listed_kernel& each : kernels(of, level, depths))
        if (serves(each.request.schedule, bucket)) return {each, bucket};
    throw std::runtime_error("no such kernel of " + of.name);
}

cpu_recurrence cut_of(const schedule& s) { return std::get<cpu_recurrence>(s); }

database_entry entry_of_chunk(const tuned_kernel& of, int rows, int vectors) {
    database_entry e;
    e.key = key_of(of.kernel, of.bucket);
    cpu_recurrence cut = cut_of(of.kernel.request.schedule);
    cut.rows = rows, cut.vectors = vectors;
    e.schedule = cut, e.shape = of.shape, e.threads = 1, e.seconds = 1e-3, e.default_over_this = 1.125, e.noise = 0.01,
    e.tried = 30;
    e.attune = "0.2.0", e.halide = "21.0.0", e.date = "2026-11-30";
    return e;
}
}  // namespace

TEST_CASE("each kernel of a recurrence has a kind of calls of its own") {
    const std::vector<listed_kernel> all = kernels(gated, "x86-64-v3");
    REQUIRE(all.size() == 3);
    const shape_bucket kinds[] = {shape_bucket::prefill, shape_bucket::short_prefill, shape_bucket::decode};
    for (std::size_t i = 0; i < all.size(); ++i)
        for (const shape_bucket each : shape_buckets()) {
            CAPTURE(i, name_of(each));
            CHECK(serves(all[i].request.schedule, each) == (each == kinds[i]));
        }
    CHECK(tuned(gated, shape_bucket::prefill).shape == call_shape{1, 32, 32, 512, 512});
    // States of 64 MiB, more than caches hold.
    const tuned_kernel decode = tuned(gated, shape_bucket::decode, "x86-64-v3", "128"),
                       drafts = tuned(gated, shape_bucket::short_prefill, "x86-64-v3", "128x64");
    CHECK(decode.shape == call_shape{32, 32, 32, 1, 1});
    CHECK(drafts.shape == call_shape{64, 32, 32, 4, 4});
}

TEST_CASE("variants share schedules if their steps take the same products") {
    const auto class_of_kernel = [](const variant& of) {
        return key_of(kernels(of, "x86-64-v3", "16").front(), shape_bucket::prefill).text();
    };
    CHECK(class_of_kernel(gated) == "recurrence+solves f32 16x16 x86-64-v3 prefill");
    CHECK(class_of_kernel(other_gated) == class_of_kernel(gated));
    CHECK(class_of_kernel(additive) == "recurrence f32 16x16 x86-64-v3 prefill");
    CHECK(class_of_kernel(of_channels) == "recurrence+channel_decays f32 16x16 x86-64-v3 prefill");
    CHECK(class_of_kernel(of_pairs) == "recurrence+solves+channel_decays+second_pair f32 16x16 x86-64-v3 prefill");
}

TEST_CASE("the gradient of a recurrence is not searched, and takes no schedule of the forward pass") {
    const variant backwards{"backwards", dsl::ir_of<steps::gated_gradient>};
    const tuned_kernel of = tuned(backwards, shape_bucket::prefill, "x86-64-v3", "128x64");
    CHECK_THROWS_WITH(candidates(of), Catch::Matchers::ContainsSubstring("the gradient of a recurrence is not tuned"));
    const tuned_kernel forwards = tuned(gated, shape_bucket::prefill, "x86-64-v3", "128x64");
    CHECK(key_of(of.kernel, shape_bucket::prefill) != key_of(forwards.kernel, shape_bucket::prefill));
}

TEST_CASE("the space of a recurrence has chunks of 8 and 16 tokens and tiles that fit; few tokens are one chunk") {
    for (const char* level : {"x86-64-v3", "x86-64-v4", "aarch64"})
        for (const shape_bucket bucket : {shape_bucket::prefill, shape_bucket::short_prefill, shape_bucket::decode}) {
            CAPTURE(level, name_of(bucket));
            const tuned_kernel of = tuned(gated, bucket, level, "128x64");
            const std::vector<schedule> space = candidates(of);
            CHECK(space.front() == of.kernel.request.schedule);
            CHECK(space.size() >= 5);
            CHECK(space.size() <= (bucket == shape_bucket::prefill ? 24 : 12));
            std::vector<int> tokens;
            for (std::size_t i = 0; i < space.size(); ++i) {
                const cpu_recurrence s = cut_of(space[i]);
                CAPTURE(to_json(space[i]));
                CHECK_NOTHROW(check(space[i], {128, 64}));
                CHECK(serves(space[i], bucket));
                CHECK((i == 0 || 64 / s.lanes % s.vectors == 0));
                CHECK((i == 0 || fits_registers(s, *of.kernel.request.target)));
                CHECK(std::find(space.begin() + static_cast<std::ptrdiff_t>(i) + 1, space.end(), space[i]) ==
                      space.end());
                if (std::ranges::find(tokens, s.block) == tokens.end()) tokens.push_back(s.block);
            }
            std::ranges::sort(tokens);
            if (bucket == shape_bucket::prefill)
                CHECK(tokens == std::vector{8, 16});
            else
                CHECK(tokens == std::vector{bucket == shape_bucket::decode ? 1 : 4});
        }
}

TEST_CASE("states that no cache of the second level holds have the same space") {
    CHECK(candidates(tuned(gated, shape_bucket::prefill, "x86-64-v3", "512")).size() ==
          candidates(tuned(gated, shape_bucket::prefill, "x86-64-v3", "128")).size());
}

TEST_CASE("a search tries tiles first whose sums wait neither for themselves nor for memory") {
    const tuned_kernel of = tuned(gated, shape_bucket::prefill, "x86-64-v3", "128");
    const std::vector<schedule> cuts{cpu_recurrence{8, 16, 4, 2}, cpu_recurrence{8, 16, 4, 1},
                                     cpu_recurrence{8, 16, 1, 4}, cpu_recurrence{8, 16, 12, 8}};
    const std::vector<double> costs = costs_of(of, cuts);
    CHECK(costs[0] > 0);
    CHECK(costs[0] < costs[1]);  // sums that wait for themselves
    CHECK(costs[0] < costs[2]);
    CHECK(costs[0] < costs[3]);  // more sums than there are registers
    std::vector<schedule> longer{cpu_recurrence{8, 32, 4, 2}};
    CHECK(costs_of(of, longer).front() > costs[0]);  // more than twice as many pairs of tokens
}

TEST_CASE("states stay finite in a timed call, however long it is: decays are at most 1, keys about 1 long") {
    for (const variant* of : {&gated, &of_channels}) {
        support::workload call(of->graph, {.batches = 1, .heads = 1, .queries = 2000, .depth = 32, .value_depth = 4},
                               3);
        keep_states_finite(call, of->graph);
        const reference::results made = call.expected();
        for (const reference::array& output : made.outputs)
            for (const double x : output.values) {
                REQUIRE(std::isfinite(x));
                REQUIRE(std::abs(x) < 100);
            }
    }
    support::workload attention(causal.graph, {.queries = 3, .keys = 3}, 3), same = attention;
    keep_states_finite(attention, causal.graph);
    CHECK(attention["q"].reals == same["q"].reals);
}

TEST_CASE("the state of a timed call goes on in place") {
    const support::workload call(gated.graph, {.depth = 8, .value_depth = 8}, 1);
    const void* in = nullptr;
    const void* after = nullptr;
    for (const auto& each : arguments_in_place(call, gated.graph)) {
        if (each.name == "state_in") in = each.view.data();
        if (each.name == "state_out") after = each.view.data();
    }
    CHECK(in != nullptr);
    CHECK(in == after);
}

TEST_CASE("a recurrence is searched: wrong candidates are found, and the log gives the same entry again") {
    for (const shape_bucket bucket : {shape_bucket::prefill, shape_bucket::decode}) {
        CAPTURE(name_of(bucket));
        tuned_kernel of = tuned(gated, bucket);
        of.shape = {2, 2, 1, bucket == shape_bucket::decode ? 1 : 40, 1};
        const temporary_path file("recurrence");
        tune_options how;
        how.seconds = 0, how.count = 2, how.timing_seconds = 1e-4, how.jobs = 1;
        std::optional<schedule> planted;
        how.compile = [&](const listed_kernel& k) {
            listed_kernel other = k;
            if (!planted && !(k.request.schedule == of.kernel.request.schedule)) planted = k.request.schedule;
            if (k.request.schedule == planted) other.request.facts = facts_of(other_gated.graph);
            return std::make_unique<jit_kernel>(other);
        };
        tune_log log(file.path, false);
        const tune_result result = tune(of, how, log, [](const tune_progress&) {}, [](const search_state&) {});
        REQUIRE(planted);
        CHECK(result.wrong == std::vector{*planted});
        REQUIRE(!result.record.tried.empty());
        CHECK_THAT(result.record.tried[0].wrong,
                   ContainsSubstring("of the double-precision reference, got an error of"));
        // Rows as short as these have one other schedule for one token where a vector has 16 lanes.
        if (bucket == shape_bucket::decode && result.record.tried.size() == 1) continue;
        REQUIRE(result.record.tried.size() == 2);
        CHECK(result.record.tried[1].wrong.empty());
        CHECK_FALSE(result.record.tried[1].rounds.empty());
        const database_entry entry = entry_of(result);
        CHECK(entry.key.text() ==
              "recurrence+solves f32 8x8 " + std::string(best_level_here()) + " " + std::string(name_of(bucket)));
        CHECK(entry_of(replayed(of, tune_log::read(file.path).at(name_of_search(of)))) == entry);
    }
}

TEST_CASE("right candidates of every class pass the check") {
    for (const variant* of : {&additive, &of_channels, &of_pairs})
        for (const int tokens : {8, 4}) {
            CAPTURE(of->name, tokens);
            listed_kernel made = kernels(*of, best_level_here())[tokens == 8 ? 0 : 1];
            cpu_recurrence cut = cut_of(made.request.schedule);
            cut.block = tokens, cut.rows = 4, cut.vectors = 1;
            made.request.schedule = cut;
            CHECK(checked_calls(made).wrong(jit_kernel(made).table(), cut).empty());
        }
}

TEST_CASE(
    "an entry of a recurrence serves the kernel of its tokens, of its depths alone; all others stay as they are") {
    const tuned_kernel prefill = tuned(gated, shape_bucket::prefill, "x86-64-v3", "16"),
                       decode = tuned(gated, shape_bucket::decode, "x86-64-v3", "16");
    database all{{"amd", 25, 1, "AMD EPYC"}, {}};
    all.put(entry_of_chunk(prefill, 4, 2));
    all.put(entry_of_chunk(decode, 2, 2));
    CHECK(database_from_json(database_to_json(all), "x.json").entries == all.entries);
    const auto with = [&](const variant& of, const std::string& depths) {
        std::vector<listed_kernel> list = kernels(of, "x86-64-v3", depths);
        use_measured_schedules(list, all, "x.json");
        REQUIRE(list.size() == 3);  // short calls have a kernel already
        return list;
    };
    const std::vector<listed_kernel> made = with(gated, "16"), usual = kernels(gated, "x86-64-v3", "16");
    CHECK(cut_of(made[0].request.schedule) == cpu_recurrence{8, 16, 4, 2});
    CHECK_THAT(made[0].schedule_from, ContainsSubstring("x.json: recurrence+solves f32 16x16 x86-64-v3 prefill, "));
    CHECK(made[1].request.schedule == usual[1].request.schedule);
    CHECK(made[1].schedule_from == "the default");
    CHECK(cut_of(made[2].request.schedule) == cpu_recurrence{8, 1, 2, 2});
    for (const auto& [of, depths] : {std::pair(&gated, "32"), std::pair(&additive, "16")})
        for (const listed_kernel& each : with(*of, depths)) CHECK(each.schedule_from == "the default");
    std::vector<listed_kernel> modelled = kernels(gated, "x86-64-v3", "16");
    use_measured_schedules(modelled, schedule_source{{}, "model"});
    for (const listed_kernel& each : modelled) CHECK(each.schedule_from == "the default");

    // A schedule for one token is none for many.
    database_entry crossed = entry_of_chunk(decode, 2, 2);
    crossed.key.bucket = shape_bucket::prefill;
    CHECK_THROWS_WITH(
        database_from_json(database_to_json({all.cpu, {crossed}}), "x.json"),
        ContainsSubstring("expected a chunk of 5 tokens or more for a recurrence in the bucket prefill, got 1"));
}
