// Files of measured schedules: written and read, refused, merged, and what builds make of them.
#include "schedules/database.hpp"
#include "kernel/cpu_schedule.hpp"
#include "schedules/schedule_source.hpp"
#include "schedules/search_space.hpp"
#include "tuned_variants.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

using namespace attune;
using namespace attune::generators;
using namespace attune::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {
database_entry entry(int depth, shape_bucket bucket = shape_bucket::prefill, int query_tile = 16) {
    database_entry e;
    e.key = {"masked", "f32", depth, depth, "x86-64-v3", bucket};
    cpu_prefill cut = default_cpu_prefill(level_named("x86-64-v3"), {depth, depth}, masking::some);
    cut.query_tile = query_tile, cut.query_block = 4 * query_tile;
    e.schedule = cut;
    e.shape = {1, 1, 1, 1024, 1024}, e.threads = 1, e.seconds = 1e-3, e.default_over_this = 1.125, e.noise = 0.01,
    e.tried = 120;
    e.attune = "0.1.0", e.halide = "21.0.0", e.date = "2026-11-21";
    return e;
}

database some() {
    database all{{"amd", 25, 1, "AMD EPYC"}, {}};
    all.put(entry(128));
    all.put(entry(64));
    database_entry short_prefill = entry(64, shape_bucket::short_prefill, 8);
    short_prefill.up_to_queries = 128;
    all.put(short_prefill);
    return all;
}

std::string changed(const std::string& from, const std::string& to) {
    std::string text = database_to_json(some());
    REQUIRE(text.find(from) != text.npos);
    return text.replace(text.find(from), from.size(), to);
}
void refuses(const std::string& text, const std::string& sentence) {
    CAPTURE(sentence);
    CHECK_THROWS_MATCHES(database_from_json(text, "x.json"), std::runtime_error,
                         MessageMatches(ContainsSubstring(sentence)));
}
}  // namespace

TEST_CASE("a file of schedules comes back as it was, in the order of its keys whatever the order of putting") {
    const database all = some(), again = database_from_json(database_to_json(all), "x.json");
    CHECK(again.entries == all.entries);
    CHECK(again.cpu.same_as(all.cpu));
    database other{all.cpu, {}};
    for (auto e = all.entries.rbegin(); e != all.entries.rend(); ++e) other.put(*e);
    CHECK(database_to_json(other) == database_to_json(all));
    CHECK(all.entries[0].key.depth == 64);
    CHECK(database_to_json(database{all.cpu, {}}).find("entries") != std::string::npos);
    CHECK(database_from_json(database_to_json(database{all.cpu, {}}), "x.json").entries.empty());
}

TEST_CASE("a file that was written before some names changed is read") {
    database all = some();
    for (database_entry& each : all.entries) each.key.variants = "masked+pair_outputs";
    std::string before = database_to_json(all);
    for (const auto& [now, then] : {std::pair("+pair_outputs", "+pairs"), std::pair("\"value_chunk\"", "\"chunk\"")}) {
        REQUIRE(before.find(now) != before.npos);
        for (std::size_t at; (at = before.find(now)) != before.npos;)
            before.replace(at, std::string_view(now).size(), then);
    }
    CHECK(database_from_json(before, "x.json").entries == all.entries);
}

