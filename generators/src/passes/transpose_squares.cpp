#include "passes/transpose_squares.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace attune::generators::inline passes {
using namespace Halide;
using namespace Halide::Internal;

namespace {

constexpr int piece = 4;  ///< numbers in 128 bits: only the last instructions move numbers between pieces

bool is_side_of_square(int n, const Type& numbers) { return numbers.bits() == 32 && (n == 4 || n == 8 || n == 16); }

/// Vectors of a square, by rows, then by columns: each is computed once, under a name.
class square {
public:
    explicit square(std::vector<Expr> rows) : side_(static_cast<int>(rows.size())), columns(rows.size()) {
        for (Expr& row : rows) row = named(row);
        // Within pieces of 4 x 4: numbers of neighbouring rows beside each other, then pairs of them.
        std::vector<Expr> pairs, quarters;
        for (int i = 0; i < side_; i += 2)
            for (const int n : {0, 2})
                pairs.push_back(by_pieces(rows[at(i)], rows[at(i + 1)], {n, 4 + n, n + 1, 5 + n}));
        for (int i = 0; i < side_; i += 4)
            for (const int of : {0, 1})
                for (const int half : {0, 2})
                    quarters.push_back(
                        by_pieces(pairs[at(i + of)], pairs[at(i + of + 2)], {half, half + 1, 4 + half, 5 + half}));
        for (int i = 0; i < piece; ++i) {
            std::vector<Expr> of_column;
            for (int from = i; from < side_; from += piece) of_column.push_back(quarters[at(from)]);
            exchange_pieces(of_column, i, piece);
        }
    }

    /// Names before a statement that uses the columns.
    Stmt before(Stmt body) const {
        for (auto let = lets_.rbegin(); let != lets_.rend(); ++let) body = LetStmt::make(let->first, let->second, body);
        return body;
    }

private:
    static std::size_t at(int i) { return static_cast<std::size_t>(i); }

    Expr named(const Expr& vector) {
        lets_.emplace_back(unique_name("square"), vector);
        return Variable::make(vector.type(), lets_.back().first);
    }

    /// Each piece takes four numbers from a's piece, 0 to 3, and from b's, 4 to 7.
    Expr by_pieces(const Expr& a, const Expr& b, const std::vector<int>& numbers) {
        std::vector<int> lanes;
        for (int first = 0; first < side_; first += piece)
            for (const int i : numbers) lanes.push_back(i < piece ? first + i : side_ + first + i - piece);
        return named(Shuffle::make({a, b}, lanes));
    }

    /// Every second piece of a, then of b.
    Expr every_second(const Expr& a, const Expr& b, int first) {
        std::vector<int> lanes;
        for (int from = first * piece; from < 2 * side_; from += 2 * piece)
            for (int i = 0; i < piece; ++i) lanes.push_back(from + i);
        return named(Shuffle::make({a, b}, lanes));
    }

    /// Transposes a square of pieces, which are columns `column`, `column` + `step` and so on.
    void exchange_pieces(const std::vector<Expr>& of, int column, int step) {
        if (of.size() == 1) {
            columns[at(column)] = of.front();
            return;
        }
        for (const int first : {0, 1}) {
            std::vector<Expr> half;
            for (std::size_t i = 0; i < of.size(); i += 2) half.push_back(every_second(of[i], of[i + 1], first));
            exchange_pieces(half, column + first * step, 2 * step);
        }
    }

    const int side_;
    std::vector<std::pair<std::string, Expr>> lets_;

public:
    std::vector<Expr> columns;
};

/// A vector of lanes that lie `stride` apart in a stage's memory, from a constant place on.
struct strided {
    int first{}, stride{}, lanes{};
    static std::optional<strided> of(const Load* load) {
        const auto* ramp = load->index.as<Ramp>();
        const auto first = ramp ? as_const_int(ramp->base) : std::nullopt,
                   stride = ramp ? as_const_int(ramp->stride) : std::nullopt;
        if (!first || !stride || !is_const_one(load->predicate)) return std::nullopt;
        return strided{static_cast<int>(*first), static_cast<int>(*stride), ramp->lanes};
    }
    bool is_column() const { return stride == lanes && 0 <= first && first < stride; }
};

/// The columns that are read of a square of memory.
class read_columns : public IRVisitor {
public:
    explicit read_columns(const std::string& memory) : memory_(memory) {}
    std::map<int, const Load*> found;
    bool all_are_columns = true;

protected:
    using IRVisitor::visit;
    void visit(const Load* load) override {
        IRVisitor::visit(load);
        if (load->name != memory_) return;
        const auto place = strided::of(load);
        all_are_columns &= place && place->is_column() && is_side_of_square(place->lanes, load->type);
        if (all_are_columns) found[place->first] = load;
    }
    void visit(const Store* store) override {
        all_are_columns &= store->name != memory_;
        IRVisitor::visit(store);
    }

private:
    const std::string& memory_;
};

class name_columns : public IRMutator {
public:
    name_columns(const std::string& memory, const std::vector<Expr>& columns) : memory_(memory), columns_(columns) {}

protected:
    using IRMutator::visit;
    Expr visit(const Load* load) override {
        return load->name == memory_ ? columns_[static_cast<std::size_t>(strided::of(load)->first)]
                                     : IRMutator::visit(load);
    }

private:
    const std::string& memory_;
    const std::vector<Expr>& columns_;
};

}  // namespace

Stmt transpose_squares::visit(const ProducerConsumer* stage) {
    const Stmt body = mutate(stage->body);
    const auto as_it_is = [&] { return ProducerConsumer::make(stage->name, stage->is_producer, body); };
    if (stage->is_producer) return as_it_is();
    read_columns reads(stage->name);
    body.accept(&reads);
    if (!reads.all_are_columns || reads.found.empty()) return as_it_is();
    const Load* const some = reads.found.begin()->second;
    const int side = some->type.lanes();
    const auto is_of_side = [&](const auto& column) { return column.second->type.lanes() == side; };
    if (static_cast<int>(reads.found.size()) != side || !std::ranges::all_of(reads.found, is_of_side))
        return as_it_is();
    std::vector<Expr> rows;
    for (int i = 0; i < side; ++i)
        rows.push_back(Load::make(some->type, stage->name, Ramp::make(i * side, 1, side), some->image, some->param,
                                  const_true(side), ModulusRemainder(side, 0)));
    const square turned(rows);
    return ProducerConsumer::make(stage->name, false,
                                  turned.before(name_columns(stage->name, turned.columns).mutate(body)));
}

Stmt transpose_squares::visit(const Store* store) {
    const auto* interleaved = store->value.as<Shuffle>();
    const auto* ramp = store->index.as<Ramp>();
    if (!interleaved || !interleaved->is_interleave() || !ramp || !is_const_one(ramp->stride) ||
        !is_const_one(store->predicate))
        return IRMutator::visit(store);
    const int side = static_cast<int>(interleaved->vectors.size());
    if (!is_side_of_square(side, interleaved->type) || interleaved->vectors.front().type().lanes() != side)
        return IRMutator::visit(store);
    const square turned(interleaved->vectors);
    std::vector<Stmt> rows;
    for (int i = 0; i < side; ++i)
        rows.push_back(Store::make(store->name, turned.columns[static_cast<std::size_t>(i)],
                                   Ramp::make(ramp->base + i * side, 1, side), store->param, const_true(side),
                                   store->alignment + i * side));
    return turned.before(Block::make(rows));
}

}  // namespace attune::generators::inline passes
