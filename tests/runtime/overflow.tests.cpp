// Integers have 32 bits. A call whose lengths and numbers make an index leave them is refused, with the formula; none
// is refused whose indices stay within, and integers that say no place wrap around.
#include "by_hand.hpp"
#include "index_call.hpp"

#include <catch2/matchers/catch_matchers_string.hpp>

#include <array>
#include <limits>

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::Equals;

namespace {

namespace my {
using namespace attune::dsl;
inline constexpr auto w = scalar<"w", i32>;
inline constexpr auto bytes = input<"bytes", u8>(axis<"byte">);
inline constexpr auto first = input<"first", i32>(batch);
inline constexpr auto small = input<"small", u8>(batch);
inline constexpr auto i = bound_index<"i">;

template <class Condition> constexpr auto under(Condition c) { return softmax(mask(q * t(k), c)) * v; }
template <const auto& number> inline constexpr auto compared = under(number >= w);
template <const auto& number> inline constexpr auto read_at = under(bit(bytes(number + 0 * w), 0));
inline constexpr auto pair = q_idx * key_length + kv_idx;
inline constexpr auto flat = under(bit(bytes(pair / 8), pair % 8));
inline constexpr auto flat_behind = under(causal && bit(bytes(pair / 8), pair % 8));
inline constexpr auto flat_of_heads = under(bit(bytes(((b * heads + h) * query_length + q_idx) * key_length / 8), 0));
inline constexpr auto hashed = (q_idx * 48271 + kv_idx * 69621) % 1000;
inline constexpr auto shuffled = ((kv_idx << 13) ^ kv_idx) & 1023;
inline constexpr auto added = q_idx + w;
inline constexpr auto subtracted = kv_idx - q_idx - w;
inline constexpr auto negated = -w;
inline constexpr auto magnitude = abs(w) + 0 * kv_idx;
inline constexpr auto product = q_idx * kv_idx;
inline constexpr auto squared = w * w + 0 * kv_idx;
inline constexpr auto of_elements = first(b) + q_idx * w;
inline constexpr auto element_times = first(b) * w;
inline constexpr auto chosen = where(first(b) > 9, 0, first(b) * w);
inline constexpr auto of_bytes = small(b) * w;
inline constexpr auto summed = sum(i, w, kv_idx * 65536);
inline constexpr auto counted = sum(i, w, i * 65536);
inline constexpr auto remainders = kv_idx % w * w;
inline constexpr auto within = (q_idx / 2 * 2 + kv_idx % 7 * 11 + min(w, 5) * max(h, 3)) ^ (b | kv_idx);
}  // namespace my

/// A number as it is compared, and as the index of a tensor.
struct both_uses {
    attune::graph_ir compared, read_at;
};
template <const auto& number> both_uses both() {
    return {attune::dsl::ir_of<my::compared<number>>, attune::dsl::ir_of<my::read_at<number>>};
}

/// As many queries and keys as asked for, of which nothing is read.
struct long_call {
    std::int64_t queries, keys;
    by_hand::arguments given;
    float one[1]{};
    long_call(std::int64_t of_queries, std::int64_t of_keys) : queries(of_queries), keys(of_keys) {
        const auto add = [&](std::string_view name, std::int64_t length, std::int64_t depth) {
            given.push_back(by_hand::view(name, attune::tensor(one, {1, 1, length, depth}, {0, 0, 0, 1})));
        };
        add("q", queries, 8), add("k", keys, 8), add("v", keys, 4);
    }
    long_call& number(std::int64_t value) { return given.push_back(by_hand::number("w", value)), *this; }
    std::string made(const attune::graph_ir& graph) const {
        const attune::kernel only = index_calls::call::kernel_of();
        const attune::kernel_table table = index_calls::call::table_of(graph, only);
        try {
            (void)attune::detail::explain(table, given, {});
        } catch (const attune::error& e) {
            return e.what();
        }
        return "";
    }
};

constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max(),
                       least = std::numeric_limits<std::int32_t>::min();

const auto refused = [](std::string_view formula, std::int64_t number, std::string_view how = "up to ") {
    return ContainsSubstring("attune: expected " + std::string(formula) +
                             " from -2147483648 to 2147483647, integers of 32 bits, got " + std::string(how) +
                             std::to_string(number));
};

}  // namespace

