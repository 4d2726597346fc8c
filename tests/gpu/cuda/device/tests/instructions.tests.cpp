// The results of the device's instructions, lane by lane, and the places where the ways of a warp's threads meet.
#include "small_kernel.hpp"

#include <catch2/catch_test_macros.hpp>

#include <bit>
#include <cmath>
#include <limits>

using namespace ptx;

namespace {

/// The word that each thread stores.
template <class Out = u32, class In = u32>
std::vector<Out> results(const std::string& body, const std::vector<In>& in = std::vector<In>(64),
                         unsigned threads = 32) {
    std::vector<Out> out(threads);
    small_kernel(own_words + body).run(out, in, threads);
    return out;
}
/// A word of one thread's own: `%r1` and `%r2` are the words given.
u32 of(const std::string& body, u32 a, u32 b = 0, u32 c = 0) {
    return results(
        "ld.global.u32 %r1, [%rd1]; ld.global.u32 %r2, [%rd1 + 4]; ld.global.u32 %r3, [%rd1 + 8]; mov.b32 %f1, %r1; "
        "mov.b32 %f2, %r2; mov.b32 %f3, %r3;\n" +
            body + "\nst.global.u32 [%rd2], %r4;",
        std::vector<u32>{a, b, c, 0})[0];
}
float real_of(const std::string& body, float a, float b = 0, float c = 0) {
    const auto bits = [](float x) { return std::bit_cast<u32>(x); };
    return std::bit_cast<float>(of(body + " mov.b32 %r4, %f4;", bits(a), bits(b), bits(c)));
}

}  // namespace

TEST_CASE("integers wrap, divide towards zero and shift as a device's") {
    CHECK(of("add.s32 %r4, %r1, %r2;", 0xffffffff, 2) == 1);
    CHECK(of("mul.lo.s32 %r4, %r1, %r2;", 0x10001, 0x10001) == 0x20001);
    CHECK(of("mul.hi.u32 %r4, %r1, %r2;", 0x80000000, 6) == 3);
    CHECK(of("mul.hi.s32 %r4, %r1, %r2;", 0xffffffff, 5) == 0xffffffff);
    CHECK(of("mad.lo.s32 %r4, %r1, %r2, %r3;", 5, 7, 0xfffffffe) == 33);
    CHECK(of("div.s32 %r4, %r1, %r2;", static_cast<u32>(-7), 2) == static_cast<u32>(-3));
    CHECK(of("rem.s32 %r4, %r1, %r2;", static_cast<u32>(-7), 2) == static_cast<u32>(-1));
    CHECK(of("div.s32 %r4, %r1, %r2;", 0x80000000, 0xffffffff) == 0x80000000);
    CHECK(of("div.u32 %r4, %r1, %r2;", 9, 0) == 0xffffffff);
    CHECK(of("rem.u32 %r4, %r1, %r2;", 9, 0) == 9);
    CHECK(of("shr.s32 %r4, %r1, %r2;", 0x80000000, 40) == 0xffffffff);
    CHECK(of("shl.b32 %r4, %r1, %r2;", 1, 32) == 0);
    CHECK(of("min.s32 %r4, %r1, %r2;", 0xffffffff, 1) == 0xffffffff);
    CHECK(of("min.u32 %r4, %r1, %r2;", 0xffffffff, 1) == 1);
    CHECK(of("abs.s32 %r4, %r1;", 0xfffffff9) == 7);
    CHECK(of("mul.wide.s32 %rd5, %r1, %r2; shr.u64 %rd5, %rd5, 32; cvt.u32.u64 %r4, %rd5;", 0xffffffff, 5) ==
          0xffffffff);
    CHECK(of("mad.wide.u32 %rd5, %r1, %r2, 1; shr.u64 %rd5, %rd5, 32; cvt.u32.u64 %r4, %rd5;", 0xffffffff,
             0xffffffff) == 0xfffffffe);
    CHECK(of("cvt.u16.u32 %h1, %r1; add.s16 %h1, %h1, 1; cvt.u32.u16 %r4, %h1;", 0xffff) == 0);
    CHECK(of("mov.b64 %rd5, {%r1, %r2}; cvt.s64.s32 %rd6, %rd5; shr.u64 %rd6, %rd6, 32; cvt.u32.u64 %r4, %rd6;",
             0x80000000, 5) == 0xffffffff);
    CHECK(of("mov.b64 %rd5, {%r1, %r2}; cvt.u32.u8 %r4, %rd5;", 0x123, 5) == 0x23);
    CHECK(of("dp4a.s32.s32 %r4, %r1, %r2, %r3;", 0x01020304, 0x01ff0102, 10) == 10 + 1 - 2 + 3 + 8);
}

