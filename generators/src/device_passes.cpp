#include "device_passes.hpp"

#include <stdexcept>
#include <utility>
#include <vector>

namespace attune::generators {
using namespace Halide;
using namespace Halide::Internal;

namespace {

/// Whether a variable is the number of a thread in its block.
bool is_thread(const std::string& name) { return name.find(".thread_id_") != std::string::npos; }

class without_threads : public IRMutator {
protected:
    using IRMutator::visit;
    Expr visit(const Variable* variable) override { return is_thread(variable->name) ? make_zero(variable->type) : Expr(variable); }
};

}  // namespace

bool private_state::is_its(const std::string& buffer) const { return buffer == function_ || starts_with(buffer, function_ + "."); }

/// An address without the thread in it.
Expr private_state::own(Expr index) const {
    for (auto let = lets_.rbegin(); let != lets_.rend(); ++let)
        if (expr_uses_var(index, let->first)) index = substitute(let->first, let->second, index);
    return simplify(without_threads().mutate(index));
}

Stmt private_state::visit(const LetStmt* let) {
    lets_.emplace_back(let->name, let->value);
    Stmt result = IRMutator::visit(let);
    lets_.pop_back();
    return result;
}

Expr private_state::visit(const Let* let) {
    lets_.emplace_back(let->name, let->value);
    Expr result = IRMutator::visit(let);
    lets_.pop_back();
    return result;
}

Expr private_state::visit(const Load* load) {
    if (!is_its(load->name)) return IRMutator::visit(load);
    const Expr index = own(load->index);
    return Load::make(load->type, load->name, index, load->image, load->param, load->predicate, ModulusRemainder());
}

Stmt private_state::visit(const Store* store) {
    if (!is_its(store->name)) return IRMutator::visit(store);
    const Expr index = own(store->index);
    const auto at = as_const_int(index);
    if (!at) throw std::runtime_error("a thread's state is addressed by more than the thread");
    int& largest = largest_[store->name];
    largest = std::max(largest, static_cast<int>(*at));
    return Store::make(store->name, mutate(store->value), index, store->param, mutate(store->predicate), ModulusRemainder());
}

Stmt private_state::visit(const Allocate* allocation) {
    if (!is_its(allocation->name)) return IRMutator::visit(allocation);
    const Stmt body = mutate(allocation->body);
    return Allocate::make(allocation->name, allocation->type, allocation->memory_type, {largest_[allocation->name] + 1}, allocation->condition, body);
}

namespace {

/// Finds the guard, and takes it off the stores.
class take_shared_guard : public IRMutator {
public:
    Expr guard;

protected:
    using IRMutator::visit;
    Stmt visit(const IfThenElse* branch) override {
        if (!is_guard(branch->condition) || branch->else_case.defined()) return IRMutator::visit(branch);
        Expr condition = branch->condition;
        for (auto let = lets_.rbegin(); let != lets_.rend(); ++let) condition = substitute(let->first, let->second, condition);
        if (guard.defined() && !equal(guard, condition)) throw std::runtime_error("a block loop has two different predicates");
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
    static bool is_guard(const Expr& condition) {
        const auto* differs = condition.as<NE>();
        const auto* load = differs ? differs->a.as<Load>() : nullptr;
        return load && load->type == UInt(8) && is_const_zero(differs->b);
    }
    std::vector<std::pair<std::string, Expr>> lets_;
};

}  // namespace

Stmt skip_blocks_together::visit(const For* loop) {
    if (!ends_with(loop->name, loop_)) return IRMutator::visit(loop);
    take_shared_guard taking;
    Stmt body = taking.mutate(loop->body);
    if (!taking.guard.defined()) throw std::runtime_error("a block loop lost its predicate");
    return For::make(loop->name, loop->min, loop->extent, loop->for_type, loop->partition_policy, loop->device_api, IfThenElse::make(taking.guard, body));
}

namespace {

class launches : public IRVisitor {
public:
    int most = 0;

protected:
    using IRVisitor::visit;
    void visit(const Call* call) override {
        IRVisitor::visit(call);
        if (!starts_with(call->name, "halide_") || !ends_with(call->name, "_run")) return;
        std::size_t name = 0;
        while (name < call->args.size() && !call->args[name].as<StringImm>()) ++name;
        const std::size_t shared = name + 7;  // name, three sizes of the grid, three of a block
        if (shared >= call->args.size()) return;
        const auto bytes = as_const_int(simplify(call->args[shared]));
        if (!bytes) throw std::runtime_error("a kernel's shared memory depends on the call");
        most = std::max(most, static_cast<int>(*bytes));
    }
};

}  // namespace

int shared_memory(const Stmt& function) {
    launches all;
    function.accept(&all);
    return all.most;
}

}  // namespace attune::generators
