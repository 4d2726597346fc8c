// Products of matrices as AMX makes them, on a machine that need not have it: what the pass writes for its registers is
// played by loops, and compared with the loops that it replaces.
#include "passes/multiply_tiles.hpp"
#include "codegen/halide_target.hpp"
#include "expr/math.hpp"
#include "kernel/kernel_list.hpp"
#include "lower.hpp"
#include "passes/multiply_bytes.hpp"

#include <attune/dsl.hpp>

#include <Halide.h>
#include <catch2/catch_test_macros.hpp>

#include <map>
#include <utility>

using namespace attune::generators;
using namespace Halide;
using namespace Halide::Internal;

namespace {

namespace formulas {
using namespace attune::dsl;
inline constexpr auto plain = softmax(q * t(k) * rsqrt(depth)) * v;
}  // namespace formulas

/// A register of tiles is 256 words of memory, each a sum, two bf16 or four bytes (Intel's manual: TILELOADD,
/// TDPBF16PS, TDPBUSD, TILESTORED).
class plays_tiles : public IRMutator {
public:
    std::map<std::string, int> instructions;

protected:
    using IRMutator::visit;
    Stmt visit(const Allocate* memory) override {
        types_[memory->name] = memory->type.element_of();
        return IRMutator::visit(memory);
    }
    Stmt visit(const LetStmt* let) override {
        const auto* call = let->value.as<Call>();
        if (!call || !call->name.starts_with("tile_")) return IRMutator::visit(let);
        ++instructions[call->name];
        const Stmt body = mutate(let->body);
        const Type type = call->name == "tile_load" ? UInt(32) : call->type.element_of();
        return Allocate::make(let->name, type, MemoryType::Stack, {256}, const_true(),
                              Block::make(made(let->name, *call), body));
    }
    Stmt visit(const Evaluate* evaluated) override {
        const auto* call = evaluated->value.as<Call>();
        if (!call || call->name != "tile_store") return IRMutator::visit(evaluated);
        ++instructions[call->name];
        const auto& [name, at, step] = place_of(*call);
        return loop("row", [&](const Expr& row) {
            return loop("column", [&](const Expr& column) {
                return store(name, (at + row * step) / 4 + column,
                             load(call->args[5].type().element_of(), name_of(call->args[5]), 16 * row + column));
            });
        });
    }

private:
    struct place {
        std::string name;
        Expr at, step;
    };
    static std::string name_of(const Expr& e) { return e.as<Variable>()->name; }
    static place place_of(const Call& call) { return {name_of(call.args[2]), call.args[3], call.args[4]}; }
    static Expr load(const Type& type, const std::string& name, const Expr& at) {
        return Load::make(type, name, at, {}, {}, const_true(), {});
    }
    static Stmt store(const std::string& name, const Expr& at, const Expr& value) {
        return Store::make(name, value, at, {}, const_true(), {});
    }
    template <class Body> static Stmt loop(const char* what, const Body& body) {
        const std::string name = unique_name(what);
        return For::make(name, 0, 16, ForType::Serial, Partition::Never, DeviceAPI::None,
                         body(Variable::make(Int(32), name)));
    }

