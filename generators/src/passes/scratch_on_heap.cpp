#include "passes/scratch_on_heap.hpp"

#include <cstdint>
#include <map>
#include <string>

namespace attune::generators {
using namespace Halide;
using namespace Halide::Internal;

namespace {

constexpr std::int64_t all_registers = 2048;  // bytes: 32 vectors of 512 bits
constexpr std::int64_t small = 512;           // for the stack of what is there once

class hoister : public IRMutator {
public:
    Stmt whole(const Stmt& body) {
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
        const bool is_scratch = allocate->memory_type == MemoryType::Auto || allocate->memory_type == MemoryType::Stack;
        if (!is_scratch || allocate->new_expr.defined() || bytes_of(allocate) <= (loops_ > 0 ? all_registers : small))
            return IRMutator::visit(allocate);
        if (loops_ == 0)
            return Allocate::make(allocate->name, allocate->type, MemoryType::Heap, allocate->extents,
                                  allocate->condition, mutate(allocate->body), Expr(), std::string(),
                                  allocate->padding);
        // Parts of a loop each have the allocation: the largest serves all.
        const auto [kept, first] = hoisted_.emplace(allocate->name, allocate);
        if (kept->second->type != allocate->type) return IRMutator::visit(allocate);
        if (bytes_of(allocate) > bytes_of(kept->second)) kept->second = allocate;
        return mutate(allocate->body);
    }

    Stmt visit(const Free* free) override { return hoisted_.count(free->name) ? Evaluate::make(0) : Stmt(free); }

private:
    /// 0 where the size is known in the call only: that is on the heap as it is.
    static std::int64_t bytes_of(const Allocate* allocate) {
        return std::int64_t{allocate->constant_allocation_size()} * allocate->type.bytes();
    }

    int loops_ = 0;
    std::map<std::string, const Allocate*> hoisted_;
};

}  // namespace

Stmt scratch_on_heap(const Stmt& body) { return hoister().whole(body); }

}  // namespace attune::generators
