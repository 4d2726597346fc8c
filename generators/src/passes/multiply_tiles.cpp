#include "passes/multiply_tiles.hpp"

#include "passes/multiply_bytes.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

namespace attune::generators::inline passes {
using namespace Halide;
using namespace Halide::Internal;

namespace {

constexpr int side = 16;  ///< rows of a tile, and words of a row, each a sum or two neighbours
constexpr int bytes_of_row = 64, bytes_of_word = 4;
constexpr int tiles_beside = 2;  ///< tiles of a factor: four of eight registers hold sums

/// A loop nest with one store in it, taken apart.
struct nest {
    std::vector<const For*> loops;  ///< outermost first
    std::vector<Expr> conditions;
    const Store* store{};
    std::map<std::string, Expr> named;  ///< lets on the way

    static std::optional<nest> of(Stmt all) {
        nest found;
        for (;;) {
            if (const auto* loop = all.as<For>())
                found.loops.push_back(loop), all = loop->body;
            else if (const auto* let = all.as<LetStmt>())
                found.named[let->name] = substitute(found.named, let->value), all = let->body;
            else if (const auto* only = all.as<IfThenElse>(); only && !only->else_case.defined())
                found.conditions.push_back(substitute(found.named, only->condition)), all = only->then_case;
            else
                break;
        }
        found.store = all.as<Store>();
        if (!found.store) return std::nullopt;
        return found;
    }
};

/// The step of an index with each iteration of a loop.
Expr step_of(const Expr& index, const For* loop) {
    const Expr at = Variable::make(Int(32), loop->name);
    return simplify(substitute(loop->name, at + 1, index) - index);
}

bool depends_on(const Expr& e, const For* loop) { return expr_uses_var(e, loop->name); }

class finds_load : public IRVisitor {
public:
    const Load* found{};
    int count{};

protected:
    using IRVisitor::visit;
    void visit(const Load* load) override { found = load, ++count; }
};

/// The reads of a factor: bf16 or bytes, or words that hold two or four neighbours.
struct factor {
    Type type;  ///< of a tile
    std::string buffer;
    Expr first;          ///< the place of its first element, in bytes, as are the steps
    Expr along, summed;  ///< the step to the next row or column; to the next word of the summed index
    bool in_words{};

    /// A tile of 16 rows, `step` apart.
    Expr tile(const Expr& at, const Expr& step) const {
        return Call::make(type, "tile_load",
                          {side, bytes_of_row, Variable::make(Handle(), buffer), simplify(at), simplify(step)},
                          Call::Intrinsic);
    }
};

/// A product's sums, rows by columns, over the summed index, as tiles.
class product_of_tiles {
public:
    product_of_tiles(const std::string& name, const nest& its) : name_(name) {
        const Expr index = substitute(its.named, its.store->index), value = substitute(its.named, its.store->value);
        const auto* sum = value.as<Add>();
        const bool sums_first = sum && sum->a.as<Load>();  // Halide puts either first
        const auto* before = sum ? (sums_first ? sum->a : sum->b).as<Load>() : nullptr;
        const Expr added = sum ? (sums_first ? sum->b : sum->a) : Expr();
        const auto* times = added.as<Mul>();
        const auto* dot = added.as<Call>();
        of_bytes_ = dot && dot->name == name_of_dots;
        if (!before || before->name != name || (!times && !of_bytes_)) unexpected("no sum of products");
        const Expr &a = times ? times->a : dot->args[0], &b = times ? times->b : dot->args[1];
        for (const For* loop : its.loops) {
            first_[loop->name] = substitute(its.named, loop->min);
            place(loop, index, a, b);
        }
        if ((!pair_ && !of_bytes_) || !summed_ || !of_a_ || !of_b_) unexpected("no rows, columns and neighbours");
        // Columns lie side by side in the sums.
        const bool a_is_right = is_const_one(step_of(index, of_a_));
        const For *rows = a_is_right ? of_b_ : of_a_, *columns = a_is_right ? of_a_ : of_b_;
        const Type first = of_bytes_ ? UInt(8, 1024) : BFloat(16, 512), second = of_bytes_ ? Int(8, 1024) : first;
        left_ = a_is_right ? read(b, rows, second) : read(a, rows, first);
        right_ = a_is_right ? read(a, columns, first) : read(b, columns, second);
        if (!right_.in_words || !is_const(right_.along, bytes_of_word) || !is_const(left_.summed, bytes_of_word))
            unexpected("a factor that lies otherwise");
        sums_ = at_first(index), row_step_ = step_of(index, rows);
        row_count_ = extent_of(rows), column_count_ = extent_of(columns), word_count_ = extent_of(summed_);
        if (row_count_ % side || column_count_ % side || word_count_ % side) unexpected("a part of a tile");
    }

