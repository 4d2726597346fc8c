#include "passes/fragment_passes.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <vector>

namespace attune::generators::inline passes {
using namespace Halide;
using namespace Halide::Internal;

Expr fragment_registers::visit(const Call* call) {
    if (call->name != state_before) return private_state::visit(call);
    const auto part = [&](std::size_t i) {
        const auto number = as_const_int(own(call->args[i]));
        if (!number) throw std::runtime_error("a thread's state is read by more than a number");
        return static_cast<int>(*number);
    };
    const std::string wanted = state_ + "." + std::to_string(part(0));
    const auto is_it = [&](const std::string& buffer) { return buffer == wanted || starts_with(buffer, wanted + "."); };
    const auto buffer = std::ranges::find_if(buffers_, is_it);
    if (buffer == buffers_.end()) throw std::runtime_error("a thread's state is read where it does not lie: " + wanted);
    return Load::make(call->type, *buffer, part(1) + 2 * part(2), {}, {}, const_true(), {});
}

Stmt fragment_registers::visit(const Allocate* allocation) {
    buffers_.push_back(allocation->name);
    return private_state::visit(allocation);
}

namespace {

void flatten(const Stmt& s, std::vector<Stmt>& into) {
    if (const auto* block = s.as<Block>())
        flatten(block->first, into), flatten(block->rest, into);
    else
        into.push_back(s);
}

/// A store under a condition.
const IfThenElse* conditional_store(const Stmt& s, const std::string& function) {
    const auto* branch = s.as<IfThenElse>();
    if (!branch || branch->else_case.defined()) return nullptr;
    Stmt inner = branch->then_case;
    while (const auto* let = inner.as<LetStmt>()) inner = let->body;
    const auto* store = inner.as<Store>();
    return store && (store->name == function || starts_with(store->name, function + ".")) ? branch : nullptr;
}

}  // namespace

Stmt stores_under_one_condition::visit(const Block* block) {
    std::vector<Stmt> parts, made;
    flatten(block, parts);
    for (std::size_t at = 0; at < parts.size();) {
        const auto* first = conditional_store(parts[at], function_);
        std::vector<Stmt> together;
        for (; first && at < parts.size(); ++at) {
            const auto* next = conditional_store(parts[at], function_);
            if (!next || !equal(next->condition, first->condition)) break;
            together.push_back(next->then_case);
        }
        if (first)
            made.push_back(IfThenElse::make(first->condition, Block::make(together)));
        else
            made.push_back(mutate(parts[at++]));
    }
    return Block::make(made);
}

namespace {

/// A load of one element, by itself or the same for all lanes.
const Load* element_of(const Expr& e) {
    if (const auto* same = e.as<Broadcast>()) return element_of(same->value);
    return e.as<Load>();
}

bool is_half(const Expr& e) { return e.type().is_float() && e.type().bits() == 16; }

}  // namespace

Expr words_of_rows::visit(const Call* call) {
    if (call->name != row_word) return IRMutator::visit(call);
    const Load* first = element_of(call->args[0]);
    if (!first) throw std::runtime_error("a row is read by something else than its first element");
    Expr row = first->index;
    if (const auto* same = row.as<Broadcast>()) row = same->value;
    if (!row.type().is_scalar()) throw std::runtime_error("a vector of words is of several rows");
    for (auto let = lets_.rbegin(); let != lets_.rend(); ++let)
        if (expr_uses_var(row, let->first)) row = substitute(let->first, let->second, row);
    const Expr start = simplify(row / 2), word = mutate(call->args[1]);
    const auto* several = word.as<Ramp>();
    if (!several) {
        if (!word.type().is_scalar()) throw std::runtime_error("words of a row are not neighbours");
        return Load::make(call->type, first->name, start + word, {}, {}, const_true(), {});
    }
    const Expr index = Ramp::make(simplify(start + several->base), several->stride, several->lanes);
    return Load::make(call->type, first->name, index, {}, {}, const_true(several->lanes),
                      ModulusRemainder(several->lanes, 0));
}

/// An element that several words have in common has a name. So have parts of addresses, which hide whose multiples they
/// are.
template <class Node> auto words_of_rows::visit_let(const Node* let) {
    if (is_half(let->value) && element_of(let->value)) return mutate(substitute(let->name, let->value, let->body));
    if (in_kernel_) lets_.emplace_back(let->name, let->value);
    auto made = IRMutator::visit(let);
    if (in_kernel_) lets_.pop_back();
    return made;
}

Expr words_of_rows::visit(const Let* let) { return visit_let(let); }

Stmt words_of_rows::visit(const For* loop) {
    const bool before = std::exchange(in_kernel_, in_kernel_ || is_gpu(loop->for_type));
    Stmt made = IRMutator::visit(loop);
    in_kernel_ = before;
    return made;
}

Stmt words_of_rows::visit(const LetStmt* let) {
    const bool is_stride =
        std::ranges::any_of(tensors_,
                            [&](const std::string& tensor) { return starts_with(let->name, tensor + ".stride."); }) &&
        !ends_with(let->name, ".stride.0");
    return is_stride && let->value.type().is_int() && !is_const(let->value) ? with_multiple(let) : visit_let(let);
}

Stmt words_of_rows::with_multiple(const LetStmt* stride) {
    constexpr int elements = 8;
    const std::string part = stride->name + ".part";
    const Stmt body = substitute(stride->name, Variable::make(Int(32), part) * elements, mutate(stride->body));
    return LetStmt::make(stride->name, stride->value,
                         LetStmt::make(part, Variable::make(Int(32), stride->name) / elements, body));
}

}  // namespace attune::generators::inline passes
