// The stages of gradients keep everything of a number: its value, where it is masked, and where it is nothing, which
// makes a product 0 whatever the other factor holds.
#include "stages/pair_block.hpp"

#include <Halide.h>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>

using attune::generators::kept_number;
using attune::generators::quantity;
using Halide::Expr;

namespace {

const Halide::Var i("i");

/// Whether two numbers are the same at each of thirty places.
bool are_same(const Expr& first, const Expr& second) {
    Halide::Func same("same");
    same(i) = Halide::cast<std::uint8_t>(first == second);
    const Halide::Buffer<std::uint8_t> at = same.realize({30});
    return std::all_of(at.begin(), at.begin() + 30, [](std::uint8_t each) { return each == 1; });
}

/// Of either kind, with what it may be beside.
void check_kept(bool is_condition, bool may_be_masked, bool may_be_nothing) {
    CAPTURE(is_condition, may_be_masked, may_be_nothing);
    const quantity x{is_condition ? Expr(i % 2 == 0) : Halide::cast<float>(i) * 0.5f,
                     may_be_masked ? i % 3 == 0 : Expr(), may_be_nothing ? i % 5 == 0 : Expr()};
    kept_number kept("kept", x, {i});
    kept.values.compute_root();
    const quantity read = kept.at({i});
    CHECK(are_same(read.value, x.value));
    REQUIRE(read.masked.defined() == may_be_masked);
    REQUIRE(read.nothing.defined() == may_be_nothing);
    if (may_be_masked) CHECK(are_same(read.masked, x.masked));
    if (may_be_nothing) CHECK(are_same(read.nothing, x.nothing));
}

}  // namespace

TEST_CASE("a number that is kept is read as it was, masked or nothing where it was") {
    for (const bool is_condition : {false, true})
        for (const bool may_be_masked : {false, true})
            for (const bool may_be_nothing : {false, true}) check_kept(is_condition, may_be_masked, may_be_nothing);
}
