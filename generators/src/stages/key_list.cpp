#include "stages/key_list.hpp"

#include "analysis/listed_keys.hpp"

#include <vector>

namespace attune::generators::inline stages {
using namespace Halide;

key_list::key_list(const kernel_frame& frame, int node) {
    const int condition = condition_of_list(frame.graph(), node);
    const bool of_query_heads = frame.request.facts->of_query_heads[static_cast<std::size_t>(condition)];
    const Expr length = frame.inputs.key_length, group = of_query_heads ? frame.group() : Expr(1);
    // Algorithm
    const RDom row({{0, frame.inputs.query_length}, {0, group}}, "row");
    const Expr head = clamp(h * frame.group() + row.y, 0, frame.inputs.heads - 1), in_use = frame.inputs.keys_in_use(b);
    const Expr sees = frame.evaluate(condition, {b, head, row.x, k, in_use}).value;
    seen(k, h, b) = cast<std::uint8_t>(0);
    seen(k, h, b) = seen(k, h, b) | cast<std::uint8_t>(sees && k < in_use);

    each_key = RDom(0, length, "each_key");
    listed(k, h, b) = 0;
    const Expr number = listed(length, h, b), next = clamp(number, 0, max(length, 1) - 1);
    listed(scatter(next, length), h, b) = gather(each_key.x, number + cast<int>(seen(each_key, h, b)));
}

}  // namespace attune::generators::inline stages
