#include "passes/gpu_passes.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

namespace attune::generators::inline passes {
using namespace Halide;
using namespace Halide::Internal;

namespace {

/// Whether a variable is the number of a thread in its block.
bool is_thread(const std::string& name) { return name.find(".thread_id_") != std::string::npos; }

class without_threads : public IRMutator {
protected:
    using IRMutator::visit;
    Expr visit(const Variable* variable) override {
        return is_thread(variable->name) ? make_zero(variable->type) : Expr(variable);
    }
};

}  // namespace

bool private_state::is_its(const std::string& buffer) const {
    return std::ranges::any_of(functions_, [&](const std::string& function) { return is_buffer_of(buffer, function); });
}

Expr private_state::own(Expr index) const {
    return simplify(without_threads().mutate(written_out(std::move(index), lets_)));
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
    const auto* several = index.as<Ramp>();
    const auto at = as_const_int(several ? simplify(several->base + several->stride * (several->lanes - 1)) : index);
    if (!at) throw std::runtime_error("a thread's state is addressed by more than the thread");
    int& largest = largest_[store->name];
    largest = std::max(largest, static_cast<int>(*at));
    return Store::make(store->name, mutate(store->value), index, store->param, mutate(store->predicate),
                       ModulusRemainder());
}

Stmt private_state::visit(const Allocate* allocation) {
    if (!is_its(allocation->name)) return IRMutator::visit(allocation);
    const Stmt body = mutate(allocation->body);
    return Allocate::make(allocation->name, allocation->type, allocation->memory_type, {largest_[allocation->name] + 1},
                          allocation->condition, body);
}

namespace {

/// Finds `first <= variable` and `variable < end` around a loop's body, where neither side depends on inner loops, and
/// removes them.
class take_bounds : public IRMutator {
public:
    explicit take_bounds(std::string variable) : variable_(std::move(variable)) {}
    Expr first, end;

protected:
    using IRMutator::visit;
    Stmt visit(const IfThenElse* branch) override {
        return !branch->else_case.defined() && take(written_out(branch->condition, lets_)) ? mutate(branch->then_case)
                                                                                           : IRMutator::visit(branch);
    }
    Stmt visit(const LetStmt* let) override {
        lets_.emplace_back(let->name, let->value);
        Stmt result = IRMutator::visit(let);
        lets_.pop_back();
        return result;
    }

private:
    bool take(const Expr& condition) {
        if (const auto* both = condition.as<And>()) return take(both->a) && take(both->b);
        const auto is_it = [&](const Expr& e) {
            const auto* variable = e.as<Variable>();
            return variable && variable->name == variable_;
        };
        const auto keep = [](Expr& bound, const Expr& found) {
            if (bound.defined() && !equal(bound, found))
                throw std::runtime_error("a loop over blocks has two different bounds");
            bound = found;
            return true;
        };
        if (const auto* le = condition.as<LE>(); le && is_it(le->b)) return keep(first, le->a);
        if (const auto* lt = condition.as<LT>(); lt && is_it(lt->a)) return keep(end, lt->b);
        return false;
    }
    const std::string variable_;
    named_values lets_;
};

}  // namespace

Stmt bounded_loop::visit(const For* loop) {
    if (!loop_.is(loop->name)) return IRMutator::visit(loop);
    take_bounds taking(loop->name);
    const Stmt body = taking.mutate(loop->body);
    if (!taking.first.defined() || !taking.end.defined())
        throw std::runtime_error("a loop over blocks lost its bounds");
    const Expr first = max(loop->min, taking.first), end = min(loop->min + loop->extent, taking.end);
    return For::make(loop->name, first, max(end - first, 0), loop->for_type, loop->partition_policy, loop->device_api,
                     body);
}

namespace {

bool is_half(const Type& type) { return type.is_float() && type.bits() == 16; }

/// The f32 with the value of a shorter float, whose bits are in a word.
Expr widened(const Expr& word, const Type& from) {
    const Expr bits = cast<std::uint32_t>(word);
    if (from.is_bfloat()) return reinterpret<float>(bits << 16);
    const auto number = [](std::uint32_t value) { return Expr(value); };
    const Expr magnitude = bits & number(0x7fff), exponent = magnitude & number(0x7c00);
    // Below 2^-14 the value is an integer times 2^-24. Else the exponent moves by 112, and the largest exponent becomes
    // the largest.
    const Expr moved = (magnitude << 13) + select(exponent == number(0x7c00), number(224u << 23), number(112u << 23));
    const Expr positive = select(exponent == number(0),
                                 reinterpret<std::uint32_t>(cast<float>(magnitude) * 5.9604644775390625e-8f), moved);
    return reinterpret<float>(positive | ((bits & number(0x8000)) << 16));
}

}  // namespace

Stmt last_queries_first::visit(const For* loop) {
    if (loop->for_type != ForType::GPUBlock || !loop_.is_of_blocks(loop->name)) return IRMutator::visit(loop);
    const Expr from_last = loop->min + loop->extent - 1 - (Variable::make(Int(32), loop->name) - loop->min);
    return For::make(loop->name, loop->min, loop->extent, loop->for_type, loop->partition_policy, loop->device_api,
                     substitute(loop->name, from_last, loop->body));
}

Expr halves_as_words::mutate(const Expr& e) {
    Expr changed = IRMutator::mutate(e);
    if (changed.defined() && is_half(changed.type()))
        throw std::runtime_error("a GPU's kernel computes with 16-bit floats");
    return changed;
}

Expr halves_as_words::visit(const Load* load) {
    const Type type = is_half(load->type) ? load->type.with_code(halide_type_uint) : load->type;
    return Load::make(type, load->name, mutate(load->index), load->image, load->param, mutate(load->predicate),
                      load->alignment);
}

Expr halves_as_words::visit(const Variable* variable) {
    return is_half(variable->type)
               ? Variable::make(UInt(16), variable->name, variable->image, variable->param, variable->reduction_domain)
               : Expr(variable);
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
    return Allocate::make(allocation->name, UInt(16), allocation->memory_type, allocation->extents,
                          allocation->condition, mutate(allocation->body));
}

namespace {

/// Applies an operation on unsigned numbers to a signed x: to x itself if it is not negative, else to -1 - x, x's bits
/// inverted; that result is inverted again.
template <class Operation> Expr downwards(const Expr& x, Operation of) {
    const Type bits = x.type().with_code(halide_type_uint);
    const Expr sign = select(x < 0, make_const(x.type(), -1), make_zero(x.type()));
    return cast(x.type(), of(cast(bits, x ^ sign))) ^ sign;
}

/// Zeros above the highest one of a word. Every step is a let: written out, each would treble the expression.
Expr zeros_above(const Expr& word) {
    named_values lets;
    const auto named = [&](const Expr& value) {
        lets.emplace_back(unique_name("highest"), value);
        return Variable::make(value.type(), lets.back().first);
    };
    Expr rest = named(word), zeros = 0;
    for (const int half : {16, 8, 4, 2, 1}) {
        const Expr upper = named(rest >> Expr(static_cast<std::uint32_t>(half)));
        const Expr empty = named(upper == make_zero(UInt(32)));
        zeros = zeros + select(empty, half, 0);
        rest = named(select(empty, rest, upper));
    }
    Expr result = cast<std::uint32_t>(zeros + select(rest == make_zero(UInt(32)), 1, 0));
    for (auto let = lets.rbegin(); let != lets.rend(); ++let) result = Let::make(let->first, let->second, result);
    return result;
}

}  // namespace

Expr words_for_vulkan::visit(const Variable* variable) {
    const Type type = variable->type;
    if (!in_kernel_ || own_.contains(variable->name) || !type.is_int_or_uint() || type.bits() >= 32) return variable;
    passed_.emplace(variable->name, variable);
    const Expr word = Variable::make(Int(32), variable->name + ".word");
    return type.is_bool() ? word != 0 : cast(type, word);
}

Expr words_for_vulkan::visit(const Let* let) {
    if (in_kernel_) own_.insert(let->name);
    return IRMutator::visit(let);
}

Stmt words_for_vulkan::visit(const LetStmt* let) {
    if (in_kernel_) own_.insert(let->name);
    return IRMutator::visit(let);
}

Expr words_for_vulkan::visit(const Div* division) {
    if (!in_kernel_ || !division->type.is_int() || !division->type.is_scalar()) return IRMutator::visit(division);
    const Expr a = mutate(division->a), b = mutate(division->b), zero = make_zero(b.type());
    const auto quotient = [&](const Expr& divisor) {
        return downwards(a, [&](const Expr& x) { return x / cast(x.type(), divisor); });
    };
    if (const auto divisor = as_const_int(b); divisor && *divisor > 0) return quotient(b);
    // Halide's % is Euclidean (never negative), and x % 0 is 0.
    const Expr by_magnitude = quotient(select(b == zero, make_one(b.type()), b < zero, -b, b));
    return select(b == zero, zero, b < zero, -by_magnitude, by_magnitude);
}

Expr words_for_vulkan::visit(const Mod* remainder) {
    if (!in_kernel_ || !remainder->type.is_scalar() || remainder->type.is_uint()) return IRMutator::visit(remainder);
    const Expr &a = remainder->a, &b = remainder->b, quotient = Div::make(a, b);
    if (remainder->type.is_float()) return mutate(a - b * floor(quotient));
    return mutate(is_const(b) ? a - b * quotient
                              : select(b == make_zero(b.type()), make_zero(b.type()), a - b * quotient));
}

Expr words_for_vulkan::visit(const Call* call) {
    if (!in_kernel_) return IRMutator::visit(call);
    if (call->is_intrinsic(Call::shift_right) && call->type.is_int() && call->type.is_scalar()) {
        const Expr by = mutate(call->args[1]);
        return downwards(mutate(call->args[0]), [&](const Expr& x) { return x >> cast(x.type(), by); });
    }
    if (call->is_intrinsic(Call::count_leading_zeros) && call->args[0].type().bits() == 32 && call->type.is_scalar())
        return cast(call->type, zeros_above(reinterpret<std::uint32_t>(mutate(call->args[0]))));
    // Rounding by an addition (math.cpp): SPIR-V is not told which arithmetic is strict, and drivers drop a number that
    // is added and subtracted again. The lowest bits of the sum are the integer.
    if (call->is_intrinsic(Call::strict_sub) && call->type == Float(32) && is_const(call->args[1]))
        return cast<float>(reinterpret<int>(mutate(call->args[0])) - reinterpret<int>(call->args[1]));
    if (call->name == "floor_f64") {  // of numbers that fit an i64
        const Expr x = mutate(call->args[0]), whole = cast<double>(cast<std::int64_t>(x));
        return whole - select(whole > x, make_const(Float(64), 1.0), make_const(Float(64), 0.0));
    }
    return IRMutator::visit(call);
}

Stmt words_for_vulkan::visit(const For* loop) {
    const bool before = std::exchange(in_kernel_, in_kernel_ || is_gpu(loop->for_type));
    Stmt body = mutate(loop->body);
    Expr first = mutate(loop->min), extent = mutate(loop->extent);
    const bool serial = before && !is_gpu(loop->for_type);
    in_kernel_ = before;
    if (!serial) {
        Stmt result =
            For::make(loop->name, first, extent, loop->for_type, loop->partition_policy, loop->device_api, body);
        if (before || passed_.empty()) return result;
        for (const auto& [name, value] : passed_) result = LetStmt::make(name + ".word", cast<int>(value), result);
        passed_.clear(), own_.clear();
        return result;
    }
    if (!is_const_zero(first)) {
        const std::string from_zero = unique_name(loop->name);
        body = LetStmt::make(loop->name, Variable::make(Int(32), from_zero) + first, body);
        return For::make(from_zero, 0, max(extent, 0), loop->for_type, loop->partition_policy, loop->device_api, body);
    }
    return For::make(loop->name, first, as_const_int(extent) ? extent : max(extent, 0), loop->for_type,
                     loop->partition_policy, loop->device_api, body);
}

Expr words_for_opencl::visit(const FloatImm* number) {
    if (number->type.bits() != 64) return number;
    return reinterpret(number->type, make_const(UInt(64), std::bit_cast<std::uint64_t>(number->value)));
}

Expr named_choices::visit(const Select* choice) {
    named_values within;
    const auto named = [&](const Expr& branch) {
        const Expr made = mutate(branch);
        if (is_const(made) || made.as<Variable>()) return made;
        within.emplace_back(unique_name("chosen"), made);
        return Variable::make(made.type(), within.back().first);
    };
    Expr made = Select::make(mutate(choice->condition), named(choice->true_value), named(choice->false_value));
    for (const auto& [name, value] : within) made = Let::make(name, value, made);
    return made;
}

Expr named_choices::visit(const Call* call) {
    if (!call->is_intrinsic(Call::mux)) return IRMutator::visit(call);
    Expr made = call->args.back();  // of choices by one number
    for (std::size_t i = call->args.size() - 2; i > 0; --i)
        made = select(call->args[0] == static_cast<int>(i) - 1, call->args[i], made);
    return mutate(made);
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

}  // namespace attune::generators::inline passes
