#include "block_mask/tile_extrema.hpp"

#include "expr/math.hpp"

#include <algorithm>
#include <numeric>

namespace attune::generators::inline block_mask {
using namespace Halide;

namespace {

/// Numbers below and above every value of a sum, with room for a constant beside them if the sum has one.
std::pair<Expr, Expr> beyond(const Type& type, double magnitude) {
    if (type.is_float()) return {-3.4e38f, 3.4e38f};
    const Expr far = type.bits() == 64 ? Internal::make_const(type, std::int64_t{1} << 62) : Expr(1 << 30);
    if (type.bits() == 32 && magnitude > largest_int / 2) return {type.min(), type.max()};
    return {-far, far};
}

/// A value as its tile's lower and its upper bound. For NaN the lower one is -infinity, by which `find` knows it.
std::pair<Expr, Expr> bounding(const Expr& value, const Expr& low) {
    if (!value.type().is_float()) return {value, value};
    const Expr is_nan = holds_nan(value);
    return {or_negative_infinity(!is_nan, value), select(is_nan, low, value)};
}

/// What a table says of each tile, in this order. The last two are there if a number may be masked.
enum extreme : std::uint8_t { smallest, largest, any_masked, all_masked };

/// An extreme of more numbers.
Expr joined(std::size_t which, const Expr& a, const Expr& b) {
    return which == smallest || which == all_masked ? min(a, b) : max(a, b);
}

/// A table in memory; on a GPU a thread makes the entry of a tile. Its loops are not partitioned where clamps begin and
/// end: in a formula that saturates, such a place is beyond an i32.
void schedule_table(Func extremes, bool by_head, bool by_batch, bool for_device) {
    // Schedule
    extremes.compute_root().never_partition_all();
    if (!for_device) return;
    const Var tile("tile"), thread("thread"), h("h"), b("b");
    std::vector<VarOrRVar> blocks{tile};
    if (by_head) blocks.emplace_back(h);
    if (by_batch) blocks.emplace_back(b);
    extremes.split(tile, tile, thread, 32, TailStrategy::GuardWithIf);
    for (const VarOrRVar& each : blocks) extremes.gpu_blocks(each);
    extremes.gpu_threads(thread);
}

}  // namespace

tile_tables::table tile_tables::make(const key& wanted) const {
    const int block = wanted.of_queries ? request_.blocks().query_block : request_.blocks().key_block;
    dependence on = wanted.node >= 0 ? known_.depends[wanted.node] : depends_on(wanted.sum, known_.depends);
    for (const formula& f : wanted.where) {
        const dependence its = depends_on(f, known_.depends);
        on.head |= its.head, on.batch |= its.batch;
    }
    Var tile("tile"), h("h"), b("b"), lane("lane");
    const Expr keys = on.batch ? inputs_.keys_in_use(b) : min(inputs_.most_keys_in_use(), inputs_.key_length);
    const Expr end = wanted.of_queries ? inputs_.query_length : keys;
    table result{Func("extremes"), on.head, on.batch};
    std::vector<Var> axes{tile};
    if (on.head) axes.push_back(h);
    if (on.batch) axes.push_back(b);
    const auto at = [&](const Expr& position) {
        return pointwise(request_, inputs_, known_.depends, {b, h, position, position, keys, {}});
    };
    const bool is_sum = wanted.what == kind_of::sum;

    // Algorithm
    if (wanted.what == kind_of::ends) {
        pointwise first = at(tile * block), last = at(max(min(tile * block + block, end) - 1, 0));
        result.extremes(axes) = Tuple(value_of(wanted.sum, first, known_), value_of(wanted.sum, last, known_));
        schedule_table(result.extremes, result.by_head, result.by_batch, request_.on_gpu());
        return result;
    }
    const int lanes = std::gcd(block, 8);
    RDom in_tile(0, block / lanes, "in_tile");
    const Expr position = tile * block + in_tile * lanes + lane;
    pointwise here = at(position);
    quantity x{position, {}};
    if (wanted.node >= 0) x = here(wanted.node);
    if (is_sum) x = {value_of(wanted.sum, here, known_), {}};
    if (x.value.type().is_bool()) x.value = cast<int>(x.value);
    Expr counts = position < end;
    for (const formula& f : wanted.where) counts = counts && holds(f, here, known_);
    const Expr masked = x.masked.defined() ? x.masked : Internal::const_false();
    const auto [low, far] = beyond(x.value.type(), is_sum ? magnitude_of(wanted.sum, known_.magnitudes) : 0);
    const bool hides = x.masked.defined();
    // The extremes of every eighth position, then of all.
    Func partials("partials"), &extremes = result.extremes;
    std::vector<Var> inner = axes;
    inner.insert(inner.begin(), lane);
    const std::vector<Expr> there(inner.begin(), inner.end());
    const Expr zero = cast<uint8_t>(0), one = cast<uint8_t>(1);
    std::vector<Expr> of_nothing{far, low};
    if (hides) of_nothing.insert(of_nothing.end(), {zero, one});
    partials(inner) = Tuple(of_nothing);
    const FuncRef so_far = partials(there);
    const auto [least, most] = bounding(x.value, low);
    std::vector<Expr> of_position{select(counts && !masked, least, far), select(counts && !masked, most, low)};
    if (hides) {
        of_position.push_back(select(counts && masked, one, zero));
        of_position.push_back(select(counts && !masked, zero, one));
    }
    std::vector<Expr> next, all;
    for (std::size_t v = 0; v < of_position.size(); ++v) next.push_back(joined(v, so_far[v], of_position[v]));
    partials(there) = Tuple(next);
    for (int l = 0; l < lanes; ++l) {
        std::vector<Expr> of_lane(axes.begin(), axes.end());
        of_lane.insert(of_lane.begin(), l);
        for (std::size_t v = 0; v < of_nothing.size(); ++v) {
            const Expr value = partials(of_lane)[v];
            if (l == 0)
                all.push_back(value);
            else
                all[v] = joined(v, all[v], value);
        }
    }
    extremes(axes) = Tuple(all);

    schedule_table(result.extremes, result.by_head, result.by_batch, request_.on_gpu());
    if (request_.on_gpu()) {
        partials.compute_at(extremes, Var("thread")).bound_extent(lane, lanes).unroll(lane).update().unroll(lane);
        return result;
    }
    partials.compute_at(extremes, tile).bound_extent(lane, lanes).vectorize(lane);
    partials.never_partition_all().update().vectorize(lane).never_partition_all();
    return result;
}

tile_tables::table tile_tables::make_over_queries(int load, int index, int places) const {
    constexpr int lanes = 32;
    const int block = request_.blocks().query_block;
    const Var position("position"), tile("tile"), h("h"), b("b");
    // Algorithm
    const RDom in_tile(0, block, "in_tile");
    const Expr query = min(tile * block + in_tile, inputs_.query_length - 1);  // the last one again
    pointwise here(request_, inputs_, known_.depends,
                   {b, h, query, 0, inputs_.keys_in_use(b), {{index, {position, {}}}}});
    const Expr x = cast<uint8_t>(here(load).value);
    table result{Func("over_queries"), true, true, places};
    Func& extremes = result.extremes;  // (position, tile, head, batch)
    extremes(position, tile, h, b) = Tuple(cast<uint8_t>(1), cast<uint8_t>(0));
    extremes(position, tile, h, b) =
        Tuple(min(extremes(position, tile, h, b)[0], x), max(extremes(position, tile, h, b)[1], x));

    // Schedule
    extremes.compute_root()
        .vectorize(position, lanes)
        .update()
        .reorder(position, in_tile, tile, h, b)
        .vectorize(position, lanes);
    return result;
}

interval tile_tables::over_queries(int load, int index, const Expr& position, int places, const place& at) {
    const key wanted{.what = kind_of::over_queries, .of_queries = true, .node = load};
    auto known = tables_.find(wanted);
    if (known == tables_.end()) known = tables_.emplace(wanted, make_over_queries(load, index, places)).first;
    const graph_ir& graph = request_.graph();
    const auto& arguments = graph.nodes[load].arguments;
    const auto axis = std::find(arguments.begin() + 1, arguments.end(), index) - arguments.begin() - 1;
    const instruction& made = graph.nodes[graph.nodes[arguments[0]].arguments[0]];
    const Expr extent = axis == 0   ? Expr(inputs_.batches)
                        : axis == 1 ? Expr(inputs_.heads)
                                    : pointwise(request_, inputs_, {})(made.arguments[2 * (axis - 1)]).value;
    const FuncRef extremes = known->second.extremes(clamp(position, 0, max(extent, 1) - 1), at.tile, at.h, at.b);
    return {extremes[smallest], extremes[largest]};
}

interval tile_tables::find(const key& wanted, const place& at) {
    auto known = tables_.find(wanted);
    if (known == tables_.end()) known = tables_.emplace(wanted, make(wanted)).first;
    const table& found = known->second;
    std::vector<Expr> where{at.tile};
    if (found.by_head) where.push_back(at.h);
    if (found.by_batch) where.push_back(at.b);
    const FuncRef extremes = found.extremes(where);
    const Expr least = extremes[smallest], most = extremes[largest];
    const Expr nan = least.type().is_float() ? is_negative_infinity(least) : no();
    if (found.extremes.outputs() <= any_masked) return {least, most, never(), nan};
    return {least, most, {extremes[any_masked] != cast<uint8_t>(0), extremes[all_masked] != cast<uint8_t>(0)}, nan};
}

interval tile_tables::range(int node, const place& at) {
    return find({kind_of::node, at.of_queries, node, {}, {}}, at);
}

interval tile_tables::range(const linear& sum, const std::vector<formula>& where, const place& at) {
    return find({kind_of::sum, at.of_queries, -1, sum, where}, at);
}

interval tile_tables::positions(const std::vector<formula>& where, const place& at) {
    key wanted{.what = kind_of::positions, .of_queries = at.of_queries};
    wanted.where = where;
    return find(wanted, at);
}

interval tile_tables::ends(const linear& sum, const place& at) {
    interval found = find({kind_of::ends, at.of_queries, -1, sum, {}}, at);
    switch (direction_of(sum, known_.directions)) {
        case direction::up: return found;
        case direction::down: return {found.hi, found.lo};
        case direction::constant:
        case direction::either:
        case direction::none: break;
    }
    return {min(found.lo, found.hi), max(found.lo, found.hi)};
}

std::vector<tile_tables::size> tile_tables::sizes() const {
    std::vector<size> all;
    for (const auto& [asked, made] : tables_) {
        all.push_back({asked.of_queries, made.by_head, made.by_batch, 0, made.places});
        for (const Type& type : made.extremes.types()) all.back().bytes += type.bytes();
    }
    return all;
}

}  // namespace attune::generators::inline block_mask
