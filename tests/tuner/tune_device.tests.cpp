// Searching, keeping and using schedules for GPUs; no device is needed. The search itself: check_tune_device.py.
#include "kernel/cpu_schedule.hpp"
#include "kernel/gpu_schedule.hpp"
#include "kernel/shared_memory.hpp"
#include "schedules/database.hpp"
#include "schedules/schedule_source.hpp"
#include "schedules/search_space.hpp"
#include "tuned_variants.hpp"
#include "tuner/device_access.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <filesystem>
#include <set>

using namespace attune;
using namespace attune::generators;
using namespace attune::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using Catch::Matchers::StartsWith;

namespace {
namespace keeping {
using namespace attune::dsl;
inline constexpr auto s = q * t(k) * rsqrt(depth);
inline constexpr auto near = input<"near", f32>(head, key);
/// Of the class of causal_attention, with more to keep of each key.
inline constexpr auto kept_attention =
    softmax(mask(s * sigmoid(near(h, kv_idx)) + tanh(near(h, kv_idx)), dsl::causal)) * v;
}  // namespace keeping

cpu_model gpu(const std::string& name) { return {"", 0, 0, name, true}; }

tuned_kernel kernel_for(std::string_view target, shape_class shapes = shape_class::prefill,
                        const std::string& depths = "64") {
    return {kernel_of(causal, depths, target, "f32", shapes),
            shapes == shape_class::decode ? shape_bucket::decode : shape_bucket::prefill};
}

database_entry entry(const std::string& target, int depth, const schedule& cut) {
    database_entry e;
    e.key = {"masked", "f32", depth, depth, target, shape_bucket::prefill};
    e.schedule = cut;
    e.shape = {1, 16, 16, 2048, 2048}, e.threads = 1, e.seconds = 1e-3, e.default_over_this = 1.25, e.noise = 0.01,
    e.tried = 80;
    e.attune = "0.1.0", e.halide = "21.0.0", e.date = "2026-11-22";
    return e;
}

/// A schedule that is not the default.
schedule another(const tuned_kernel& of) {
    const std::vector<schedule> space = candidates(of);
    return *std::ranges::find_if(
        space, [&](const schedule& s) { return blocks_of(s).query_block != blocks_of(space.front()).query_block; });
}

template <class Cut> std::set<int> values(const std::vector<schedule>& space, int Cut::* field) {
    std::set<int> all;
    for (const schedule& s : space) all.insert(std::get<Cut>(s).*field);
    return all;
}
}  // namespace

TEST_CASE("a GPU's file is named by what its driver calls it, in small letters, digits and lines") {
    CHECK(gpu("NVIDIA H200").id() == "nvidia-h200");
    CHECK(gpu("NVIDIA GeForce RTX 4090").id() == "nvidia-geforce-rtx-4090");
    CHECK(gpu("pthread-haswell-AMD EPYC").id() == "pthread-haswell-amd-epyc");
    CHECK(gpu("  gfx90a:sramecc+:xnack- ").id() == "gfx90a-sramecc-xnack");
    CHECK(gpu("../../etc/passwd").id() == "etc-passwd");
    CHECK(gpu("NVIDIA H200").same_as(gpu("nvidia h200")));
    CHECK_FALSE(gpu("NVIDIA H200").same_as(gpu("NVIDIA H100")));
    CHECK_FALSE(gpu("amd 25 1").same_as({"amd", 25, 1, "AMD EPYC"}));
}

TEST_CASE(
    "a GPU's space goes over blocks, threads' tiles and unrolls, each schedule once, the default first, all within the "
    "shared memory") {
    for (const auto* target : {"opencl", "cuda"})
        for (const auto* depths : {"32", "64", "128", "80x48"}) {
            const tuned_kernel of = kernel_for(target, shape_class::prefill, depths);
            const std::vector<schedule> space = candidates(of);
            CAPTURE(target, depths, space.size());
            CHECK(space.size() > 100);
            CHECK(space.front() == of.kernel.request.schedule);
            for (auto s = space.begin(); s != space.end(); ++s) {
                CHECK(std::find(space.begin(), s, *s) == s);
                CHECK_NOTHROW(check(*s, of.kernel.request.depths));
                kernel_request request = of.kernel.request;
                request.schedule = *s;
                CHECK(estimated_shared_memory(request) <= most_shared_memory(*of.kernel.request.target));
                const int threads = gpu_threads_of(std::get<gpu_prefill>(*s), request.depths);
                CHECK((threads >= 32 && threads <= 256));
            }
            CHECK(values(space, &gpu_prefill::query_block).size() >= 3);
            CHECK(values(space, &gpu_prefill::key_block).size() >= 3);
            CHECK(values(space, &gpu_prefill::query_tile).size() == 3);
            CHECK(values(space, &gpu_prefill::chunk).size() >= 3);
            CHECK(values(space, &gpu_prefill::depth_unroll).size() == 3);
        }
}