    Stmt made(const std::string& name, const Call& call) {
        return loop("row", [&](const Expr& row) {
            return loop("column", [&](const Expr& column) {
                const Expr here = 16 * row + column;
                const Type of_sum = call.type.element_of();
                if (call.name == "tile_zero") return store(name, here, cast(of_sum, 0));
                if (call.name == "tile_load") return store(name, here, word_at(place_of(call), row, column));
                const std::string left = name_of(call.args[4]), right = name_of(call.args[5]);
                return Block::make(
                    store(name, here, load(of_sum, name_of(call.args[3]), here)), loop("word", [&](const Expr& word) {
                        const Expr a = load(UInt(32), left, 16 * row + word),
                                   b = load(UInt(32), right, 16 * word + column);
                        Expr sum = load(of_sum, name, here);
                        if (of_sum.is_int())
                            for (const int j : {0, 1, 2, 3})
                                sum = sum + byte_of(a, call.args[4].type(), j) * byte_of(b, call.args[5].type(), j);
                        else
                            for (const int j : {0, 1})
                                sum = sum + cast<float>(half_of(a, j)) * cast<float>(half_of(b, j));
                        return store(name, here, sum);
                    }));
            });
        });
    }
    static Expr byte_of(const Expr& word, const Type& tile, int j) {
        const Expr byte = cast<std::uint8_t>(word >> (8 * j));
        return cast<int>(tile.is_uint() ? byte : cast<std::int8_t>(byte));
    }
    Expr word_at(const place& from, const Expr& row, const Expr& column) {
        const Expr bytes = from.at + row * from.step;
        if (types_.at(from.name) == UInt(32)) return load(UInt(32), from.name, bytes / 4 + column);
        if (types_.at(from.name) == UInt(8)) {
            Expr word = cast<std::uint32_t>(0);
            for (int j = 0; j < 4; ++j)
                word = word | cast<std::uint32_t>(load(UInt(8), from.name, bytes + 4 * column + j)) << (8 * j);
            return word;
        }
        const auto half = [&](int j) { return load(BFloat(16), from.name, bytes / 2 + 2 * column + j); };
        return word_of(half(0), half(1));
    }

    std::map<std::string, Type> types_;
};

/// Rows of numbers that bf16 holds, times columns of such, exact in f32.
struct factors {
    factors(int rows, int columns, int summed, bool in_words, bool only_some) {
        const Var k("k"), k2("k2"), m("m"), n("n"), block("block");
        const auto number = [](const Expr& i, const Expr& j, int a, int b) {
            return cast(BFloat(16), cast<float>((i * a + j * b) % 23 - 11));
        };
        Func halves("halves"), words("words"), right("right"), sums("sums");
        halves(k, m) = number(k, m, 5, 7);
        words(k2, m) = word_of(number(2 * k2, m, 5, 7), number(2 * k2 + 1, m, 5, 7));
        right(n, k2) = word_of(number(2 * k2, n, 3, 11), number(2 * k2 + 1, n, 3, 11));
        const RDom each({{0, 2}, {0, summed / 2}}, "each");
        Func asked("asked");
        asked(block) = cast<std::uint8_t>(block % 2);
        RDom some = each;
        if (only_some) some.where(asked(block) != cast<std::uint8_t>(0));
        const Expr left = in_words ? half_of(words(some.y, m), some.x) : Expr(halves(2 * some.y + some.x, m));
        sums(n, m, block) = 0.0f;
        sums(n, m, block) += cast<float>(left) * cast<float>(half_of(right(n, some.y), some.x));
        name = sums.name();
        all(n, m, block) = sums(n, m, block) + 0.5f;
        for (Func factor : {halves, words, right}) factor.compute_root();
        asked.compute_root();
        sums.compute_at(all, block).bound_extent(n, columns).bound_extent(m, rows).bound_extent(block, 1);
        sums.update().reorder(some.x, some.y, n, m).never_partition_all();
        all.bound(n, 0, columns).bound(m, 0, rows);
        shape = {columns, rows, 2};
    }
    Func all{"all"};
    std::string name;
    std::vector<int> shape;
};

/// Rows of bytes times columns of bytes, one factor of both with a sign: the columns, or rows that are words.
struct factors_of_bytes {
    factors_of_bytes(int rows, int columns, int summed, bool in_words) {
        const Var k("k"), k4("k4"), m("m"), n("n"), block("block");
        const auto number = [](const Expr& i, const Expr& j, int a, int b) {
            return cast<std::uint8_t>(i * a + j * b);
        };
        const auto word = [&](const Var& i, int a, int b) {
            Expr all = cast<std::uint32_t>(0);
            for (int j = 0; j < 4; ++j) all = all | cast<std::uint32_t>(number(4 * k4 + j, i, a, b)) << (8 * j);
            return all;
        };
        Func bytes("bytes"), words("words"), right("right"), sums("sums");
        bytes(k, m) = number(k, m, 5, 71);
        words(k4, m) = word(m, 5, 71);
        right(n, k4) = word(n, 3, 113);
        const RDom each(0, summed / 4, "each");
        std::vector<Expr> four;
        for (int j = 0; j < 4; ++j) four.push_back(bytes(4 * each + j, m));
        sums(n, m, block) = 0;
        sums(n, m, block) +=
            in_words ? dot_of_bytes(right(n, each), words(each, m)) : dot_of_bytes(word_of_codes(four), right(n, each));
        name = sums.name();
        all(n, m, block) = sums(n, m, block) + 1;
        for (Func factor : {bytes, words, right}) factor.compute_root();
        sums.compute_at(all, block).bound_extent(n, columns).bound_extent(m, rows).bound_extent(block, 1);
        sums.update().reorder(each, n, m).never_partition_all();
        all.bound(n, 0, columns).bound(m, 0, rows);
        shape = {columns, rows, 1};
    }
    Func all{"all"};
    std::string name;
    std::vector<int> shape;
};

}  // namespace

