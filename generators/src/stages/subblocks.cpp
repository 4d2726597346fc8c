#include "stages/subblocks.hpp"

namespace attune::generators::inline stages {
using namespace Halide;

namespace {

block_grid grid_of(const kernel_request& request) { return plans::grid_of(request.schedule, request.facts->hides); }

}  // namespace

kernel_request subblocks::in_subblocks(const kernel_request& request) {
    kernel_request result = request;
    const auto shorten = [parts = grid_of(request).subblocks](auto& cut) {
        if constexpr (requires { cut.key_block; }) cut.key_block /= parts;
    };
    std::visit(shorten, result.schedule);
    return result;
}

subblocks::subblocks(const kernel_frame& frame)
    : f_(frame),
      count_(grid_of(frame.request).subblocks),
      of_subblocks_(in_subblocks(frame.request)),
      tables_(of_subblocks_, frame.inputs) {
    // Algorithm
    const Var part("part");
    const verdict visible = tile_mask(tables_, {f_.qt, part, f_.h, f_.b}).visible(f_.core.scores);
    may_be_whole = !is_const_zero(visible.must);
    if (f_.decodes())
        define_of_group(visible, part);
    else
        parts(part, f_.qt, f_.h, f_.b) = f_.kind_of_block(visible);
    if (count_ == 1) {
        visits_of_block(f_.kb, f_.qt, f_.h, f_.b) = parts(f_.kb, f_.qt, f_.h, f_.b);
        return;
    }
    const auto number = [](int n) { return cast<std::uint8_t>(n); };
    const auto at = [&](int i) { return parts(f_.kb * count_ + i, f_.qt, f_.h, f_.b); };
    Expr any = number(0), first = number(count_ - 1), behind = first, whole = Internal::const_true();
    for (int i = 0; i < count_; ++i) {
        any = any | at(i);
        behind = select(at(i) != number_of(block_kind::empty), number(count_ - 1 - i), behind);
        first = select(at(count_ - 1 - i) != number_of(block_kind::empty), number(count_ - 1 - i), first);
    }
    for (int i = 0; i < count_; ++i)
        whole =
            whole && (at(i) == number_of(block_kind::whole) || number(i) < first || number(count_ - 1 - i) < behind);
    const Expr kind = select(whole, number_of(block_kind::whole), number_of(block_kind::partial));
    visits_of_block(f_.kb, f_.qt, f_.h, f_.b) =
        select(any == number(0), number(0), visit_byte{kind, first, behind}.packed());
}

/// The keys that the query heads of a key head's group see: the lowest bit is set if a head sees some key, the next if
/// a head does not see all.
void subblocks::define_of_group(const verdict& visible, const Var& part) {
    // Algorithm
    const std::vector<Var> at{part, f_.qt, f_.h, f_.b};
    const Expr none = cast<std::uint8_t>(0), something = cast<std::uint8_t>(1), lacking = cast<std::uint8_t>(2),
               of_head = select(visible.may, something, none) | select(visible.must, none, lacking);
    if (!Internal::expr_uses_var(of_head, f_.h.name())) {
        parts_of_group(at) = of_head;
    } else {
        const RDom head_of_group(0, f_.group(), "head_of_group");
        const Expr query_head = clamp(f_.h * f_.group() + head_of_group, 0, f_.inputs.heads - 1);
        parts_of_group(at) = none;
        parts_of_group(at) = parts_of_group(at) | Internal::graph_substitute(f_.h.name(), query_head, of_head);
    }
    parts(at) = f_.kind_of_block({(parts_of_group(at) & something) != none, (parts_of_group(at) & lacking) == none});
}

std::function<visited_subblocks(const Expr&)> subblocks::visited_of(const kernel_request& request) {
    return [grid = grid_of(request)](const Expr& visit) { return visit_byte::unpacked(visit, grid); };
}

}  // namespace attune::generators::inline stages