TEST_CASE("decode's space on a GPU splits the keys into more parts and fewer, too") {
    const tuned_kernel of = kernel_for("cuda", shape_class::decode, "128");
    const std::vector<schedule> space = candidates(of);
    CHECK(values(space, &gpu_decode::key_splits) == std::set{32, 64, 128, 256});
    CHECK(values(space, &gpu_decode::query_tile) == std::set{2, 4, 8, 16});
    CHECK(values(space, &gpu_decode::depth_unroll).size() >= 3);
    for (auto s = space.begin(); s != space.end(); ++s) {
        CHECK(std::find(space.begin(), s, *s) == s);
        CHECK_NOTHROW(check(*s, {128, 128}));
        CHECK(decodes(*s));
    }
    // Of the estimates none says that all are alike, or that one costs nothing.
    const std::vector<double> costs = costs_of(of, space);
    const auto [least, most] = std::ranges::minmax(costs);
    CHECK(least > 0);
    CHECK(most > 1.2 * least);
}

TEST_CASE("a GPU with less shared memory is offered smaller blocks, one with more what every one has") {
    tuned_kernel of = kernel_for("opencl");
    const std::size_t usual = candidates(of).size();
    of.shared_memory = 16 << 10;
    const std::vector<schedule> small = candidates(of);
    CHECK(small.size() < usual);
    kernel_request request = of.kernel.request;
    for (std::size_t i = 1; i < small.size(); ++i) {
        request.schedule = small[i];
        CHECK(estimated_shared_memory(request) <= 16 << 10);
    }
    of.shared_memory = 1 << 20;
    CHECK(candidates(of).size() == usual);
    CHECK(candidates(kernel_for("cuda")).size() > usual);  // 99 KB, not 48
}

TEST_CASE("a GPU's file comes back as it was; one that is no GPU's is refused, and the sentence says why") {
    const tuned_kernel of = kernel_for("cuda");
    database all{gpu("NVIDIA H200"), {}};
    all.put(entry("cuda", 64, another(of)));
    const std::string text = database_to_json(all);
    const database again = database_from_json(text, "x.json");
    CHECK(again.entries == all.entries);
    CHECK(again.cpu.name == "NVIDIA H200");
    CHECK(again.cpu.id() == "nvidia-h200");
    CHECK(database_to_json(again) == text);
    const auto refuses = [&](const std::string& from, const std::string& to, const std::string& sentence) {
        CAPTURE(from, to);
        std::string changed = text;
        REQUIRE(changed.find(from) != changed.npos);
        changed.replace(changed.find(from), from.size(), to);
        CHECK_THROWS_MATCHES(database_from_json(changed, "x.json"), std::runtime_error,
                             MessageMatches(ContainsSubstring(sentence)));
    };
    refuses("NVIDIA H200", "...", "x.json, device: expected a name with a letter or digit in \"name\", got \"...\"");
    refuses("{\"name\":\"NVIDIA H200\"}", "\"NVIDIA H200\"", "x.json, device: expected an object");
    refuses("{\"name\":\"NVIDIA H200\"}", "{\"name\":\"NVIDIA H200\",\"memory\":141}", "got \"memory\"");
    refuses("\"device\": {\"name\":\"NVIDIA H200\"}", "\"gpu\": {\"name\":\"NVIDIA H200\"}",
            "expected the field \"cpu\", got none");
    refuses("\"device\": {",
            "\"cpu\": {\"vendor\":\"amd\",\"family\":25,\"model\":1,\"name\":\"AMD EPYC\"},\n\"device\": {",
            "got \"cpu\"");
    for (std::size_t size = 0; size + 2 < text.size(); size += 37)
        CHECK_THROWS_MATCHES(database_from_json(text.substr(0, size), "x.json"), std::runtime_error,
                             MessageMatches(ContainsSubstring("text that is no JSON: cut short or damaged")));
}

