// Integers of 64 and of 16 bits, numbers of f64, and a tensor of eight axes, in a kernel that is compiled in process.
#include "../support/workload_values.hpp"
#include "tuner/jit_kernel.hpp"

#include <attune/dsl.hpp>
#include <attune/runtime/cpu.hpp>
#include <attune/runtime/detail/call.hpp>
#include <attune/runtime/error.hpp>
#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <string>

using namespace attune;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using support::workload;

namespace my {
using namespace attune::dsl;

inline constexpr auto document = input<"document", i64>(batch, position);
inline constexpr auto bucket = input<"bucket", i16>(query, key);
inline constexpr auto place = input<"place", i64>(batch, query);
inline constexpr auto table = input<"table", f32>(head, axis<"place">);
inline constexpr auto wide = input<"wide", f32>(batch, head, query, key, axis<"r">, axis<"s">, axis<"t">, axis<"u">);
inline constexpr auto gain = scalar<"gain", f64>;
inline constexpr auto mixed = softmax(mask(q * t(k) * gain + table(h, place(b, q_idx)) + 0.1 * bucket(q_idx, kv_idx) +
                                               wide[b][h][q_idx][kv_idx][1][0][2][q_idx % 2],
                                           document(b, q_idx) == document(b, kv_idx))) *
                              v;

}  // namespace my

namespace {

const generators::jit_kernel& mixed_kernel() {
    static const generators::variant of{"my::mixed", dsl::ir_of<my::mixed>};
    static const generators::jit_kernel made([] {
        std::string level;
        for (const generators::level& each : generators::levels())
            if (level.empty() && runs(each.name)) level = each.name;
        return generators::kernels_of({&of, 1},
                                      {.targets = {level}, .dtypes = {"f32"}, .depths = {"16"}, .shapes = {"prefill"}})
            .front();
    }());
    return made;
}

workload a_call() {
    workload call(dsl::ir_of<my::mixed>,
                  {.batches = 2, .heads = 2, .key_heads = 1, .queries = 21, .keys = 19, .depth = 16, .value_depth = 16},
                  17, {{"gain", 0.3}}, {{"place", 9}, {"r", 2}, {"s", 1}, {"t", 3}, {"u", 2}});
    call.draw("bucket", -300, 300), call.draw("document", 0, 2);
    return call;
}

}  // namespace

TEST_CASE("integers of 64 and 16 bits, a number of f64 and a tensor of eight axes are read as they are") {
    workload call = a_call();
    detail::call(mixed_kernel().table(), call.arguments(), {.threads = 2, .checked = true});
    CHECK(call.largest_error(call.expected(), "out") < 2e-5);
    call["document"].wide[5] = 2147483647, call["document"].wide[24] = -2147483648;
    detail::call(mixed_kernel().table(), call.arguments(), {.threads = 2});
    CHECK(call.largest_error(call.expected(), "out") < 2e-5);
}

TEST_CASE("an integer of 64 bits that does not fit 32 is refused before anything is written") {
    for (const std::int64_t wrong : {std::int64_t{2147483648}, std::int64_t{-2147483649}, std::int64_t{1} << 62}) {
        workload call = a_call();
        call["document"].wide[21 + 4] = wrong;
        CHECK_THROWS_MATCHES(
            detail::call(mixed_kernel().table(), call.arguments(), {}), error,
            MessageMatches(ContainsSubstring("expected document from -2147483648 to 2147483647, integers of 32 bits, "
                                             "got " +
                                             std::to_string(wrong) + " at (batch 1, position 4)")));
        CHECK(outputs_untouched(call));
    }
}

TEST_CASE("an index of 64 bits is checked as one of 32 is") {
    workload call = a_call();
    call["place"].wide[3] = 9;
    CHECK_THROWS_MATCHES(detail::call(mixed_kernel().table(), call.arguments(), {}), error,
                         MessageMatches(ContainsSubstring("expected place from 0 to 8")));
    CHECK(outputs_untouched(call));
}

TEST_CASE("a tensor of i32 is not one of i64") {
    workload call = a_call();
    std::vector<detail::named_argument> arguments = call.arguments();
    std::vector<std::int32_t> narrow(42);
    for (detail::named_argument& each : arguments)
        if (each.name == "document") each.view = tensor(narrow.data(), {2, 21});
    CHECK_THROWS_MATCHES(detail::call(mixed_kernel().table(), arguments, {}), error,
                         MessageMatches(ContainsSubstring("expected i64 elements in document")));
}