TEST_CASE("bits are chosen, moved and joined") {
    CHECK(of("prmt.b32 %r4, %r1, %r2, 0x5410;", 0x44332211, 0x88776655) == 0x66552211);
    CHECK(of("prmt.b32 %r4, %r1, %r2, 0x888f;", 0x00000080, 0x7f000000) == 0xffffff00);
    CHECK(of("bfe.u32 %r4, %r1, 4, 8;", 0xabcdef12) == 0xf1);
    CHECK(of("bfe.s32 %r4, %r1, 4, 8;", 0xabcdef12) == 0xfffffff1);
    CHECK(of("bfi.b32 %r4, %r1, %r2, 8, 4;", 0xab, 0) == 0xb00);
    CHECK(of("lop3.b32 %r4, %r1, %r2, %r3, 0x96;", 0b1100, 0b1010, 0b0001) == 0b0111);
    CHECK(of("shf.l.wrap.b32 %r4, %r1, %r2, 8;", 0x12345678, 0xaabbccdd) == 0xbbccdd12);
    CHECK(of("shf.r.wrap.b32 %r4, %r1, %r2, 8;", 0x12345678, 0xaabbccdd) == 0xdd123456);
    CHECK(of("popc.b32 %r4, %r1;", 0xf0f0) == 8);
    CHECK(of("clz.b32 %r4, %r1;", 0x00010000) == 15);
    CHECK(of("brev.b32 %r4, %r1;", 1) == 0x80000000);
    CHECK(of("mov.b64 %rd5, {%r1, %r2}; shr.u64 %rd5, %rd5, 16; mov.b64 {%r4, _}, %rd5;", 0x11112222, 0x33334444) ==
          0x44441111);
    CHECK(of("mov.b32 {%h1, %h2}, %r1; mov.b32 %r4, {%h2, %h1};", 0x11112222) == 0x22221111);
}

TEST_CASE("reals are fused, flushed and compared as a device's") {
    const float tiny = 1e-40f, nan = std::numeric_limits<float>::quiet_NaN(), e = std::numeric_limits<float>::epsilon();
    CHECK(real_of("fma.rn.f32 %f4, %f1, %f2, %f3;", 1 + e, 1 - e, -1) == -e * e);
    CHECK(real_of("mul.f32 %f4, %f1, %f2;", tiny, 1) == tiny);
    CHECK(real_of("mul.ftz.f32 %f4, %f1, %f2;", tiny, 1) == 0);
    CHECK(real_of("max.f32 %f4, %f1, %f2;", nan, 2) == 2);
    CHECK(std::isnan(real_of("max.NaN.f32 %f4, %f1, %f2;", nan, 2)));
    CHECK(real_of("ex2.approx.f32 %f4, %f1;", -3) == 0.125f);
    CHECK(real_of("rcp.approx.ftz.f32 %f4, %f1;", 4) == 0.25f);
    CHECK(real_of("cvt.rmi.f32.f32 %f4, %f1;", -1e-40f) == -1);
    CHECK(real_of("cvt.rmi.ftz.f32.f32 %f4, %f1;", -1e-40f) == 0);
    CHECK(real_of("cvt.rni.s32.f32 %r5, %f1; cvt.rn.f32.s32 %f4, %r5;", 2.5f) == 2);
    CHECK(real_of("cvt.rzi.s32.f32 %r5, %f1; cvt.rn.f32.s32 %f4, %r5;", -2.5f) == -2);
    CHECK(of("cvt.rzi.s32.f32 %r4, %f1;", std::bit_cast<u32>(nan)) == 0);
    CHECK(of("cvt.rzi.s32.f32 %r4, %f1;", std::bit_cast<u32>(3e9f)) == 0x7fffffff);
    const auto compared = [&](const char* how, float a, float b) {
        return real_of(std::string("setp.") + how + ".f32 %p0, %f1, %f2; selp.f32 %f4, 0f3F800000, 0f00000000, %p0;", a,
                       b) == 1;
    };
    CHECK((compared("lt", 1, 2) && !compared("lt", nan, 2) && compared("ltu", nan, 2) && !compared("ne", nan, 2) &&
           compared("neu", nan, 2) && compared("nan", nan, 2) && compared("num", 1, 2)));
}

TEST_CASE("narrow reals are rounded to the nearest, ties to even; of tf32 away from zero") {
    CHECK(of("cvt.rn.bf16.f32 %h1, %f1; cvt.u32.u16 %r4, %h1;", 0x3f808000) == 0x3f80);
    CHECK(of("cvt.rn.bf16.f32 %h1, %f1; cvt.u32.u16 %r4, %h1;", 0x3f818000) == 0x3f82);
    CHECK(of("cvt.rn.f16.f32 %h1, %f1; cvt.u32.u16 %r4, %h1;", std::bit_cast<u32>(65519.0f)) == 0x7bff);
    CHECK(of("cvt.rn.f16.f32 %h1, %f1; cvt.u32.u16 %r4, %h1;", std::bit_cast<u32>(65520.0f)) == 0x7c00);
    CHECK(of("cvt.rn.f16.f32 %h1, %f1; cvt.u32.u16 %r4, %h1;", std::bit_cast<u32>(0x1p-24f)) == 1);
    CHECK(of("cvt.u16.u32 %h1, %r1; cvt.f32.f16 %f4, %h1; mov.b32 %r4, %f4;", 0x0001) == std::bit_cast<u32>(0x1p-24f));
    CHECK(of("cvt.rna.tf32.f32 %r4, %f1;", 0x3f801000) == 0x3f802000);
    CHECK(of("cvt.rn.bf16x2.f32 %r4, %f1, %f2;", std::bit_cast<u32>(2.0f), std::bit_cast<u32>(1.0f)) == 0x40003f80);
}

