#include <attune/runtime/error.hpp>
#include <attune/runtime/tensor.hpp>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>
#include <limits>

using attune::bfloat16, attune::element_type, attune::float16, attune::float8_e4m3, attune::float8_e5m2, attune::tensor;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

TEST_CASE("a view knows its element type, shape and whether it may be written") {
    float x[24]{};
    const tensor t(x, {2, 3, 4});
    CHECK(t.description() == "f32 (2, 3, 4)");
    CHECK(t.data() == x);
    CHECK(t.mutable_data() == x);
    CHECK(t.stride(0) == 12);
    CHECK(t.stride(1) == 4);
    CHECK(t.stride(2) == 1);

    const tensor fixed(static_cast<const float*>(x), {24});
    CHECK(fixed.read_only());
    CHECK(fixed.mutable_data() == nullptr);

    std::int32_t i[1]{};
    std::uint8_t u[1]{};
    bool flag[1]{};
    bfloat16 b[1]{};
    float16 h[1]{};
    CHECK(tensor(i, {1}).type() == element_type::i32);
    CHECK(tensor(u, {1}).type() == element_type::u8);
    CHECK(tensor(flag, {1}).type() == element_type::boolean);
    CHECK(tensor(b, {1}).type() == element_type::bf16);
    CHECK(tensor(h, {1}).type() == element_type::f16);
    const std::int64_t shape[] = {1};
    CHECK(tensor(element_type::bf16, static_cast<void*>(b), shape).description() == "bf16 (1)");
    static_assert(!std::is_constructible_v<tensor, double*, tensor::extents>);
}

TEST_CASE("strides are those given, and axes can be exchanged") {
    float x[1]{};
    const tensor t(x, {2, 8, 16, 64}, {16 * 512, 64, 512, 1});
    CHECK(t.stride(1) == 64);
    const tensor stored(x, {2, 16, 8, 64});  // (batch, length, head, depth)
    const tensor seen = stored.swapped(1, 2);
    CHECK(seen.description() == "f32 (2, 8, 16, 64)");
    CHECK(seen.stride(1) == 64);
    CHECK(seen.stride(2) == 512);
    CHECK_THROWS_MATCHES(t.swapped(1, 4), attune::error, MessageMatches(ContainsSubstring("try axes from 0 to 3")));
    CHECK_THROWS_MATCHES(tensor(x, {2, 3}, {1}), attune::error,
                         MessageMatches(ContainsSubstring("expected one stride an axis of (2, 3), got strides (1)")));
    CHECK_THROWS_AS(tensor(x, {1, 1, 1, 1, 1, 1, 1, 1, 1}), attune::error);
}

TEST_CASE("extents that overflow are kept for the call to refuse") {
    float x[1]{};
    const tensor t(x, {4, std::int64_t{1} << 62, 1 << 20});
    CHECK(t.stride(0) == std::numeric_limits<std::int64_t>::max());
    CHECK(tensor(x, {2, 0, 3}).empty());
    CHECK_FALSE(tensor(x, {2, -1, 3}).empty());
}

TEST_CASE("bfloat16 converts exactly to float and rounds to nearest even from it") {
    for (std::uint32_t i = 0; i < 65536; ++i) {
        bfloat16 x;
        x.bits = static_cast<std::uint16_t>(i);
        const auto value = static_cast<float>(x);
        if (std::isnan(value))
            REQUIRE(std::isnan(static_cast<float>(bfloat16(value))));
        else
            REQUIRE(bfloat16(value).bits == x.bits);
    }
    CHECK(bfloat16(1.0f + 0x1p-8f).bits == 0x3f80);            // halfway: to even
    CHECK(bfloat16(1.0f + 0x1p-7f + 0x1p-8f).bits == 0x3f82);  // halfway: to even, upwards
    CHECK(bfloat16(std::numeric_limits<float>::max()).bits == 0x7f80);
}

TEST_CASE("float16 converts exactly to float and rounds to nearest even from it") {
    for (std::uint32_t i = 0; i < 65536; ++i) {
        float16 x;
        x.bits = static_cast<std::uint16_t>(i);
        const auto value = static_cast<float>(x);
        if (std::isnan(value))
            REQUIRE(std::isnan(static_cast<float>(float16(value))));
        else
            REQUIRE(float16(value).bits == x.bits);
    }
    CHECK(float16(65504.0f).bits == 0x7bff);
    CHECK(float16(65519.0f).bits == 0x7bff);
    CHECK(float16(65520.0f).bits == 0x7c00);
    CHECK(float16(-1e30f).bits == 0xfc00);
    CHECK(float16(0x1p-25f).bits == 0x0000);  // halfway to the smallest: to even
    CHECK(float16(0x1.8p-25f).bits == 0x0001);
    CHECK(float16(1.0f + 0x1p-11f).bits == 0x3c00);
    CHECK(float16(1.0f + 0x1.8p-10f).bits == 0x3c02);
    CHECK(static_cast<float>(float16(0.333251953125f)) == 0.333251953125f);
}

TEST_CASE("bytes of eight-bit floats are rounded to nearest even, and are exact the other way") {
    const auto check = []<class F8>(F8, float largest, float beyond, float smallest) {
        for (int bits = 0; bits < 256; ++bits) {
            F8 x;
            x.bits = static_cast<std::uint8_t>(bits);
            if (const auto value = static_cast<float>(x); !std::isnan(value)) CHECK(F8(value).bits == x.bits);
        }
        for (int bits = 0; bits < 0x7a; ++bits) {  // halfway to the next
            F8 x, next;
            x.bits = static_cast<std::uint8_t>(bits), next.bits = static_cast<std::uint8_t>(bits + 1);
            const float between = (static_cast<float>(x) + static_cast<float>(next)) / 2;
            CHECK(F8(between).bits == (bits % 2 == 0 ? x.bits : next.bits));
            CHECK(F8(std::nextafter(between, 0.0f)).bits == x.bits);
            CHECK(F8(-std::nextafter(between, 1e9f)).bits == (next.bits | 0x80));
        }
        CHECK(static_cast<float>(F8(largest)) == largest);
        CHECK(static_cast<float>(F8(smallest)) == smallest);
        CHECK(std::isnan(static_cast<float>(F8(std::nanf("")))));
        return static_cast<float>(F8(beyond));
    };
    CHECK(std::isnan(check(float8_e4m3{}, 448, 480, 0x1p-9f)));  // as PyTorch's: there is no infinity
    CHECK(std::isinf(check(float8_e5m2{}, 57344, 65536, 0x1p-16f)));
}
