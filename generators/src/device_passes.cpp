#include "device_passes.hpp"

#include <algorithm>
#include <cstdint>
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

bool is_half(const Type& type) { return type.is_float() && type.bits() == 16; }

/// The float of which a word holds the bits of a shorter one.
Expr widened(const Expr& word, const Type& from) {
    const Expr bits = cast<std::uint32_t>(word);
    if (from.is_bfloat()) return reinterpret<float>(bits << 16);
    const auto number = [](std::uint32_t value) { return Expr(value); };
    const Expr magnitude = bits & number(0x7fff), exponent = magnitude & number(0x7c00);
    // Below 2^-14 an integer times 2^-24. Else the exponent moves by 112, and what has the largest one keeps the largest.
    const Expr moved = (magnitude << 13) + select(exponent == number(0x7c00), number(224u << 23), number(112u << 23));
    const Expr positive = select(exponent == number(0), reinterpret<std::uint32_t>(cast<float>(magnitude) * 5.9604644775390625e-8f), moved);
    return reinterpret<float>(positive | ((bits & number(0x8000)) << 16));
}

}  // namespace

Expr halves_as_words::mutate(const Expr& e) {
    Expr changed = IRMutator::mutate(e);
    if (changed.defined() && is_half(changed.type())) throw std::runtime_error("a GPU's kernel computes with 16-bit floats");
    return changed;
}

Expr halves_as_words::visit(const Load* load) {
    const Type type = is_half(load->type) ? load->type.with_code(halide_type_uint) : load->type;
    return Load::make(type, load->name, mutate(load->index), load->image, load->param, mutate(load->predicate), load->alignment);
}

Expr halves_as_words::visit(const Variable* variable) {
    return is_half(variable->type) ? Variable::make(UInt(16), variable->name, variable->image, variable->param, variable->reduction_domain) : Expr(variable);
}

Expr halves_as_words::visit(const Cast* conversion) {
    const Type from = conversion->value.type();
    if (!is_half(from)) return IRMutator::visit(conversion);
    return cast(conversion->type, widened(mutate(conversion->value), from));
}

Expr halves_as_words::visit(const Reinterpret* bits) {
    const Expr value = mutate(bits->value);
    const Type to = is_half(bits->type) ? bits->type.with_code(halide_type_uint) : bits->type;
    return value.type() == to ? value : Reinterpret::make(to, value);
}

Expr halves_as_words::visit(const Call* call) {
    if (!is_half(call->type)) return IRMutator::visit(call);
    std::vector<Expr> arguments;
    for (const Expr& each : call->args) arguments.push_back(mutate(each));
    return Call::make(call->type.with_code(halide_type_uint), call->name, arguments, call->call_type);
}

Stmt halves_as_words::visit(const Allocate* allocation) {
    if (!is_half(allocation->type)) return IRMutator::visit(allocation);
    return Allocate::make(allocation->name, UInt(16), allocation->memory_type, allocation->extents, allocation->condition, mutate(allocation->body));
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