TEST_CASE("threads that part run each its way and meet again, in loops and in nested branches, too") {
    // A thread goes round as often as its number says, and takes each third round another way.
    const auto out = results(R"(mov.u32 %r1, 0; mov.u32 %r2, 0;
    again: setp.ge.u32 %p0, %r1, %r0;
    @%p0 bra end;
    rem.u32 %r3, %r1, 3; setp.eq.u32 %p1, %r3, 0;
    @%p1 bra other;
    add.u32 %r2, %r2, 1;
    bra join;
    other: setp.eq.u32 %p2, %r1, 6;
    @%p2 bra join;
    add.u32 %r2, %r2, 100;
    join: add.u32 %r1, %r1, 1;
    bra again;
    end: shfl.sync.idx.b32 %r4, %r2, 31, 31, -1;
    add.u32 %r2, %r2, %r4;
    st.global.u32 [%rd2], %r2;)");
    const auto expected = [](u32 thread) {
        u32 sum = 0;
        for (u32 n = 0; n < thread; ++n) sum += n % 3 ? 1 : n == 6 ? 0 : 100;
        return sum;
    };
    for (u32 thread = 0; thread < 32; ++thread) CHECK(out[thread] == expected(thread) + expected(31));
}

TEST_CASE("values pass from lane to lane by shuffles, within segments") {
    const auto shuffled = [](const std::string& how) {
        return results("shfl.sync." + how + ", -1; st.global.u32 [%rd2], %r1;");
    };
    const auto across = shuffled("bfly.b32 %r1, %r0, 5, 31"), up = shuffled("up.b32 %r1, %r0, 3, 0"),
               down = shuffled("down.b32 %r1, %r0, 2, 0x181f"), one = shuffled("idx.b32 %r1, %r0, 9, 0x181f");
    for (u32 lane = 0; lane < 32; ++lane) {
        CHECK(across[lane] == (lane ^ 5));
        CHECK(up[lane] == (lane < 3 ? lane : lane - 3));
        CHECK(down[lane] == (lane % 8 < 6 ? lane + 2 : lane));  // 0x18: segments of 8
        CHECK(one[lane] == lane / 8 * 8 + 1);
    }
    const auto inside =
        results("shfl.sync.up.b32 %r1|%p0, %r0, 3, 0, -1; selp.u32 %r2, 1, 0, %p0; st.global.u32 [%rd2], %r2;");
    for (u32 lane = 0; lane < 32; ++lane) CHECK(inside[lane] == (lane >= 3));
}

TEST_CASE("shared memory passes values between warps at a barrier, and copies bring zeros beyond the source") {
    const auto out = results(
        "shl.b32 %r1, %r0, 2; st.shared.u32 [%r1], %r0; bar.sync 0; sub.u32 %r2, 252, %r1; ld.shared.u32 %r3, [%r2]; "
        "st.global.u32 [%rd2], %r3;",
        std::vector<u32>(64), 64);
    for (u32 thread = 0; thread < 64; ++thread) CHECK(out[thread] == 63 - thread);
    std::vector<u32> in(64);
    for (u32 n = 0; n < 64; ++n) in[n] = n + 1;
    const auto copied = results(
        "shl.b32 %r1, %r0, 2; add.s64 %rd3, %rd1, %rd4; setp.lt.u32 %p0, %r0, 20; selp.u32 %r5, 4, 0, %p0;\n"
        "cp.async.ca.shared.global [%r1], [%rd3], 4, %r5; cp.async.commit_group; cp.async.wait_group 0; ld.shared.u32 "
        "%r3, [%r1]; st.global.u32 [%rd2], %r3;",
        in);
    for (u32 thread = 0; thread < 32; ++thread) CHECK(copied[thread] == (thread < 20 ? thread + 1 : 0));
}

TEST_CASE("every block and thread knows its place, and sums of all of them are whole") {
    std::vector<u32> out(1), in(1);
    small_kernel(
        "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mad.lo.u32 %r3, %r1, %r2, %r0; mov.u32 %r4, %nctaid.y; "
        "mul.lo.u32 %r3, %r3, %r4; red.global.add.u32 [%rd0], %r3;")
        .run(out, in, 48, false, {7, 3, 1});
    CHECK(out[0] == 3 * 3 * (7 * 48) * (7 * 48 - 1) / 2);
}
