// Masks of the catalogue against what the systems that they are from mean, counted by hand.
#include <attune/catalogue/natten.hpp>
#include <attune/catalogue/windows.hpp>
#include <attune/dsl/layers.hpp>
#include <attune/reference.hpp>
#include <attune/runtime/element.hpp>

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

using namespace attune;

namespace {

template <dsl::name Label> constexpr auto n = dsl::scalar<Label, dsl::i32>;
template <class Condition> constexpr auto under(Condition c) {
    using namespace dsl;
    return softmax(mask(q * t(k), c)) * v;
}
constexpr auto natten = under(catalogue::natten(n<"width">, n<"height">, n<"kernel_w">, n<"kernel_h">));
constexpr auto tiled =
    under(catalogue::tiled_natten(n<"width">, n<"height">, n<"kernel_w">, n<"kernel_h">, n<"tile">, n<"tile">));
constexpr auto morton = under(catalogue::morton_natten(n<"width">, n<"height">, n<"kernel_w">, n<"kernel_h">));
constexpr auto six_by_four = under(catalogue::natten(7, 5, 6, 4));
constexpr auto back = under(catalogue::window_back(n<"w">));
constexpr auto last = under(catalogue::last_keys(n<"w">));
constexpr auto sliding = under(catalogue::sliding_window(n<"w">));

/// For each pair of `length` positions, query by query, whether the query sees the key.
std::vector<std::uint8_t> visible(const graph_ir& graph, std::int64_t length,
                                  const std::vector<std::pair<std::string_view, double>>& numbers = {}) {
    const std::vector<float> ones(static_cast<std::size_t>(length), 1.0f);
    const tensor rows(ones.data(), {1, 1, length, 1});
    std::vector<reference::argument> given{{"q", rows}, {"k", rows}, {"v", rows}};
    for (const auto& [name, value] : numbers) given.push_back({name, value});
    return reference::evaluate(graph, given, {.keep_visible = true}).visible;
}

struct canvas {
    int width, height, kernel_w, kernel_h;
};

/// NATTEN: as many neighbours as the kernel says, the query's own among them; where an edge cuts the window, it moves
/// inside. Of an even kernel one neighbour more lies before the query than after it.
bool near(int query, int key, int cells, int kernel) {
    const int first = std::clamp(query - kernel / 2, 0, cells - kernel);
    return first <= key && key < first + kernel;
}

/// `place(i)` is pixel i's column and row.
void check(const graph_ir& graph, const canvas& c, const std::function<std::pair<int, int>(int)>& place,
           std::vector<std::pair<std::string_view, double>> numbers = {}) {
    for (const auto& [name, value] :
         {std::pair("width", c.width), {"height", c.height}, {"kernel_w", c.kernel_w}, {"kernel_h", c.kernel_h}})
        numbers.emplace_back(name, value);
    const int length = c.width * c.height;
    const std::vector<std::uint8_t> seen = visible(graph, length, numbers);
    REQUIRE(seen.size() == static_cast<std::size_t>(length * length));
    int wrong = 0;
    for (int q = 0; q < length; ++q) {
        int count = 0;
        for (int k = 0; k < length; ++k) {
            const auto [qx, qy] = place(q);
            const auto [kx, ky] = place(k);
            const bool expected = near(qx, kx, c.width, c.kernel_w) && near(qy, ky, c.height, c.kernel_h);
            const bool got = seen[static_cast<std::size_t>(q * length + k)] != 0;
            wrong += got != expected, count += got;
        }
        wrong += count != c.kernel_w * c.kernel_h;
    }
    INFO("width " << c.width << ", height " << c.height << ", kernel " << c.kernel_w << " x " << c.kernel_h);
    CHECK(wrong == 0);
}

int interleaved(int i, int from) {
    int bits = 0;
    for (int bit = 0; bit < 8; ++bit) bits |= (i >> (2 * bit + from) & 1) << bit;
    return bits;
}

}  // namespace