TEST_CASE("a build takes a CPU's schedules and a GPU's, each for its own kernels") {
    const temporary_path folder("devices");
    const tuned_kernel of = kernel_for("cuda");
    const schedule cut = another(of);
    update_database(folder.path, gpu("NVIDIA H200"), {entry("cuda", 64, cut)});
    database_entry of_cpu =
        entry("x86-64-v3", 64, default_cpu_prefill(level_named("x86-64-v3"), {64, 64}, masking::some));
    std::get<cpu_prefill>(of_cpu.schedule).query_block *= 2;
    update_database(folder.path, {"amd", 25, 1, "AMD EPYC"}, {of_cpu});
    CHECK(std::filesystem::exists(folder.path / "nvidia-h200.json"));
    const auto used = [&](const std::string& tuned_for, const std::string& depths = "64",
                          const variant& variant = causal) {
        std::vector<listed_kernel> list{kernel_of(variant, depths, "x86-64-v3"), kernel_of(variant, depths, "cuda")};
        use_measured_schedules(list, {folder.path, tuned_for});
        return std::pair{list.front(), list.back()};
    };
    for (const std::string both : {"amd-25-1,nvidia-h200", "nvidia-h200,amd-25-1"}) {
        const auto [here, there] = used(both);
        CHECK(here.request.schedule == of_cpu.schedule);
        CHECK(there.request.schedule == cut);
        CHECK_THAT(there.schedule_from,
                   ContainsSubstring("nvidia-h200.json: masked f32 64x64 cuda prefill, +25.0 % on the default"));
    }
    CHECK(used("generic,nvidia-h200").first.schedule_from == "the default");
    CHECK(used("generic,nvidia-h200").second.request.schedule == cut);
    // Which tells, too, why the kernel is not one for tensor cores.
    CHECK_THAT(used("amd-25-1").second.schedule_from, StartsWith("the default; without tensor cores"));
    // A schedule that fits at 64 need not fit the shared memory at 128; a variant's kept numbers need memory, too.
    CHECK_THAT(used("nvidia-h200", "128").second.schedule_from, StartsWith("the default; without tensor cores"));
    CHECK_THROWS_MATCHES(used("nvidia-h300"), std::runtime_error,
                         MessageMatches(ContainsSubstring("expected schedules of nvidia-h300 in") &&
                                        ContainsSubstring("got those of: amd-25-1, nvidia-h200")));
}

TEST_CASE("an entry that one variant has room for is not used for one of its class that has not") {
    const variant kept{"kept_attention", dsl::ir_of<keeping::kept_attention>};
    const tuned_kernel small = kernel_for("opencl");
    const std::vector<schedule> space = candidates(small);
    listed_kernel other = kernel_of(kept, "64", "opencl");
    REQUIRE(key_of(other, shape_bucket::prefill).text() == key_of(small.kernel, shape_bucket::prefill).text());
    const auto too_large = std::ranges::find_if(space, [&](const schedule& s) {
        kernel_request request = other.request;
        request.schedule = s;
        return estimated_shared_memory(request) > most_shared_memory("opencl");
    });
    REQUIRE(too_large != space.end());
    database all{gpu("some"), {}};
    all.put(entry("opencl", 64, *too_large));
    std::vector<listed_kernel> list{other, small.kernel};
    use_measured_schedules(list, all, "some.json");
    CHECK(list[0].schedule_from == "the default");
    CHECK(list[1].request.schedule == *too_large);
}

TEST_CASE("SHAPES decode alone makes one kernel on a device, too, and none on Vulkan") {
    for (const auto* target : {"cuda", "opencl", "x86-64-v3"}) {
        const auto list =
            kernels_of({&causal, 1}, {.targets = {target}, .dtypes = {"f32"}, .depths = {"64"}, .shapes = {"decode"}});
        REQUIRE(list.size() == 1);
        CHECK(decodes(list.front().request.schedule));
        CHECK(list.front().symbol.find("decode_") == std::string::npos);
        CHECK(kernels_of({&causal, 1},
                         {.targets = {target}, .dtypes = {"f32"}, .depths = {"64"}, .shapes = {"prefill", "decode"}})
                  .size() == 2);
    }
    CHECK_THROWS_MATCHES(
        kernels_of({&causal, 1}, {.targets = {"vulkan"}, .dtypes = {"f32"}, .depths = {"64"}, .shapes = {"decode"}}),
        std::runtime_error,
        MessageMatches(ContainsSubstring(
            "causal_attention: no kernel for decode: Vulkan has none for few queries; try SHAPES prefill decode")));
}

TEST_CASE("what is no GPU that schedules are searched for is refused") {
    for (const auto* target : {"vulkan", "x86-64-v3"})
        CHECK_THROWS_MATCHES(
            device_access(level_named(target)), std::runtime_error,
            MessageMatches(
                ContainsSubstring("expected a GPU's target that schedules are searched for, cuda or opencl, got ") &&
                ContainsSubstring(target)));
}
