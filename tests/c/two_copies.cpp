// Two copies of attune in one process: the program's own, linked statically, and that of a shared library which it
// opens. Each has Halide's support library inside, with hooks of its own; calls through either, and of either's
// variants through the other's functions, go on side by side.
#include <attune_common.h>
#include <attune/common.hpp>
#include <attune/runtime.hpp>

#include <dlfcn.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

namespace {

constexpr std::int64_t shape[] = {1, 4, 70, 64};
constexpr std::size_t count = 4 * 70 * 64;
std::vector<float> q_data(count), k_data(count), v_data(count), expected(count);
std::atomic<int> failures{0};

void check(bool truth, const char* what) {
    if (!truth) ++failures, std::printf("FAILED  %s\n", what);
}

attune_argument view(const char* name, std::vector<float>& data) {
    return attune_tensor_argument(name, attune_dense(data.data(), ATTUNE_F32, 4, shape));
}

using run_function = decltype(&attune_run);
using variant_function = decltype(&attune_common_causal_attention_variant);
using text_function = decltype(&attune_error_text);

void call_many_times(run_function run, const attune_variant* variant, text_function text) {
    for (int i = 0; i < 20; ++i) {
        std::vector<float> out(count);
        attune_argument list[] = {view("q", q_data), view("k", k_data), view("v", v_data), view("out", out)};
        check(run(variant, list, 4, nullptr) == ATTUNE_OK, "a call");
        check(std::memcmp(out.data(), expected.data(), count * sizeof(float)) == 0, "its result, bit by bit");
        list[3].tensor.read_only = 1;
        check(run(variant, list, 4, nullptr) == ATTUNE_REFUSED, "a refusal");
        check(std::strstr(text(), "written") != nullptr, "the sentence is that of this thread and this copy");
    }
}

}  // namespace

int main(int, char** argv) {
    using namespace attune::common;
    for (std::size_t i = 0; i < count; ++i) {
        const auto x = static_cast<float>(i);
        q_data[i] = std::sin(0.3f * x), k_data[i] = std::cos(0.7f * x), v_data[i] = std::sin(1.1f * x);
    }
    const auto tensor = [](std::vector<float>& data) { return attune::tensor(data.data(), shape); };
    attune::run<causal_attention>(q = tensor(q_data), k = tensor(k_data), v = tensor(v_data), out = tensor(expected));

    void* const library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (!library) return std::printf("FAILED  %s\n", dlerror()), 1;
    const auto find = [&](const char* name) { return dlsym(library, name); };
    const auto their_run = reinterpret_cast<run_function>(find("attune_run"));
    const auto their_variant = reinterpret_cast<variant_function>(find("attune_common_causal_attention_variant"))();
    const auto their_text = reinterpret_cast<text_function>(find("attune_error_text"));
    const attune_variant* const our_variant = attune_common_causal_attention_variant();
    check(their_run != &attune_run && their_variant != our_variant, "there are two copies");
    {
        std::vector<std::jthread> threads;
        threads.emplace_back(call_many_times, &attune_run, our_variant, &attune_error_text);
        threads.emplace_back(call_many_times, their_run, their_variant, their_text);
        threads.emplace_back(call_many_times, &attune_run, their_variant, &attune_error_text);
        threads.emplace_back(call_many_times, their_run, our_variant, their_text);
    }
    // The library holds threads: closing it leaves it where it is.
    dlclose(library);
    call_many_times(their_run, their_variant, their_text);
    if (failures == 0) std::printf("two copies, side by side\n");
    return failures == 0 ? 0 : 1;
}