TEST_CASE("tiles of bytes make the sums that the loops make") {
    for (const auto& [rows, columns, summed] : {std::tuple(32, 32, 64), {48, 16, 128}})
        for (const bool in_words : {false, true}) {
            CAPTURE(rows, columns, summed, in_words);
            factors_of_bytes of(rows, columns, summed, in_words), same(rows, columns, summed, in_words);
            auto* played = new plays_tiles;
            Pipeline tiled(of.all), plain(same.all);
            tiled.add_custom_lowering_pass(new multiply_tiles({of.name}));
            tiled.add_custom_lowering_pass(played);
            plain.add_custom_lowering_pass(new multiply_bytes(false));
            const Buffer<int> made = tiled.realize(of.shape), expected = plain.realize(same.shape);
            CHECK(played->instructions["tile_matmul"] == rows * columns / 256 * summed / 64);
            int wrong = 0;
            expected.for_each_element([&](const int* at) { wrong += made(at) != expected(at); });
            CHECK(wrong == 0);
        }
}

TEST_CASE("tiles make the sums that the loops make, whatever is a part of two by two tiles") {
    for (const auto& [rows, columns, summed] : {std::tuple(32, 32, 64), {16, 16, 32}, {48, 64, 96}, {64, 16, 128}})
        for (const bool in_words : {false, true})
            for (const bool only_some : {false, true}) {
                CAPTURE(rows, columns, summed, in_words, only_some);
                factors of(rows, columns, summed, in_words, only_some),
                    same(rows, columns, summed, in_words, only_some);
                auto* played = new plays_tiles;
                Pipeline tiled(of.all);
                tiled.add_custom_lowering_pass(new multiply_tiles({of.name}));
                tiled.add_custom_lowering_pass(played);
                const Buffer<float> made = tiled.realize(of.shape), expected = Pipeline(same.all).realize(same.shape);
                const int tiles = rows * columns / 256;
                CHECK(played->instructions["tile_matmul"] == tiles * summed / 32);
                CHECK(played->instructions["tile_store"] == tiles);
                int wrong = 0, seen = 0;
                expected.for_each_element([&](const int* at) {
                    wrong += made(at) != expected(at);
                    seen += expected(at) != 0.5f;
                });
                CHECK(wrong == 0);
                CHECK(seen > rows * columns / 2);
            }
}

TEST_CASE("a kernel at the level of tiles has no other products of queries and keys, and of weights and values") {
    const variant of{"my::plain", attune::dsl::ir_of<formulas::plain>};
    for (const char* depths : {"64", "96x80"}) {
        CAPTURE(depths);
        const listed_kernel kernel =
            kernels_of({&of, 1}, {.targets = {"x86-64-v4-amx"}, .dtypes = {"bf16"}, .depths = {depths}}).front();
        const auto& cut = std::get<cpu_prefill>(kernel.request.schedule);
        auto* played = new plays_tiles;
        lowered_kernel lowered = lower(kernel.request);
        lowered.attention.add_custom_lowering_pass(played);
        lowered.module("plain", halide_target(*kernel.request.target));
        const auto [depth, value_depth] = kernel.request.depths;
        const int across = cut.query_tile / 16;
        CHECK(played->instructions["tile_matmul"] ==
              across * (cut.key_tile / 16 * depth / 32 + cut.chunk / 16 * cut.key_block / 32));
    }
}
