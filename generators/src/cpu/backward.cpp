#include "cpu/backward.hpp"

#include <algorithm>
#include <numeric>

namespace attune::generators::inline cpu {
using namespace Halide;

namespace {

/// Blocks of a chunk: its keys, values and their sums stay in a cache of 512 KB.
int blocks_of_chunk(const sum_layout& layout) {
    constexpr int in_cache = 512 * 1024, float_bytes = 4;
    return std::clamp(in_cache / (4 * layout.block * layout.width * float_bytes), 1, 64);
}

/// Keys of the sub-blocks by which a block at the end of the keys is cut: whole tiles.
int keys_of_subblock(const cpu_gradient& cut) {
    const int keys = std::lcm(cut.key_tile, cut.sum_rows);
    return cut.block % keys == 0 && cut.block / keys <= 255 ? keys : cut.block;
}

}  // namespace

backward_sweep::backward_sweep(kernel_frame& frame)
    : gradient_terms(frame),
      layout(frame.request),
      subblock(keys_of_subblock(frame.schedule_as<cpu_gradient>())),
      pairs(frame, tasks, plan.tiles, plan.sums) {
    define_visits();
    if (!plan.sums.empty()) define_product(), define_sweep();
    define_outputs();
}

Expr backward_sweep::rows_of(const gradient_sum& sum) const {
    const int rows = layout.rows_of_block(sum);
    if (sum.of_queries) return tasks.group * tasks.blocks_of_part * rows;
    return (sum.per_head ? tasks.group * tasks.key_blocks : tasks.key_blocks) * rows;
}

Expr backward_sweep::first_row(std::size_t sum) const {
    Expr first = 0;
    for (std::size_t i = 0; i < sum; ++i) first = first + rows_of(plan.sums[i]);
    return first;
}

void backward_sweep::define_visits() {
    // Algorithm
    const Expr is_there = f_.kb < tasks.key_blocks && f_.qt < tasks.query_blocks;
    const Expr left = (f_.inputs.key_length - f_.kb * tasks.block + subblock - 1) / subblock;
    const Expr subblocks = cast<std::uint8_t>(clamp(left, 1, tasks.block / subblock));
    visits(f_.kb, f_.qt, f_.h, f_.b) =
        select(is_there && f_.visible(f_.core.scores).may, subblocks, cast<std::uint8_t>(0));
}

/// The keys, or queries, that the call still has from the start of a block.
Expr backward_sweep::left_of(bool of_queries, const Expr& key_block, const Expr& query_block) const {
    return of_queries ? f_.inputs.query_length - query_block * tasks.block
                      : f_.inputs.key_length - key_block * tasks.block;
}

/// The rows that a block of pairs adds to each sum.
void backward_sweep::define_product() {
    // Algorithm
    std::vector<pair_block::channel_of> rows;
    std::vector<Expr> others;  // on the other side
    for (const gradient_sum& sum : plan.sums) {
        rows.push_back(pairs.rows(sum, layout.width));
        others.push_back(left_of(!sum.of_queries, f_.kb, f_.qt * tasks.parts + pairs.part));
        if (sum.rows >= 0) scan(sum, rows.back());
    }
    const std::vector<Expr> at{f_.d, in_block, number, f_.kb, f_.qt, f_.h, f_.b};
    product(f_.d, in_block, number, f_.kb, f_.qt, f_.h, f_.b) = 0.0f;
    const auto add_up = [&](const RDom& over, bool look) {
        std::vector<Expr> factors;
        for (std::size_t i = 0; i < plan.sums.size(); ++i) {
            const Func& tile = pairs.tiles.at(plan.sums[i].pairs);
            const Expr query = layout.is_flat(plan.sums[i]) ? (in_block * layout.width + f_.d) % tasks.block : in_block;
            const Expr x = cast<float>(plan.sums[i].of_queries ? tile(query, over, f_.kb, f_.qt, f_.h, f_.b)
                                                               : tile(over, in_block, f_.kb, f_.qt, f_.h, f_.b));
            const Expr row = rows[i](f_.d, over.x);
            factors.push_back(x * (look ? masked_values::unless_masked(x, row) : row));
        }
        product(at) += one_of(factors, number);
    };
    const auto finite = [&](RDom& over) {
        if (!scanned.empty()) over.where(!some_spoilt());
    };
    if (pairs.in_pairs) {
        within = RDom({{0, 2}, {0, tasks.block / 2}}, "within");
        within.where(2 * within.y < one_of(others, number));
        finite(within);
        std::vector<Expr> numbers, multiplied;
        for (const gradient_sum& sum : plan.sums) {
            numbers.push_back(pairs.numbers_in_pairs(sum)(in_block, within.y, within.x));
            multiplied.push_back(pairs.rows_in_pairs(sum, layout.width)(f_.d, within.y, within.x));
        }
        product(at) += cast<float>(one_of(numbers, number)) * cast<float>(one_of(multiplied, number));
    } else {
        within = RDom(0, tasks.block, "within");
        within.where(within < one_of(others, number));
        finite(within);
        add_up(within, false);
    }
    if (scanned.empty()) return;
    looked_at = RDom(0, tasks.block, "looked_at");
    looked_at.where(looked_at < one_of(others, number));
    looked_at.where(some_spoilt());
    add_up(looked_at, true);
}

void backward_sweep::define_sweep() {
    const int count = static_cast<int>(plan.sums.size()), block = tasks.block, blocks = blocks_of_chunk(layout);
    const Expr chunks = (tasks.key_blocks + blocks - 1) / blocks;
    // Algorithm
    sweep = RDom({{0, layout.tile},
                  {0, block / layout.tile},
                  {0, count},
                  {0, blocks},
                  {0, tasks.blocks_of_part},
                  {0, chunks},
                  {0, tasks.group}},
                 "sweep");
    in_tile = sweep[0], tile = sweep[1], which = sweep[2], in_chunk = sweep[3], of_block = sweep[4], chunk = sweep[5],
    of_group = sweep[6];
    const Expr key_block = chunk * blocks + in_chunk, row = tile * layout.tile + in_tile;
    const auto here = [&](const Expr& of_task) {
        return substitute(std::map<std::string, Expr>{{f_.qt.name(), of_block}, {f_.h.name(), of_group}}, of_task);
    };
    const Expr query_block = here(f_.qt * tasks.parts + pairs.part);
    std::vector<Expr> own, places;
    for (std::size_t i = 0; i < plan.sums.size(); ++i) {
        const gradient_sum& sum = plan.sums[i];
        const Expr keys = min(key_block, tasks.key_blocks - 1);  // no block beyond them is visited
        const Expr at = sum.of_queries ? of_group * tasks.blocks_of_part + of_block
                        : sum.per_head ? of_group * tasks.key_blocks + keys
                                       : keys;
        places.push_back(first_row(i) + at * layout.rows_of_block(sum) + row);
        own.push_back(layout.is_flat(sum) ? Expr(layout.rows_of_block(sum))
                                          : left_of(sum.of_queries, key_block, query_block));
    }
    sweep.where(tile * layout.tile < one_of(own, which));
    sweep.where(visits(key_block, query_block, here(pairs.head), pairs.batch) != cast<std::uint8_t>(0));
    sums(f_.d, i, f_.b) = 0.0f;
    sums(f_.d, one_of(places, which), f_.b) += product(f_.d, row, which, key_block, of_block, of_group, f_.b);
}

/// Looks for elements that are not finite in the rows that a sum's numbers are multiplied by.
void backward_sweep::scan(const gradient_sum& sum, const pair_block::channel_of& rows) {
    const int lanes = lanes_of(f_.request.schedule);
    const bool of_query = !sum.of_queries;
    for (const scanned_rows& before : scanned)
        if (before.rows == sum.rows && before.of_query == of_query) return;
    // Algorithm
    const RDom each_vector({{0, layout.width / lanes}, {0, tasks.block}}, "each_vector");
    const std::vector<Var> block{of_query ? f_.qt : f_.kb, f_.h, f_.b};
    scanned.push_back({non_finite(lane, lanes, block, rows(each_vector.x * lanes + lane, each_vector.y)), each_vector,
                       sum.rows, of_query});
}

Expr backward_sweep::some_spoilt() const {
    Expr some = Internal::const_false();
    for (const scanned_rows& of : scanned)
        some = some || of.found.spoilt(of.of_query ? f_.qt : f_.kb, f_.h, f_.b) != cast<std::uint8_t>(0);
    return some;
}

/// A sum of the sweep at a query of a query head, or at a key in a part of the queries.
Expr backward_sweep::made(std::size_t number, const Expr& d, const Expr& position, const Expr& head, const Expr& part,
                          const Expr& b) const {
    const gradient_sum& sum = plan.sums[number];
    const Expr key_head = f_.inputs.key_head(head), in_group = clamp(head - key_head * tasks.group, 0, tasks.group - 1);
    const auto at = [&](const Expr& channel, const Expr& row, const Expr& of_part) {
        return sums(channel, row, tasks.number(b, key_head, of_part));
    };
    const Expr first = first_row(number);
    if (!sum.of_queries) {
        const Expr of_head = in_group * tasks.key_blocks * tasks.block + position;
        return at(d, first + (sum.per_head ? of_head : position), part);
    }
    // A part has every `parts`-th block of queries.
    const Expr block = position / tasks.block, parts = tasks.parts, in_block = position % tasks.block;
    const Expr row = first + (in_group * tasks.blocks_of_part + block / parts) * layout.rows_of_block(sum);
    if (layout.is_flat(sum)) return at(in_block % layout.width, row + in_block / layout.width, block % parts);
    return at(d, row + in_block, block % parts);
}

void backward_sweep::define_copied(std::size_t output, const std::vector<const gradient_term*>& terms) {
    const gradient_sum& any = plan.sums[terms.front()->sums.begin()->second];
    // Algorithm: the parts' sums, in order
    const RDom part(0, any.of_queries ? Expr(1) : tasks.parts, "part");
    const Expr head = any.of_queries ? Expr(f_.h) : f_.h * tasks.group;
    Expr sum;
    for (const gradient_term* term : terms) {
        const Expr x = made(term->sums.begin()->second, f_.d, i, head, part, f_.b);
        sum = sum.defined() ? sum + x : x;
    }
    Func gradient("gradient_" + std::string(f_.graph().outputs[output].name));
    gradient(f_.d, i, f_.h, f_.b) = 0.0f;
    gradient(f_.d, i, f_.h, f_.b) += sum;
    outputs.push_back(rounded_to(gradient, output));
    copied.push_back({gradient, outputs.back(), any.of_values ? f_.value_depth() : f_.depth()});
}

void backward_sweep::define_outputs() {
    for (std::size_t output = 0; output < f_.graph().outputs.size(); ++output) {
        std::vector<const gradient_term*> terms;
        for (const gradient_term& term : plan.terms)
            if (term.output == output) terms.push_back(&term);
        if (std::ranges::all_of(terms, [](const auto* term) { return term->is == gradient_term::form::copied; })) {
            define_copied(output, terms);
            continue;
        }
        // Algorithm
        const input_declaration& to = f_.graph().inputs[f_.node(terms.front()->deposit).input];
        std::vector<Var> axes;
        for (int axis = 0; axis < to.rank; ++axis) axes.emplace_back("axis_" + std::to_string(axis));
        Func gradient("gradient_" + std::string(f_.graph().outputs[output].name));
        gradient(axes) = 0.0f;
        for (const gradient_term* term : terms)
            if (term->is == gradient_term::form::by_pair)
                add_by_pair(gradient, *term);
            else if (const auto product = product_of(f_.graph(), f_.depends, plan, *term))
                add_product(gradient, *term, *product);
            else
                add_placed(gradient, *term);
        outputs.push_back(rounded_to(gradient, output));
        rounded.push_back({gradient, outputs.back()});
    }
}

}  // namespace attune::generators::inline cpu
