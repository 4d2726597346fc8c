#include "passes/copies_ahead.hpp"

#include <cstdint>
#include <stdexcept>

namespace attune::generators::inline passes {
using namespace Halide;
using namespace Halide::Internal;

namespace {

Stmt asked(const std::string& name, const std::vector<Expr>& operands = {}) {
    return Evaluate::make(Call::make(Int(32), name, operands, Call::Extern));
}
Stmt commit() { return asked("attune_async_commit"); }
Stmt barrier() {
    constexpr int of_shared_memory = 2;
    return Evaluate::make(Call::make(Int(32), Call::gpu_thread_barrier, {of_shared_memory}, Call::Intrinsic));
}

}  // namespace

/// Waits for the copies of this thread.
Stmt copies_ahead::wait() const {
    const Stmt all = asked("attune_async_wait", {0});
    return of_.read_by_products ? Block::make(all, asked("attune_fence_of_products")) : all;
}

Stmt copies_ahead::visit(const For* loop) {
    if (loop->name.find(".thread_id_x") != std::string::npos) lane_ = loop->name;
    if (!loop_.is(loop->name)) return IRMutator::visit(loop);
    const auto* guard = loop->body.as<IfThenElse>();
    const auto blocks = as_const_int(loop->extent);
    if (!guard || lane_.empty() || !is_const_zero(loop->min) || blocks != 32)
        throw std::runtime_error("a loop over blocks has another form than its copies are known for");
    const Expr of_lane = substitute(loop->name, Variable::make(Int(32), lane_), guard->condition);
    const std::string bits = loop->name + ".bits";
    inside_ = loop, visited_ = Variable::make(UInt(32), bits), last_ = seen::nothing;
    const Stmt body = IfThenElse::make(guard->condition, mutate(guard->then_case));
    if (last_ != seen::sums) throw std::runtime_error("a loop over blocks has no sums of what it copies");
    Stmt made =
        For::make(loop->name, loop->min, loop->extent, loop->for_type, loop->partition_policy, loop->device_api, body);
    made = Block::make(copies_of_first(visited_, 0), made);
    inside_ = nullptr;
    made = LetStmt::make(bits, reinterpret<std::uint32_t>(Variable::make(Int(32), bits + ".1")), made);
    // Each thread of a warp has a bit. After five exchanges with others each has all bits.
    for (const int lanes : {1, 2, 4, 8, 16}) {
        const Expr own = Variable::make(Int(32), bits + "." + std::to_string(2 * lanes));
        const Expr other =
            Call::make(Int(32), "llvm.nvvm.shfl.sync.bfly.i32", {Expr(-1), own, Expr(lanes), Expr(31)}, Call::Extern);
        made = LetStmt::make(bits + "." + std::to_string(lanes), own | other, made);
    }
    return LetStmt::make(bits + ".32", select(of_lane, Expr(1) << Variable::make(Int(32), lane_), Expr(0)), made);
}

Stmt copies_ahead::visit(const LetStmt* let) {
    if (inside_) lets_.emplace_back(let->name, let->value);
    Stmt made = IRMutator::visit(let);
    if (inside_) lets_.pop_back();
    return made;
}

/// The first barrier behind the keys waits for them. The barrier right behind the values is dropped: the wait for
/// values stands where they are read.
Stmt copies_ahead::visit(const Evaluate* call) {
    const auto* barrier = call->value.as<Call>();
    if (!inside_ || !barrier || !barrier->is_intrinsic(Call::gpu_thread_barrier)) return IRMutator::visit(call);
    if (last_ == seen::values) return last_ = seen::others, commit();
    if (last_ != seen::keys) return call;
    last_ = seen::kept_keys;
    return Block::make({commit(), wait(), Stmt(call)});
}

Stmt copies_ahead::visit(const ProducerConsumer* stage) {
    if (!inside_ || !stage->is_producer) return IRMutator::visit(stage);
    if (stage->name == of_.keys) {
        keys_ = stage, of_keys_ = lets_, last_ = seen::keys;
        return Evaluate::make(0);
    }
    if (stage->name == of_.values) {
        if (last_ != seen::kept_keys) throw std::runtime_error("values are copied before keys are there");
        last_ = seen::values;
        return stage;
    }
    if (stage->name != of_.sums) {
        if (last_ == seen::values) throw std::runtime_error("something else stands behind the values of a block");
        return IRMutator::visit(stage);
    }
    last_ = seen::sums;
    const Expr block = Variable::make(Int(32), inside_->name);
    const Expr rest = (visited_ >> cast<std::uint32_t>(block)) >> make_one(UInt(32));
    return Block::make({wait(), barrier(), copies_of_first(rest, block + 1), commit(), Stmt(stage)});
}

/// Copies keys of the first block from `from` on that has a bit: bit 0 is that of block `from`.
Stmt copies_ahead::copies_of_first(const Expr& bits, const Expr& from) const {
    const std::string name = inside_->name + ".next";
    Stmt copies = written_out(Stmt(keys_), of_keys_);
    copies = substitute(inside_->name, Variable::make(Int(32), name), copies);
    copies = LetStmt::make(name, from + cast<int>(count_trailing_zeros(bits)), copies);
    return IfThenElse::make(bits != make_zero(UInt(32)), copies);
}

}  // namespace attune::generators::inline passes