    Stmt tiled() const {
        std::vector<Stmt> all;
        for (int row = 0; row < row_count_; row += tiles_beside * side)
            for (int column = 0; column < column_count_; column += tiles_beside * side)
                all.push_back(block(row, column));
        return Block::make(all);
    }

private:
    [[noreturn]] void unexpected(const char* what) const {
        throw CompileError("tiles of " + name_ + ": expected a product of matrices of bf16 or of bytes, got " + what);
    }

    int extent_of(const For* loop) const {
        const auto extent = as_const_int(loop->extent);
        if (!extent) unexpected("a loop of unknown length");
        return static_cast<int>(*extent);
    }

    /// Finds a loop's role by the indices that depend on it.
    void place(const For* loop, const Expr& index, const Expr& a, const Expr& b) {
        const bool in_sums = depends_on(index, loop), in_a = depends_on(a, loop), in_b = depends_on(b, loop);
        const For** is = nullptr;
        if (in_sums && in_a != in_b)
            is = in_a ? &of_a_ : &of_b_;
        else if (!in_sums && in_a && in_b)
            is = loop->name.ends_with("$x") && !of_bytes_ ? &pair_ : &summed_;
        if (!is || *is) unexpected("another loop");
        *is = loop;
    }

    factor read(const Expr& value, const For* side_of, const Type& tile) const {
        if (of_bytes_) return read_bytes(value, side_of, tile);
        finds_load load;
        value.accept(&load);
        const auto* widened = value.as<Cast>();
        if (load.count != 1 || !widened || widened->value.type() != BFloat(16)) unexpected("a factor of other numbers");
        const Expr& index = load.found->index;
        const bool in_words = load.found->type == UInt(32) && widened->value.as<Reinterpret>();
        if (!in_words && !widened->value.as<Load>()) unexpected("a factor that is computed");
        if (!is_const(step_of(index, pair_), in_words ? 0 : 1)) unexpected("neighbours that lie apart");
        return made(tile, load.found, side_of, in_words);
    }

    /// Words as they lie, or four bytes side by side.
    factor read_bytes(const Expr& value, const For* side_of, const Type& tile) const {
        const Call* word = value.as<Call>();
        const auto* first = (word && word->name == name_of_words ? word->args[0] : value).as<Load>();
        if (!first) unexpected("a factor that is computed");
        for (int i = 0; word && i < bytes_of_word; ++i) {
            const auto* each = word->args[static_cast<std::size_t>(i)].as<Load>();
            if (!each || each->name != first->name || !is_const(simplify(each->index - first->index), i))
                unexpected("neighbours that lie apart");
        }
        return made(tile, first, side_of, !word);
    }

    factor made(const Type& tile, const Load* load, const For* side_of, bool in_words) const {
        const int bytes = load->type.bytes();
        return {tile,
                load->name,
                simplify(at_first(load->index) * bytes),
                simplify(step_of(load->index, side_of) * bytes),
                simplify(step_of(load->index, summed_) * bytes),
                in_words};
    }

    Expr at_first(const Expr& index) const { return simplify(substitute(first_, index)); }

