// Images with machine code beside their PTX: how the generators make them, and how a driver finds the PTX.
#include "../image.hpp"
#include "../module.hpp"

#include "ptx/assembler.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cstring>
#include <filesystem>
#include <set>
#include <stdexcept>
#include <utility>

using attune::generators::assembler;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

template <class T> void put(std::string& bytes, std::size_t at, T value) {
    std::memcpy(bytes.data() + at, &value, sizeof value);
}

enum packing : std::uint64_t { stored = 0x11, lz4 = 0x2011, zstd = 0x8011 };

/// A part as fatbinary writes it, with bytes that are packed already if they are to be.
std::string part(std::uint16_t kind, const std::string& bytes, packing how = stored, std::uint64_t unpacked = 0) {
    std::string all(64, '\0');
    put(all, 0, kind);
    put<std::uint32_t>(all, 4, 64);
    put<std::uint64_t>(all, 8, (bytes.size() + 7) / 8 * 8);
    put(all, 16, how == stored ? 0u : static_cast<std::uint32_t>(bytes.size()));
    put<std::uint32_t>(all, 28, 80);
    put<std::uint64_t>(all, 40, how);
    put(all, 56, unpacked);
    return all + bytes + std::string((8 - bytes.size() % 8) % 8, '\0');
}

std::string image(const std::string& parts) {
    std::string all(16, '\0');
    put(all, 0, 0xba55ed50u);
    put<std::uint16_t>(all, 4, 1);
    put<std::uint16_t>(all, 6, 16);
    put<std::uint64_t>(all, 8, parts.size());
    return all + parts;
}

/// Three letters, 57 more by looking back, and five that end it.
const std::string packed = std::string("\x3f") + "abc" + std::string("\3\0", 2) + "\x26" + "\x50" + "tail!";

std::string refusal(const std::string& of) {
    try {
        static_cast<void>(ptx::text_of_image(of.data()));
    } catch (const std::runtime_error& problem) {
        return problem.what();
    }
    return "";
}

const std::string kernel = R"(.version 7.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 k_0)
{
.reg .b32 %r<4>; .reg .b64 %rd<2>;
ld.param.u64 %rd0, [k_0]; mov.u32 %r0, %tid.x; st.global.u32 [%rd0], %r0; ret;
}
)";

std::filesystem::path ptxas_here() {
    if (std::string_view(ATTUNE_TEST_PTXAS).empty()) SKIP("no ptxas with fatbinary beside it was found");
    return ATTUNE_TEST_PTXAS;
}

}  // namespace

TEST_CASE("a driver finds PTX that is given as it is, stored among machine code, or packed") {
    CHECK(ptx::text_of_image("// PTX") == "// PTX");
    CHECK(ptx::text_of_image(image(part(2,
                                        "\x7f"
                                        "ELF") +
                                   part(1, "// stored PTX"))
                                 .data()) == "// stored PTX");
    std::string all;
    for (int n = 0; n < 20; ++n) all += "abc";
    all += "tail!";
    CHECK(ptx::text_of_image(image(part(1, packed, lz4, all.size())).data()) == all);
    const auto parts = ptx::parts_of(image(part(2,
                                                "\x7f"
                                                "ELF") +
                                           part(1, packed, lz4, all.size())));
    REQUIRE(parts.size() == 2);
    CHECK((parts[0].is == ptx::image_part::kind::code && parts[0].card == 80 && parts[1].bytes == all));
}

TEST_CASE("images that are no whole ones are refused") {
    CHECK(refusal(image(part(2,
                             "\x7f"
                             "ELF"))) ==
          "expected PTX or a fat binary of CUDA, got one without PTX, which is what this device runs");
    CHECK_THAT(refusal(image(part(1, packed, zstd, 65))), ContainsSubstring("by zstd; try fatbinary"));
    for (const std::uint64_t wrong : {64u, 66u})
        CHECK_THAT(refusal(image(part(1, packed, lz4, wrong))), ContainsSubstring("a part that is damaged"));
    std::string looks_before_its_begin = packed;
    looks_before_its_begin[4] = 4;
    CHECK_THAT(refusal(image(part(1, looks_before_its_begin, lz4, 65))), ContainsSubstring("damaged"));
    CHECK_THAT(refusal(image(part(1, packed.substr(0, 5), lz4, 65))), ContainsSubstring("ends too early"));
    CHECK_THAT(refusal(image(part(1, "// PTX").substr(0, 66))), ContainsSubstring("ends too early"));
    CHECK_THROWS_AS(ptx::parts_of("// PTX"), std::runtime_error);
}

TEST_CASE("an image has code for each card, and the text, which runs") {
    const assembler all(ptxas_here(), {"all"}), two(ptxas_here(), {"sm_80", "sm_90a"});
    REQUIRE(!all.architectures().empty());
    CHECK(all.architectures().front() == "sm_80");
    CHECK(all.identity() != two.identity());
    CHECK_THAT(two.identity(), ContainsSubstring("release") && ContainsSubstring("sm_80 sm_90a"));
    const std::string made = all.image_of(kernel);
    CHECK(made == all.image_of(kernel));  // whatever the folder of the intermediate files
    std::multiset<unsigned> cards;
    for (const ptx::image_part& each : ptx::parts_of(made))
        if (each.is == ptx::image_part::kind::code) {
            cards.insert(each.card);
            CHECK(each.bytes.substr(0, 4) ==
                  "\x7f"
                  "ELF");
        }
    std::multiset<unsigned> wanted;
    for (const std::string& each : all.architectures())
        wanted.insert(static_cast<unsigned>(std::stoul(each.substr(3))));
    CHECK(cards == wanted);
    CHECK(ptx::parts_of(two.image_of(kernel)).size() == 3);
    CHECK(ptx::module(ptx::text_of_image(made.data())).entry("k") != nullptr);
}

TEST_CASE("what ptxas refuses comes in its words, with the line") {
    const assembler one(ptxas_here(), {"sm_80"});
    std::string wrong = kernel;
    wrong.replace(wrong.find("mov.u32"), 7, "mow.u32");
    CHECK_THROWS_MATCHES(one.image_of(wrong), std::runtime_error,
                         MessageMatches(ContainsSubstring("expected PTX that ptxas takes for sm_80, got \"") &&
                                        ContainsSubstring("PTX, line 7") && ContainsSubstring("mow")));
    CHECK_THROWS_MATCHES(assembler(ptxas_here(), {"sm_75"}).image_of(kernel), std::runtime_error,
                         MessageMatches(ContainsSubstring("expected PTX that ptxas takes for sm_75, got \"")));
    CHECK_THROWS_MATCHES(
        assembler(ptxas_here(), {"sm_80", "sm_777"}), std::runtime_error,
        MessageMatches(ContainsSubstring("expected architectures that ptxas knows, got sm_777; try ")));
}

TEST_CASE("a ptxas that is none is refused") {
    CHECK_THROWS_MATCHES(assembler("/nowhere/ptxas", {"all"}), std::runtime_error,
                         MessageMatches(ContainsSubstring("got \"/nowhere/ptxas\", which is no file")));
    CHECK_THROWS_MATCHES(assembler("/bin/sh", {"all"}), std::runtime_error,
                         MessageMatches(ContainsSubstring("expected fatbinary in the folder of ptxas, got none")));
}
