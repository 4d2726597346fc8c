// Integers have 32 bits. A call whose lengths and numbers make one of its formula leave them is refused, with the
// formula; none is refused that stays within.
#include "by_hand.hpp"
#include "index_call.hpp"

#include <catch2/matchers/catch_matchers_string.hpp>

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
template <class Number> constexpr auto by(Number x) { return under(x >= w); }
inline constexpr auto pair = q_idx * key_length + kv_idx;
inline constexpr auto flat = under(bit(bytes(pair / 8), pair % 8));
inline constexpr auto flat_behind = under(causal && bit(bytes(pair / 8), pair % 8));
inline constexpr auto flat_of_heads = under(bit(bytes(((b * heads + h) * query_length + q_idx) * key_length / 8), 0));
inline constexpr auto hashed = by((q_idx * 48271 + kv_idx * 69621) % 1000);
inline constexpr auto shuffled = by(((kv_idx << 13) ^ kv_idx) & 1023);
inline constexpr auto added = by(q_idx + w);
inline constexpr auto subtracted = by(kv_idx - q_idx - w);
inline constexpr auto negated = by(-w);
inline constexpr auto magnitude = by(abs(w) + 0 * kv_idx);
inline constexpr auto in_reals = softmax(q * t(k) + q_idx * kv_idx * 0.5) * v;
inline constexpr auto as_reals = softmax(q * t(k) + as_real(q_idx) * kv_idx * 0.5) * v;
inline constexpr auto of_elements = by(first(b) + q_idx * w);
inline constexpr auto of_bytes = by(small(b) * w);
inline constexpr auto summed = by(sum(i, w, kv_idx * 65536));
inline constexpr auto counted = by(sum(i, w, i * 65536));
inline constexpr auto remainders = by(kv_idx % w * w);
inline constexpr auto within = by((q_idx / 2 * 2 + kv_idx % 7 * 11 + min(w, 5) * max(h, 3)) ^ (b | kv_idx));
}  // namespace my

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

TEST_CASE("whatever makes an integer leave 32 bits is refused, and nothing that stays within") {
    struct row {
        attune::graph_ir graph;
        std::int64_t queries, keys, number;
        const char* formula;  ///< null: the call is made
        std::int64_t got{};
        const char* how = "up to ";
    };
    const row rows[] = {
        {attune::dsl::ir_of<my::hashed>, 100, 100, 1, nullptr},
        {attune::dsl::ir_of<my::hashed>, 44300, 100, 1, nullptr},
        {attune::dsl::ir_of<my::hashed>, 44490, 100, 1, "q_idx * 48271", 44489LL * 48271},
        {attune::dsl::ir_of<my::hashed>, 40000, 30000, 1, "q_idx * 48271 + kv_idx * 69621",
         39999LL * 48271 + 29999LL * 69621},
        {attune::dsl::ir_of<my::shuffled>, 10, 1 << 20, 1, nullptr},  // bits that are shifted out are lost
        {attune::dsl::ir_of<my::added>, 10, 10, most - 9, nullptr},
        {attune::dsl::ir_of<my::added>, 10, 10, most - 8, "q_idx + w", most + 1},
        {attune::dsl::ir_of<my::added>, 10, 10, least, nullptr},
        {attune::dsl::ir_of<my::subtracted>, 10, 10, most - 8, nullptr},
        {attune::dsl::ir_of<my::subtracted>, 10, 10, most, "kv_idx - q_idx - w", -9 - most, "down to "},
        {attune::dsl::ir_of<my::subtracted>, 10, 10, least, "kv_idx - q_idx - w", 9 - least},
        {attune::dsl::ir_of<my::negated>, 10, 10, most, nullptr},
        {attune::dsl::ir_of<my::negated>, 10, 10, least, "-w", -least},
        {attune::dsl::ir_of<my::magnitude>, 10, 10, least + 1, nullptr},
        {attune::dsl::ir_of<my::magnitude>, 10, 10, least, "abs(w)", -least},
        {attune::dsl::ir_of<my::in_reals>, 46341, 46341, 0, nullptr},
        {attune::dsl::ir_of<my::in_reals>, 46342, 46342, 0, "q_idx * kv_idx", 46341LL * 46341},
        {attune::dsl::ir_of<my::as_reals>, 1 << 12, 1 << 20, 0, nullptr},
        {attune::dsl::ir_of<my::summed>, 10, 32768, 1, nullptr},
        {attune::dsl::ir_of<my::summed>, 10, 32769, 1, "kv_idx * 65536", 32768LL * 65536},
        {attune::dsl::ir_of<my::counted>, 10, 10, 200, nullptr},
        {attune::dsl::ir_of<my::counted>, 10, 10, 40000, "i * 65536", 39999LL * 65536},
        {attune::dsl::ir_of<my::remainders>, 10, 1 << 20, 46341, nullptr},
        {attune::dsl::ir_of<my::remainders>, 10, 1 << 20, 46342, "kv_idx % w * w", 46341LL * 46342},
        {attune::dsl::ir_of<my::within>, 1 << 12, 1 << 20, 7, nullptr},
        {attune::dsl::ir_of<my::within>, 1 << 12, 1 << 20, most, nullptr},
    };
    for (const row& each : rows) {
        long_call c(each.queries, each.keys);
        const auto has_w = [](const attune::input_declaration& d) { return d.name == "w"; };
        if (std::ranges::any_of(each.graph.inputs, has_w)) c.number(each.number);
        INFO(each.graph.text << ", " << each.queries << " queries, " << each.keys << " keys, w = " << each.number);
        if (each.formula)
            CHECK_THAT(c.made(each.graph), refused(each.formula, each.got, each.how));
        else
            CHECK(c.made(each.graph) == "");
    }
}

TEST_CASE("what elements of 32 bits make is no reason to refuse; what those of 8 bits make is") {
    std::int32_t first[1]{most};
    std::uint8_t small[1]{};
    long_call c(10, 10);
    c.number(1), c.given.push_back(by_hand::view("first", attune::tensor(first, {1})));
    CHECK(c.made(attune::dsl::ir_of<my::of_elements>) == "");
    c.given.pop_back(), c.given.back().integer = 1 << 28;
    c.given.push_back(by_hand::view("first", attune::tensor(first, {1})));
    CHECK_THAT(c.made(attune::dsl::ir_of<my::of_elements>), refused("q_idx * w", 9LL << 28));
    c.given.pop_back();
    c.given.push_back(by_hand::view("small", attune::tensor(small, {1})));
    c.given[3].integer = 8421504;
    CHECK(c.made(attune::dsl::ir_of<my::of_bytes>) == "");
    c.given[3].integer = 8421505;
    CHECK_THAT(c.made(attune::dsl::ir_of<my::of_bytes>), refused("small(b) * w", 255LL * 8421505));
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
