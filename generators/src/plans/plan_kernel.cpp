#include "plans/kernel_plan.hpp"

#include "analysis/gradient_products.hpp"
#include "analysis/narrow_rows.hpp"
#include "kernel/gradient_schedule.hpp"
#include "kernel/tensor_schedule.hpp"
#include "plans/parts.hpp"

#include <attune/ir/outputs_problem.hpp>
#include <attune/ir/projections.hpp>
#include <attune/ir/recurrence.hpp>

#include <algorithm>
#include <functional>
#include <numeric>
#include <stdexcept>

namespace attune::generators::inline plans {
namespace {

/// The passes of cores that keep something of a row.
template <class Cut> std::vector<key_pass> passes_of(const Cut& cut, const kernel_request& request) {
    std::vector<key_pass> all;
    const std::vector<const plan*> cores = request.core().cores();
    for (std::size_t i = 0; i < cores.size(); ++i) {
        if (i == 0 && !cores[i]->needs_state()) continue;
        all.push_back(pass_of(cut, request, *cores[i]));
        all.back().core = static_cast<int>(i);
    }
    return all;
}

/// For each core the first core whose tasks it shares: both read rows of one tensor, and leave equally many numbers of
/// each row.
std::vector<int> shared_tasks(const std::vector<key_pass>& passes, const kernel_request& request) {
    const graph_ir& graph = request.graph();
    const std::vector<const plan*> cores = request.core().cores();
    const auto rows_of = [&](const key_pass& pass) {
        const plan& core = *cores[static_cast<std::size_t>(pass.core)];
        std::vector<int> tensors{core.key};
        if (core.value >= 0) tensors.push_back(core.value);
        std::vector<bool> read = under(graph, tensors);
        for (std::size_t n = 0; n < read.size(); ++n) {
            const instruction& node = graph.nodes[n];
            read[n] = read[n] && node.op == operation::input &&
                      has_dense_rows(graph.inputs[static_cast<std::size_t>(node.input)]);
        }
        return read;
    };
    const auto fit = [&](const key_pass& one, const key_pass& other) {
        const auto width = [](const key_pass& pass) { return pass.values ? pass.values->vector : 1; };
        const auto chunks = [&](const key_pass& pass) {
            return pass.values ? request.depths.value_depth / pass.values->chunk : 1;
        };
        if (one.row.numbers() != other.row.numbers() || width(one) != width(other) || chunks(one) != chunks(other))
            return false;
        const std::vector<bool> here = rows_of(one), there = rows_of(other);
        for (std::size_t n = 0; n < here.size(); ++n)
            if (here[n] && there[n]) return true;
        return false;
    };
    std::vector<int> tasks;
    for (std::size_t i = 0; i < passes.size(); ++i) {
        int task = static_cast<int>(i);
        for (std::size_t before = 0; before < i; ++before)
            if (fit(passes[before], passes[i])) task = std::min(task, tasks[before]);
        tasks.push_back(task);
    }
    return tasks;
}

template <class Cut> auto body_of(const Cut& cut, const kernel_request& request) {
    const block_grid grid = grid_of(request.schedule, request.facts->hides);
    if constexpr (Cut::shapes == shape_class::decode) {
        decode_plan body{.grid = grid, .cores = passes_of(cut, request), .splits = cut.key_splits};
        body.tasks = shared_tasks(body.cores, request);
        return body;
    } else {
        return prefill_plan{grid, passes_of(cut, request)};
    }
}

prefill_plan body_of(const gpu_tensor_prefill& cut, const kernel_request& request) {
    prefill_plan body{grid_of(request.schedule, request.facts->hides), passes_of(cut, request)};
    if (marks_tasks(request)) body.again = schedule_of_marked_tasks(request);
    return body;
}

decode_plan body_of(const gpu_tensor_decode& cut, const kernel_request& request) {
    decode_plan body{.grid = grid_of(request.schedule, request.facts->hides),
                     .cores = passes_of(cut, request),
                     .splits = cut.key_splits};
    body.tasks = shared_tasks(body.cores, request);
    if (marks_tasks(request)) body.again = schedule_of_marked_tasks(request);
    return body;
}

sweep_plan body_of(const cpu_gradient& cut, const kernel_request& request) {
    const graph_facts& facts = *request.facts;
    const gradient_plan& gradient = *facts.gradient;
    const sum_layout layout(request);
    sweep_plan body{.grid = grid_of(request.schedule, facts.hides),
                    .how = of_pairing(cut.pairing),
                    .queries = cut.query_tile,
                    .keys = cut.key_tile,
                    .sum_rows = cut.sum_rows,
                    .sum_channels = cut.sum_channels,
                    .tiles = gradient.tiles,
                    .width = layout.width};
    body.sums = static_cast<int>(gradient.sums.size());
    body.flat_sums = static_cast<int>(
        std::ranges::count_if(gradient.sums, [&](const gradient_sum& sum) { return layout.is_flat(sum); }));
    for (const gradient_term& term : gradient.terms) {
        if (term.is == gradient_term::form::copied)
            ++body.copied;
        else if (term.is == gradient_term::form::by_pair)
            ++body.by_pair;
        else if (product_of(facts.graph, facts.depends, gradient, term))
            ++body.multiplied;
        else
            ++body.placed;
    }
    return body;
}

side_passes_plan body_of(const gpu_gradient& cut, const kernel_request& request) {
    const gradient_plan& gradient = *request.facts->gradient;
    side_passes_plan body{
        .grid = grid_of(request.schedule, request.facts->hides), .queries = cut.query_tile, .keys = cut.key_tile};
    // Sums of keys that are those of a query head have a pass beside those that add up the heads of a group.
    for (const auto& [of_queries, adds_heads] : {std::pair(true, false), {false, true}, {false, false}}) {
        const side_threads threads(cut, request.depths, of_queries);
        side_plan side{
            .of_queries = of_queries, .adds_heads = adds_heads, .across = threads.across, .channels = threads.channels};
        for (std::size_t number = 0; number < gradient.sums.size(); ++number) {
            const gradient_sum& sum = gradient.sums[number];
            if (sum.of_queries == of_queries && (of_queries || sum.per_head != adds_heads)) side.sums.push_back(number);
        }
        for (const int tile : gradient.tiles)
            if (std::ranges::any_of(side.sums, [&](std::size_t sum) { return gradient.sums[sum].pairs == tile; }))
                side.tiles.push_back(tile);
        if (!side.sums.empty()) body.sides.push_back(std::move(side));
    }
    for (const gradient_term& term : gradient.terms)
        ++(term.is == gradient_term::form::copied    ? body.copied
           : term.is == gradient_term::form::by_pair ? body.by_pair
                                                     : body.placed);
    return body;
}

/// Whether a token's row reads tensors' channels as they lie.
bool reads_channels(const graph_ir& graph, int row) {
    const std::vector<bool> read = under(graph, {row});
    for (std::size_t n = 0; n < read.size(); ++n) {
        const instruction& it = graph.nodes[n];
        if (!read[n] || it.op != operation::load) continue;
        const auto node = [&](node_id of) { return graph.nodes[of].op; };
        if (node(it.arguments[0]) == operation::input && node(it.arguments[it.argument_count - 1]) == operation::d_idx)
            return true;
    }
    return false;
}

/// Whether a token's state depends on those before it by more than a decay.
bool solves(const graph_ir& graph, const recurrence_arguments& of) {
    return of.has_second_pair() || !is_constant(graph.nodes[of.erase], 0);
}

std::vector<chunk_plan::fetched_rows> fetched_rows_of(const kernel_request& request, const recurrence_arguments& of) {
    const graph_ir& graph = request.graph();
    std::vector<chunk_plan::fetched_rows> all;
    const auto add = [&](int node, std::string_view are) {
        const bool known = std::ranges::find(all, node, &chunk_plan::fetched_rows::node) != all.end();
        if (node >= 0 && !known && reads_channels(graph, node)) all.push_back({node, are});
    };
    add(of.key, "keys"), add(of.value, "values");
    if (solves(graph, of)) add(of.read, "rows that erase");
    add(of.second_key, "second keys"), add(of.second_read, "second rows that read");
    if (request.facts->depends[static_cast<std::size_t>(of.decay)].channel) add(of.decay, "decays");
    for (const instruction& it : graph.nodes)
        if (it.op == operation::read_states) add(it.arguments[0], "rows of outputs");
    return all;
}

chunk_plan body_of(const cpu_recurrence& cut, const kernel_request& request) {
    const graph_ir& graph = request.graph();
    const recurrence_arguments of = form_of_recurrence(graph.nodes);
    return {.grid = grid_of(request.schedule, request.facts->hides),
            .tokens = cut.block,
            .rows = cut.rows,
            .vectors = cut.vectors,
            .solves = solves(graph, of),
            .by_channels = request.facts->depends[static_cast<std::size_t>(of.decay)].channel,
            .fetched = cut.block > 1 && !is_gradient_of_recurrence(graph.nodes)
                           ? fetched_rows_of(request, of)
                           : std::vector<chunk_plan::fetched_rows>{}};
}

pair_shape shape_of(kind output) {
    return output == kind::column      ? pair_shape::columns
           : output == kind::head_mean ? pair_shape::head_means
                                       : pair_shape::pairs;
}

/// A second pass over the scores, keys in lanes; on a GPU each thread makes pairs one by one.
std::vector<pair_outputs> pairs_of(const kernel_request& request) {
    std::vector<pair_outputs> all;
    const plan& core = request.core();
    if (request.facts->gradient) return all;
    for (const pair_shape shape : {pair_shape::pairs, pair_shape::head_means, pair_shape::columns}) {
        std::vector<int> nodes;
        for (std::size_t i = 0; i < core.outputs.size(); ++i)
            if (const kind what = core.outputs[i]; attune::detail::is_of_pairs(what) && shape_of(what) == shape)
                nodes.push_back(request.graph().outputs[i].node);
        if (nodes.empty()) continue;
        score_plan scores = scores_along(score_plan::lanes::keys, request, core);
        scores.queries = scores.keys = 1;
        if (const auto* cut = std::get_if<cpu_prefill>(&request.schedule)) {
            scores.queries = std::gcd(cut->query_block, cut->lanes >= 16 ? 12 : 6);
            scores.keys = std::gcd(cut->key_block, 2 * cut->lanes);
            scores.unroll = cut->depth_unroll;
        }
        all.push_back({shape, std::move(nodes), std::move(scores)});
    }
    return all;
}

/// Sorts the tensors that are computed in full into those that read the attention's results and those that do not.
void add_computed(kernel_plan& made, const graph_ir& graph) {
    std::vector<bool> after(graph.nodes.size());
    for (std::size_t n = 0; n < after.size(); ++n) {
        const instruction& it = graph.nodes[n];
        after[n] = it.kind == kind::output;
        for (std::size_t i = 0; i < it.argument_count; ++i)
            after[n] = after[n] || after[static_cast<std::size_t>(it.arguments[i])];
        if (it.kind == kind::precomputed)
            made.precomputed.push_back(
                {static_cast<int>(n), codes_made_before(graph, static_cast<int>(n)).has_value()});
    }
    for (const int n : computed_in_full(graph))
        (after[static_cast<std::size_t>(n)] ? made.after : made.before).push_back(n);
}

maker maker_of(kind output, bool of_chunk) {
    if (of_chunk) return output == kind::last_state ? maker::state : maker::chunk;  // the state behind all rows
    switch (output) {
        case kind::output:
        case kind::row: return maker::rows;
        case kind::scores:
        case kind::weights: return maker::pairs;
        case kind::head_mean: return maker::head_means;
        case kind::column: return maker::columns;
        case kind::tokens: return maker::tokens;
        case kind::precomputed: return maker::precomputed;
        case kind::gradient: return maker::sweep;
        case kind::tensor:
        case kind::transposed:
        case kind::integer:
        case kind::real:
        case kind::condition:
        case kind::state:
        case kind::states:
        case kind::last_state: break;
    }
    throw std::logic_error("no part of a kernel makes an output of that kind");
}

/// The parts make their values one part after the other, each in the graph's order; the saved values follow those of
/// the rows.
void add_outputs(kernel_plan& made, const kernel_request& request) {
    const plan& core = request.core();
    for (std::size_t i = 0; i < core.outputs.size(); ++i)
        made.outputs.push_back(
            {request.graph().outputs[i].node, maker_of(core.outputs[i], is_for_recurrence(request.schedule))});
    int values = 0;
    for (const maker part : {maker::rows, maker::pairs, maker::head_means, maker::columns, maker::tokens,
                             maker::precomputed, maker::sweep, maker::chunk, maker::state}) {
        for (output_plan& each : made.outputs)
            if (each.by == part) each.place = values++;
        if (part != maker::rows) continue;
        for (int i = 0; i < core.saved_rows + (core.saved_output >= 0 ? 1 : 0); ++i) made.saved.push_back(values++);
    }
}

}  // namespace

block_grid grid_of(const schedule& s, masking hides) {
    constexpr int smallest = 16;  // keys of a sub-block
    const auto [queries, keys] = blocks_of(s);
    block_grid grid{.queries = queries, .keys = keys, .hides = hides};
    const auto* decode = std::get_if<cpu_decode>(&s);
    const auto* prefill = std::get_if<cpu_prefill>(&s);
    if ((!decode && !prefill) || is_tiled(s)) return grid;
    const int tile = decode                ? std::lcm(decode->keys_of_step(), decode->value_tile)
                     : multiplies_codes(s) ? std::lcm(prefill->key_tile, bytes_of_word)
                                           : prefill->key_tile * prefill->pairing;
    for (int count = block_grid::most_subblocks; count > 1 && grid.subblocks == 1; --count)
        if (keys % (count * tile) == 0 && keys / count >= smallest) grid.subblocks = count;
    return grid;
}

kernel_plan plan_kernel(const kernel_request& request) {
    refuse_without_kernel(request);
    kernel_plan made{
        .on_gpu = request.on_gpu(),
        .body = std::visit([&](const auto& cut) -> decltype(kernel_plan::body) { return body_of(cut, request); },
                           request.schedule),
        .pairs = pairs_of(request)};
    add_computed(made, request.graph());
    add_outputs(made, request);
    made.passes = passes_of(made, request);
    made.bytes = bytes_of(made, request);
    return made;
}

const block_grid& kernel_plan::grid() const {
    return std::visit([](const auto& of) -> const block_grid& { return of.grid; }, body);
}

std::vector<int> kernel_plan::places() const {
    std::vector<int> all;
    for (const output_plan& each : outputs) all.push_back(each.place);
    all.insert(all.end(), saved.begin(), saved.end());
    return all;
}

std::vector<const key_pass*> kernel_plan::passes_over_keys() const {
    std::vector<const key_pass*> all;
    std::visit(
        [&](const auto& of) {
            if constexpr (requires { of.cores; })
                for (const key_pass& each : of.cores) all.push_back(&each);
        },
        body);
    return all;
}

const key_pass& kernel_plan::pass_of(int core) const {
    for (const key_pass* each : passes_over_keys())
        if (each->core == core) return *each;
    throw std::logic_error("expected an attention core that keeps something of a row, got core " +
                           std::to_string(core));
}

}  // namespace attune::generators::inline plans
