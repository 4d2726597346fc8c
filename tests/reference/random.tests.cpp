#include "src/random.hpp"
#include "by_hand.hpp"

using namespace attune;
using namespace attune::testing;

TEST_CASE("Philox 4x32-10 has the words that its authors print") {
    using words = std::array<std::uint32_t, 4>;
    constexpr std::uint32_t all = 0xffffffff;
    CHECK(reference::philox({0, 0, 0, 0}, 0, 0) == words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
    CHECK(reference::philox({all, all, all, all}, all, all) == words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
    CHECK(reference::philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0xa4093822, 0x299f31d0) ==
          words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("what is kept: a condition of the pair, by the seed") {
    given g;
    g.reals("q", {2, 2, 3, 1}, std::vector<float>(12))
        .reals("k", {2, 1, 9, 1}, std::vector<float>(18))
        .number("p", 0.5)
        .number("seed", 7);
    writer w;
    const auto kept = w.add(operation::keep, kind::condition,
                            {w.scalar("p", element_type::f32), w.scalar("seed", element_type::i32), w.integer(-1)});
    w.output("scores", w.add(operation::mask, kind::scores, {w.scores(), kept}));
    const auto r = g.of(w);
    std::size_t at = 0;
    bool agree = true;
    for (std::uint32_t b = 0; b < 2; ++b)
        for (std::uint32_t h = 0; h < 2; ++h)
            for (std::uint32_t q = 0; q < 3; ++q)
                for (std::uint32_t key = 0; key < 9; ++key)
                    agree = agree && (r["scores"].values[at++] == 0) ==
                                         (reference::philox({key / 4, q, h, b}, 7, 0xffffffff)[key % 4] >= 0x80000000);
    CHECK(agree);
}

TEST_CASE("nothing is dropped with probability 0, everything with 1") {
    for (std::int64_t key = 0; key < 100; ++key) {
        CHECK((reference::keeps(0.0, 1, 2, {3, 4, 5, key})));
        CHECK_FALSE((reference::keeps(1.0, 1, 2, {3, 4, 5, key})));
    }
}
