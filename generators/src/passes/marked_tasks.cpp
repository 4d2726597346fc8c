#include "passes/marked_tasks.hpp"

#include <cstdint>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace attune::generators::inline passes {
using namespace Halide;
using namespace Halide::Internal;

namespace {

constexpr const char* made_again = "attune_made_again";

}  // namespace

Expr marked_tasks::again(const Expr& value, const Expr& before) {
    return Call::make(value.type(), made_again, {value, before}, Call::PureExtern);
}

Stmt marked_tasks::mutate(const Stmt& s) {
    const bool whole = !std::exchange(inside_, true);
    if (whole) found_ = false;
    Stmt result = IRMutator::mutate(s);
    if (!whole) return result;
    inside_ = false;
    if (!found_) throw std::runtime_error("a device's kernel has no launch that makes " + of_.function + " once more");
    return result;
}

Stmt marked_tasks::visit(const For* loop) {
    if (!starts_with(loop->name, of_.function + ".s1.") || loop->for_type != ForType::GPUBlock)
        return IRMutator::visit(loop);
    constexpr std::string_view sign = "block_id_";
    const std::size_t at = loop->name.find(sign);
    if (at == loop->name.npos || at + sign.size() >= loop->name.size())
        throw std::runtime_error("a loop over blocks of threads has another name: " + loop->name);
    const char axis = loop->name[at + sign.size()];
    block_[axis] = Variable::make(Int(32), loop->name);
    if (axis != 'x') return IRMutator::visit(loop);
    found_ = true;
    return For::make(loop->name, loop->min, loop->extent, loop->for_type, loop->partition_policy, loop->device_api,
                     IfThenElse::make(is_marked(), mutate(loop->body)));
}

Expr marked_tasks::visit(const Call* call) {
    return call->name == made_again ? mutate(call->args[0]) : IRMutator::visit(call);
}

Expr marked_tasks::is_marked() const {
    if (block_.size() != 3) throw std::runtime_error("blocks of threads are not of rows, heads and batches");
    const auto size = [&](const std::string& name) { return Variable::make(Int(32), of_.buffer + name); };
    const Expr task = block_.at('x') * of_.rows_of_task;
    Expr any;
    for (int row = 0; row < of_.rows_of_task; row += of_.rows_together) {
        const Expr at = row == 0 ? task : min(task + row, size(".extent.1") - 1);
        const Expr index =
            at * size(".stride.1") + block_.at('y') * size(".stride.2") + block_.at('z') * size(".stride.3");
        const Expr first = Load::make(of_.element, of_.buffer, index, {}, {}, const_true(), {});
        const Expr bits = reinterpret<std::uint32_t>(cast<float>(first)) & Expr(0x7fffffffu);
        const Expr is_nan = bits > Expr(0x7f800000u);
        any = any.defined() ? any || is_nan : is_nan;
    }
    return any;
}

}  // namespace attune::generators::inline passes
