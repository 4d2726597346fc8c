#include "passes/prefetch_rows.hpp"

#include <algorithm>
#include <utility>

namespace attune::generators::inline passes {
using namespace Halide;
using namespace Halide::Internal;

namespace {

constexpr int line_bytes = 64;

/// The places at which the rows of a tensor begin that a loop's body reads, at the first iteration of the loops inside.
class rows_read : public IRVisitor {
public:
    rows_read(const std::string& tensor, int elements, named_values lets)
        : tensor_(tensor), elements_(elements), lets_(std::move(lets)) {}
    std::vector<Expr> first;
    Type element;

protected:
    using IRVisitor::visit;
    template <class T> void visit_let(const T* let) {
        let->value.accept(this);
        lets_.emplace_back(let->name, let->value);
        let->body.accept(this);
        lets_.pop_back();
    }
    void visit(const LetStmt* let) override { visit_let(let); }
    void visit(const Let* let) override { visit_let(let); }
    void visit(const For* loop) override {
        lets_.emplace_back(loop->name, loop->min);
        loop->body.accept(this);
        lets_.pop_back();
    }
    void visit(const Load* load) override {
        IRVisitor::visit(load);
        if (load->name != tensor_) return;
        Expr at = load->index;
        while (const auto* ramp = at.as<Ramp>()) at = ramp->base;
        if (at.type().is_vector()) at = extract_lane(at, 0);
        at = simplify(written_out(at, lets_));
        element = load->type.element_of();
        const bool known = std::any_of(first.begin(), first.end(), [&](const Expr& other) {
            const auto distance = as_const_int(simplify(at - other));
            return distance && *distance > -elements_ && *distance < elements_;
        });
        if (!known) first.push_back(at);
    }

private:
    const std::string& tensor_;
    const int elements_;
    named_values lets_;
};

/// Whether every number in memory that an address needs, and that changes with a variable, is from these tables.
class knows_later : public IRVisitor {
public:
    knows_later(const std::string& variable, const std::vector<std::string>& tables)
        : variable_(variable), tables_(tables) {}
    bool yes = true;

protected:
    using IRVisitor::visit;
    void visit(const Load* load) override {
        const auto holds = [&](const std::string& table) {
            return load->name == table || starts_with(load->name, table + ".") || starts_with(load->name, table + "$");
        };
        if (expr_uses_var(load->index, variable_) && std::none_of(tables_.begin(), tables_.end(), holds)) yes = false;
        IRVisitor::visit(load);
    }

private:
    const std::string& variable_;
    const std::vector<std::string>& tables_;
};

/// Asks for the line of an element. Halide's own intrinsic becomes prefetchnta, which keeps lines out of the
/// second-level cache and has few of them under way. This one becomes prefetcht1, or its equivalent on other CPUs.
Expr fetch(const std::string& tensor, const Type& element, const Expr& at) {
    constexpr int read = 0, second_level = 2, data = 1;
    const Expr address = reinterpret<std::uint64_t>(Variable::make(Handle(), tensor)) +
                         cast<std::uint64_t>(cast<std::int64_t>(at) * element.bytes());
    return Call::make(Int(32), "llvm.prefetch.p0", {reinterpret(Handle(), address), read, second_level, data},
                      Call::Extern);
}

}  // namespace

Stmt prefetch_rows::visit(const LetStmt* let) {
    const bool inside = !advanced_.empty() || !part_.empty();
    if (inside) lets_.emplace_back(let->name, let->value);
    Stmt result = IRMutator::visit(let);
    if (inside) lets_.pop_back();
    return result;
}

/// One of two branches: lines that one fetches do not count as fetched in the other.
Stmt prefetch_rows::visit(const IfThenElse* choice) {
    const auto before = fetched_;
    const Stmt taken = mutate(choice->then_case);
    fetched_ = before;
    const Stmt other = choice->else_case.defined() ? mutate(choice->else_case) : Stmt();
    fetched_ = before;
    return IfThenElse::make(mutate(choice->condition), taken, other);
}

/// Fetches the lines of a tensor's rows in the order of memory, which the caches' own prefetchers follow. Undefined if
/// there are none.
Stmt prefetch_rows::fetches(const stream& of, const Stmt& body) {
    rows_read reads(of.tensor, of.elements, lets_);
    body.accept(&reads);
    if (reads.first.empty()) return {};
    const int line = line_bytes / reads.element.bytes(), length = std::max(line, of.elements);
    const auto distance = [](const Expr& from, const Expr& to) { return as_const_int(simplify(to - from)); };
    const auto is_asked_for = [&](const Expr& row) {
        return std::ranges::any_of(fetched_, [&](const auto& other) {
            const auto beyond = other.first == of.tensor ? distance(other.second, row) : std::nullopt;
            return beyond && (*beyond == 0 || (*beyond > 0 && *beyond + of.elements <= length));
        });
    };
    std::vector<Stmt> all;
    for (const Expr& row : reads.first) {
        knows_later known(advanced_, tables_);
        row.accept(&known);
        if (!known.yes || is_asked_for(row)) continue;
        if (parts_) fetched_.emplace_back(of.tensor, row);
        const auto later = [&](const std::string& variable, int iterations) {
            return substitute(variable, Variable::make(Int(32), variable) + iterations, row);
        };
        std::vector<Stmt> lines;
        for (int i = 0; i < of.elements; i += line)
            lines.push_back(Evaluate::make(fetch(of.tensor, reads.element, later(advanced_, of.ahead) + i)));
        const auto part = part_.empty() ? std::nullopt : distance(row, later(part_, 1));
        const bool begins_a_line = !part || *part <= 0 || line % *part != 0;
        all.push_back(begins_a_line ? Block::make(lines)
                                    : IfThenElse::make(Variable::make(Int(32), part_) * static_cast<int>(*part) % line <
                                                           static_cast<int>(*part),
                                                       Block::make(lines)));
    }
    return all.empty() ? Stmt() : Block::make(all);
}

Stmt prefetch_rows::visit(const For* loop) {
    const bool outer = advanced_.empty() && from_.begins_anywhere(loop->name),
               of_parts = part_.empty() && parts_ && parts_->begins_anywhere(loop->name);
    if (outer) advanced_ = loop->name;
    if (of_parts) part_ = loop->name;
    Stmt body = mutate(loop->body);
    if (!advanced_.empty() && where_.begins_anywhere(loop->name)) {
        std::vector<Stmt> all;
        for (const stream& each : streams_)
            if (const Stmt ahead = fetches(each, loop->body); ahead.defined()) all.push_back(ahead);
        all.push_back(body);
        body = Block::make(all);
    }
    if (outer) advanced_.clear();
    if (of_parts) part_.clear();
    return For::make(loop->name, loop->min, loop->extent, loop->for_type, loop->partition_policy, loop->device_api,
                     body);
}

}  // namespace attune::generators::inline passes