TEST_CASE("a flat index that leaves 32 bits at a call's lengths is refused by its formula") {
    std::uint8_t byte[1]{};
    const auto made = [&](const attune::graph_ir& graph, std::int64_t queries, std::int64_t keys) {
        long_call c(queries, keys);
        c.given.push_back(by_hand::view("bytes", attune::tensor(byte, {std::min(queries * keys / 8 + 1, most)}, {0})));
        return c.made(graph);
    };
    for (const attune::graph_ir& graph : {attune::dsl::ir_of<my::flat>, attune::dsl::ir_of<my::flat_behind>}) {
        CHECK_THAT(
            made(graph, 33000, 66000),
            Equals("attune: expected q_idx * key_length from -2147483648 to 2147483647, integers of 32 bits, got "
                   "up to 2177934000 at this call's lengths; try an index for each axis of a table, reals "
                   "(as_real) where no index is meant, or fewer positions a call"));
        CHECK(made(graph, 32768, 65536) == "");  // the last pair is 2^31 - 1
        CHECK_THAT(made(graph, 32769, 65535), refused("q_idx * key_length + kv_idx", 2147516414));
        CHECK(made(graph, 0, 66000) == "");
        CHECK(made(graph, 1, 66000) == "");
    }
    CHECK_THAT(made(attune::dsl::ir_of<my::flat_of_heads>, 66000, 33000),
               refused("((b * heads + h) * query_length + q_idx) * key_length", 2177967000));
    CHECK(made(attune::dsl::ir_of<my::flat_of_heads>, 65000, 33000) == "");
}

TEST_CASE("an index that leaves 32 bits is refused whatever makes it; an integer that says no place is not") {
    struct row {
        both_uses uses;
        std::int64_t queries, keys, number;
        const char* formula;  ///< null: the call is made
        std::int64_t got{};
        const char* how = "up to ";
    };
    const row rows[] = {
        {both<my::hashed>(), 100, 100, 1, nullptr},
        {both<my::hashed>(), 44300, 100, 1, nullptr},
        {both<my::hashed>(), 44490, 100, 1, "q_idx * 48271", 44489LL * 48271},
        {both<my::hashed>(), 40000, 30000, 1, "q_idx * 48271 + kv_idx * 69621", 39999LL * 48271 + 29999LL * 69621},
        {both<my::shuffled>(), 10, 1 << 20, 1, nullptr},  // bits that are shifted out are lost
        {both<my::added>(), 10, 10, most - 9, nullptr},
        {both<my::added>(), 10, 10, most - 8, "q_idx + w", most + 1},
        {both<my::added>(), 10, 10, least, nullptr},
        {both<my::subtracted>(), 10, 10, most - 8, nullptr},
        {both<my::subtracted>(), 10, 10, most, "kv_idx - q_idx - w", -9 - most, "down to "},
        {both<my::subtracted>(), 10, 10, least, "kv_idx - q_idx - w", 9 - least},
        {both<my::negated>(), 10, 10, most, nullptr},
        {both<my::negated>(), 10, 10, least, "-w", -least},
        {both<my::magnitude>(), 10, 10, least + 1, nullptr},
        {both<my::magnitude>(), 10, 10, least, "abs(w)", -least},
        {both<my::product>(), 46341, 46341, 0, nullptr},
        {both<my::product>(), 46342, 46342, 0, "q_idx * kv_idx", 46341LL * 46341},
        {both<my::squared>(), 10, 10, 46340, nullptr},
        {both<my::squared>(), 10, 10, 46341, "w * w", 46341LL * 46341},
        {both<my::squared>(), 10, 10, most, "w * w", most * most},
        {both<my::squared>(), 10, 10, least, "w * w", least * least},
        {both<my::summed>(), 10, 32768, 1, nullptr},
        {both<my::summed>(), 10, 32769, 1, "kv_idx * 65536", 32768LL * 65536},
        {both<my::counted>(), 10, 10, 200, nullptr},
        {both<my::counted>(), 10, 10, 40000, "i * 65536", 39999LL * 65536},
        {both<my::remainders>(), 10, 1 << 20, 46341, nullptr},
        {both<my::remainders>(), 10, 1 << 20, 46342, "kv_idx % w * w", 46341LL * 46342},
        {both<my::within>(), 1 << 12, 1 << 20, 7, nullptr},
        {both<my::within>(), 1 << 12, 1 << 20, most, nullptr},
    };
    std::uint8_t byte[1]{};
    for (const row& each : rows) {
        long_call c(each.queries, each.keys);
        c.number(each.number);
        INFO(each.uses.read_at.text << ", " << each.queries << " queries, " << each.keys
                                    << " keys, w = " << each.number);
        CHECK_THAT(c.made(each.uses.compared), !ContainsSubstring("integers of 32 bits"));
        c.given.push_back(by_hand::view("bytes", attune::tensor(byte, {most}, {0})));
        if (each.formula)
            CHECK_THAT(c.made(each.uses.read_at), refused(each.formula, each.got, each.how));
        else
            CHECK_THAT(c.made(each.uses.read_at), !ContainsSubstring("integers of 32 bits"));
    }
}

