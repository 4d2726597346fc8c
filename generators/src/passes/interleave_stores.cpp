#include "passes/interleave_stores.hpp"

#include <string>
#include <vector>

namespace attune::generators::inline passes {
using namespace Halide;
using namespace Halide::Internal;

namespace {

/// The first statements of a block, at most `most`, and the rest.
std::vector<Stmt> first_of(const Block* all, std::size_t most, Stmt& rest) {
    std::vector<Stmt> first{all->first};
    rest = all->rest;
    while (rest.defined() && first.size() < most) {
        const auto* next = rest.as<Block>();
        first.push_back(next ? next->first : rest);
        rest = next ? next->rest : Stmt();
    }
    return first;
}

/// The number of stores that fill 32 bits together, if this is such a store: 2 or 4, else 0.
int stores_of_word(const Store* store) {
    const auto* at = store ? store->index.as<Ramp>() : nullptr;
    const int bits = store ? store->value.type().bits() : 0, stores = bits == 8 ? 4 : bits == 16 ? 2 : 0;
    return at && stores > 0 && is_const(at->stride, stores) && is_const_one(store->predicate) ? stores : 0;
}

class reads : public IRVisitor {
public:
    explicit reads(const std::string& buffer) : buffer_(buffer) {}
    bool found = false;

protected:
    using IRVisitor::visit;
    void visit(const Load* load) override {
        found |= load->name == buffer_;
        IRVisitor::visit(load);
    }

private:
    const std::string& buffer_;
};

/// Whether a store writes `place` numbers beyond another store, and its value does not read the memory that they write.
bool is_beside(const Store* store, const Store* other, int place) {
    if (stores_of_word(store) != stores_of_word(other) || store->name != other->name) return false;
    reads own(store->name);
    store->value.accept(&own);
    if (own.found) return false;
    const auto *at = store->index.as<Ramp>(), *from = other->index.as<Ramp>();
    return at->lanes == from->lanes && can_prove(at->base == from->base + place);
}

/// Vectors interleaved number by number: neighbours first, whose pairs then count as numbers of twice the bits. Numbers
/// are widened after they are moved.
Expr interleaved(const std::vector<Expr>& all) {
    const Type type = all[0].type();
    if (all.size() == 2) {
        const auto *one = all[0].as<Cast>(), *other = all[1].as<Cast>();
        if (one && other && one->value.type() == other->value.type() && one->value.type().bits() < type.bits())
            return cast(type.with_lanes(2 * type.lanes()), interleaved({one->value, other->value}));
        return Shuffle::make_interleave(all);
    }
    const auto pair = [&](int i) {
        return reinterpret(UInt(2 * type.bits(), type.lanes()), interleaved({all[i], all[i + 1]}));
    };
    return reinterpret(type.with_lanes(4 * type.lanes()), Shuffle::make_interleave({pair(0), pair(2)}));
}

}  // namespace

Stmt interleave_stores::visit(const Block* all) {
    const auto* store = all->first.as<Store>();
    const int stores = stores_of_word(store);
    Stmt rest;
    std::vector<Expr> values;
    if (stores > 0)
        for (const Stmt& each : first_of(all, stores, rest)) {
            const auto* next = each.as<Store>();
            if (next && is_beside(next, store, static_cast<int>(values.size()))) values.push_back(next->value);
        }
    if (values.empty() || static_cast<int>(values.size()) < stores) return IRMutator::visit(all);
    const Expr words = interleaved(values);
    const int lanes = words.type().lanes();
    const Stmt at_once = Store::make(store->name, words, Ramp::make(store->index.as<Ramp>()->base, 1, lanes),
                                     store->param, const_true(lanes), store->alignment);
    return rest.defined() ? Block::make(at_once, mutate(rest)) : at_once;
}

}  // namespace attune::generators::inline passes
