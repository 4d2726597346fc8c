// States in engines: drafts that are verified before they count, and states kept for prompts that begin alike.
#include "drawn_call.hpp"
#include "kernels.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>

using namespace attune;
using attune::testing::drawn_call;

namespace {

namespace of = state_kernels;

constexpr std::int64_t depth = 16;

/// The arguments of a call of some of its tokens, from one state to another.
std::vector<detail::named_argument> some_tokens(drawn_call& call, std::int64_t first, std::int64_t count,
                                                std::vector<float>& before, std::vector<float>* after) {
    std::vector<detail::named_argument> all = call.arguments();
    for (detail::named_argument& each : all) {
        attune::testing::drawn_tensor& whole = call.at(each.name);
        if (each.name == "state_in") each.view = tensor(before.data(), whole.extents);
        if (each.name == "state_out") each.view = tensor(after->data(), whole.extents);
        if (whole.query_axis == whole.extents.size()) continue;
        std::vector<std::int64_t> extents = whole.extents, steps(extents.size(), 1);
        for (std::size_t axis = extents.size() - 1; axis > 0; --axis) steps[axis - 1] = steps[axis] * extents[axis];
        extents[whole.query_axis] = count;
        each.view = tensor(whole.floats.data() + first * steps[whole.query_axis], extents, steps);
    }
    return all;
}

int moved = 0;  ///< calls that move states
int counted(void** arguments) {
    ++moved;
    return detail::run_recurrence(arguments);
}

}  // namespace

TEST_CASE("drafts are verified without a write to the state, and those that are accepted are committed", "[state]") {
    constexpr std::int64_t drafts = 4, accepted = 2;
    drawn_call verified(detail::table_of<of::gated_drafts>(), drafts, depth, depth),
        committed(detail::table_of<of::gated_on>(), drafts, depth, depth);  // both draw the same numbers
    std::vector<float> state = verified.at("state_in").floats;
    const std::vector<float> before = state;
    detail::call(verified.table, some_tokens(verified, 0, drafts, state, nullptr), {});
    CHECK(state == before);

    // The verified results are those of tokens one by one.
    std::vector<float> one_by_one = before;
    for (std::int64_t t = 0; t < drafts; ++t)
        detail::call(committed.table, some_tokens(committed, t, 1, one_by_one, &one_by_one), {});
    for (std::size_t n = 0; n < verified.at("out").floats.size(); ++n)
        CHECK(std::abs(verified.at("out").floats[n] - committed.at("out").floats[n]) < 2e-5f);

    // The accepted ones move the state in place, as if the others had never been.
    detail::call(committed.table, some_tokens(committed, 0, accepted, state, &state), {});
    std::vector<float> expected = before;
    for (std::int64_t t = 0; t < accepted; ++t)
        detail::call(committed.table, some_tokens(committed, t, 1, expected, &expected), {});
    for (std::size_t n = 0; n < state.size(); ++n) CHECK(std::abs(state[n] - expected[n]) < 2e-5f);
    CHECK(state != before);
}

TEST_CASE("a state kept at a prefix's end goes on in bits as the whole prompt does", "[state]") {
    constexpr std::int64_t tokens = 80, prefix = 32;  // a multiple of a chunk
    drawn_call call(detail::table_of<of::gated_on>(), tokens, depth, depth);
    call.run();
    const std::vector<float> out = call.at("out").floats, after = call.at("state_out").floats;

    // A prompt that is computed in parts, each of which leaves its state in a place of its own.
    std::vector<std::vector<float>> kept{call.at("state_in").floats};
    for (std::int64_t first = 0; first < tokens; first += prefix) {
        std::vector<float> next(after.size());
        detail::call(call.table, some_tokens(call, first, std::min(prefix, tokens - first), kept.back(), &next), {});
        kept.push_back(next);
    }
    CHECK(call.at("out").floats == out);
    CHECK(kept.back() == after);

    // Another prompt with the same first tokens begins with one of them.
    std::ranges::fill(call.at("out").floats, 0.0f);
    std::vector<float> end(after.size());
    detail::call(call.table, some_tokens(call, 2 * prefix, tokens - 2 * prefix, kept[2], &end), {});
    CHECK(end == after);
    for (std::int64_t h = 0; h < call.heads; ++h)
        CHECK(std::equal(out.begin() + (h * tokens + 2 * prefix) * depth, out.begin() + (h + 1) * tokens * depth,
                         call.at("out").floats.begin() + (h * tokens + 2 * prefix) * depth));
}

TEST_CASE("slots of a pool without tokens rest, beside those that go on", "[state]") {
    constexpr std::int64_t slots = 6, tokens = 4;
    drawn_call call(detail::table_of<of::gated_on>(), tokens, depth, depth);
    const std::size_t state = call.at("state_in").floats.size();
    const std::size_t step = state + 32;  // from slot to slot
    std::vector<float> pool(slots * step);
    for (std::size_t s = 0; s < slots; ++s)
        for (std::size_t n = 0; n < state; ++n)
            pool[s * step + n] = call.at("state_in").floats[n] + static_cast<float>(s);
    const std::vector<float> before = pool;

    kernel_table table = call.table;
    table.recurrence = counted, moved = 0;
    const std::int32_t starts[] = {0, 0, 3, 3, 3, 4, 4};  // three tokens of slot 1, one of slot 4
    const std::int64_t shape[] = {slots, call.heads, depth, depth}, seven[] = {slots + 1},
                       steps[] = {static_cast<std::int64_t>(step), depth * depth, depth, 1};
    std::vector<detail::named_argument> arguments = call.arguments();
    for (detail::named_argument& each : arguments)
        if (each.name == "state_in" || each.name == "state_out") each.view = tensor(pool.data(), shape, steps);
    arguments.emplace_back().name = "cu_seqlens_q", arguments.back().view = tensor(starts, seven);
    detail::call(table, arguments, {});
    CHECK(moved == 2);
    const std::vector<float> out = call.at("out").floats;

    for (std::int64_t s = 0; s < slots; ++s) {
        const auto first = before.begin() + s * static_cast<std::ptrdiff_t>(step);
        std::vector<float> alone(first, first + static_cast<std::ptrdiff_t>(state));
        const std::int64_t from = starts[s], count = starts[s + 1] - from;
        if (count > 0) detail::call(call.table, some_tokens(call, from, count, alone, &alone), {});
        INFO("slot " << s);
        CHECK(std::equal(alone.begin(), alone.end(), pool.begin() + s * static_cast<std::ptrdiff_t>(step)));
    }
    CHECK(call.at("out").floats == out);
}
