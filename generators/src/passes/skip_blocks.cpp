#include "passes/skip_blocks.hpp"

#include "passes/lets.hpp"

#include "passes/rows_at_a_time.hpp"

#include <algorithm>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

namespace attune::generators::inline passes {
using namespace Halide;
using namespace Halide::Internal;

namespace {

/// Finds the guard `table[i] != 0`, and removes it from the stores.
class take_guard : public IRMutator {
public:
    explicit take_guard(const skip_blocks::is_table& table) : table_(table) {}
    Expr guard;

protected:
    using IRMutator::visit;
    Stmt visit(const IfThenElse* branch) override {
        if (!compares_table_with_zero(branch->condition) || branch->else_case.defined())
            return IRMutator::visit(branch);
        const Expr condition = written_out(branch->condition, lets_);
        if (guard.defined() && !equal(guard, condition))
            throw std::runtime_error("a block loop has two different predicates");
        guard = condition;
        return mutate(branch->then_case);
    }
    Stmt visit(const LetStmt* let) override {  // the guard will stand before it
        lets_.emplace_back(let->name, let->value);
        Stmt result = IRMutator::visit(let);
        lets_.pop_back();
        return result;
    }

private:
    bool compares_table_with_zero(const Expr& condition) const {
        const auto* differs = condition.as<NE>();
        const auto* load = differs ? differs->a.as<Load>() : nullptr;
        return load && table_(*load) && is_const_zero(differs->b);
    }
    const skip_blocks::is_table& table_;
    named_values lets_;
};

/// The functions that a statement makes.
class made_functions : public IRVisitor {
public:
    std::set<std::string> names;

protected:
    using IRVisitor::visit;
    void visit(const Store* store) override {
        names.insert(store->name.substr(0, store->name.find('.')));  // a tuple's parts have numbers
        IRVisitor::visit(store);
    }
};

/// Clips loops over the keys of a block to the visited sub-blocks.
class clip_loops : public IRMutator {
public:
    clip_loops(const std::vector<clipped_loop>& clipped, visited_subblocks visited)
        : clipped_(clipped), visited_(std::move(visited)) {}

    /// Throws unless each loop is found: keys that one loop leaves out, another must not read. A function that nobody
    /// reads, for example if a formula hides all pairs, is not made, and has no loop.
    Stmt clip(const Stmt& body) {
        Stmt result = mutate(body);
        made_functions made;
        body.accept(&made);
        for (const clipped_loop& each : clipped_)
            if (!seen_.contains(&each) && made.names.contains(each.is.function()))
                throw std::runtime_error("no loop over a block's keys is " + each.is.name() + " of " +
                                         each.is.function());
        return result;
    }

protected:
    using IRMutator::visit;
    Stmt visit(const For* loop) override {
        const auto found = std::find_if(clipped_.begin(), clipped_.end(),
                                        [&](const clipped_loop& each) { return each.is.begins_anywhere(loop->name); });
        if (found == clipped_.end()) return IRMutator::visit(loop);
        seen_.insert(&*found);
        // Sub-blocks all have the same length, so that their loops can be unrolled.
        const int iterations = visited_.keys / found->keys;
        const auto extent = as_const_int(loop->extent);
        if (!is_const_zero(loop->min) || !extent || *extent % iterations != 0) {
            if (!found->reads_others) return loop;  // one of several that together go over all keys
            throw std::runtime_error("a loop over a block's keys does not go over all of them: " + loop->name);
        }
        const std::string part = loop->name + ".part";
        const Stmt body = substitute(
            loop->name, Variable::make(Int(32), part) * iterations + Variable::make(Int(32), loop->name), loop->body);
        const Stmt inner =
            For::make(loop->name, 0, iterations, loop->for_type, loop->partition_policy, loop->device_api, body);
        const Stmt of_part = found->at_a_time > 1 ? rows_at_a_time(inner.as<For>(), found->at_a_time) : inner;
        return For::make(part, visited_.first, visited_.end - visited_.first, loop->for_type, loop->partition_policy,
                         loop->device_api, of_part);
    }

private:
    const std::vector<clipped_loop>& clipped_;
    const visited_subblocks visited_;
    std::set<const clipped_loop*> seen_;
};

}  // namespace

Stmt skip_blocks::visit(const For* loop) {
    if (!loop_.begins_anywhere(loop->name)) return IRMutator::visit(loop);
    take_guard taking(table_);
    Stmt body = taking.mutate(loop->body);
    if (!taking.guard.defined()) throw std::runtime_error("a block loop lost its predicate");
    if (!clipped_.empty()) body = clip_loops(clipped_, visited_(taking.guard.as<NE>()->a)).clip(body);
    body = IfThenElse::make(taking.guard, body);
    return For::make(loop->name, loop->min, loop->extent, loop->for_type, loop->partition_policy, loop->device_api,
                     body);
}

Stmt allow_empty_inputs::visit(const AssertStmt* assertion) {
    Expr message = assertion->message;
    while (const auto* let = message.as<Let>()) message = substitute(let->name, let->value, let->body);
    const auto* error = message.as<Call>();
    if (!error || error->name != "halide_error_access_out_of_bounds") return assertion;
    // name, dimension, first and last that are touched, first and last that are valid
    const Expr first = error->args[error->args.size() - 2], last = error->args[error->args.size() - 1];
    return AssertStmt::make(assertion->condition || last < first, assertion->message);
}

}  // namespace attune::generators::inline passes
