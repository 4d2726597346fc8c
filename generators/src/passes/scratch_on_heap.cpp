#include "passes/scratch_on_heap.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace attune::generators::inline passes {
using namespace Halide;
using namespace Halide::Internal;

namespace {

constexpr std::int64_t all_registers = 2048;  // bytes: 32 vectors of 512 bits
constexpr std::int64_t small = 512;           // bytes for the stack of an allocation outside loops
constexpr std::int64_t most_indexed = 4096;   // bytes of one function for the stack that cannot be registers

/// 0 if only the call knows the size: such an allocation is on the heap already.
std::int64_t bytes_of(const Allocate* allocate) {
    return std::int64_t{allocate->constant_allocation_size()} * allocate->type.bytes();
}

bool is_scratch(const Allocate* allocate) {
    return (allocate->memory_type == MemoryType::Auto || allocate->memory_type == MemoryType::Stack) &&
           !allocate->new_expr.defined();
}

bool fits_stack(const Allocate* allocate, int loops) {
    return bytes_of(allocate) <= (loops > 0 ? all_registers : small);
}

/// The same if the allocations `beyond` do not fit together with the others.
bool fits_stack(const Allocate* allocate, int loops, const std::set<std::string>& beyond) {
    return fits_stack(allocate, loops) && beyond.count(allocate->name) == 0;
}

/// Finds allocations that are read or written at an index that only a loop knows: they are memory, not registers.
class indexed_memory : public IRVisitor {
public:
    /// The allocations to leave out, largest first, so that the others fit the stack together.
    std::set<std::string> beyond(std::int64_t most) const {
        std::vector<std::pair<std::int64_t, std::string>> sizes;
        std::int64_t together = 0;
        for (const auto& [name, bytes] : bytes_)
            if (indexed_.count(name) > 0) sizes.emplace_back(bytes, name), together += bytes;
        std::sort(sizes.rbegin(), sizes.rend());
        std::set<std::string> result;
        for (const auto& [bytes, name] : sizes)
            if (together > most) result.insert(name), together -= bytes;
        return result;
    }

protected:
    using IRVisitor::visit;

    void visit(const For* loop) override {
        ++loops_;
        IRVisitor::visit(loop);
        --loops_;
    }
    void visit(const Allocate* allocate) override {
        if (is_scratch(allocate) && fits_stack(allocate, loops_))
            bytes_[allocate->name] = std::max(bytes_[allocate->name], bytes_of(allocate));
        IRVisitor::visit(allocate);
    }
    void visit(const Load* load) override {
        look(load->name, load->index);
        IRVisitor::visit(load);
    }
    void visit(const Store* store) override {
        look(store->name, store->index);
        IRVisitor::visit(store);
    }

private:
    static bool is_fixed(const Expr& index) {
        if (const auto* ramp = index.as<Ramp>()) return is_fixed(ramp->base) && is_fixed(ramp->stride);
        if (const auto* same = index.as<Broadcast>()) return is_fixed(same->value);
        return is_const(index);
    }
    void look(const std::string& name, const Expr& index) {
        if (!is_fixed(index)) indexed_.insert(name);
    }

    int loops_ = 0;
    std::map<std::string, std::int64_t> bytes_;
    std::set<std::string> indexed_;
};

/// Names of allocations that are made once, before all loops, since they do not fit the stack inside some loop.
class taken_once : public IRVisitor {
public:
    explicit taken_once(const std::set<std::string>& beyond) : beyond_(beyond) {}

    std::set<std::string> names;

protected:
    using IRVisitor::visit;

    void visit(const For* loop) override {
        ++loops_;
        IRVisitor::visit(loop);
        --loops_;
    }
    void visit(const Allocate* allocate) override {
        if (loops_ > 0 && is_scratch(allocate) && bytes_of(allocate) > 0 && !fits_stack(allocate, loops_, beyond_))
            names.insert(allocate->name);
        IRVisitor::visit(allocate);
    }

private:
    const std::set<std::string>& beyond_;
    int loops_ = 0;
};

class hoister : public IRMutator {
public:
    Stmt whole(const Stmt& body) {
        indexed_memory memory;
        body.accept(&memory);
        beyond_ = memory.beyond(most_indexed);
        taken_once once(beyond_);
        body.accept(&once);
        once_ = std::move(once.names);
        Stmt made = mutate(body);
        for (const auto& [name, each] : hoisted_)
            made = Allocate::make(name, each->type, MemoryType::Heap, each->extents, const_true(), made, Expr(),
                                  std::string(), each->padding);
        return made;
    }

protected:
    using IRMutator::visit;

    Stmt visit(const For* loop) override {
        ++loops_;
        const Stmt made = IRMutator::visit(loop);
        --loops_;
        return made;
    }

    Stmt visit(const Allocate* allocate) override {
        if (!is_scratch(allocate) || bytes_of(allocate) == 0) return IRMutator::visit(allocate);
        if (once_.count(allocate->name) == 0) {
            if (fits_stack(allocate, loops_, beyond_)) return IRMutator::visit(allocate);
            return Allocate::make(allocate->name, allocate->type, MemoryType::Heap, allocate->extents,
                                  allocate->condition, mutate(allocate->body), Expr(), std::string(),
                                  allocate->padding);
        }
        // A partitioned loop repeats its allocation. Merge them: one allocation of the largest size.
        const auto [kept, first] = hoisted_.emplace(allocate->name, allocate);
        if (kept->second->type != allocate->type) return IRMutator::visit(allocate);
        if (bytes_of(allocate) > bytes_of(kept->second)) kept->second = allocate;
        return mutate(allocate->body);
    }

    Stmt visit(const Free* free) override { return hoisted_.count(free->name) ? Evaluate::make(0) : Stmt(free); }

private:
    int loops_ = 0;
    std::set<std::string> beyond_, once_;
    std::map<std::string, const Allocate*> hoisted_;
};

}  // namespace

Stmt scratch_on_heap(const Stmt& body) { return hoister().whole(body); }

}  // namespace attune::generators::inline passes
