// The targets of a call's stores, and the memory that its kernel keeps, are checked before anything is written.
#include "index_call.hpp"
#include "shapes.hpp"

using namespace by_hand;
using attune::tensor;
using Catch::Matchers::Equals;
using Catch::Matchers::StartsWith;

namespace {

/// The sentence that a call is refused with; empty if it is made.
std::string refusal_of(const attune::kernel_table& table, const arguments& given) {
    try {
        attune::detail::call(table, given, {.threads = 1});
    } catch (const attune::error& refusal) {
        return refusal.what();
    }
    return {};
}

}  // namespace

TEST_CASE("a tensor that is stored to may be written, and has all its elements") {
    index_calls::call c;
    c.keys(7), c.values(7);
    c.reals("k_new", {index_calls::batches, index_calls::key_heads, index_calls::queries, index_calls::depth});
    std::vector<float> cache(index_calls::batches * index_calls::key_heads * 7 * index_calls::depth);
    tensor& k = c.given[2].view;
    REQUIRE(c.given[2].name == "k");
    k = tensor(cache.data(), k.shape());
    CHECK(c.made<formulas::stored>() == "");
    k = tensor(static_cast<const float*>(cache.data()), k.shape());
    CHECK_THAT(c.made<formulas::stored>(),
               StartsWith("attune: expected a tensor that may be written for k, got a view of const elements"));
    k = tensor(cache.data(), {1, index_calls::key_heads, 7, index_calls::depth});
    CHECK_THAT(c.made<formulas::stored>(), StartsWith("attune: expected batch extent 3 in k, got k: f32 (1, 2, 7, 8)"));
}

TEST_CASE("a store's place is looked at where the store's condition holds") {
    index_calls::call c;
    c.keys(7), c.values(7);
    c.reals("k_new", {index_calls::batches, index_calls::key_heads, index_calls::queries, index_calls::depth});
    std::vector<float> cache(index_calls::batches * index_calls::key_heads * 7 * index_calls::depth);
    c.given[2].view = tensor(cache.data(), c.given[2].view.shape());
    std::vector<std::int32_t> places(index_calls::batches * index_calls::queries, -1);
    c.add("place_of", {places.data(), {index_calls::batches, index_calls::queries}});
    CHECK(c.made<formulas::stored_where_placed>() == "");
    places = {-1, 6, -2147483647 - 1, 0, 3, -5};
    CHECK(c.made<formulas::stored_where_placed>() == "");
    CHECK_THAT(c.made<formulas::stored_or_read>(),
               StartsWith("attune: expected place_of from 0 to 6, an index along key of k, got -1"));
    places[5] = 7;
    CHECK_THAT(
        c.made<formulas::stored_where_placed>(),
        StartsWith("attune: expected place_of from 0 to 6, an index along key of k, got 7 at (batch 2, query 1)"));
    c.how.checked = true;
    CHECK_THAT(c.made<formulas::stored_where_placed>(), StartsWith("attune: expected place_of from 0 to 6"));
    // A second store of the same element has no condition.
    c.how.checked = false, places[5] = -5;
    CHECK(c.made<formulas::stored_where_placed>() == "");
    CHECK_THAT(
        c.made<formulas::stored_twice>(),
        Equals("attune: expected place_of from 0 to 6, an index along key of k, got -1 at (batch 0, query 0), the "
               "first of 3; try a place in k for all that is stored, or a condition in store(...) for padding; "
               "kv_lengths count the new keys"));
}

TEST_CASE("a store's place that elements bring beyond 32 bits is refused, though it wraps around to a place") {
    index_calls::call c;
    c.reals("k_new", {index_calls::batches, index_calls::key_heads, index_calls::queries, index_calls::depth});
    const std::int64_t slots = 70000;
    std::vector<float> keys(index_calls::batches * index_calls::key_heads * slots * index_calls::depth);
    c.add("k", {keys.data(), {index_calls::batches, index_calls::key_heads, slots, index_calls::depth}});
    c.add("v", tensor(c.plenty.data(), {index_calls::batches, index_calls::key_heads, slots, index_calls::value_depth},
                      {0, 0, 0, 1}));
    std::vector<std::int32_t> places{1, 1, 1, 1, 65537, 1};
    c.add("place_of", {places.data(), {index_calls::batches, index_calls::queries}});
    CHECK_THAT(
        c.made<formulas::stored_by_page>(),
        Equals("attune: expected 65536 * place_of(b, q_idx) from -2147483648 to 2147483647, integers of 32 bits, "
               "in an index along key of k, got 4295032832 at (b 2, q_idx 0); try elements that are places of k, "
               "or an index for each axis of it"));
    places[4] = 2;  // which the condition leaves out
    CHECK(c.made<formulas::stored_by_page>() == "");
}