TEST_CASE("what is no file of schedules is refused, and the sentence says why") {
    const std::string whole = database_to_json(some());
    for (std::size_t size = 0; size + 2 < whole.size(); size += 37)
        refuses(whole.substr(0, size), "expected a JSON file of schedules, got text that is no JSON");
    refuses("[]", "expected an object");
    refuses(changed("attune-schedules", "something"), "expected \"schema\": \"attune-schedules\", got \"something\"");
    refuses(changed("\"version\": 1", "\"version\": 2"), "expected \"version\": 1, got 2");
    refuses(changed("\"version\": 1", "\"version\": 1, \"colour\": 1"), "got \"colour\"");
    refuses(changed("\"tried\":120", "\"tried\":120,\"colour\":1"), "measured: expected the fields");
    refuses(changed("\"date\":\"2026-11-21\"", "\"day\":\"2026-11-21\""), "expected the field \"date\", got none");
    refuses(changed("\"depth\":64", "\"depth\":0"), "expected an integer from 1 to 4096 in \"depth\", got 0");
    refuses(changed("\"depth\":64", "\"depth\":64.5"), "expected an integer from 1 to 4096 in \"depth\", got 64.5");
    refuses(changed("\"depth\":64", "\"depth\":18446744073709551615"), "expected an integer from 1 to 4096");
    refuses(changed("\"seconds\":0.001", "\"seconds\":-1"), "expected a positive number in \"seconds\"");
    refuses(changed("\"seconds\":0.001", "\"seconds\":\"fast\""), "expected a positive number in \"seconds\"");
    refuses(changed("[1,1,1,1024,1024]", "[1,1,1024,1024]"), "expected five positive integers in \"shape\"");
    refuses(changed("x86-64-v3", "x86-64-v9"), "expected a target among");
    refuses(changed("\"bucket\":\"prefill\"", "\"bucket\":\"long\""), "expected a shape bucket among");
    refuses(changed("\"lanes\":8", "\"lanes\":7"),
            "x.json, entry 1: expected a schedule's lanes to be those of a level");
    refuses(changed("\"lanes\":8", "\"lanes\":1"),
            "x.json, entry 1: expected a schedule's lanes to be those of a level, 4, 8 or 16, got 1; try 4");
    refuses(changed("\"key_block\":", "\"key_block\":100000"),
            "x.json, entry 1: expected a schedule's key_block to be 4096 at most, got 100000");
    refuses(changed("\"up_to_queries\":128", "\"up_to_queries\":0"), "expected an integer from 1");
    database of_a_gradient = some();
    of_a_gradient.entries.front().schedule = cpu_gradient{8, 48, 24, 4, 4, 6, 16};
    refuses(database_to_json(of_a_gradient),
            "expected a schedule for prefill in the bucket prefill, got one for gradient");
    refuses(changed(R"("bucket":"prefill")", R"("bucket":"gradient")"),
            "expected a schedule for gradient in the bucket gradient, got one for prefill");
    database twice = some();
    twice.entries.push_back(twice.entries.back());
    refuses(database_to_json(twice), "entries are in the order of their keys, each once");
    CHECK_THROWS_MATCHES(
        read_database("/nowhere/x.json"), std::runtime_error,
        MessageMatches(ContainsSubstring("expected a file of schedules that can be read, got \"/nowhere/x.json\"")));
}

TEST_CASE("an entry is replaced by its key, others stay; a file of another CPU is not touched") {
    const temporary_path folder("database");
    const database all = some();
    update_database(folder.path, all.cpu, all.entries);
    database_entry better = entry(64);
    better.default_over_this = 1.5;
    update_database(folder.path, all.cpu, {better});
    const database read = read_database(folder.path / "amd-25-1.json");
    REQUIRE(read.entries.size() == all.entries.size());
    CHECK(*read.nearest(better.key) == better);
    CHECK(*read.nearest(entry(128).key) == entry(128));
    std::size_t files = 0;
    for ([[maybe_unused]] const auto& each : std::filesystem::directory_iterator(folder.path)) ++files;
    CHECK(files == 1);  // nothing is left beside it
    database foreign = some();
    foreign.cpu.model = 2;
    write_database(folder.path / "amd-25-1.json", foreign);
    CHECK_THROWS_MATCHES(update_database(folder.path, all.cpu, {better}), std::runtime_error,
                         MessageMatches(ContainsSubstring("expected schedules of amd-25-1, got those of amd-25-2")));
    std::ofstream(folder.path / "amd-25-1.json") << "{";
    CHECK_THROWS_MATCHES(update_database(folder.path, all.cpu, {better}), std::runtime_error,
                         MessageMatches(ContainsSubstring("no JSON")));
}

TEST_CASE("files are merged: all keys, the newest of each") {
    database old = some(), fresh{old.cpu, {}};
    database_entry newer = entry(64), older = entry(128), other = entry(32);
    newer.date = "2026-12-01", newer.tried = 7, older.date = "2025-01-01", older.tried = 8;
    for (const auto& e : {newer, older, other}) fresh.put(e);
    for (const auto& both : {std::vector{old, fresh}, std::vector{fresh, old}}) {
        const database all = merged(both);
        CHECK(all.entries.size() == 4);
        CHECK(all.nearest(newer.key)->tried == 7);
        CHECK(all.nearest(older.key)->tried == 120);
    }
    fresh.cpu.model = 17;
    CHECK_THROWS_MATCHES(
        merged({old, fresh}), std::runtime_error,
        MessageMatches(ContainsSubstring("expected files of one CPU or GPU, amd-25-1, got one of amd-25-17")));
}