TEST_CASE("a query sees as many neighbours as an even or an odd kernel has cells, as in NATTEN") {
    for (const canvas& c : {canvas{7, 5, 4, 4},
                            {7, 5, 6, 2},
                            {7, 5, 3, 5},
                            {7, 5, 7, 5},
                            {8, 6, 8, 6},
                            {8, 6, 1, 2},
                            {6, 6, 2, 1},
                            {5, 9, 4, 3}})
        check(dsl::ir_of<natten>, c, [&](int i) { return std::pair(i % c.width, i / c.width); });
    check(dsl::ir_of<six_by_four>, {7, 5, 6, 4}, [](int i) { return std::pair(i % 7, i / 7); });
    // The middle query of 9 x 9.
    for (const int kernel : {4, 6}) {
        const auto seen =
            visible(dsl::ir_of<natten>, 81, {{"width", 9}, {"height", 9}, {"kernel_w", kernel}, {"kernel_h", kernel}});
        CHECK(std::accumulate(seen.begin() + 40 * 81, seen.begin() + 41 * 81, 0) == kernel * kernel);
    }
}

TEST_CASE("so it does on a canvas that is numbered by tiles or along a curve") {
    for (const canvas& c : {canvas{8, 8, 4, 6}, {8, 8, 2, 8}, {8, 8, 5, 4}}) {
        check(dsl::ir_of<tiled>, c,
              [](int i) { return std::pair(i / 4 % 4 * 2 + i % 4 % 2, i / 4 / 4 * 2 + i % 4 / 2); }, {{"tile", 2}});
        check(dsl::ir_of<morton>, c, [](int i) { return std::pair(interleaved(i, 0), interleaved(i, 1)); });
    }
}

namespace {

constexpr auto number_of_pair = dsl::q_idx * dsl::key_length + dsl::kv_idx;
constexpr auto flat_bytes = dsl::input<"bytes", dsl::u8>(dsl::axis<"byte">);
constexpr auto by_flat_bit = under(dsl::bit(flat_bytes(number_of_pair / 8), number_of_pair % 8));

}  // namespace

TEST_CASE("bits that lie flat over all pairs are read as FlashInfer packs its custom_mask") {
    // Rows of seven bits begin inside of bytes, whose lowest bit comes first, as by packbits(bitorder="little").
    constexpr int queries = 5, keys = 7;
    std::vector<std::uint8_t> bytes((queries * keys + 7) / 8), expected(queries * keys);
    for (std::size_t i = 0; i < expected.size(); ++i) {
        expected[i] = i * 5 % 11 < 4;
        bytes[i / 8] = static_cast<std::uint8_t>(bytes[i / 8] | (expected[i] << (i % 8)));
    }
    const std::vector<float> ones(keys, 1.0f);
    const tensor rows(ones.data(), {1, 1, keys, 1});
    const std::vector<reference::argument> given{{"q", tensor(ones.data(), {1, 1, queries, 1})},
                                                 {"k", rows},
                                                 {"v", rows},
                                                 {"bytes", tensor(bytes.data(), {std::ssize(bytes)})}};
    CHECK(reference::evaluate(dsl::ir_of<by_flat_bit>, given, {.keep_visible = true}).visible == expected);
}

namespace {

constexpr auto cell_pos = dsl::input<"cell_pos", dsl::i32>(dsl::key)(dsl::kv_idx);
constexpr auto cell_seqs = dsl::input<"cell_seqs", dsl::i32>(dsl::key)(dsl::kv_idx);
constexpr auto pos = dsl::input<"pos", dsl::i32>(dsl::query)(dsl::q_idx);
constexpr auto seq = dsl::input<"seq", dsl::i32>(dsl::query)(dsl::q_idx);
constexpr auto over_cells = under(cell_pos >= 0 && cell_pos <= pos && dsl::bit(cell_seqs, seq));

}  // namespace

TEST_CASE("a query sees the cells of its sequence up to its position, as in llama.cpp's cache") {
    // Of the first cell both sequences are; the third is empty.
    const std::int32_t positions[] = {0, 1, -1, 0, 2, 1}, sequences[] = {3, 1, 3, 2, 1, 2};
    const std::int32_t of_queries[] = {1, 2, 1}, whose[] = {0, 0, 1};
    const float ones[] = {1, 1, 1, 1, 1, 1};
    const tensor queries(ones, {1, 1, 3, 1}), keys(ones, {1, 1, 6, 1});
    const std::vector<reference::argument> given{{"q", queries},
                                                 {"k", keys},
                                                 {"v", keys},
                                                 {"cell_pos", tensor(positions, {6})},
                                                 {"cell_seqs", tensor(sequences, {6})},
                                                 {"pos", tensor(of_queries, {3})},
                                                 {"seq", tensor(whose, {3})}};
    CHECK(reference::evaluate(dsl::ir_of<over_cells>, given, {.keep_visible = true}).visible ==
          std::vector<std::uint8_t>{1, 1, 0, 0, 0, 0, 1, 1, 0, 0, 1, 0, 1, 0, 0, 1, 0, 1});
}

