#include "call/shape/shape.hpp"

#include <attune/dsl.hpp>
#include <attune/runtime/error.hpp>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <memory_resource>
#include <vector>

// Which elements of i64 a call takes: those that fit 32 bits, where it can look.
namespace {

using namespace attune;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace my {
using namespace attune::dsl;
inline constexpr auto document = input<"document", i64>(batch, position);
inline constexpr auto attention = softmax(mask(q * t(k), document(b, q_idx) == document(b, kv_idx))) * v;
}  // namespace my

void look(const tensor& document) {
    const graph_ir graph = dsl::ir_of<my::attention>;
    const detail::named_argument given{.name = "document", .is = detail::named_argument::form::view, .view = document};
    detail::matched_arguments matched(*std::pmr::get_default_resource());
    for (const input_declaration& d : graph.inputs) matched.inputs.push_back(d.name == "document" ? &given : nullptr);
    detail::check_wide_integers(graph, detail::call_shape{}, matched);
}

}  // namespace

TEST_CASE("i64 elements are looked at where the strides say they lie, and nowhere else") {
    std::vector<std::int64_t> elements(64, std::int64_t{1} << 40);  // between the elements
    for (std::size_t b = 0; b < 2; ++b)
        for (std::size_t i = 0; i < 7; ++i) elements[b * 30 + i * 3] = i % 2 == 0 ? 2147483647 : -2147483648;
    const std::int64_t shape[] = {2, 7}, strides[] = {30, 3};
    const tensor strided(elements.data(), shape, strides);
    look(strided);
    elements[30 + 5 * 3] = 2147483648;
    CHECK_THROWS_MATCHES(look(strided), error,
                         MessageMatches(ContainsSubstring("got 2147483648 at (batch 1, position 5)")));
    const std::int64_t nothing[] = {2, 0};
    look(tensor(elements.data(), nothing));
}

TEST_CASE("i64 elements in a device's memory are refused: nobody can look at them") {
    std::vector<std::int64_t> elements(14);
    const std::int64_t shape[] = {2, 7};
    look(tensor(elements.data(), shape));
    CHECK_THROWS_MATCHES(look(tensor(elements.data(), shape).in(memory::cuda)), error,
                         MessageMatches(ContainsSubstring("expected i64 elements of document in host memory")));
}
