#include "passes/trim_tail_rows.hpp"

#include <algorithm>

namespace attune::generators::inline passes {
using namespace Halide;
using namespace Halide::Internal;

Stmt trim_tail_rows::visit(const For* loop) {
    Stmt body = loop->body;
    Expr extent = loop->extent;
    if (!rows_.defined() && tasks_.begins_anywhere(loop->name)) {
        const std::string name = loop->name + ".rows";
        const Expr task = Variable::make(Int(32), loop->name), blocks = max((queries_ + (block_ - 1)) / block_, 1);
        rows_ = Variable::make(Int(32), name);
        // Whole tiles, in all loops alike: each loop reads rows that another has made.
        const int tile = std::ranges::max(loops_, {}, &row_loop::rows).rows;
        body = LetStmt::make(name, min((queries_ - task % blocks * block_ + (tile - 1)) / tile * tile, block_),
                             mutate(body));
        rows_ = Expr();
    } else {
        body = mutate(body);
        const auto all = as_const_int(loop->extent);
        const auto found = std::ranges::find_if(loops_, [&](const row_loop& each) {
            return each.is.begins_anywhere(loop->name) && all && *all * each.rows == block_;
        });
        if (rows_.defined() && found != loops_.end() && is_const_zero(loop->min))
            extent = (rows_ + (found->rows - 1)) / found->rows;
    }
    return For::make(loop->name, loop->min, extent, loop->for_type, loop->partition_policy, loop->device_api, body);
}

}  // namespace attune::generators::inline passes
