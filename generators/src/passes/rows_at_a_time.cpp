#include "passes/rows_at_a_time.hpp"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace attune::generators::inline passes {
using namespace Halide;
using namespace Halide::Internal;

namespace {

/// The names that a statement defines, and the buffers to which it stores.
class own_names : public IRVisitor {
public:
    Scope<> all;

protected:
    using IRVisitor::visit;
    void visit(const For* loop) override { all.push(loop->name), IRVisitor::visit(loop); }
    void visit(const LetStmt* let) override { all.push(let->name), IRVisitor::visit(let); }
    void visit(const Let* let) override { all.push(let->name), IRVisitor::visit(let); }
    void visit(const Store* store) override { all.push(store->name), IRVisitor::visit(store); }
};

/// Removes the limits of rows that grow by one with each iteration.
class remove_limits : public IRMutator {
public:
    explicit remove_limits(const For* loop) : loop_(loop) {
        own_.all.push(loop->name);
        loop->body.accept(&own_);
    }

    /// Whether the last iteration keeps within all limits that were removed; undefined if there were none.
    Expr last_is_within;

protected:
    using IRMutator::visit;
    Expr visit(const Min* least) override {
        for (const auto& [row, limit] : {std::pair(least->a, least->b), std::pair(least->b, least->a)})
            if (grows_by_one(row) && is_fixed(limit)) {
                const Expr last = substitute(loop_->name, simplify(loop_->min + loop_->extent - 1), row);
                require(simplify(last <= limit));
                return row;
            }
        return IRMutator::visit(least);
    }

private:
    /// Whether an expression is the same in all iterations of the loop.
    bool is_fixed(const Expr& e) const {
        class finds_own_loads : public IRVisitor {
        public:
            explicit finds_own_loads(const Scope<>& own) : own_(own) {}
            bool found = false;

        protected:
            using IRVisitor::visit;
            void visit(const Load* load) override { found |= own_.contains(load->name), IRVisitor::visit(load); }

        private:
            const Scope<>& own_;
        } loads(own_.all);
        e.accept(&loads);
        return !loads.found && !expr_uses_vars(e, own_.all);
    }

    bool grows_by_one(const Expr& e) const {
        if (e.type() != Int(32)) return false;
        const Expr next = substitute(loop_->name, Variable::make(Int(32), loop_->name) + 1, e);
        return is_const_one(simplify(next - e)) && is_fixed(substitute(loop_->name, 0, e));
    }

    void require(const Expr& condition) {
        if (std::ranges::any_of(required_, [&](const Expr& each) { return equal(each, condition); })) return;
        required_.push_back(condition);
        last_is_within = last_is_within.defined() ? last_is_within && condition : condition;
    }

    const For* loop_;
    own_names own_;
    std::vector<Expr> required_;
};

/// The loop with another body, the largest common divisor of `steps` and the iterations at a time.
Stmt unrolled(const For* loop, const Stmt& body, int steps) {
    const int iterations = static_cast<int>(as_const_int(loop->extent).value());
    steps = std::gcd(iterations, steps);
    std::vector<Stmt> each;
    for (int i = 0; i < steps; ++i)
        each.push_back(substitute(loop->name, Variable::make(Int(32), loop->name) * steps + i, body));
    return For::make(loop->name, 0, iterations / steps, loop->for_type, loop->partition_policy, loop->device_api,
                     Block::make(each));
}

}  // namespace

Stmt rows_at_a_time(const For* loop, int rows) {
    remove_limits removing(loop);
    const Stmt fast = unrolled(loop, removing.mutate(loop->body), rows);
    return removing.last_is_within.defined() ? IfThenElse::make(removing.last_is_within, fast, loop) : fast;
}

}  // namespace attune::generators::inline passes