TEST_CASE("a side of a window below 0 has no limit, as in FlashAttention; no last keys are none") {
    constexpr int length = 9;
    const auto agree = [&](const graph_ir& graph, int w, const std::function<bool(int, int)>& expected) {
        const auto seen = visible(graph, length, {{"w", w}});
        int wrong = 0;
        for (int q = 0; q < length; ++q)
            for (int k = 0; k < length; ++k)
                wrong += (seen[static_cast<std::size_t>(q * length + k)] != 0) != expected(q, k);
        INFO("w = " << w);
        CHECK(wrong == 0);
    };
    for (const int w : {-5, -1, 0, 3, 20}) {
        agree(dsl::ir_of<back>, w, [w](int q, int k) { return w < 0 || q - k <= w; });
        agree(dsl::ir_of<sliding>, w, [w](int q, int k) { return k <= q && (w < 0 || q - k <= w); });
        agree(dsl::ir_of<last>, w, [w](int q, int k) { return k <= q && q - k < w; });
    }
}

namespace {

template <dsl::name Label> constexpr auto real = dsl::scalar<Label, dsl::f32>;
template <class Scores> constexpr auto attended(Scores s) { return dsl::softmax(s) * dsl::v; }
constexpr auto products = dsl::q * dsl::t(dsl::k);
constexpr auto plain = attended(products);
constexpr auto capped = attended(dsl::softcap(real<"cap">, products));
constexpr auto capped_by_0 = attended(dsl::softcap(0, products));
constexpr auto capped_by_real_0 = attended(dsl::softcap(0.0, products));
constexpr auto dropped = dsl::dropout(dsl::softmax(products), real<"p">, 7) * dsl::v;
constexpr auto all_dropped = dsl::dropout(dsl::softmax(products), 1, 7) * dsl::v;

/// Of two queries and three keys.
std::vector<double> output(const graph_ir& graph,
                           const std::vector<std::pair<std::string_view, double>>& numbers = {}) {
    static constexpr float queries[] = {1, -2}, keys[] = {0.5f, -1, 3}, values[] = {1, 10, 100};
    std::vector<reference::argument> given{
        {"q", tensor(queries, {1, 1, 2, 1})}, {"k", tensor(keys, {1, 1, 3, 1})}, {"v", tensor(values, {1, 1, 3, 1})}};
    for (const auto& [name, value] : numbers) given.push_back({name, value});
    return reference::evaluate(graph, given, {})["out"].values;
}
bool agree(const std::vector<double>& some, const std::vector<double>& others) {
    return std::ranges::equal(some, others, [](double x, double y) { return std::abs(x - y) < 1e-9; });
}

}  // namespace

TEST_CASE("a cap of 0 caps nothing, as in FlashAttention") {
    const std::vector<double> uncapped = output(dsl::ir_of<plain>);
    CHECK(agree(output(dsl::ir_of<capped_by_0>), uncapped));
    CHECK(agree(output(dsl::ir_of<capped_by_real_0>), uncapped));
    CHECK(agree(output(dsl::ir_of<capped>, {{"cap", 0}}), uncapped));
    CHECK_FALSE(agree(output(dsl::ir_of<capped>, {{"cap", 2}}), uncapped));
}

TEST_CASE("dropout with probability 1 gives 0, with 0 what there was, as in PyTorch") {
    CHECK(output(dsl::ir_of<all_dropped>) == std::vector<double>{0, 0});
    CHECK(output(dsl::ir_of<dropped>, {{"p", 1}}) == std::vector<double>{0, 0});
    CHECK(output(dsl::ir_of<dropped>, {{"p", 0}}) == output(dsl::ir_of<plain>));
}
