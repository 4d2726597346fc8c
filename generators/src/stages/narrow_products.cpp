#include "analysis/narrow_rows.hpp"
#include "passes/multiply_bytes.hpp"
#include "stages/score_tile.hpp"

#include <cstdint>
#include <numeric>

namespace attune::generators::inline stages {
using namespace Halide;

namespace {

/// Whether a choice remains that a variable decides.
class finds_choice : public Internal::IRVisitor {
public:
    explicit finds_choice(const std::string& variable) : variable_(variable) {}
    bool found = false;

protected:
    using IRVisitor::visit;
    void visit(const Internal::Select* select) override {
        found |= Internal::expr_uses_var(select->condition, variable_);
        IRVisitor::visit(select);
    }
    void visit(const Internal::Call* call) override {
        found |= call->is_intrinsic(Internal::Call::mux) && Internal::expr_uses_var(call->args[0], variable_);
        IRVisitor::visit(call);
    }

private:
    const std::string& variable_;
};

/// The fewest pieces of whole vectors into which a row is cut so that each has one formula for all its channels. If
/// there is no such number, or a position decides by other means than choices, each vector is a piece.
int pieces_of_row(const Expr& codes, const Var& channel, int depth, int vector) {
    const auto chooses_in_one_of = [&](int pieces) {
        const int length = depth / pieces;
        finds_choice choice(channel.name());
        for (int first = 0; first < depth; first += length) {
            Internal::Scope<Internal::Interval> piece;
            piece.push(channel.name(), Internal::Interval(first, first + length - 1));
            Internal::simplify(codes, true, piece).accept(&choice);
        }
        return choice.found;
    };
    const int vectors = depth / vector;
    if (chooses_in_one_of(1))
        for (int pieces = 2; vectors % pieces == 0; pieces *= 2)
            if (!chooses_in_one_of(pieces)) return pieces;
    return vectors;
}

}  // namespace

/// Keeps the place where each row begins: else each read would find and multiply an index along each axis anew.
/// `likely`: for a vector of keys that all exist, a number that all share, such as a page, is read once. The place is
/// kept as bits, since Halide would clamp a number whose bounds it knows again at each read.
void score_tile::hoist_rows(const std::vector<int>& loads, const std::string& name, place& at) {
    for (const int load : loads) {
        // (key in block, key block, head, batch)
        const std::string rows = name + "_" + std::to_string(load);
        Func begins_of(pass_ + "begins_of_" + rows);
        place of_row = at_row(false, {});
        of_row.k = min(likely(f_.key_at(f_.ki)), last_key(f_.b));
        const Expr element = pointwise(f_.request, f_.inputs, of_row).row_of(load);
        begins_of(f_.ki, f_.kb, f_.h, f_.b) = reinterpret<std::int32_t>(reinterpret<std::uint32_t>(element));
        if (const Expr dense = dense_along_keys(load); dense.defined()) dense_where[begins_of.name()] = dense;
        at.rows[load] = begins_of(f_.ki, f_.kb, f_.h, f_.b);
        hoisted_of_keys.push_back(begins_of);
        places_of_keys.push_back(begins_of.name());
    }
}

score_tile::scaled_rows score_tile::narrow_rows_of(int tensor, const std::string& name) {
    const auto narrow = blocked_rows_of(f_.graph(), f_.depends, tensor);
    if (!narrow) return {};
    const instruction& node = f_.node(tensor);
    const bool of_query = node.op == operation::queries;
    const Var i = of_query ? f_.qi : f_.ki, block = of_query ? f_.qt : f_.kb;
    place at = at_row(of_query, {});
    at.k = f_.key_at(f_.ki);  // as an index it stays within the keys in use
    // Codes and factors have no masks. On a GPU the memory of a table that nobody reads would be that of rows, too.
    hoist(planned_.rows_of(node.arguments[0]).kept, at, false);
    hoist_rows(planned_.rows_of(node.arguments[0]).placed, name, at);
    scaled_rows rows{
        .codes = Func(pass_ + name), .bytes = {}, .factor = 1.0f, .whole = narrow->whole, .in_order = narrow->in_order};
    const Expr codes = f_.evaluate(narrow->codes, at).value;
    rows.codes(f_.d, i, block, f_.h, f_.b) = codes;
    if (const int depth = node.op == operation::values ? f_.value_depth() : f_.depth();
        !narrow->in_order && narrow->block == 0)
        rows.pieces = pieces_of_row(codes, f_.d, depth, std::gcd(channel_vector, depth));
    if (narrow->of_8_bits()) {
        rows.bytes = Func(pass_ + name + "_in_bytes"), rows.lowest = static_cast<int>(narrow->range.lowest);
        rows.bytes(f_.d, i, block, f_.h, f_.b) = f_.byte_of(narrow->integer, at);
    }
    if (const int of_block = narrow->block; of_block > 0) {
        const Var channels("channels");
        place first = at;
        first.d = channels * of_block;
        rows.pieces = (node.op == operation::values ? f_.value_depth() : f_.depth()) / narrow->neighbours;
        rows.block = of_block, rows.scales = Func(pass_ + name + "_scales");
        rows.scales(channels, i, block, f_.h, f_.b) = f_.evaluate(narrow->scale, first).value;
    }
    for (const int n : narrow->factors) rows.factor = rows.factor * f_.evaluate(n, at).value;
    return rows;
}

/// Four rows lie side by side, each with the 16 channels that are read of a key; few sums over lanes remain. In
/// products of bytes one factor has no sign: keys count from their lowest code, and the sum of a row's codes makes up
/// for it.
void score_tile::sum_integers(contraction& c) {
    // Algorithm
    const Var x("x"), piece("piece"), j("j"), r("r"), rows("rows"), &qt = f_.qt, &kb = f_.kb, &h = f_.h, &b = f_.b;
    const scaled_rows queries = narrow_rows_of(f_.core.query, "query_rows"),
                      keys_of = narrow_rows_of(f_.core.key, "key_rows");
    const int at_a_time = integers_at_a_time(c.how);
    const bool in_bytes = at_a_time == 4;
    const int channels = coded_channels, lanes_of_row = channels / at_a_time, lowest = in_bytes ? keys_of.lowest : 0;
    c.of_key = keys_of.factor, c.pieces = keys_of.pieces;
    c.query_rows = Func(pass_ + "query_code_rows"), c.panel = Func(pass_ + "panel");
    c.dots = Func(pass_ + "dots"), c.collected = Func(pass_ + "collected"), c.product = Func(pass_ + "product");
    c.integers = {.sums = Func(pass_ + "sums"),
                  .offset = Func(pass_ + "offset"),
                  .scales = keys_of.scales,
                  .scaled = {},
                  .blocks = {},
                  .channels = keys_of.block > 0 ? keys_of.block : f_.depth()};
    Func &sums = c.integers.sums, &offset = c.integers.offset;
    c.query_rows(f_.d, f_.qi, qt, h, b) =
        cast(Int(in_bytes ? 8 : 16), cast<std::int8_t>(queries.bytes(f_.d, f_.qi, qt, h, b)));
    c.panel(x, piece, rows, qt, h, b) =
        c.query_rows(channels * piece + x % channels, 4 * rows + x / channels, qt, h, b);
    const int summed = c.integers.channels;
    const RDom coded_channel(0, summed, pass_ + "coded_channel");
    c.each = RDom({{0, at_a_time}, {0, summed / channels}}, pass_ + "each_channel");
    c.lane = RDom(0, lanes_of_row, pass_ + "lane");
    const auto key_at = [&](const Expr& channel) -> Expr {
        const Expr code = keys_of.bytes(channel, f_.ki, kb, h, b);
        return in_bytes ? code - Internal::make_const(UInt(8), lowest & 255) : cast<std::int8_t>(code);
    };
    const Expr step = channels * c.each.y + at_a_time * j + c.each.x, lane = c.each.x + at_a_time * j + channels * r;
    const auto product = [&](const Expr& key, const Expr& of_panel) {
        return cast<int>(key) * cast<int>(c.panel(lane, of_panel, rows, qt, h, b));
    };
    if (keys_of.block == 0) {
        offset(f_.qi, qt, h, b) = 0;
        if (lowest != 0) offset(f_.qi, qt, h, b) += lowest * cast<int>(c.query_rows(coded_channel, f_.qi, qt, h, b));
        c.dots(j, r, f_.ki, rows, kb, qt, h, b) = 0;
        c.dots(j, r, f_.ki, rows, kb, qt, h, b) += product(key_at(step), c.each.y);
        sums(r, f_.ki, rows, kb, qt, h, b) = 0;
        sums(r, f_.ki, rows, kb, qt, h, b) += c.dots(c.lane, r, f_.ki, rows, kb, qt, h, b);
    } else {
        // Of the lanes of a row, the first one has the product with lowest codes.
        const Var block("block");
        Func& scaled = c.integers.scaled = Func(pass_ + "scaled_dots");
        const RDom& blocks = c.integers.blocks = RDom(0, f_.depth() / summed, pass_ + "blocks");
        offset(x, block, rows, qt, h, b) = 0;
        if (lowest != 0)
            offset(x, block, rows, qt, h, b) +=
                select(x % lanes_of_row == 0, lowest, 0) *
                cast<int>(c.query_rows(summed * block + coded_channel, 4 * rows + x / lanes_of_row, qt, h, b));
        c.dots(j, r, f_.ki, block, rows, kb, qt, h, b) = offset(j + lanes_of_row * r, block, rows, qt, h, b);
        c.dots(j, r, f_.ki, block, rows, kb, qt, h, b) +=
            product(key_at(summed * block + step), summed / channels * block + c.each.y);
        scaled(j, r, f_.ki, rows, kb, qt, h, b) = 0.0f;
        scaled(j, r, f_.ki, rows, kb, qt, h, b) +=
            cast<float>(c.dots(j, r, f_.ki, blocks, rows, kb, qt, h, b)) * keys_of.scales(blocks, f_.ki, kb, h, b);
        sums(r, f_.ki, rows, kb, qt, h, b) = 0.0f;
        sums(r, f_.ki, rows, kb, qt, h, b) += scaled(c.lane, r, f_.ki, rows, kb, qt, h, b);
    }
    c.collected(r, f_.ki, rows, kb, qt, h, b) = sums(r, f_.ki, rows, kb, qt, h, b);
    const Expr collected = c.collected(f_.qi % 4, f_.ki, f_.qi / 4, kb, qt, h, b);
    c.product(pair()) =
        (keys_of.block == 0 ? cast<float>(collected + offset(f_.qi, qt, h, b)) : collected) * queries.factor;
}

/// Queries lie in lanes, a word of four channels each, or of two as numbers of 16 bits; a key's word is read for all of
/// them. As above keys in bytes count from their lowest code.
void score_tile::sum_words(contraction& c) {
    // Algorithm
    const Var &d = f_.d, &qi = f_.qi, &ki = f_.ki, &qt = f_.qt, &kb = f_.kb, &h = f_.h, &b = f_.b;
    const scaled_rows queries = narrow_rows_of(f_.core.query, "coded_queries"),
                      keys_of = narrow_rows_of(f_.core.key, "coded_keys");
    c.of_key = keys_of.factor;
    const int at_a_time = integers_at_a_time(c.how);
    const bool in_bytes = at_a_time == bytes_of_word;
    const auto word = [&](const Func& rows, const Expr& channel, const Expr& i, const Var& block) {
        std::vector<Expr> parts;
        for (int j = 0; j < at_a_time; ++j) parts.push_back(rows(at_a_time * channel + j, i, block, h, b));
        return word_of_codes(parts);
    };
    const auto code = [&](const Expr& byte) { return in_bytes ? byte : cast<std::int16_t>(cast<std::int8_t>(byte)); };
    Func query_codes(pass_ + "query_codes");
    query_codes(d, qi, qt, h, b) = code(queries.bytes(d, qi, qt, h, b));
    c.key_rows = Func(pass_ + "key_rows");
    const int lowest = in_bytes ? keys_of.lowest : 0;
    c.key_rows(d, ki, kb, h, b) = code(keys_of.bytes(d, ki, kb, h, b) - Internal::make_const(UInt(8), lowest & 255));
    stored.push_back({query_codes, f_.depth(), true, queries.pieces});
    stored.push_back({c.key_rows, f_.depth(), false, keys_of.pieces});
    c.query_rows = Func(pass_ + "query_rows"), c.panel = Func(pass_ + "panel");
    c.query_rows(d, qi, qt, h, b) = word(query_codes, d, qi, qt);
    c.panel(qi, d, qt, h, b) = c.query_rows(d, qi, qt, h, b);

    c.each = RDom(0, f_.depth() / at_a_time, pass_ + "each_word");
    const Expr ones = Expr(std::uint32_t{0x01010101});
    c.integers.offset = Func(pass_ + "offset"), c.dots = Func(pass_ + "dots"), c.product = Func(pass_ + "product");
    c.integers.offset(qi, qt, h, b) = 0;
    if (lowest != 0) c.integers.offset(qi, qt, h, b) += lowest * dot_of_bytes(ones, c.panel(qi, c.each, qt, h, b));
    const bool in_tiles = is_of_tiles(c.how);  // which begin with 0
    c.dots(pair()) = in_tiles ? Expr(0) : Expr(c.integers.offset(qi, qt, h, b));
    const Expr of_key = word(c.key_rows, c.each, ki, kb), of_query = c.panel(qi, c.each, qt, h, b);
    c.dots(pair()) += in_bytes ? dot_of_bytes(of_key, of_query) : dot_of_halves(of_key, of_query);
    const Expr dot = in_tiles ? c.dots(pair()) + c.integers.offset(qi, qt, h, b) : Expr(c.dots(pair()));
    c.product(pair()) = cast<float>(dot) * (queries.factor * sign_);
}

}  // namespace attune::generators::inline stages
