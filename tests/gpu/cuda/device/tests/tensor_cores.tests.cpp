// Products of whole warps against products in plain loops.
#include "small_kernel.hpp"

#include <catch2/catch_test_macros.hpp>

#include <bit>
#include <functional>
#include <random>

using namespace ptx;

namespace {

/// Elements of A (16 x depth) and B (depth x 8) as registers of each lane, as PTX's manual draws the fragments.
struct fragments {
    std::vector<u32> words;  ///< of lane 0, of lane 1, ..
    std::vector<double> a, b, c;
};
fragments drawn(int depth, int together, const std::function<u32(int)>& bits_of_small, bool integers) {
    std::mt19937 draw(7);
    std::uniform_int_distribution<int> small(-8, 7);
    fragments made;
    const auto fill = [&](std::vector<double>& to, int count) {
        for (int n = 0; n < count; ++n) to.push_back(small(draw));
    };
    fill(made.a, 16 * depth), fill(made.b, depth * 8), fill(made.c, 16 * 8);
    const auto at = [](const std::vector<double>& of, int row, int column, int width) {
        return static_cast<int>(of[static_cast<std::size_t>(row * width + column)]);
    };
    const int bits = 32 / together, span = 4 * together;
    for (int lane = 0; lane < 32; ++lane) {
        const int g = lane / 4, t = lane % 4;
        const auto packed = [&](const std::function<int(int)>& element) {
            u32 word = 0;
            for (int n = 0; n < together; ++n)
                word |= (bits_of_small(element(n)) & (bits == 32 ? ~0u : (1u << bits) - 1)) << bits * n;
            return word;
        };
        for (int k = 0; k < depth; k += span)
            for (int row : {g, g + 8})
                made.words.push_back(packed([&](int n) { return at(made.a, row, k + t * together + n, depth); }));
        for (int k = 0; k < depth; k += span)
            made.words.push_back(packed([&](int n) { return at(made.b, k + t * together + n, g, 8); }));
        for (int n = 0; n < 4; ++n) {
            const int c = at(made.c, g + 8 * (n / 2), 2 * t + n % 2, 8);
            made.words.push_back(integers ? static_cast<u32>(c) : std::bit_cast<u32>(static_cast<float>(c)));
        }
    }
    return made;
}

void check(const std::string& name, int depth, int together, const std::function<u32(int)>& bits_of_small,
           bool integers = false) {
    INFO(name);
    const fragments in = drawn(depth, together, bits_of_small, integers);
    const int of_b = depth / (4 * together), of_a = 2 * of_b, all = of_a + of_b + 4;
    std::string body = "mul.wide.u32 %rd4, %r0, " + std::to_string(4 * all) +
                       "; add.s64 %rd3, %rd1, %rd4; mul.wide.u32 %rd4, %r0, 16; add.s64 %rd2, %rd0, %rd4;\n";
    std::string lists[3];
    for (int n = 0; n < all; ++n) {
        const std::string name_of = "%r" + std::to_string(10 + n);
        body += "ld.global.b32 " + name_of + ", [%rd3 + " + std::to_string(4 * n) + "];\n";
        std::string& list = lists[n < of_a ? 0 : n < of_a + of_b ? 1 : 2];
        list += (list.empty() ? "" : ", ") + name_of;
    }
    body += "mma.sync.aligned." + name + " {%r1, %r2, %r3, %r4}, {" + lists[0] + "}, {" + lists[1] + "}, {" + lists[2] +
            "};\n";
    for (int n = 0; n < 4; ++n)
        body += "st.global.b32 [%rd2 + " + std::to_string(4 * n) + "], %r" + std::to_string(1 + n) + ";\n";
    std::vector<u32> out(4 * 32);
    small_kernel(body).run(out, in.words);
    int wrong = 0;
    for (int row = 0; row < 16; ++row)
        for (int column = 0; column < 8; ++column) {
            double sum = in.c[static_cast<std::size_t>(row * 8 + column)];
            for (int k = 0; k < depth; ++k)
                sum += in.a[static_cast<std::size_t>(row * depth + k)] * in.b[static_cast<std::size_t>(k * 8 + column)];
            const u32 got = out[static_cast<std::size_t>((row % 8 * 4 + column / 2) * 4 + row / 8 * 2 + column % 2)];
            wrong += sum != (integers ? static_cast<double>(static_cast<s32>(got))
                                      : static_cast<double>(std::bit_cast<float>(got)));
        }
    CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("mma multiplies fragments of all elements and depths") {
    const auto bf16 = [](int x) { return u32{to_bf16(static_cast<float>(x))}; };
    const auto f16 = [](int x) { return u32{to_f16(static_cast<float>(x))}; };
    const auto tf32 = [](int x) { return std::bit_cast<u32>(static_cast<float>(x)); };
    const auto s8 = [](int x) { return static_cast<u32>(x); };
    check("m16n8k16.row.col.f32.bf16.bf16.f32", 16, 2, bf16);
    check("m16n8k8.row.col.f32.bf16.bf16.f32", 8, 2, bf16);
    check("m16n8k16.row.col.f32.f16.f16.f32", 16, 2, f16);
    check("m16n8k8.row.col.f32.f16.f16.f32", 8, 2, f16);
    check("m16n8k8.row.col.f32.tf32.tf32.f32", 8, 1, tf32);
    check("m16n8k4.row.col.f32.tf32.tf32.f32", 4, 1, tf32);
    check("m16n8k32.row.col.s32.s8.s8.s32", 32, 4, s8, true);
    check("m16n8k16.row.col.s32.s8.s8.s32", 16, 4, s8, true);
}

TEST_CASE("ldmatrix gives each lane two neighbours of a row, or of a column") {
    for (const bool transposed : {false, true}) {
        // Rows of 16 bytes, one after the other; element (row, column) of matrix n is 64 n + 8 row + column.
        std::vector<u16> in(4 * 64);
        for (std::size_t n = 0; n < in.size(); ++n) in[n] = static_cast<u16>(n);
        std::vector<u32> out(32 * 4);
        small_kernel(
            "mul.wide.u32 %rd4, %r0, 16; add.s64 %rd3, %rd1, %rd4; add.s64 %rd2, %rd0, %rd4; shl.b32 %r1, %r0, 4;\n"
            "ld.global.v4.b32 {%r2, %r3, %r4, %r5}, [%rd3]; st.shared.v4.b32 [%r1], {%r2, %r3, %r4, %r5}; bar.sync 0;\n"
            "ldmatrix.sync.aligned.m8n8.x4." +
            std::string(transposed ? "trans." : "") +
            "shared.b16 {%r2, %r3, %r4, %r5}, [%r1]; st.global.v4.b32 [%rd2], {%r2, %r3, %r4, %r5};")
            .run(out, in);
        int wrong = 0;
        for (u32 lane = 0; lane < 32; ++lane)
            for (u32 n = 0; n < 4; ++n) {
                const u32 g = lane / 4, t = lane % 4 * 2, first = 64 * n + (transposed ? 8 * t + g : 8 * g + t),
                          second = first + (transposed ? 8 : 1);
                wrong += out[lane * 4 + n] != (first | second << 16);
            }
        CHECK(wrong == 0);
    }
}

TEST_CASE("wgmma multiplies a warpgroup's rows with swizzled columns, and its sums come when they are waited for") {
    // A is 1 in its first column alone, so that each row of D is B's first row: 1, 2, .., 8. D was 100 before.
    std::string body = "mov.u32 %r1, 0; and.b32 %r2, %r0, 31; setp.lt.u32 %p0, %r0, 32;\n";
    for (int at = 0; at < 1024; at += 128)
        body += "shl.b32 %r3, %r2, 2; @%p0 st.shared.b32 [%r3 + " + std::to_string(at) + "], %r1;\n";
    body +=
        "cvt.rn.f32.u32 %f1, %r2; add.f32 %f1, %f1, 0f3F800000; cvt.rn.bf16.f32 %h1, %f1; setp.lt.u32 %p1, %r0, 8;\n"
        "mul.lo.u32 %r3, %r2, 144; @%p1 st.shared.b16 [%r3], %h1;\n"  // element (0, n): row n of 128 bytes, whose
                                                                      // pieces are exchanged by n
        "bar.sync 0; mov.b64 %rd5, 0x4000004000010000; setp.eq.u32 %p2, %r1, 0;\n"
        "and.b32 %r4, %r0, 3; setp.eq.u32 %p3, %r4, 0; selp.b32 %r10, 0x3f80, 0, %p3; mov.b32 %r11, %r10; mov.b32 "
        "%r12, 0; mov.b32 %r13, 0;\n";
    for (int n = 0; n < 4; ++n) body += "mov.f32 %f" + std::to_string(10 + n) + ", 0f42C80000;\n";
    body +=
        "wgmma.fence.sync.aligned; wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f10, %f11, %f12, %f13}, "
        "{%r10, %r11, %r12, %r13}, %rd5, %p2, 1, 1, 0;\n"
        "wgmma.commit_group.sync.aligned; mov.f32 %f20, %f10; wgmma.wait_group.sync.aligned 0;\n"
        "mul.wide.u32 %rd4, %r0, 16; add.s64 %rd2, %rd0, %rd4; st.global.v4.f32 [%rd2], {%f10, %f11, %f13, %f20};";
    std::vector<float> out(128 * 4), in(1);
    small_kernel(body, "sm_90a", "sm_90a").run(out, in, 128);
    int wrong = 0;
    for (std::size_t thread = 0; thread < 128; ++thread) {
        const float column = static_cast<float>(thread % 4 * 2);
        wrong += out[thread * 4] != 101 + column || out[thread * 4 + 1] != 102 + column ||
                 out[thread * 4 + 2] != 102 + column || out[thread * 4 + 3] != 100;
    }
    CHECK(wrong == 0);
}