TEST_CASE(
    "the nearest entry serves depths that were not measured, and none of another class, element type, level or "
    "bucket") {
    const database all = some();
    const auto depth_for = [&](int depth) {
        return all.nearest({"masked", "f32", depth, depth, "x86-64-v3", shape_bucket::prefill})->key.depth;
    };
    CHECK(depth_for(64) == 64);
    CHECK(depth_for(80) == 64);
    CHECK(depth_for(96) == 128);
    CHECK(depth_for(512) == 128);
    CHECK(all.nearest({"masked", "bf16", 64, 64, "x86-64-v3", shape_bucket::prefill}) == nullptr);
    CHECK(all.nearest({"full", "f32", 64, 64, "x86-64-v3", shape_bucket::prefill}) == nullptr);
    CHECK(all.nearest({"masked", "f32", 64, 64, "x86-64-v4", shape_bucket::prefill}) == nullptr);
    CHECK(all.nearest({"masked", "f32", 64, 64, "x86-64-v3", shape_bucket::decode}) == nullptr);
    CHECK(all.nearest({"window", "f32", 64, 64, "x86-64-v3", shape_bucket::prefill}) == nullptr);
}

TEST_CASE("a window has a class of its own, whether the formula or the call says how wide it is") {
    const auto class_of = [](const variant& of) {
        return key_of(kernel_of(of, "64", "x86-64-v3"), shape_bucket::prefill).text();
    };
    CHECK(class_of(full) == "full f32 64x64 x86-64-v3 prefill");
    CHECK(class_of(causal) == "masked f32 64x64 x86-64-v3 prefill");
    CHECK(class_of(window_of_call) == "window f32 64x64 x86-64-v3 prefill");
}

TEST_CASE("what a formula and its element types allow is theirs, whatever an entry says") {
    const auto of_types = [](const char* dtype) {
        return std::vector{kernel_of(causal, "64", "x86-64-v4-bf16", dtype)};
    };
    const auto tuned = [&](const char* dtype, int pairing, int key_tile) {
        database all{{"amd", 25, 1, "AMD EPYC"}, {}};
        database_entry e = entry(64);
        e.key.types = dtype, e.key.level = "x86-64-v4-bf16";
        cpu_prefill cut = default_cpu_prefill(level_named("x86-64-v4-bf16"), {64, 64}, masking::some);
        cut.pairing = pairing, cut.key_tile = key_tile, cut.key_block = 21 * key_tile;
        e.schedule = cut;
        all.put(e);
        auto list = of_types(dtype);
        use_measured_schedules(list, all, "x.json");
        return list.front();
    };
    CHECK(pairing_of(of_types("bf16").front().request.schedule) == 2);
    CHECK(pairing_of(tuned("f32", 2, 4).request.schedule) == 1);
    CHECK(tuned("f32", 2, 4).request.blocks().key_block == 84);
    CHECK(pairing_of(tuned("bf16", 1, 4).request.schedule) == 2);
    CHECK(tuned("bf16", 1, 3).request.schedule == of_types("bf16").front().request.schedule);  // 63 keys do not pair
    CHECK(tuned("bf16", 1, 3).schedule_from == "the default");
}

TEST_CASE("gradients have entries of their own, which serve them and nothing else") {
    database all = some();
    database_entry e = entry(64, shape_bucket::gradient);
    e.schedule = cpu_gradient{8, 96, 24, 4, 4, 6, 16};
    all.put(e);
    CHECK(database_from_json(database_to_json(all), "x.json").entries == all.entries);
    const auto with = [](const database& measured, const char* depths) {
        std::vector<listed_kernel> list{kernel_of(backward_of_causal, depths, "x86-64-v3")};
        use_measured_schedules(list, measured, "x.json");
        REQUIRE(list.size() == 1);
        return list.front();
    };
    CHECK(with(all, "64").request.schedule == e.schedule);
    CHECK_THAT(with(all, "64").schedule_from, ContainsSubstring("x.json: masked f32 64x64 x86-64-v3 gradient, "));
    CHECK(with(all, "128").request.schedule == e.schedule);
    CHECK(with(all, "24").request.schedule == kernel_of(backward_of_causal, "24", "x86-64-v3").request.schedule);
    CHECK(with(some(), "64").schedule_from == "the default");
    std::vector<listed_kernel> full{kernel_of(backward_of_full, "64", "x86-64-v3")};
    use_measured_schedules(full, all, "x.json");
    CHECK(full.front().schedule_from == "the default");
    use_measured_schedules(full, {{}, "model"});
    CHECK(full.front().schedule_from == "the default");
}