TEST_CASE("what elements of 32 bits make is no reason to refuse; what those of 8 bits make is") {
    std::int32_t first[1]{most};
    std::uint8_t small[1]{}, byte[1]{};
    const auto wide = [&](std::int64_t w) {
        long_call c(10, 10);
        c.number(w), c.given.push_back(by_hand::view("first", attune::tensor(first, {1})));
        c.given.push_back(by_hand::view("bytes", attune::tensor(byte, {most}, {0})));
        return c.made(attune::dsl::ir_of<my::read_at<my::of_elements>>);
    };
    CHECK_THAT(wide(1), !ContainsSubstring("integers of 32 bits"));
    CHECK_THAT(wide(1 << 28), refused("q_idx * w", 9LL << 28));
    const auto narrow = [&](std::int64_t w) {
        long_call c(10, 10);
        c.number(w), c.given.push_back(by_hand::view("small", attune::tensor(small, {1})));
        c.given.push_back(by_hand::view("bytes", attune::tensor(byte, {most}, {0})));
        return c.made(attune::dsl::ir_of<my::read_at<my::of_bytes>>);
    };
    CHECK_THAT(narrow(8421504), !ContainsSubstring("integers of 32 bits"));
    CHECK_THAT(narrow(8421505), refused("small(b) * w", 255LL * 8421505));
}

TEST_CASE("what elements of 32 bits bring beyond 32 bits is refused once they are read") {
    std::array<std::int32_t, index_calls::batches> first{0, 2, 1};
    std::array<std::uint8_t, 64> bytes{};
    const auto made = [&](std::int64_t w, const attune::graph_ir& graph) {
        index_calls::call c;
        c.keys(3), c.values(3);
        c.given.push_back(by_hand::number("w", w));
        c.add("first", {first.data(), {std::ssize(first)}}), c.add("bytes", {bytes.data(), {std::ssize(bytes)}});
        return c.made(graph);
    };
    const attune::graph_ir product = attune::dsl::ir_of<my::read_at<my::element_times>>,
                           sum = attune::dsl::ir_of<my::read_at<my::of_elements>>;
    CHECK(made(31, product) == "");
    CHECK_THAT(made(32, product), ContainsSubstring("from 0 to 63, an index along byte of bytes, got 64 at (b 1)"));
    first = {0, 1 << 16, 0};
    CHECK_THAT(
        made(1 << 16, product),
        Equals("attune: expected first(b) * w from -2147483648 to 2147483647, integers of 32 bits, in an index "
               "along byte of bytes, got 4294967296 at (b 1); try elements that are places of bytes, or an index "
               "for each axis of it"));
    first[1] = -1;
    CHECK_THAT(made(1, product), ContainsSubstring("from 0 to 63, an index along byte of bytes, got -1 at (b 1)"));
    first[1] = most;
    CHECK_THAT(made(0, sum), ContainsSubstring("from 0 to 63, an index along byte of bytes, got 2147483647 at (b 1"));
}

TEST_CASE("what a choice leaves out may leave 32 bits") {
    std::array<std::int32_t, index_calls::batches> first{0, 1 << 16, 0};
    std::array<std::uint8_t, 64> bytes{};
    index_calls::call c;
    c.keys(3), c.values(3);
    c.given.push_back(by_hand::number("w", 1 << 16));
    c.add("first", {first.data(), {std::ssize(first)}}), c.add("bytes", {bytes.data(), {std::ssize(bytes)}});
    CHECK(c.made(attune::dsl::ir_of<my::read_at<my::chosen>>) == "");
}

TEST_CASE("a flat tensor that is one element too short is found by a checked call") {
    std::vector<std::uint8_t> bytes(5 * 9 / 8 + 1);
    for (const bool behind : {false, true}) {
        index_calls::call c;
        c.given.clear();
        const attune::graph_ir graph = behind ? attune::dsl::ir_of<my::flat_behind> : attune::dsl::ir_of<my::flat>;
        const auto add = [&](std::string_view name, std::int64_t length, std::int64_t depth) {
            c.reals(name, {1, 1, length, depth});
        };
        add("q", 5, 8), add("k", 9, 8), add("v", 9, 4);
        c.add("out", {c.out.data(), {1, 1, 5, 4}}), c.add("bytes", {bytes.data(), {std::ssize(bytes)}});
        c.how.checked = true;
        CHECK(c.made(graph) == "");
        c.given.back().view = {bytes.data(), {std::ssize(bytes) - 1}};
        CHECK_THAT(c.made(graph), ContainsSubstring("expected (q_idx * key_length + kv_idx) / 8 from 0 to 4, an index "
                                                    "along byte of bytes, got 5 at (q_idx 4, kv_idx 4)" +
                                                    std::string(behind ? ";" : ", the first of 5;")));
        c.how.checked = false;
        CHECK(c.made(graph) == "");
    }
}
