// Passes that make instructions for integers of a kernel's loops: what comes out is what Halide alone makes.
#include "passes/interleave_stores.hpp"
#include "passes/multiply_bytes.hpp"

#include <Halide.h>
#include <catch2/catch_test_macros.hpp>

#include <cstdint>
#include <string>
#include <vector>

using namespace attune::generators;
using Halide::Buffer, Halide::cast, Halide::Expr, Halide::Func, Halide::Pipeline, Halide::RDom, Halide::Var;

namespace {

enum class pass { none, whole_sums, sums_in_pairs, stores };

/// Counts sums that may saturate.
class counted : public Halide::Internal::IRMutator {
public:
    explicit counted(int& saturating) : saturating_(saturating) {}

protected:
    using IRMutator::visit;
    Expr visit(const Halide::Internal::VectorReduce* sum) override {
        saturating_ += sum->op == Halide::Internal::VectorReduce::SaturatingAdd;
        return IRMutator::visit(sum);
    }

private:
    int& saturating_;
};
int saturating;  // of what was lowered last

void add(Pipeline& to, pass which) {
    if (which == pass::whole_sums || which == pass::sums_in_pairs)
        to.add_custom_lowering_pass(new multiply_bytes(which == pass::sums_in_pairs));
    if (which == pass::stores) to.add_custom_lowering_pass(new interleave_stores);
    saturating = 0;
    to.add_custom_lowering_pass(new counted(saturating));
}

/// This machine, without the instructions that add up four products of bytes, or two of words, unless the pass makes
/// them of the loop: LLVM does not finish compiling these loops with them. No level whose sums are in pairs has them.
Halide::Target target_of(pass which) {
    Halide::Target target = Halide::get_jit_target_from_environment();
    if (which == pass::none || which == pass::sums_in_pairs)
        for (const auto feature :
             {Halide::Target::AVX512_Cannonlake, Halide::Target::AVX512_SapphireRapids, Halide::Target::AVX512_Zen4,
              Halide::Target::AVX512_Zen5, Halide::Target::AVXVNNI, Halide::Target::AVX10_1})
            target.set_feature(feature, false);
    return target;
}

/// Sums of 64 products of bytes, four of which are added up at a time; those of a row of 16 side by side.
Buffer<std::int32_t> sums_of(const Buffer<std::uint8_t>& one, const Buffer<std::int8_t>& other, int mask, pass which) {
    const Var j("j"), row("row");
    const RDom each({{0, 4}, {0, 16}}, "each");
    Func sums("sums"), result("result");
    sums(j, row) = 0;
    const Expr factor = one(each.x + 4 * each.y, row) & cast<std::uint8_t>(mask);
    sums(j, row) += cast<int>(factor) * cast<int>(other(each.x + 4 * j + 64 * each.y));
    result(j, row) = sums(j, row);
    sums.compute_at(result, row).vectorize(j, 16);
    sums.update().reorder(each.x, j, each.y).atomic().vectorize(each.x).vectorize(j, 16);
    Pipeline all(result);
    add(all, which);
    return all.realize({16, one.height()}, target_of(which));
}

/// Rows of four, or words of two, side by side, number by number.
template <class Number> Buffer<Number> side_by_side(const Buffer<std::uint8_t>& rows, int count, pass which) {
    const Var l("l"), d("d"), dx("dx");
    Func interleaved("interleaved"), result("result");
    interleaved(l, d) = cast<Number>(cast<std::int8_t>((rows(d, l) & cast<std::uint8_t>(15)) - cast<std::uint8_t>(8)));
    result(l, d) = interleaved(l, d);
    interleaved.compute_root().bound_extent(l, count).split(d, d, dx, 16).reorder(dx, l, d).vectorize(dx).unroll(l);
    Pipeline all(result);
    add(all, which);
    return all.realize({count, rows.width()});
}

template <class Number> Buffer<Number> drawn(int width, int height) {
    Buffer<Number> all(width, height);
    all.for_each_element([&](int i, int j) { all(i, j) = static_cast<Number>(37 * i + 101 * j + i * j); });
    return all;
}

template <class Number> void check_same(const Buffer<Number>& made, const Buffer<Number>& expected) {
    int different = 0;
    expected.for_each_element([&](int i, int j) { different += made(i, j) != expected(i, j); });
    CHECK(different == 0);
}

}  // namespace

TEST_CASE("sums of four products of bytes are the same by any instruction", "[codes]") {
    Buffer<std::uint8_t> one = drawn<std::uint8_t>(64, 9);
    Buffer<std::int8_t> other(16 * 64);
    for (int i = 0; i < other.width(); ++i) other(i) = static_cast<std::int8_t>(i * 29 % 255 - 127);
    for (int i = 0; i < 64; ++i) one(i, 0) = 255;  // the largest sums that an i16 holds
    for (int i = 0; i < 64; ++i) other(i) = i / 2 % 2 == 0 ? 127 : -127;
    for (const int mask : {15, 127}) {  // Halide gives those of 15 a sign
        CAPTURE(mask);
        const auto expected = sums_of(one, other, mask, pass::none);
        CHECK(saturating == 0);
        check_same(sums_of(one, other, mask, pass::whole_sums), expected);
        CHECK(saturating == 0);
        check_same(sums_of(one, other, mask, pass::sums_in_pairs), expected);
        CHECK(saturating > 0);
        std::int32_t sum = 0;
        for (int i = 0; i < 64; ++i) sum += (one(i, 3) & mask) * other(i % 4 + 4 * 2 + 64 * (i / 4));
        CHECK(expected(2, 3) == sum);
    }
}