TEST_CASE("kernels have the measured schedules of the CPU that a build is for, and say so") {
    const temporary_path folder("database");
    const database all = some();
    std::filesystem::create_directories(folder.path);
    write_database(folder.path / "amd-25-1.json", all);
    const auto with = [&](const std::string& depths, const std::string& cpu) {
        std::vector<listed_kernel> list{kernel_of(causal, depths, "x86-64-v3")};
        use_measured_schedules(list, {folder.path, cpu});
        return list;
    };
    const listed_kernel usual = kernel_of(causal, "64", "x86-64-v3");
    CHECK(with("64", "generic").front().request.schedule == usual.request.schedule);
    CHECK(with("64", "generic").front().schedule_from == "the default");

    // Short calls have a kernel of their own, up to the length that the file says and no further.
    const auto tuned = with("64", "amd-25-1");
    REQUIRE(tuned.size() == 2);
    CHECK(tuned[0].request.schedule ==
          all.nearest({"masked", "f32", 64, 64, "x86-64-v3", shape_bucket::short_prefill})->schedule);
    CHECK(tuned[0].to_queries == 128);
    CHECK(tuned[0].symbol != tuned[1].symbol);
    CHECK(tuned[1].request.schedule == entry(64).schedule);
    CHECK(tuned[1].to_queries == usual.to_queries);
    CHECK(tuned[1].symbol == usual.symbol);
    CHECK(tuned[1].schedule_from ==
          "amd-25-1.json: masked f32 64x64 x86-64-v3 prefill, +12.5 % on the default (1.0 % noise), measured "
          "2026-11-21 by attune 0.1.0");
    CHECK_THAT(with("96", "amd-25-1").back().schedule_from,
               ContainsSubstring("masked f32 128x128 x86-64-v3 prefill, the nearest to this"));
    for (const char* depths : {"1", "2", "3", "20x12", "64x32", "72", "256", "512"})
        for (const listed_kernel& k : with(depths, "amd-25-1")) {
            CAPTURE(depths);
            CHECK_NOTHROW(check(k.request));
            CHECK(std::get<cpu_prefill>(k.request.schedule).chunk <= std::max(16, k.request.depths.value_depth));
        }

    CHECK_THROWS_MATCHES(with("64", "intel-6-85"), std::runtime_error,
                         MessageMatches(ContainsSubstring("expected schedules of intel-6-85 in") &&
                                        ContainsSubstring("got those of: amd-25-1")));
    // For a CPU without a file, the cost model's choice; no folder is needed.
    std::vector<listed_kernel> modelled{kernel_of(causal, "64", "x86-64-v3"), kernel_of(full, "128", "x86-64-v4")};
    use_measured_schedules(modelled, {{}, "model"});
    for (const listed_kernel& k : modelled) {
        const tuned_kernel of{kernel_of(*k.of, k.request.depths.depth == 64 ? "64" : "128", k.request.target->name),
                              shape_bucket::prefill};
        const auto [best, part] = modelled_choice(of);
        CHECK(k.request.schedule == best);
        CHECK((part < 0.97) == !(best == of.kernel.request.schedule));
        const std::vector<schedule> space = candidates(of);
        const std::vector<double> costs = costs_of(of, space);
        for (const double cost : costs) CHECK(cost >= 0.97 * part * costs.front());  // nothing promises much more
    }
    CHECK_THAT(modelled.front().schedule_from, ContainsSubstring("the cost model: "));
    // This machine's own file, or, where it has none, the cost model.
    const temporary_path others("others");
    std::filesystem::create_directories(others.path);
    std::vector<listed_kernel> native{kernel_of(causal, "64", "x86-64-v3")};
    use_measured_schedules(native, {others.path, "native"});
    CHECK(native.front().request.schedule == modelled.front().request.schedule);
    CHECK(native.front().schedule_from == modelled.front().schedule_from);
    database own = all;
    own.cpu = this_cpu_model();
    write_database(others.path / (own.cpu.id() + ".json"), own);
    native = {kernel_of(causal, "64", "x86-64-v3")};
    use_measured_schedules(native, {others.path, "native"});
    REQUIRE(native.size() == 2);
    CHECK_THAT(native.back().schedule_from, ContainsSubstring(own.cpu.id() + ".json: masked f32 64x64"));
    write_database(folder.path / "intel-6-85.json", all);
    CHECK_THROWS_MATCHES(with("64", "intel-6-85"), std::runtime_error,
                         MessageMatches(ContainsSubstring("expected schedules of intel-6-85, got those of amd-25-1")));
}

