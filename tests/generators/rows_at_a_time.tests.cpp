// Loops over rows that exist up to some last one: they add up what Halide's own loop does, and where all rows exist
// none is asked whether it does.
#include "passes/rows_at_a_time.hpp"

#include <Halide.h>
#include <catch2/catch_test_macros.hpp>

using namespace Halide;
using namespace Halide::Internal;
using attune::generators::rows_at_a_time;

namespace {

/// Loops and limits of a statement, and comparisons that decide between loops.
class counted : public IRVisitor {
public:
    int loops = 0, limits = 0, choices = 0, stores = 0;
    Expr condition;  ///< of the last choice

protected:
    using IRVisitor::visit;
    void visit(const For* loop) override { ++loops, IRVisitor::visit(loop); }
    void visit(const Min* least) override { ++limits, IRVisitor::visit(least); }
    void visit(const IfThenElse* choice) override {
        ++choices, condition = choice->condition;
        IRVisitor::visit(choice);
    }
    void visit(const Store* store) override { ++stores, IRVisitor::visit(store); }
};

counted count(const Stmt& all) {
    counted result;
    all.accept(&result);
    return result;
}

class in_loop : public IRMutator {
public:
    in_loop(std::string loop, int rows) : loop_(std::move(loop)), rows_(rows) {}
    Stmt before, after;

protected:
    using IRMutator::visit;
    Stmt visit(const For* loop) override {
        if (!ends_with(loop->name, loop_)) return IRMutator::visit(loop);
        return before = loop, after = rows_at_a_time(loop, rows_);
    }

private:
    const std::string loop_;
    const int rows_;
};

constexpr int length = 12, width = 4;

/// The sum of rows that begin at `first` and end at the last one, which is repeated.
struct sum_of_rows {
    explicit sum_of_rows(int rows) : pass("added$x", rows) {
        const Var d("d");
        const RDom added(0, length, "added");
        sum(d) = 0.0f;
        const Expr row = min(first + added, last);
        sum(d) += table(d, row) * cast<float>(added + 1);
        sum.update().reorder(d, added).vectorize(d, width).never_partition_all();
        sum.bound(d, 0, width);
        table.dim(1).set_min(0);
        sum.add_custom_lowering_pass(&pass, nullptr);
    }
    float of(int from, int to, const Buffer<float>& rows) {
        first.set(from), last.set(to), table.set(rows);
        return Buffer<float>(sum.realize({width}))(1);
    }
    Param<int> first{"first"}, last{"last"};
    ImageParam table{Float(32), 2, "table"};
    Func sum{"sum"};
    in_loop pass;
};

}  // namespace

TEST_CASE("rows are added up as without the pass, wherever the last one is") {
    Buffer<float> rows(width, 40);
    rows.for_each_element([&](int d, int row) { rows(d, row) = static_cast<float>(row * 7 % 11 + d); });
    for (const int at_a_time : {1, 4, 5, 12}) {
        sum_of_rows made(at_a_time);
        for (const int from : {0, 3, 28})
            for (int to = from; to < 40; ++to) {
                float expected = 0;
                for (int i = 0; i < length; ++i)
                    expected += rows(1, std::min(from + i, to)) * static_cast<float>(i + 1);
                CAPTURE(at_a_time, from, to);
                CHECK(made.of(from, to, rows) == expected);
            }
        const counted before = count(made.pass.before), after = count(made.pass.after);
        CHECK(before.loops == 1);
        CHECK(before.limits >= 1);
        CHECK(after.loops == 2);  // with limits and without
        CHECK(after.choices == 1);
        CHECK(after.limits == before.limits);
        CHECK(after.stores == before.stores + (at_a_time == 5 ? 1 : at_a_time));  // 5 do not divide 12
    }
}

namespace {
const Expr i = Variable::make(Int(32), "i"), n = Variable::make(Int(32), "n");

Stmt store(const Expr& row) {
    return Store::make("out", Load::make(Float(32), "in", row, {}, {}, const_true(), {}), 0, {}, const_true(), {});
}

counted after(const Stmt& body) {
    const Stmt loop = For::make("i", 0, 8, ForType::Serial, Partition::Never, DeviceAPI::Host, body);
    return count(rows_at_a_time(loop.as<For>(), 4));
}
}  // namespace

TEST_CASE("what is no limit of rows stays, and so does the one loop") {
    const auto load = [](const char* name) { return Load::make(Int(32), name, 0, {}, {}, const_true(), {}); };
    CHECK(after(store(i)).limits == 0);
    for (const Expr& row : {min(2 * i, n), min(n - i, n), min(n, 7), min(i, n + i), min(i, load("out"))}) {
        const counted made = after(store(row));
        CHECK(made.choices == 0);
        CHECK(made.loops == 1);
        CHECK(made.stores == 4);
    }
    const Stmt own = LetStmt::make("n", i / 2, store(min(i, n)));
    CHECK(after(own).choices == 0);
    for (const Expr& row : {min(i, n), min(n, i + n), min(i, load("last"))}) {
        const counted made = after(store(row));
        CHECK(made.choices == 1);
        CHECK(made.loops == 2);
    }
    const auto holds_of = [](const Stmt& body, int last) {
        return is_const_one(simplify(substitute("n", last, after(body).condition)));
    };
    CHECK(holds_of(store(min(i, n)), 7));
    CHECK_FALSE(holds_of(store(min(i, n)), 6));
    const Stmt two = Block::make(store(min(i, n)), store(min(i + 1, n)));
    CHECK(after(two).choices == 1);
    CHECK(holds_of(two, 8));
    CHECK_FALSE(holds_of(two, 7));
}
