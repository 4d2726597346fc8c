#include "gated_delta_net.hpp"

#include <attune/runtime.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <random>
#include <vector>

// A prompt, and then tokens one by one, with one state that each call leaves where it found it. Both ways through the
// same tokens come to the same outputs.

namespace {

constexpr std::int64_t batches = 1, heads = 4, key_heads = 2, depth = 128, prompt = 100, all = 120;

std::vector<float> random(std::int64_t count, float lowest, float highest, unsigned seed) {
    std::mt19937 bits(seed);
    std::uniform_real_distribution<float> draw(lowest, highest);
    std::vector<float> numbers(static_cast<std::size_t>(count));
    for (float& x : numbers) x = draw(bits);
    return numbers;
}

struct tokens {
    std::vector<float> q = random(key_heads * all * depth, -1, 1, 1), k = random(key_heads * all * depth, -1, 1, 2),
                       v = random(heads * all * depth, -1, 1, 3), log_decay = random(heads * all, -0.5, 0, 4),
                       beta = random(heads * all, 0, 1, 5);

    /// Some of them, of which `out` gets the rows. The state goes on in place.
    void run(std::int64_t first, std::int64_t count, std::vector<float>& state, std::vector<float>& out) {
        const auto rows = [&](std::vector<float>& x, std::int64_t of_heads) {
            const std::int64_t shape[] = {batches, of_heads, count, depth},
                               steps[] = {of_heads * all * depth, all * depth, depth, 1};
            return attune::tensor(x.data() + first * depth, shape, steps);
        };
        const auto numbers = [&](std::vector<float>& x) {
            const std::int64_t shape[] = {batches, heads, count}, steps[] = {heads * all, all, 1};
            return attune::tensor(x.data() + first, shape, steps);
        };
        const std::int64_t state_shape[] = {batches, heads, depth, depth};
        const attune::tensor now(state.data(), state_shape);
        namespace net = gated_delta_net;
        attune::run<net::layer>(net::q_new = rows(q, key_heads), net::k_new = rows(k, key_heads),
                                net::v_new = rows(v, heads), net::log_decay = numbers(log_decay),
                                net::beta = numbers(beta), net::state = now, attune::dsl::out = rows(out, heads),
                                attune::dsl::output<"state_after"> = now);
    }
};

}  // namespace

int main() {
    tokens of;
    const auto size = static_cast<std::size_t>(heads * all * depth);
    std::vector<float> state(static_cast<std::size_t>(heads * depth * depth)), out(size), whole_state(state.size()),
        whole(size);
    of.run(0, all, whole_state, whole);
    of.run(0, prompt, state, out);
    for (std::int64_t token = prompt; token < all; ++token) of.run(token, 1, state, out);

    double largest = 0;
    for (std::size_t i = 0; i < size; ++i) largest = std::max(largest, std::abs(double{out[i]} - double{whole[i]}));
    std::printf("%d tokens of a prompt and %d one by one, against all in one call: largest difference %.1e\n",
                static_cast<int>(prompt), static_cast<int>(all - prompt), largest);
    return largest < 1e-5 ? 0 : 1;
}