TEST_CASE(
    "of several CPUs each has kernels beside the default's, one for all that want the same, if they gain enough") {
    const temporary_path folder("several");
    std::filesystem::create_directories(folder.path);
    const auto write = [&](int model, double gain, int query_tile, double noise = 0.01) {
        database of{{"amd", 25, model, "AMD EPYC"}, {}};
        database_entry e = entry(64, shape_bucket::prefill, query_tile);
        e.default_over_this = gain, e.noise = noise;
        of.put(e);
        write_database(folder.path / (of.cpu.id() + ".json"), of);
    };
    const auto kernels = [&](const std::string& tuned_for) {
        std::vector<listed_kernel> list{kernel_of(causal, "64", "x86-64-v3")};
        use_measured_schedules(list, {folder.path, tuned_for});
        return list;
    };
    const listed_kernel usual = kernel_of(causal, "64", "x86-64-v3");
    write(1, 1.10, 16), write(17, 1.06, 16), write(2, 1.20, 24), write(3, 1.04, 8), write(4, 1.10, 8, 0.12);
    const auto all = kernels("all");
    REQUIRE(all.size() == 3);  // 3 gains too little, 4 no more than its noise
    CHECK(all[0].cpus == "amd-25-1,amd-25-17");
    CHECK(all[0].request.schedule == entry(64).schedule);
    CHECK_THAT(all[0].schedule_from, ContainsSubstring("amd-25-1.json") && ContainsSubstring("amd-25-17.json"));
    CHECK(all[1].cpus == "amd-25-2");
    CHECK_THAT(all[1].symbol, ContainsSubstring("_for_amd_25_2_"));
    CHECK(all[2].cpus.empty());
    CHECK(all[2].symbol == usual.symbol);
    CHECK(all[2].request.schedule == usual.request.schedule);

    const auto two = kernels("amd-25-2,amd-25-3");
    REQUIRE(two.size() == 2);
    CHECK(two[0].cpus == "amd-25-2");
    const auto alone = kernels("amd-25-3");  // one CPU: for every machine, as it says
    REQUIRE(alone.size() == 1);
    CHECK(alone[0].cpus.empty());
    CHECK_FALSE(alone[0].request.schedule == usual.request.schedule);
    CHECK_THROWS_MATCHES(kernels("amd-25-2,amd-25-5"), std::runtime_error,
                         MessageMatches(ContainsSubstring("expected schedules of amd-25-5 in")));
}

TEST_CASE(
    "the schedules that come with attune are named after their CPU, in the form in which they are written, and none is "
    "slower than the default") {
    std::size_t files = 0;
    for (const auto& each : std::filesystem::directory_iterator(ATTUNE_SCHEDULES)) {
        if (each.path().filename() == "schema.json") continue;
        ++files;
        CAPTURE(each.path().string());
        const database shipped = read_database(each.path());
        CHECK(each.path().filename() == shipped.cpu.id() + ".json");
        std::ifstream file(each.path());
        CHECK(database_to_json(shipped) == std::string(std::istreambuf_iterator<char>(file), {}));
        CHECK_FALSE(shipped.entries.empty());
        for (const database_entry& e : shipped.entries) {
            CAPTURE(e.key.text());
            CHECK(e.default_over_this >= 1);
            const level& isa = level_named(e.key.level);
            CHECK(shipped.cpu.is_device == isa.is_gpu);
            if (const auto* cut = std::get_if<cpu_prefill>(&e.schedule)) CHECK(fits_registers(*cut, isa));
            if (const auto* cut = std::get_if<cpu_decode>(&e.schedule)) CHECK(fits_registers(*cut, isa));
            if (const auto* cut = std::get_if<cpu_recurrence>(&e.schedule)) CHECK(fits_registers(*cut, isa));
            CHECK(lanes_of(e.schedule) == isa.lanes);
        }
    }
    CHECK(files >= 1);
}
