#include "stages/pair_block.hpp"

#include <attune/ir/projections.hpp>

#include <algorithm>
#include <set>

namespace attune::generators::inline stages {
using namespace Halide;

backward_tasks::backward_tasks(const kernel_frame& f)
    : block(f.cut.query_block),
      key_blocks(f.key_blocks()),
      query_blocks((f.inputs.query_length + block - 1) / block),
      group(f.group()),
      key_heads(max(f.inputs.key_heads, 1)) {
    if (f.request.on_gpu()) {
        parts = 1, blocks_of_part = query_blocks;
        return;
    }
    const Expr wanted = (tasks_of_batch_element + key_heads - 1) / key_heads;
    parts = clamp(query_blocks / fewest_blocks_of_part, 1, wanted);
    blocks_of_part = (query_blocks + parts - 1) / parts;
}

namespace {

bool multiplies_pairs(const kernel_plan& planned) {
    const auto* sweep = std::get_if<sweep_plan>(&planned.body);
    return sweep && made_by<bf16_pairs>(sweep->how);
}

}  // namespace

pair_block::pair_block(kernel_frame& f, const backward_tasks& tasks, const std::vector<int>& wanted,
                       const std::vector<gradient_sum>& sums, const std::map<int, quantity>& kept)
    : known(kept),
      of_sides(kept),
      tasks(tasks),
      wanted(wanted),
      in_pairs(multiplies_pairs(f.planned())),
      f_(f),
      further_(contractions_under(f.graph(), f.depends, wanted)) {
    part = f_.b % tasks.parts;
    batch = f_.b / tasks.parts / tasks.key_heads;
    head = f_.b / tasks.parts % tasks.key_heads * tasks.group + f_.h;
    // Algorithm
    keys_in_use(f_.b) = f_.inputs.keys_in_use(batch);
    last_key(f_.b) = max(f_.inputs.keys_in_use(batch), 1) - 1;
    std::vector<int> formulas;
    for (const int tensor : {f_.core.query, f_.core.key})
        if (tensor >= 0 && f_.node(tensor).op != operation::input && !f_.inputs.computed.contains(tensor))
            formulas.push_back(f_.node(tensor).arguments[0]);
    for (const further_contraction& each : further_) formulas.push_back(each.of_query), formulas.push_back(each.of_key);
    for (const gradient_sum& sum : sums)
        if (sum.rows >= 0) formulas.push_back(sum.rows);
    hoist(formulas);
    define_contractions();
    hoist(wanted);
    if (!f_.request.on_gpu()) transpose_pairs();
    define_tiles(sums);
}

place pair_block::at_pair() const { return {batch, head, query_at(f_.qi), f_.key_at(f_.ki), keys_in_use(f_.b), known}; }

Expr pair_block::beyond() const {
    return f_.key_at(f_.ki) >= keys_in_use(f_.b) || query_at(f_.qi) >= f_.inputs.query_length;
}

Expr pair_block::query_at(const Expr& position) const { return (f_.qt * tasks.parts + part) * tasks.block + position; }
Expr pair_block::query_read(const Expr& position) const {
    return clamp(query_at(position), 0, f_.inputs.query_length - 1);
}
Expr pair_block::key_read(const Expr& position) const { return min(f_.key_at(position), last_key(f_.b)); }

bool pair_block::is_plain_row_of(const Type& type, int node, int channel) const {
    const instruction& it = f_.node(node);
    if (it.op == operation::load && is_formed(f_.node(it.arguments[0]).op)) return type == Float(32);
    return is_plain_row(f_.graph(), node, channel) &&
           f_.inputs.tensor(f_.node(f_.node(node).arguments[0]).input).type() == type;
}

/// The value of a query's or a key's formula at a position in the block at hand.
quantity pair_block::formula(int node, bool of_query, const Expr& position, place where) const {
    const Expr at = of_query ? query_read(position) : key_read(position);
    where.b = batch, where.h = head, where.q = where.k = at, where.key_limit = keys_in_use(f_.b), where.known = known;
    return f_.evaluate(node, where);
}

/// An element of a tensor (batch, head or key_head, position, channel), an input or a formula of it, for the head at
/// hand.
Expr pair_block::element(int tensor, const Expr& d, bool of_query, const Expr& position) const {
    if (const auto computed = f_.inputs.computed.find(tensor); computed != f_.inputs.computed.end())
        return computed->second(d, of_query ? query_read(position) : key_read(position), head, batch);
    if (f_.node(tensor).op != operation::input) {
        place where;
        where.d = d;
        return formula(f_.node(tensor).arguments[0], of_query, position, where).value;
    }
    return cast<float>(stored(f_.node(tensor).input, d, of_query, position));
}

/// An element of an input, as it is stored.
Expr pair_block::stored(int input, const Expr& d, bool of_query, const Expr& position) const {
    const bool grouped = f_.graph().inputs[input].axes[1].kind == axis_kind::key_head;
    return f_.inputs.tensor(input)(d, of_query ? query_read(position) : key_read(position),
                                   grouped ? f_.inputs.key_head(head) : head, batch);
}

/// The tensor of which a factor is an element as it lies; -1: it is none.
int pair_block::tensor_of_row(int node, int channel) const {
    return is_plain_row(f_.graph(), node, channel) ? f_.node(node).arguments[0] : -1;
}

/// The value of a formula of a query's or a key's channel, at a position in the block at hand.
Expr pair_block::factor(int node, int channel, const Expr& d, bool of_query, const Expr& position) const {
    if (is_plain_row_of(Float(32), node, channel)) return element(f_.node(node).arguments[0], d, of_query, position);
    place where;
    where.indices[channel] = d;
    const quantity x = formula(node, of_query, position, where);
    return x.masked.defined() ? select(x.masked, 0.0f, x.value) : x.value;
}

void pair_block::define_contraction(contraction c, const channel_of& of_query, const channel_of& of_key,
                                    bool keys_as_they_lie) {
    const std::string name = std::to_string(c.node);
    // Algorithm
    c.rows = Func("rows_of_queries_" + name), c.panel = Func("queries_panel_" + name), c.sums = Func("sums_" + name),
    c.whole = Func("products_whole_" + name);
    c.channels = RDom(0, c.depth, "channels_" + name);
    c.rows(in_panel, f_.qi, f_.qt, f_.h, f_.b) = of_query(in_panel, f_.qi);
    c.panel(f_.qi, in_panel, f_.qt, f_.h, f_.b) = c.rows(in_panel, f_.qi, f_.qt, f_.h, f_.b);
    Expr key = of_key(c.channels, f_.ki);
    if (!keys_as_they_lie || f_.request.on_gpu()) {
        c.keys = Func("keys_" + name);
        c.keys(in_panel, f_.ki, f_.kb, f_.h, f_.b) = of_key(in_panel, f_.ki);
        key = c.keys(c.channels, f_.ki, f_.kb, f_.h, f_.b);
    }
    c.sums(pair_) = 0.0f;
    c.sums(pair_) += c.panel(f_.qi, c.channels, f_.qt, f_.h, f_.b) * key;
    enter(c);
}

/// Decides where the sums of a contraction are kept.
void pair_block::enter(contraction c) {
    // How many tiles read it: one makes its sums where it uses them.
    std::set<int> ends{f_.core.contraction};
    for (const further_contraction& each : further_) ends.insert(each.node);
    int readers = 0;
    for (const int tile : wanted) {
        const auto reached =
            under(f_.graph(), {tile}, [&](int n) { return ends.contains(n) || (n != tile && is_read_again(n)); });
        if (reached[static_cast<std::size_t>(c.node)]) ++readers, c.reader = tile;
    }
    c.is_kept = readers > 1;
    c.whole(pair_) = c.sums(pair_);
    known[c.node] = {c.is_kept ? c.whole(pair_) : c.sums(pair_), {}};
    contractions.push_back(c);
}

void pair_block::define_contractions() {
    const auto tensor = [&](int node, bool of_query) {
        return [this, node, of_query](const Expr& d, const Expr& position) {
            return element(node, d, of_query, position);
        };
    };
    const auto input_of = [&](int row) { return f_.node(f_.node(row).arguments[0]).input; };
    if (f_.core.contraction >= 0 && in_pairs) {
        define_contraction_in_pairs(f_.core.contraction, f_.depth(), f_.node(f_.core.query).input,
                                    f_.node(f_.core.key).input);
    } else if (f_.core.contraction >= 0) {
        const instruction& key = f_.node(f_.core.key);
        const bool as_it_lies = f_.inputs.computed.contains(f_.core.key) ||
                                (key.op == operation::input && f_.inputs.tensor(key.input).type() == Float(32));
        contraction c;
        c.node = f_.core.contraction, c.depth = f_.depth(), c.of_query = f_.core.query, c.of_key = f_.core.key;
        define_contraction(c, tensor(f_.core.query, true), tensor(f_.core.key, false), as_it_lies);
    }
    for (const further_contraction& each : further_) {
        const int channel = static_cast<int>(f_.node(each.index).integer);
        const Expr depth = Internal::simplify(max(f_.evaluate(each.extent, {}).value, 0));
        if (in_pairs && is_plain_row_of(BFloat(16), each.of_query, channel) &&
            is_plain_row_of(BFloat(16), each.of_key, channel)) {
            define_contraction_in_pairs(each.node, depth, input_of(each.of_query), input_of(each.of_key));
            continue;
        }
        const auto formula = [&](int node, bool of_query) {
            return [this, node, channel, of_query](const Expr& d, const Expr& position) {
                return factor(node, channel, d, of_query, position);
            };
        };
        contraction c;
        c.node = each.node, c.depth = depth;
        c.of_query = tensor_of_row(each.of_query, channel), c.of_key = tensor_of_row(each.of_key, channel);
        define_contraction(c, formula(each.of_query, true), formula(each.of_key, false),
                           is_plain_row_of(Float(32), each.of_key, channel));
    }
}

/// The place at which a number of a query alone, or of a key alone, is evaluated.
place pair_block::of_side() const { return {batch, head, query_read(f_.qi), key_read(f_.ki), keys_in_use(f_.b)}; }

/// A sum over the channels of rows, such as that of dout and out. Positions in lanes would gather each number; instead,
/// rows are read as they lie, and turned. Terms are added in the order of the products of pairs: if a query sees one
/// key, both sums are equal to the last bit, and nothing is passed back. Undefined if the node is no such sum.
Expr pair_block::sum_of_rows(int node, const std::vector<Var>& over, hoisted_number& of) const {
    const instruction& it = f_.node(node);
    if (it.op != operation::sum || it.kind != kind::real) return {};
    const int index = static_cast<int>(f_.node(it.arguments[0]).integer);
    const auto count = as_const_int(Internal::simplify(f_.evaluate(it.arguments[1], {}).value));
    if (!count || *count % 4 != 0) return {};  // in squares, of four numbers at least
    place where = of_side();
    where.extents[index] = it.arguments[1];
    const RDom channels(0, static_cast<int>(*count), "channels_" + std::to_string(node));
    std::vector<Var> row = over;
    row.insert(row.begin(), in_panel);
    const std::vector<bool> under_it = under(f_.graph(), {it.arguments[2]}, [](int) { return false; });
    for (int n = 0; n < static_cast<int>(under_it.size()); ++n) {
        const instruction& load = f_.node(n);
        if (!under_it[static_cast<std::size_t>(n)] || load.op != operation::load || load.kind != kind::real) continue;
        const instruction& last = f_.node(load.arguments[load.argument_count - 1]);
        const bool is_row = last.op == operation::bound && static_cast<int>(last.integer) == index;
        if (!is_row || f_.node(load.arguments[0]).op != operation::input) continue;
        where.indices[index] = in_panel;
        const quantity element = f_.evaluate(n, where);
        if (element.masked.defined()) continue;
        // Algorithm
        Func lies("lies_" + std::to_string(n)), turned("turned_" + std::to_string(n));
        lies(row) = element.value;
        std::vector<Var> positions_first = row;
        std::swap(positions_first[0], positions_first[1]);
        turned(positions_first) = lies(std::vector<Expr>(row.begin(), row.end()));
        of.rows.push_back({lies, turned});
        std::vector<Expr> at{positions_first.begin(), positions_first.end()};
        at[1] = channels;
        where.known[n] = {turned(at), {}};
    }
    where.indices[index] = channels;
    const quantity x = f_.evaluate(it.arguments[2], where);
    if (of.rows.empty() || x.masked.defined()) return {};
    // Algorithm
    of.sum = Func("sum_" + std::to_string(node)), of.channels = channels;
    of.sum(over) = 0.0f;
    of.sum(over) += x.value;
    return of.sum(std::vector<Expr>(over.begin(), over.end()));
}

/// Computes costly numbers that depend on the query alone, the key alone or neither once a block.
void pair_block::hoist(const std::vector<int>& roots) {
    std::vector<int> before;
    for (const auto& [n, value] : known) before.push_back(n);
    for (const auto& [n, tensor] : f_.inputs.computed) before.push_back(n);
    for (const int n : hoistable(f_.graph(), f_.depends, roots, before)) {
        const bool of_query = f_.depends[n].query, of_key = f_.depends[n].key;
        std::vector<Var> over{f_.h, f_.b};
        if (of_query) over.insert(over.begin(), {f_.qi, f_.qt});
        if (of_key) over.insert(over.begin(), {f_.ki, f_.kb});
        hoisted_number number{.of_query = of_query, .of_key = of_key};
        const bool by_vectors = of_query != of_key && !f_.request.on_gpu();
        const Expr sum = by_vectors ? sum_of_rows(n, over, number) : Expr();
        const quantity x = sum.defined() ? quantity{sum, {}} : f_.evaluate(n, of_side());
        if (is_const(x.value)) continue;
        const kept_number kept("hoisted_" + std::to_string(n), x, over);
        known[n] = of_sides[n] = kept.at({over.begin(), over.end()});
        number.values = kept.values;
        hoisted.push_back(number);
    }
}

void pair_block::transpose_pairs() {
    std::vector<int> before;
    for (const auto& [n, value] : known) before.push_back(n);
    const place at = at_pair();
    for (const int n : loads_of_pairs(f_.graph(), f_.depends, wanted, before)) {
        transposed.emplace_back(f_, n, at, pair_, "read_");
        known[n] = transposed.back().number;
    }
}

/// Whether later tiles may reuse this tile's stored values. Masked pairs are stored as 0, which is right for factors.
/// Scores carry an explicit mask, so they are not reused.
bool pair_block::is_read_again(int node) const {
    return f_.node(node).kind != kind::scores && std::ranges::find(wanted, node) != wanted.end();
}

bool pair_block::is_short(int tile) const {
    constexpr int most_functions = 2;  // the weight's and a cap's, for example
    const std::vector<bool> read = under(f_.graph(), {tile}, [&](int n) { return n != tile && is_read_again(n); });
    int functions = 0;
    for (int n = 0; n < static_cast<int>(read.size()); ++n) {
        const family of = family_of(f_.node(n).op);
        const bool costs = of == family::function || of == family::function_of_two || of == family::random;
        const bool of_pair = f_.depends[n].score || (f_.depends[n].query && f_.depends[n].key);
        if (read[static_cast<std::size_t>(n)] && costs && of_pair) ++functions;
    }
    return functions <= most_functions;
}

/// The numbers of pairs that are summed; 0 if a pair is hidden, whatever its formula gives.
void pair_block::define_tiles(const std::vector<gradient_sum>& sums) {
    for (const int node : wanted) {
        const quantity x = f_.evaluate(node, at_pair());
        // Algorithm
        Func pairs("pairs_" + std::to_string(node));
        const Expr number = select(x.masked.defined() ? beyond() || x.masked : beyond(), 0.0f, x.value);
        const bool multiplies = std::ranges::any_of(sums, [&](const gradient_sum& sum) { return sum.pairs == node; });
        pairs(pair_) = in_pairs && multiplies ? rounded(number) : number;
        tiles[node] = pairs;
        if (is_read_again(node)) known[node] = made_of_pairs(cast<float>(pairs(pair_)));
    }
}

pair_block::channel_of pair_block::rows(const gradient_sum& sum, int width) {
    if (sum.rows < 0) return [](const Expr&, const Expr&) { return Expr(1.0f); };
    const bool of_query = !sum.of_queries;
    const int depth = sum.of_values ? f_.value_depth() : f_.depth();
    if (in_pairs)  // read where a row is not finite
        return [this, sum, of_query, depth, width](const Expr& d, const Expr& position) {
            const int input = f_.node(f_.node(sum.rows).arguments[0]).input;
            const Expr x = cast<float>(stored(input, depth == width ? d : min(d, depth - 1), of_query, position));
            return depth == width ? x : select(d < depth, x, 0.0f);
        };
    if (f_.request.on_gpu()) {
        const int tensor = tensor_of_row(sum.rows, sum.channel);
        for (const contraction& c : contractions)
            if (tensor >= 0 && tensor == (of_query ? c.of_query : c.of_key))
                return [this, panel = c.panel, keys = c.keys, of_query](const Expr& d, const Expr& position) -> Expr {
                    if (of_query) return panel(position, d, f_.qt, f_.h, f_.b);
                    return keys(d, position, f_.kb, f_.h, f_.b);
                };
    } else if (is_plain_row_of(Float(32), sum.rows, sum.channel) && depth == width)
        return [this, sum, of_query](const Expr& d, const Expr& position) {
            return factor(sum.rows, sum.channel, d, of_query, position);
        };
    const Var i = of_query ? f_.qi : f_.ki, block = of_query ? f_.qt : f_.kb;
    // Algorithm
    Func rows_copy("rows_" + std::to_string(sum.rows));
    rows_copy(f_.d, i, block, f_.h, f_.b) =
        select(f_.d < depth, factor(sum.rows, sum.channel, min(f_.d, depth - 1), of_query, i), 0.0f);
    copies.push_back({rows_copy, width, of_query});
    return [this, rows_copy, block](const Expr& d, const Expr& position) {
        return rows_copy(d, position, block, f_.h, f_.b);
    };
}

}  // namespace attune::generators::inline stages