TEST_CASE("a tensor of what is precomputed has less than 2^29 elements") {
    static constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max() / 4;
    const auto said = [](std::int64_t batches, std::int64_t extent, std::int64_t other) {
        graph g;
        const node_id q = g.q(), k = g.k(), v = g.v(), n = g.scalar("n", i32), m = g.scalar("m", i32);
        const node_id real = g.add(operation::load, kind::real, {q});
        g.add(operation::precomputed, kind::precomputed, {real, g.integer(0), n, g.integer(0), m});
        g.output("out", g.attend(g.softmax(g.scores(q, k)), v));
        memory of;
        return call(
            g, {view("q", of({batches, 1, 1, 8})), view("k", of({batches, 1, 7, 8})), view("v", of({batches, 1, 7, 4})),
                number("n", extent), number("m", other), view("out", of({batches, 1, 1, 4}))});
    };
    CHECK(said(1, most, 1) == "");
    CHECK(said(1, 0, most) == "");
    for (const auto& [batches, extent, other] : {std::array{std::int64_t{1}, most + 1, std::int64_t{1}},
                                                 {1, 2, most / 2 + 1},
                                                 {2, most / 2 + 1, 1},
                                                 {1, std::int64_t{1} << 30, std::int64_t{1} << 30}})
        CHECK_THAT(
            said(batches, extent, other),
            StartsWith("attune: expected at most 536870911 elements in precomputed(...), got more; try fewer batch"));
    CHECK_THAT(said(1, -1, 1),
               StartsWith("attune: expected an extent from 0 to 2147483647 in precomputed(...), got -1; try max(0"));
}

TEST_CASE("sums of a gradient's kernel take 2^31 - 1 bytes, and no more") {
    graph g;
    g.output("out", g.attend(g.softmax(g.scores(g.q(), g.k())), g.v()));
    std::vector<attune::kernel> kernels = kernels_of(g);
    const attune::kernel_table table{
        .version = attune::kernel_table_version, .variant = "by::hand", .graph = g.graph_ir(), .kernels = kernels};
    memory m;
    const arguments given{view("q", m({1, 1, 1, 8})), view("k", m({1, 1, 7, 8})), view("v", m({1, 1, 7, 4})),
                          view("out", m({1, 1, 1, 4}))};
    called = &g;
    kernels[0].query_block = 1, kernels[0].sums = {.parts = 1, .blocks_of_part = 1};
    constexpr std::size_t most = std::numeric_limits<std::int32_t>::max();
    for (const std::size_t bytes : {most, most + 1}) {
        kernels[0].sums.of_query = bytes;
        const std::string said = refusal_of(table, given);
        CAPTURE(bytes, said);
        CHECK(said.starts_with("attune: expected at most 2147483647 bytes of sums that the gradient's kernel keeps for "
                               "itself, got 2147483648") == (bytes > most));
        CHECK(said.empty() == (bytes == most));
    }
}

TEST_CASE("a tensor that a kernel computes in full takes less than 2^31 bytes") {
    graph g;
    const node_id n = g.scalar("n", i32), q = g.q(), table = g.input("table", f32, {axis_kind::free, axis_kind::depth});
    const node_id keys = g.add(operation::keys, kind::tensor, {g.add(operation::load, kind::real, {table}), n});
    g.add(operation::load, kind::real, {keys});  // which makes it one that is computed in full
    g.output("lse", g.add(operation::log_sum_exp, kind::row, {g.scores(q, keys)}));
    std::vector<attune::kernel> kernels = kernels_of(g);
    kernels[0].product_positions = 1;
    const attune::kernel_table of_products{
        .version = attune::kernel_table_version, .variant = "by::hand", .graph = g.graph_ir(), .kernels = kernels};
    memory m;
    arguments given{number("n", 0), view("q", m({2, 4, 1, 8})), view("table", m({3, 8})), view("lse", m({2, 4, 1}))};
    called = &g;
    constexpr std::int64_t least_refused = std::int64_t{1} << 23;  // keys of 8 heads, 8 channels, 4 bytes
    for (const std::int64_t length : {least_refused - 1, least_refused}) {
        given[0].integer = length;
        const std::string said = refusal_of(of_products, given);
        CAPTURE(length, said);
        CHECK(said.starts_with("attune: expected at most 2147483647 bytes of each tensor that the kernel computes in "
                               "full, and of its factors, got 2147483648") == (length == least_refused));
        CHECK(said.empty() == (length < least_refused));
    }
}
