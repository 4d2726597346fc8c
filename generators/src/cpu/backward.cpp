#include "cpu/backward.hpp"

#include <algorithm>
#include <set>
#include <stdexcept>

namespace attune::generators {
using namespace Halide;

namespace {

using form = gradient_term::form;

constexpr int most_parts = 4;    // each has sums of its own of all keys
constexpr int chunk_blocks = 8;  // keys, values and their sums that are gone over together stay in the cache

Expr any_of(const std::vector<Expr>& all, const Expr& which) { return all.size() == 1 ? all.front() : mux(which, all); }

int rounded_up(int x, int to) { return (x + to - 1) / to * to; }

}  // namespace

backward_sweep::backward_sweep(kernel_frame& frame)
    : f_(frame),
      cut_(frame.schedule_as<cpu_prefill>()),
      plan_(gradient_plan_of(*frame.request.facts)),
      block_(cut_.key_block),
      lanes_(cut_.lanes) {
    width_ = rounded_up(std::max(f_.depth(), f_.value_depth()), lanes_);
    channel_tile_ = cut_.value_tile;
    while (width_ % channel_tile_ != 0) channel_tile_ -= lanes_;
    row_tile_ = std::max(cut_.chunk / channel_tile_, 1);
    while (block_ % row_tile_ != 0) --row_tile_;
    key_blocks_ = (f_.inputs.key_length + block_ - 1) / block_;
    query_blocks_ = (f_.inputs.query_length + block_ - 1) / block_;
    group_ = f_.group();
    parts_ = clamp(query_blocks_, 1, most_parts);
    blocks_of_part_ = (query_blocks_ + most_parts - 1) / most_parts;
    const Expr key_heads = max(f_.inputs.key_heads, 1);
    part_ = f_.b % parts_;
    batch_ = f_.b / parts_ / key_heads;
    head_ = f_.b / parts_ % key_heads * group_ + f_.h;
    // Algorithm
    keys_(f_.b) = f_.inputs.keys_in_use(batch_);
    last_key_(f_.b) = max(f_.inputs.keys_in_use(batch_), 1) - 1;
    define_contractions();
    hoist();
    define_tiles();
    define_sweep();
    define_outputs();
}

place backward_sweep::at_pair() const {
    return {batch_, head_, query_at(f_.qi), f_.key_at(f_.ki), keys_(f_.b), known_};
}

Expr backward_sweep::query_at(const Expr& position) const { return (f_.qt * most_parts + part_) * block_ + position; }
Expr backward_sweep::query_read(const Expr& position) const {
    return clamp(query_at(position), 0, f_.inputs.query_length - 1);
}

Expr backward_sweep::key_read(const Expr& position) const { return min(f_.key_at(position), last_key_(f_.b)); }

/// A load at a bare channel, position, head and batch element: read as it lies.
bool backward_sweep::is_plain_row(int node, int channel) const {
    const instruction& it = f_.node(node);
    if (it.op != operation::load || it.argument_count != 5 || f_.node(it.arguments[0]).op != operation::input)
        return false;
    const input_declaration& from = f_.graph().inputs[f_.node(it.arguments[0]).input];
    const instruction& last = f_.node(it.arguments[4]);
    const axis_kind heads = from.axes[1].kind, channels = from.axes[3].kind;
    const operation position = f_.node(it.arguments[3]).op;
    const bool query = from.axes[2].kind == axis_kind::query && position == operation::q_idx,
               key = from.axes[2].kind == axis_kind::key && position == operation::kv_idx;
    return from.axes[0].kind == axis_kind::batch && f_.node(it.arguments[1]).op == operation::b &&
           (heads == axis_kind::head || heads == axis_kind::key_head) && f_.node(it.arguments[2]).op == operation::h &&
           (query || key) && last.op == operation::bound && last.integer == channel &&
           (channels == axis_kind::depth || channels == axis_kind::value_depth);
}

/// Of a tensor (batch, head or key_head, position, channel), for the head at hand.
Expr backward_sweep::element(int tensor, const Expr& d, const Expr& position) const {
    const int input = f_.node(tensor).input;
    const bool grouped = f_.graph().inputs[input].axes[1].kind == axis_kind::key_head;
    return cast<float>(f_.inputs.tensor(input)(d, position, grouped ? f_.inputs.key_head(head_) : head_, batch_));
}

/// What a formula of a query's or a key's channel is, at a position in the block at hand.
Expr backward_sweep::factor(int node, int channel, const Expr& d, bool of_query, const Expr& position) const {
    const Expr at = of_query ? query_read(position) : key_read(position);
    if (is_plain_row(node, channel)) return element(f_.node(node).arguments[0], d, at);
    place where{batch_, head_, at, at, keys_(f_.b)};
    where.indices[channel] = d;
    const quantity x = f_.evaluate(node, where);
    return x.masked.defined() ? select(x.masked, 0.0f, x.value) : x.value;
}

void backward_sweep::define_contraction(int node, const Expr& depth, const channel_of& of_query,
                                        const channel_of& of_key, bool keys_as_they_lie) {
    const std::string name = std::to_string(node);
    contraction c;
    c.node = node, c.depth = depth;
    // Algorithm
    c.panel = Func("queries_" + name), c.sums = Func("sums_" + name), c.whole = Func("products_" + name);
    c.channels = RDom(0, depth, "channels_" + name);
    c.panel(f_.qi, n_, f_.qt, f_.h, f_.b) = of_query(n_, f_.qi);
    Expr key = of_key(c.channels, f_.ki);
    if (!keys_as_they_lie) {
        c.keys = Func("keys_" + name);
        c.keys(n_, f_.ki, f_.kb, f_.h, f_.b) = of_key(n_, f_.ki);
        key = c.keys(c.channels, f_.ki, f_.kb, f_.h, f_.b);
    }
    c.sums(pair_) = 0.0f;
    c.sums(pair_) += c.panel(f_.qi, c.channels, f_.qt, f_.h, f_.b) * key;
    // How many tiles read it: one makes its sums where it uses them.
    std::set<int> ends{f_.core.contraction};
    for (const further_contraction& each : plan_.contractions) ends.insert(each.node);
    int readers = 0;
    for (const int tile : plan_.tiles) {
        const auto reached =
            under(f_.graph(), {tile}, [&](int n) { return ends.contains(n) || (n != tile && is_read_again(n)); });
        if (reached[static_cast<std::size_t>(node)]) ++readers, c.reader = tile;
    }
    c.is_kept = readers > 1;
    c.whole(pair_) = c.sums(pair_);
    known_[node] = {c.is_kept ? c.whole(pair_) : c.sums(pair_), {}};
    contractions_.push_back(c);
}

void backward_sweep::define_contractions() {
    const auto tensor = [&](int node, bool of_query) {
        return [this, node, of_query](const Expr& d, const Expr& position) {
            return element(node, d, of_query ? query_read(position) : key_read(position));
        };
    };
    define_contraction(f_.core.contraction, f_.depth(), tensor(f_.core.query, true), tensor(f_.core.key, false), true);
    for (const further_contraction& each : plan_.contractions) {
        const int channel = static_cast<int>(f_.node(each.index).integer);
        const auto formula = [&](int node, bool of_query) {
            return [this, node, channel, of_query](const Expr& d, const Expr& position) {
                return factor(node, channel, d, of_query, position);
            };
        };
        define_contraction(each.node, max(f_.evaluate(each.extent, {}).value, 0), formula(each.of_query, true),
                           formula(each.of_key, false), is_plain_row(each.of_key, channel));
    }
}

/// What costs something and depends on the query alone, the key alone or neither is computed once a block.
void backward_sweep::hoist() {
    std::vector<int> known;
    for (const auto& [n, value] : known_) known.push_back(n);
    for (const int n : hoistable(f_.graph(), f_.depends, plan_.tiles, known)) {
        const bool of_query = f_.depends[n].query, of_key = f_.depends[n].key;
        const quantity x = f_.evaluate(n, {batch_, head_, query_read(f_.qi), key_read(f_.ki), keys_(f_.b)});
        if (is_const(x.value)) continue;
        std::vector<Var> over{f_.h, f_.b};
        if (of_query) over.insert(over.begin(), {f_.qi, f_.qt});
        if (of_key) over.insert(over.begin(), {f_.ki, f_.kb});
        const bool condition = x.value.type().is_bool();
        std::vector<Expr> values{condition ? cast<std::uint8_t>(x.value) : x.value};
        if (x.masked.defined()) values.push_back(cast<std::uint8_t>(x.masked));
        Func kept("hoisted_" + std::to_string(n));
        if (values.size() == 1)
            kept(over) = values[0];
        else
            kept(over) = Tuple(values);
        const auto read = [&](int i) { return kept.outputs() == 1 ? Expr(kept(over)) : Expr(kept(over)[i]); };
        const Expr zero = cast<std::uint8_t>(0);
        known_[n] = {condition ? read(0) != zero : read(0), x.masked.defined() ? read(1) != zero : Expr()};
        hoisted_.push_back({kept, of_query, of_key});
    }
}

/// Whether other tiles take a tile as it is: where it is 0 instead of masked, so is what is multiplied by it. Scores
/// are asked whether they are masked.
bool backward_sweep::is_read_again(int node) const {
    return f_.node(node).kind != kind::scores && std::ranges::find(plan_.tiles, node) != plan_.tiles.end();
}

/// The numbers of pairs that are summed; 0 where a pair is not seen, whatever lies there.
void backward_sweep::define_tiles() {
    const Expr beyond = f_.key_at(f_.ki) >= keys_(f_.b) || query_at(f_.qi) >= f_.inputs.query_length;
    for (const int node : plan_.tiles) {
        const quantity x = f_.evaluate(node, at_pair());
        // Algorithm
        Func tile("pairs_" + std::to_string(node));
        tile(pair_) = select(x.masked.defined() ? beyond || x.masked : beyond, 0.0f, x.value);
        tiles_[node] = tile;
        if (is_read_again(node)) known_[node] = {tile(pair_), {}};
    }
}

Expr backward_sweep::rows_of(const gradient_term& term) const {
    if (term.is_of_queries()) return group_ * blocks_of_part_ * block_;
    return (term.is == form::by_column ? group_ * key_blocks_ : key_blocks_) * block_;
}

Expr backward_sweep::first_row(std::size_t summed) const {
    Expr first = 0;
    for (std::size_t i = 0; i < summed; ++i) first = first + rows_of(plan_.terms[summed_[i]]);
    return first;
}

/// The rows of a product's other side: a tensor as it lies, or a copy as wide as the sums are.
Expr backward_sweep::other_rows(const gradient_term& term, const Expr& position) {
    if (term.is != form::product) return 1.0f;
    const bool of_query = !term.at_query;
    const instruction& to = f_.node(term.deposit);
    const bool of_values = f_.graph().inputs[to.input].axes[3].kind == axis_kind::value_depth;
    const int depth = of_values ? f_.value_depth() : f_.depth();
    if (is_plain_row(term.rows, term.channel) && depth == width_)
        return factor(term.rows, term.channel, f_.d, of_query, position);
    const Var i = of_query ? f_.qi : f_.ki, block = of_query ? f_.qt : f_.kb;
    // Algorithm
    Func copy("rows_" + std::to_string(term.deposit));
    copy(f_.d, i, block, f_.h, f_.b) =
        select(f_.d < depth, factor(term.rows, term.channel, min(f_.d, depth - 1), of_query, i), 0.0f);
    copies_.push_back({copy, of_query});
    return copy(f_.d, position, block, f_.h, f_.b);
}

void backward_sweep::define_sweep() {
    for (std::size_t term = 0; term < plan_.terms.size(); ++term)
        if (plan_.terms[term].is != form::of_row) summed_.push_back(term);
    const int sums = static_cast<int>(summed_.size());
    const Expr chunks = (key_blocks_ + chunk_blocks - 1) / chunk_blocks;
    // Algorithm. Of a block of pairs: row c of the sums number w.
    within_ = RDom(0, block_, "within");
    std::vector<Expr> factors;
    for (const std::size_t number : summed_) {
        const gradient_term& term = plan_.terms[number];
        const Func& tile = tiles_.at(term.value);
        const Expr pairs = term.is_of_queries() ? tile(c_, within_, f_.kb, f_.qt, f_.h, f_.b)
                                                : tile(within_, c_, f_.kb, f_.qt, f_.h, f_.b);
        factors.push_back(pairs * other_rows(term, within_.x));
    }
    product_(f_.d, c_, w_, f_.kb, f_.qt, f_.h, f_.b) = 0.0f;
    product_(f_.d, c_, w_, f_.kb, f_.qt, f_.h, f_.b) += any_of(factors, w_);

    sweep_ = RDom({{0, block_}, {0, sums}, {0, chunk_blocks}, {0, blocks_of_part_}, {0, chunks}, {0, group_}}, "sweep");
    row_ = sweep_[0], which_ = sweep_[1], in_chunk_ = sweep_[2], of_block_ = sweep_[3], chunk_ = sweep_[4],
    of_group_ = sweep_[5];
    const Expr key_block = chunk_ * chunk_blocks + in_chunk_;
    const auto here = [&](const Expr& of_task) {
        return substitute(std::map<std::string, Expr>{{f_.qt.name(), of_block_}, {f_.h.name(), of_group_}}, of_task);
    };
    const Expr is_there = f_.kb < key_blocks_ && f_.qt < query_blocks_;
    visits_(f_.kb, f_.qt, f_.h, f_.b) = cast<std::uint8_t>(is_there && f_.visible(f_.core.scores).may);
    sweep_.where(visits_(key_block, here(f_.qt * most_parts + part_), here(head_), batch_) != cast<std::uint8_t>(0));
    std::vector<Expr> places;
    for (std::size_t i = 0; i < summed_.size(); ++i) {
        const gradient_term& term = plan_.terms[summed_[i]];
        const Expr block = term.is_of_queries()       ? of_group_ * blocks_of_part_ + of_block_
                           : term.is == form::product ? key_block
                                                      : of_group_ * key_blocks_ + key_block;
        places.push_back(first_row(i) + block * block_ + row_);
    }
    sums_(f_.d, i_, f_.b) = 0.0f;
    sums_(f_.d, any_of(places, which_), f_.b) += product_(f_.d, row_, which_, key_block, of_block_, of_group_, f_.b);
}

/// What a sum of the sweep is at a query of a query head, or at a key in a part of the queries.
Expr backward_sweep::made(std::size_t summed, const Expr& d, const Expr& position, const Expr& head, const Expr& part,
                          const Expr& b) const {
    const gradient_term& term = plan_.terms[summed_[summed]];
    const Expr first = first_row(summed);
    const auto at = [&](const Expr& row, const Expr& key_head, const Expr& of_part) {
        return sums_(d, first + row, (b * f_.inputs.key_heads + key_head) * parts_ + of_part);
    };
    if (term.is == form::product && !term.at_query) return at(position, head, part);
    const Expr key_head = f_.inputs.key_head(head), in_group = clamp(head - key_head * group_, 0, group_ - 1);
    if (term.is == form::by_column) return at(in_group * key_blocks_ * block_ + position, key_head, part);
    const Expr block = position / block_;
    return at((in_group * blocks_of_part_ + block / most_parts) * block_ + position % block_, key_head,
              min(block % most_parts, parts_ - 1));
}

std::vector<Expr> backward_sweep::indices(const gradient_term& term, const place& at) const {
    const instruction& deposit = f_.node(term.deposit);
    const input_declaration& to = f_.graph().inputs[deposit.input];
    std::vector<Expr> all;
    for (int axis = to.rank - 1; axis >= 0; --axis) {
        const int argument = deposit.arguments[axis + 1];
        const Expr extent = f_.inputs.tensor(deposit.input).dim(to.rank - 1 - axis).extent();
        if (to.axes[axis].kind == axis_kind::key_head && f_.node(argument).op == operation::h)
            all.push_back(f_.inputs.key_head(at.h));
        else
            all.push_back(clamp(f_.evaluate(argument, at).value, 0, extent - 1));
    }
    return all;
}

/// Adds what a term has of each query, or of each key and part, where its index says: one after the other.
void backward_sweep::add_placed(Func gradient, std::size_t number) {
    const gradient_term& term = plan_.terms[number];
    const bool by_column = term.is == form::by_column;
    const std::size_t summed = static_cast<std::size_t>(std::ranges::find(summed_, number) - summed_.begin());
    // Algorithm
    const RDom each({{0, by_column ? f_.inputs.key_length : f_.inputs.query_length},
                     {0, by_column ? parts_ : Expr(1)},
                     {0, f_.inputs.heads},
                     {0, f_.inputs.batches}},
                    "each_placed");
    const place at{each[3], each[2], each[0], each[0], f_.inputs.keys_in_use(each[3])};
    Expr value;
    if (term.is == form::of_row) {
        const quantity x = f_.evaluate(term.value, at);
        value = x.masked.defined() ? select(x.masked, 0.0f, x.value) : x.value;
    } else {
        value = made(summed, 0, each[0], each[2], each[1], each[3]);
    }
    gradient(indices(term, at)) += value;
}

void backward_sweep::define_outputs() {
    for (std::size_t output = 0; output < f_.graph().outputs.size(); ++output) {
        std::vector<std::size_t> terms;
        for (std::size_t term = 0; term < plan_.terms.size(); ++term)
            if (plan_.terms[term].output == output) terms.push_back(term);
        const auto is_product = [&](std::size_t term) { return plan_.terms[term].is == form::product; };
        const std::string name(f_.graph().outputs[output].name);
        Func gradient("gradient_" + name);
        if (std::ranges::all_of(terms, is_product)) {
            // Algorithm: the parts' sums, in order
            const bool at_query = plan_.terms[terms.front()].at_query;
            const RDom part(0, at_query ? Expr(1) : parts_, "part");
            Expr sum;
            for (const std::size_t term : terms) {
                const auto summed = static_cast<std::size_t>(std::ranges::find(summed_, term) - summed_.begin());
                const Expr x = made(summed, f_.d, i_, f_.h, part, f_.b);
                sum = sum.defined() ? sum + x : x;
            }
            gradient(f_.d, i_, f_.h, f_.b) = 0.0f;
            gradient(f_.d, i_, f_.h, f_.b) += sum;
            const axis_kind channels =
                f_.graph().inputs[f_.node(plan_.terms[terms.front()].deposit).input].axes[3].kind;
            products_.push_back({gradient, channels == axis_kind::depth ? f_.depth() : f_.value_depth()});
        } else {
            // Algorithm
            const input_declaration& to = f_.graph().inputs[f_.node(plan_.terms[terms.front()].deposit).input];
            std::vector<Var> axes;
            for (int axis = 0; axis < to.rank; ++axis) axes.emplace_back("axis_" + std::to_string(axis));
            gradient(axes) = 0.0f;
            for (const std::size_t term : terms) {
                if (is_product(term))
                    throw std::runtime_error("attune makes no kernel for the gradient \"" + name +
                                             "\" yet: the tensor is read in two ways");
                add_placed(gradient, term);
            }
        }
        outputs.push_back(gradient);
    }
}

}  // namespace attune::generators