    /// Sums of two by two tiles.
    Stmt block(int row, int column) const {
        const int down = std::min(tiles_beside, (row_count_ - row) / side),
                  across = std::min(tiles_beside, (column_count_ - column) / side);
        std::vector<std::pair<std::string, Expr>> lets;
        const auto named = [&](const char* what, const Expr& value) -> Expr {
            lets.emplace_back(unique_name(what), value);
            return Variable::make(value.type(), lets.back().first);
        };
        const auto row_of = [&](int i) { return row + i * side; };
        const auto column_of = [&](int j) { return column + j * side; };
        std::vector<Expr> sums;
        const auto sum = [&](int i, int j) -> Expr& { return sums[static_cast<std::size_t>(i * across + j)]; };
        const Type of_sums = of_bytes_ ? Int(32, side * side) : Float(32, side * side);
        for (int i = 0; i < down * across; ++i)
            sums.push_back(named(
                "sums", Call::make(of_sums, "tile_zero", {cast<std::int16_t>(side), cast<std::int16_t>(bytes_of_row)},
                                   Call::Intrinsic)));
        for (int word = 0; word < word_count_; word += side) {
            std::vector<Expr> left;
            for (int i = 0; i < down; ++i)
                left.push_back(named(
                    "left", left_.tile(left_.first + left_.along * row_of(i) + left_.summed * word, left_.along)));
            for (int j = 0; j < across; ++j) {
                const Expr right = named(
                    "right",
                    right_.tile(right_.first + bytes_of_word * column_of(j) + right_.summed * word, right_.summed));
                for (int i = 0; i < down; ++i)
                    sum(i, j) = named("sums", Call::make(of_sums, "tile_matmul",
                                                         {side, bytes_of_row, bytes_of_row, sum(i, j),
                                                          left[static_cast<std::size_t>(i)], right},
                                                         Call::Intrinsic));
            }
        }
        std::vector<Stmt> stores;
        for (int i = 0; i < down; ++i)
            for (int j = 0; j < across; ++j)
                stores.push_back(Evaluate::make(Call::make(
                    Int(32), "tile_store",
                    {side, bytes_of_row, Variable::make(Handle(), name_),
                     simplify((sums_ + row_step_ * row_of(i) + column_of(j)) * 4), simplify(row_step_ * 4), sum(i, j)},
                    Call::Intrinsic)));
        Stmt body = Block::make(stores);
        for (auto let = lets.rbegin(); let != lets.rend(); ++let) body = LetStmt::make(let->first, let->second, body);
        return body;
    }

    const std::string& name_;
    bool of_bytes_{};
    const For *pair_{}, *summed_{}, *of_a_{}, *of_b_{};
    std::map<std::string, Expr> first_;  ///< of each loop
    factor left_, right_;
    Expr sums_, row_step_;
    int row_count_{}, column_count_{}, word_count_{};
};

/// Replaces the sums of a stage. They stand behind the zeros that they begin with; other uses of the sums may follow.
class replaces_sums : public IRMutator {
public:
    explicit replaces_sums(const std::string& product) : product_(product), loops_(product + ".s1.") {}
    bool found = false;

protected:
    using IRMutator::visit;
    Stmt visit(const Block* both) override {
        if (are_zeros(both->first)) {
            const auto* more = both->rest.as<Block>();
            if (const Stmt sums = more ? more->first : both->rest; is_sums(sums)) {
                const Stmt made = tiled(sums, both->first);
                return more ? Block::make(made, more->rest) : made;
            }
        }
        return IRMutator::visit(both);
    }
    Stmt visit(const LetStmt* let) override { return is_sums(let) ? tiled(let, {}) : IRMutator::visit(let); }
    Stmt visit(const For* loop) override { return is_sums(loop) ? tiled(loop, {}) : Stmt(loop); }

private:
    bool is_sums(const Stmt& all) const {
        const auto its = nest::of(all);
        return its && !its->loops.empty() && its->loops.front()->name.starts_with(loops_);
    }
    bool are_zeros(const Stmt& all) const {
        const auto its = nest::of(all);
        return its && its->store->name == product_ && is_const_zero(its->store->value);
    }
    /// Zeros are written only outside the sums.
    Stmt tiled(const Stmt& loops, const Stmt& zeros) {
        found = true;
        const nest its = *nest::of(loops);
        Stmt body = product_of_tiles(product_, its).tiled();
        for (const Expr& condition : its.conditions) body = IfThenElse::make(condition, body, zeros);
        return body;
    }

    const std::string& product_;
    const std::string loops_;
};

}  // namespace

Stmt multiply_tiles::visit(const ProducerConsumer* stage) {
    if (!stage->is_producer || std::ranges::find(products_, stage->name) == products_.end())
        return IRMutator::visit(stage);
    replaces_sums sums(stage->name);
    const Stmt body = sums.mutate(stage->body);
    if (!sums.found) throw CompileError("tiles of " + stage->name + ": expected loops over a sum, got none");
    return ProducerConsumer::make(stage->name, true, body);
}

}  // namespace attune::generators::inline passes
