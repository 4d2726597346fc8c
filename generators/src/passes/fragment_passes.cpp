#include "passes/fragment_passes.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
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

/// A store of one of the functions under a condition.
const IfThenElse* conditional_store(const Stmt& s, const std::vector<std::string>& functions) {
    const auto* branch = s.as<IfThenElse>();
    if (!branch || branch->else_case.defined()) return nullptr;
    Stmt inner = branch->then_case;
    while (const auto* let = inner.as<LetStmt>()) inner = let->body;
    const auto* store = inner.as<Store>();
    const auto is_of = [&](const std::string& function) { return is_buffer_of(store->name, function); };
    return store && std::ranges::any_of(functions, is_of) ? branch : nullptr;
}

}  // namespace

Stmt stores_under_one_condition::visit(const Block* block) {
    std::vector<Stmt> parts, made;
    flatten(block, parts);
    for (std::size_t at = 0; at < parts.size();) {
        const auto* first = conditional_store(parts[at], functions_);
        std::vector<Stmt> together;
        for (; first && at < parts.size(); ++at) {
            const auto* next = conditional_store(parts[at], functions_);
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

/// Whether a load of some kind is in an expression.
template <class Counts> bool reads(const Expr& e, Counts counts) {
    class reader : public IRGraphVisitor {
        using IRGraphVisitor::visit;
        void visit(const Load* load) override {
            found = found || counts(load);
            IRGraphVisitor::visit(load);
        }

    public:
        explicit reader(Counts of) : counts(of) {}
        Counts counts;
        bool found{};
    } all(counts);
    e.accept(&all);
    return all.found;
}

bool reads_memory(const Expr& e) {
    return reads(e, [](const Load*) { return true; });
}
/// Whether an expression reads memory that the kernel made itself, such as products.
bool reads_products(const Expr& e) {
    return reads(e, [](const Load* load) { return !load->param.defined(); });
}

}  // namespace

/// Conditions stay as they stand: decisions about blocks of keys compare the same numbers.
Expr distances_apart::mutate(const Expr& e) { return e.type().is_bool() ? e : IRMutator::mutate(e); }

Stmt distances_apart::visit(const Store* store) {
    inside_ = is_buffer_of(store->name, function_);
    Stmt made = IRMutator::visit(store);
    inside_ = false;
    return made;
}

Expr distances_apart::visit(const Mul* product) {
    constexpr int far = 1 << 8;  // within a block: a product with such a distance rounds little
    for (const auto& [number, other] : {std::pair(product->a, product->b), std::pair(product->b, product->a)}) {
        const auto* real = other.as<Cast>();
        if (!inside_ || reads_products(number) || !real || real->type != Float(32) || real->value.type() != Int(32))
            continue;
        const auto* distance = real->value.as<Add>();
        const auto apart = distance ? as_const_int(distance->b) : std::nullopt;
        if (!apart || *apart < -far || *apart > far) continue;
        const Expr times = mutate(number);
        return times * cast<float>(mutate(distance->a)) + times * static_cast<float>(*apart);
    }
    return IRMutator::visit(product);
}

Stmt loads_before_loop::visit(const For* loop) {
    if (loops_.empty() && !loop_.is(loop->name)) return IRMutator::visit(loop);
    loops_.push_back(loop->name);
    const auto* guard = loops_.size() == 1 ? loop->body.as<IfThenElse>() : nullptr;
    Stmt body = mutate(guard ? guard->then_case : loop->body);
    loops_.pop_back();
    const bool is_outermost = loops_.empty();
    if (is_outermost)
        for (const auto& [name, value] : kept_) {
            const Expr word = reinterpret<std::uint32_t>(Variable::make(value.type(), name + ".before"));
            const Expr here = Call::make(UInt(32), "attune_kept", {word}, Call::Extern);
            body = LetStmt::make(name, reinterpret(value.type(), here), body);
        }
    if (guard) body = IfThenElse::make(guard->condition, body, guard->else_case);
    Stmt made =
        For::make(loop->name, loop->min, loop->extent, loop->for_type, loop->partition_policy, loop->device_api, body);
    if (!is_outermost) return made;
    for (const auto& [name, value] : std::exchange(kept_, {})) made = LetStmt::make(name + ".before", value, made);
    return made;
}

template <class Node> auto loads_before_loop::visit_let(const Node* let) {
    if (!loops_.empty()) lets_.emplace_back(let->name, let->value);
    auto made = IRMutator::visit(let);
    if (!loops_.empty()) lets_.pop_back();
    return made;
}

Stmt loads_before_loop::visit(const LetStmt* let) { return visit_let(let); }
Expr loads_before_loop::visit(const Let* let) { return visit_let(let); }

Expr loads_before_loop::visit(const Load* load) {
    if (loops_.empty() || !load->param.defined() || !load->type.is_scalar() || load->type.bits() != 32 ||
        !is_const_one(load->predicate) || std::ranges::find(tensors_, load->name) == tensors_.end())
        return IRMutator::visit(load);
    const Expr index = written_out(load->index, lets_);
    bool differs = false;
    for (const std::string& loop : loops_) differs |= expr_uses_var(index, loop);
    if (differs || reads_memory(index)) return IRMutator::visit(load);
    const Expr read =
        Load::make(load->type, load->name, index, load->image, load->param, load->predicate, load->alignment);
    auto at = std::ranges::find_if(kept_, [&](const auto& each) { return equal(each.second, read); });
    if (at == kept_.end()) at = kept_.emplace(at, loops_.front() + ".input." + std::to_string(kept_.size()), read);
    return Variable::make(load->type, at->first);
}

namespace {

/// A load of one element, by itself or the same for all lanes, or by a name.
const Load* element_of(const Expr& e, const named_values& lets = {}) {
    if (const auto* same = e.as<Broadcast>()) return element_of(same->value, lets);
    const auto* name = e.as<Variable>();
    for (const auto& [each, value] : lets)
        if (name && each == name->name) return element_of(value);
    return e.as<Load>();
}

bool is_half(const Expr& e) { return e.type().is_float() && e.type().bits() == 16; }

}  // namespace

Expr words_of_rows::visit(const Call* call) {
    if (call->name != row_word) return IRMutator::visit(call);
    const Load* first = element_of(call->args[0], lets_);
    if (!first) throw std::runtime_error("a row is read by something else than its first element");
    Expr row = first->index;
    if (const auto* same = row.as<Broadcast>()) row = same->value;
    if (!row.type().is_scalar()) throw std::runtime_error("a vector of words is of several rows");
    const int elements = call->type.bits() / first->type.bits();
    const Expr start = simplify(written_out(row, lets_) / elements), word = mutate(call->args[1]);
    const auto* several = word.as<Ramp>();
    if (!several) {
        if (!word.type().is_scalar()) throw std::runtime_error("words of a row are not neighbours");
        return Load::make(call->type, first->name, start + word, {}, {}, const_true(), {});
    }
    const Expr index = Ramp::make(simplify(start + several->base), several->stride, several->lanes);
    return Load::make(call->type, first->name, index, {}, {}, const_true(several->lanes),
                      ModulusRemainder(several->lanes, 0));
}

namespace {

/// A store behind lets of its own.
struct let_store {
    std::vector<const LetStmt*> lets;
    const Store* store{};

    explicit let_store(const Stmt& s) {
        Stmt inner = s;
        for (const auto* let = inner.as<LetStmt>(); let; inner = let->body, let = inner.as<LetStmt>())
            lets.push_back(let);
        store = inner.as<Store>();
    }
    Expr index() const {
        named_values own;
        for (const LetStmt* let : lets) own.emplace_back(let->name, let->value);
        return written_out(store->index, own);
    }
};

/// The number that an instruction rounds to 16 bits, if nothing else is done with the element.
Expr rounded_alone(const Expr& element) {
    const auto* bits = element.as<Reinterpret>();
    const auto* half = bits ? bits->value.as<Cast>() : nullptr;
    const auto* packed = half ? half->value.as<Call>() : nullptr;
    return packed && starts_with(packed->name, "attune_pack_") ? Expr(packed) : Expr();
}

Expr word_of_elements(const Expr& first, const Expr& second) {
    const Expr a = rounded_alone(first), b = rounded_alone(second);
    if (a.defined() && b.defined()) {
        const auto *of_a = a.as<Call>(), *of_b = b.as<Call>();
        return Call::make(UInt(32), of_a->name, {of_a->args[0], of_b->args[0]}, of_a->call_type);
    }
    const auto bits = [](const Expr& x) { return cast<std::uint32_t>(reinterpret<std::uint16_t>(x)); };
    return bits(first) | (bits(second) << 16);
}

}  // namespace

Stmt words_of_rows::as_word(const Stmt& first, const Stmt& second) {
    const let_store a(first), b(second);
    for (const LetStmt* own : a.lets)
        for (const LetStmt* other : b.lets)
            if (own->name == other->name && !equal(own->value, other->value)) return {};
    if (!a.store || !b.store || a.store->name != b.store->name || !is_half(a.store->value)) return {};
    if (std::ranges::find(tensors_, a.store->name) == tensors_.end() || !a.store->index.type().is_scalar()) return {};
    const Expr at = written_out(a.index(), lets_);
    if (!is_const_one(simplify(written_out(b.index(), lets_) - at)) || !is_const_zero(simplify(at % 2))) return {};
    // The lets of the first store stand around those of the second: all names differ.
    Stmt made = Store::make(a.store->name, mutate(word_of_elements(a.store->value, b.store->value)), simplify(at / 2),
                            {}, const_true(), {});
    for (const let_store* each : {&b, &a})
        for (auto let = each->lets.rbegin(); let != each->lets.rend(); ++let)
            made = LetStmt::make((*let)->name, mutate((*let)->value), made);
    return made;
}

Stmt words_of_rows::visit(const Block* block) {
    if (!in_kernel_) return IRMutator::visit(block);
    std::vector<Stmt> parts, made;
    flatten(block, parts);
    for (std::size_t at = 0; at < parts.size(); ++at) {
        Stmt word = at + 1 < parts.size() ? as_word(parts[at], parts[at + 1]) : Stmt();
        made.push_back(word.defined() ? word : mutate(parts[at]));
        at += word.defined();
    }
    return Block::make(made);
}

/// An element that several words share has a name. Parts of addresses have names too, which hide the numbers that they
/// are multiples of.
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
    const Stmt body = mutate(substitute(stride->name, Variable::make(Int(32), part) * elements, stride->body));
    return LetStmt::make(stride->name, stride->value,
                         LetStmt::make(part, Variable::make(Int(32), stride->name) / elements, body));
}

}  // namespace attune::generators::inline passes
