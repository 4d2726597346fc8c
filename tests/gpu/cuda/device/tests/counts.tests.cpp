// Exact counts: instructions by unit, wavefronts of shared memory, sectors of global memory.
#include "small_kernel.hpp"

#include <catch2/catch_test_macros.hpp>

#include <nlohmann/json.hpp>

using namespace ptx;

namespace {

counts counted(const std::string& body, unsigned threads = 32, extent grid = {}) {
    std::vector<u32> out(1024), in(4096);
    return small_kernel(own_words + body).run(out, in, threads, false, grid);
}
/// Wavefronts of one store whose lane has the address `lane * distance`.
u64 wavefronts_of(const std::string& store, int distance) {
    const counts made =
        counted("mul.lo.u32 %r1, %r0, " + std::to_string(distance) + "; and.b32 %r1, %r1, 4080;\n" + store);
    return made.all().wavefronts;
}

}  // namespace

TEST_CASE("an instruction counts once a warp, its lanes by themselves, each with its unit") {
    const counts made = counted(
        "setp.lt.u32 %p0, %r0, 40;\n@%p0 fma.rn.f32 %f1, %f2, %f3, %f1;\nex2.approx.f32 %f1, %f1;\nadd.f64 %fd1, %fd1, "
        "%fd1;",
        64, {3, 1, 1});
    CHECK(made.operations.at("fma.rn.f32").issued == 2 * 3);
    CHECK(made.operations.at("fma.rn.f32").lanes == 40 * 3);
    const auto of_unit = [&](unit which) { return made.issued_of_unit[static_cast<std::size_t>(which)]; };
    CHECK(of_unit(unit::fma) == 2 * 2 * 3);  // mul.wide, too
    CHECK(of_unit(unit::transcendental) == 2 * 3);
    CHECK(of_unit(unit::doubles) == 2 * 3);
    u64 all = 0;
    for (const u64 each : made.issued_of_unit) all += each;
    CHECK(all == made.all().issued);
}

TEST_CASE("shared memory takes as many wavefronts as a bank has words to give") {
    CHECK(wavefronts_of("st.shared.u32 [%r1], %r0;", 0) == 1);  // one word for all
    for (const auto& [distance, fronts] : {std::pair{16, 4}, {32, 8}, {64, 16}, {128, 32}}) {
        CAPTURE(distance);
        CHECK(wavefronts_of("st.shared.u32 [%r1], %r0;", distance) == static_cast<u64>(fronts));
    }
    CHECK(counted("shl.b32 %r1, %r0, 2; st.shared.u32 [%r1], %r0;").all().wavefronts == 1);
    CHECK(counted("shl.b32 %r1, %r0, 3; st.shared.v2.u32 [%r1], {%r0, %r0};").all().wavefronts == 2);
    CHECK(wavefronts_of("st.shared.v4.u32 [%r1], {%r0, %r0, %r0, %r0};", 16) == 4);
    CHECK(wavefronts_of("st.shared.v4.u32 [%r1], {%r0, %r0, %r0, %r0};", 128) == 32);
    CHECK(wavefronts_of("st.shared.v4.u32 [%r1], {%r0, %r0, %r0, %r0};", 144) ==
          4);  // rows that are padded by 16 bytes
}

TEST_CASE("global memory is counted in sectors of 32 bytes, each once a request") {
    const auto sectors = [](const counts& made, const char* name) { return made.operations.at(name).sectors; };
    std::vector<u32> out(1024);
    alignas(128) static std::vector<u32> in(4096);
    const u64 place = reinterpret_cast<u64>(in.data()) % 32 / 4;
    const counts made = small_kernel(own_words +
                                     "ld.global.u32 %r1, [%rd3];\nmul.wide.u32 %rd5, %r0, 128; add.s64 %rd6, %rd1, "
                                     "%rd5; ld.global.nc.u32 %r2, [%rd6];\nld.global.s32 %r3, [%rd1];")
                            .run(out, in);
    CHECK(sectors(made, "ld.global.u32") == (place ? 5 : 4));
    CHECK(sectors(made, "ld.global.nc.u32") == 32);
    CHECK(sectors(made, "ld.global.s32") == 1);
}

TEST_CASE("counts are written as a line of JSON") {
    const counts made = counted("ld.global.u32 %r1, [%rd3];\nshl.b32 %r1, %r0, 4; st.shared.u32 [%r1], %r0;");
    const auto read = nlohmann::json::parse(json_line({"k", {3, 2, 1}, {32, 1, 1}, 4096, 0.5}, made));
    CHECK(read["entry"] == "k");
    CHECK(read["grid"] == nlohmann::json{3, 2, 1});
    CHECK(read["warp_instructions"] == made.all().issued);
    CHECK(read["operations"]["st.shared.u32"] == 1);
    CHECK(read["shared_wavefronts"]["st.shared.u32"] == 4);
    CHECK(read["shared_requests"] == nlohmann::json{{"st.shared.u32", 1}});
    REQUIRE(read["memory_lines"].size() == 2);
    CHECK(read["memory_lines"][1]["wavefronts"] == 4);
    CHECK(read["memory_lines"][1]["line"] == small_kernel::lines_before + 3);
    CHECK(read["global_requests"] == nlohmann::json{{"ld.global.u32", 1}});
    CHECK(read["units"]["memory"] == made.issued_of_unit[static_cast<std::size_t>(unit::memory)]);
}