TEST_CASE("products of words are those of their bytes, whether these lie side by side or apart", "[codes]") {
    const Buffer<std::uint8_t> one = drawn<std::uint8_t>(128, 1), other = drawn<std::uint8_t>(128, 2);
    for (const int lanes : {1, 16})
        for (const int apart : {1, 2}) {
            CAPTURE(lanes, apart);
            const Var x("x");
            const auto word = [&](const Buffer<std::uint8_t>& of, int row) {
                std::vector<Expr> bytes;
                for (int j = 0; j < 4; ++j) bytes.push_back(of(apart * (4 * x + j), row));
                return word_of_codes(bytes);
            };
            Func sums("sums");
            sums(x) = dot_of_bytes(word(one, 0), word(other, 1));
            if (lanes > 1) sums.vectorize(x, lanes);
            Pipeline all(sums);
            add(all, pass::whole_sums);
            const Buffer<std::int32_t> made = all.realize({16}, target_of(pass::whole_sums));
            for (int i = 0; i < 16; ++i) {
                int sum = 0;
                for (int j = 0; j < 4; ++j)
                    sum += one(apart * (4 * i + j), 0) * static_cast<std::int8_t>(other(apart * (4 * i + j), 1));
                CHECK(made(i) == sum);
            }
        }
}

TEST_CASE("words of two numbers of 16 bits are multiplied as these are, the lowest one, too", "[codes]") {
    Buffer<std::int16_t> one(64), other(64);
    for (int i = 0; i < 64; ++i) {
        one(i) = static_cast<std::int16_t>(i == 5 ? -32768 : i * 1021);
        other(i) = static_cast<std::int16_t>(i == 5 ? 32767 : -i * 877);
    }
    for (const int apart : {1, 2}) {
        CAPTURE(apart);
        const Var x("x");
        const auto word = [&](const Buffer<std::int16_t>& of) {
            return word_of_codes({of(apart * 2 * x), of(apart * (2 * x + 1))});
        };
        Func sums("sums");
        sums(x) = dot_of_halves(word(one), word(other));
        sums.vectorize(x, 8);
        Pipeline all(sums);
        add(all, pass::sums_in_pairs);
        const Buffer<std::int32_t> made = all.realize({16}, target_of(pass::sums_in_pairs));
        for (int i = 0; i < 16; ++i) {
            const int a = apart * 2 * i, b = apart * (2 * i + 1);
            CHECK(made(i) == one(a) * other(a) + one(b) * other(b));
        }
    }
}

TEST_CASE("sums of pairs saturate where an i16 does not hold them, so pair_fits_word decides", "[codes]") {
    Buffer<std::uint8_t> one(64, 1);
    Buffer<std::int8_t> other(16 * 64);
    one.fill(255), other.fill(127);
    CHECK(sums_of(one, other, 255, pass::none)(0, 0) == 64 * 255 * 127);
    CHECK(sums_of(one, other, 255, pass::sums_in_pairs)(0, 0) == 32 * 32767);
}

TEST_CASE("rows are stored side by side in steps of two as they are with strides", "[codes]") {
    const Buffer<std::uint8_t> rows = drawn<std::uint8_t>(48, 4);
    check_same(side_by_side<std::int8_t>(rows, 4, pass::stores), side_by_side<std::int8_t>(rows, 4, pass::none));
    check_same(side_by_side<std::int16_t>(rows, 2, pass::stores), side_by_side<std::int16_t>(rows, 2, pass::none));
    check_same(side_by_side<std::int16_t>(rows, 3, pass::stores), side_by_side<std::int16_t>(rows, 3, pass::none));
}

TEST_CASE("stores that fill words between them become one, unless one reads what another wrote", "[codes]") {
    using namespace Halide::Internal;
    const auto store = [](int place, int stores, const Expr& value) {
        const Expr at = Ramp::make(Variable::make(Halide::Int(32), "x") * 64 + place, stores, value.type().lanes());
        return Store::make("words", value, at, Halide::Parameter(), const_true(value.type().lanes()),
                           ModulusRemainder());
    };
    const auto vector = [](int bits, int number) {
        return Variable::make(Halide::Int(bits, 16), "row" + std::to_string(number));
    };
    const auto is_one_store = [](const Stmt& all, int lanes) {
        const Stmt left = interleave_stores().mutate(all);
        const auto* made = left.as<Store>();
        const auto* at = made ? made->index.as<Ramp>() : nullptr;
        return at && is_const_one(at->stride) && at->lanes == lanes;
    };
    std::vector<Stmt> bytes, words;
    for (int i = 0; i < 4; ++i) bytes.push_back(store(i, 4, vector(8, i)));
    for (int i = 0; i < 2; ++i) words.push_back(store(i, 2, vector(16, i)));
    CHECK(is_one_store(Block::make(bytes), 64));
    CHECK(is_one_store(Block::make(words), 32));
    const auto changed = [&](int which, const Stmt& other) {
        std::vector<Stmt> all = bytes;
        all[which] = other;
        return Block::make(all);
    };
    CHECK_FALSE(is_one_store(changed(2, store(3, 4, vector(8, 2))), 64));  // one place twice
    CHECK_FALSE(is_one_store(changed(3, store(3, 2, vector(8, 3))), 64));
    const Expr read = Load::make(Halide::Int(8, 16), "words", Ramp::make(0, 4, 16), {}, Halide::Parameter(),
                                 const_true(16), ModulusRemainder());
    CHECK_FALSE(is_one_store(changed(1, store(1, 4, read)), 64));
}
