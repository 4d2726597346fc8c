// At each limit of a call: a number just within it is taken, and a number just beyond it is refused.
#include "fake_variant.hpp"

#include <attune/c.h>
#include <attune/dlpack.hpp>
#include <attune/runtime.hpp>
#include <attune/runtime/detail/c_variant.hpp>
#include <attune/runtime/detail/call.hpp>

#include <catch2/catch_test_macros.hpp>

#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

using attune::memory, attune::tensor;
using attune::detail::named_argument;

namespace {

template <class F> bool refuses(F call) {
    try {
        call();
        return false;
    } catch (const attune::error&) {
        return true;
    }
}

std::vector<named_argument> with(fake::call& c, std::string_view name, named_argument other) {
    std::vector<named_argument> all = c.arguments();
    for (named_argument& each : all)
        if (each.name == name) other.name = name, each = other;
    return all;
}
named_argument view(const tensor& t) { return {.name = {}, .is = named_argument::form::view, .view = t}; }
named_argument integer(std::int64_t number) {
    return {.name = {}, .is = named_argument::form::integer, .integer = number};
}

}  // namespace

TEST_CASE("axes of a view are counted up to eight, and exchanged from the first to the last") {
    float x[1]{};
    CHECK(tensor(x, {1, 1, 1, 1, 1, 1, 1, 1}).rank() == 8);
    CHECK(refuses([&] { tensor(x, {1, 1, 1, 1, 1, 1, 1, 1, 1}); }));
    const tensor t(x, {2, 3, 4});
    CHECK(t.swapped(0, 2).extent(0) == 4);
    CHECK(t.swapped(2, 0).extent(2) == 2);
    CHECK(t.swapped(1, 1).extent(1) == 3);
    for (const int beyond : {-1, 3, std::numeric_limits<int>::min(), std::numeric_limits<int>::max()}) {
        CHECK(refuses([&] { (void)t.swapped(beyond, 0); }));
        CHECK(refuses([&] { (void)t.swapped(0, beyond); }));
    }
}

TEST_CASE("a device has an index of fifteen bits, or none") {
    const tensor t(static_cast<float*>(nullptr), {0});
    constexpr int most = std::numeric_limits<std::int16_t>::max() - 1;
    for (const int device : {-1, 0, 1, most}) CHECK(t.in(memory::cuda, device).device() == device);
    for (const int device : {-3, -2, most + 1, most + 2}) CHECK(refuses([&] { (void)t.in(memory::cuda, device); }));
    CHECK(t.in(memory::host, -1).device() == -1);
    for (const int device : {-2, 0, 1}) CHECK(refuses([&] { (void)t.in(memory::host, device); }));
}

TEST_CASE("threads are from 0, in the environment from 1, to 4096") {
    ::unsetenv("ATTUNE_THREADS");
    for (const int count : {-1, 4097}) {
        CHECK(refuses([&] { attune::set_threads(count); }));
        fake::call c;
        CHECK(fake::refusal(c.arguments(), {.threads = count}) != "");
        CHECK(c.untouched());
    }
    attune::set_threads(4096);
    CHECK(attune::threads() == 4096);
    attune::set_threads(0);
    for (const char* const right : {"1", "4096"}) {
        ::setenv("ATTUNE_THREADS", right, 1);
        CHECK(attune::threads() == std::atoi(right));
    }
    for (const char* const wrong : {"0", "4097", "-1", "3 ", " 3", "x", "3x", "99999999999999999999"}) {
        INFO(wrong);
        ::setenv("ATTUNE_THREADS", wrong, 1);
        CHECK(refuses([] { (void)attune::threads(); }));
    }
    ::setenv("ATTUNE_THREADS", "", 1);
    CHECK(attune::threads() >= 1);
    ::unsetenv("ATTUNE_THREADS");
}

TEST_CASE("ATTUNE_DETERMINISTIC and ATTUNE_CHECKED are 0, 1 or unset") {
    fake::call c;
    for (const char* const variable : {"ATTUNE_DETERMINISTIC", "ATTUNE_CHECKED"}) {
        INFO(variable);
        for (const char* const right : {"0", "1", ""}) {
            ::setenv(variable, right, 1);
            CHECK(!refuses([&] { (void)attune::detail::explain(fake::kernels(), c.arguments(), {}); }));
        }
        for (const char* const wrong : {"2", "yes", "00"}) {
            ::setenv(variable, wrong, 1);
            CHECK(refuses([&] { (void)attune::detail::explain(fake::kernels(), c.arguments(), {}); }));
        }
        ::unsetenv(variable);
    }
}

TEST_CASE("an integer has 32 bits") {
    constexpr std::int64_t least = std::numeric_limits<std::int32_t>::min(),
                           most = std::numeric_limits<std::int32_t>::max();
    fake::call c;
    for (const std::int64_t number : {least, most}) CHECK(fake::refusal(with(c, "w", integer(number))) == "");
    c.fill();
    for (const std::int64_t number : {least - 1, most + 1}) CHECK(fake::refusal(with(c, "w", integer(number))) != "");
    CHECK(c.untouched());
}

TEST_CASE("extents, strides and steps are counted to 2^31 - 1") {
    constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
    fake::call c;
    c.keys = 1, c.fill();
    float* const k = c.k.data();
    // An axis of one element has any stride: it is never stepped over.
    for (const std::int64_t stride : {most, most + 1, std::int64_t{1} << 40})
        CHECK(fake::refusal(with(c, "k", view(tensor(k, {2, 2, 1, 8}, {16, 8, stride, 1})))) == "");
    c.fill();
    // Along the keys, which no part of a call leaves out.
    const auto message = [&](tensor::extent_list keys, tensor::extent_list stride) {
        return fake::refusal(with(c, "k", view(tensor(k, {2, 2, *keys.begin(), 8}, {0, 0, *stride.begin(), 1}))));
    };
    CHECK_FALSE(message({most}, {1}).starts_with("attune: expected an extent from 0"));
    CHECK(message({most + 1}, {1}).starts_with("attune: expected an extent from 0"));
    CHECK(message({-1}, {1}).starts_with("attune: expected an extent from 0"));
    CHECK(message({4}, {most}).starts_with("attune: expected at most 2147483647 elements"));
    CHECK(message({4}, {-most}).starts_with("attune: expected at most 2147483647 elements"));
    CHECK(message({4}, {most + 1}).starts_with("attune: expected a stride of at most 2147483647"));
    CHECK(message({4}, {-most - 1}).starts_with("attune: expected a stride of at most 2147483647"));
    // most is a prime number: of one element less, three steps.
    CHECK_FALSE(message({3}, {(most - 1) / 3}).starts_with("attune: expected at most 2147483647 elements"));
    CHECK(message({3}, {(most - 1) / 3 + 1}).starts_with("attune: expected at most 2147483647 elements"));
    CHECK(c.untouched());
}

TEST_CASE("key lengths are from 0 to the keys") {
    fake::call c;
    const auto message = [&](std::int32_t length) {
        c.lengths.assign(2, length);
        auto all = c.arguments();
        std::erase_if(all, [](const named_argument& a) { return a.name == "kv_lengths"; });
        all.push_back(view(tensor(c.lengths.data(), {2})));
        all.back().name = "kv_lengths";
        return fake::refusal(all);
    };
    for (const std::int32_t length : {-1, 8}) CHECK(message(length) != "");
    CHECK(c.untouched());
    for (const std::int32_t length : {0, 7}) CHECK(message(length) == "");
}

TEST_CASE("the C structs are within the same limits") {
    fake::call c;
    static const attune_variant variant{ATTUNE_C_VERSION, &attune::detail::this_runtime, fake::kernels};
    float x[1]{};
    static const std::int64_t ones[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    attune_tensor right{};
    right.data = x, right.element = ATTUNE_F32, right.rank = 1, right.shape = ones;
    const auto sentence = [&](auto spoil) {
        attune_tensor t = right;
        spoil(t);
        attune_argument argument{};
        argument.name = "q", argument.kind = ATTUNE_TENSOR, argument.tensor = t;
        CHECK(attune_run(&variant, &argument, 1, nullptr) == ATTUNE_REFUSED);
        return std::string(attune_error_text());
    };
    const auto is_about = [](const std::string& text, const char* what) { return text.find(what) != text.npos; };
    for (const int rank : {0, 8})
        CHECK_FALSE(
            is_about(sentence([&](auto& t) { t.rank = rank, t.shape = rank ? ones : nullptr; }), "0 to 8 axes"));
    for (const int rank : {-1, 9}) CHECK(is_about(sentence([&](auto& t) { t.rank = rank; }), "0 to 8 axes"));
    CHECK(is_about(sentence([](auto& t) { t.shape = nullptr; }), "a shape of 1 extents"));
    for (const int where : {0, 2})
        CHECK_FALSE(is_about(sentence([&](auto& t) { t.memory = where; }), "memory of q from 0 to 2"));
    for (const int where : {-1, 3})
        CHECK(is_about(sentence([&](auto& t) { t.memory = where; }), "memory of q from 0 to 2"));
    for (const int device : {-1, 1, 2}) CHECK(is_about(sentence([&](auto& t) { t.device = device; }), "a device of q"));
    const auto on_cuda = [](int device) { return [device](auto& t) { t.memory = ATTUNE_CUDA, t.device = device; }; };
    for (const int device : {0, 1, 2}) CHECK_FALSE(is_about(sentence(on_cuda(device)), "a device of q"));
    CHECK(is_about(sentence(on_cuda(-1)), "a device of q"));
}

TEST_CASE("the C functions count arguments to 1024, and options to their first version's size") {
    static const attune_variant variant{ATTUNE_C_VERSION, &attune::detail::this_runtime, fake::kernels};
    std::vector<attune_argument> many(1025);
    for (attune_argument& each : many) each.name = "q", each.kind = ATTUNE_INTEGER;
    const auto sentence = [&](const attune_argument* arguments, std::size_t count,
                              const attune_options* how = nullptr) {
        CHECK(attune_run(&variant, arguments, count, how) == ATTUNE_REFUSED);
        return std::string(attune_error_text());
    };
    CHECK(sentence(many.data(), 1025).find("at most 1024 arguments") != std::string::npos);
    CHECK(sentence(many.data(), 1024).find("at most 1024 arguments") == std::string::npos);
    CHECK(sentence(nullptr, 1).find("1 arguments, got null") != std::string::npos);
    CHECK(sentence(nullptr, 0).find("the input q") != std::string::npos);
    for (const int off : {0, 1}) {
        attune_variant other = variant;
        other.version += off == 0 ? 1 : -1;
        CHECK(attune_run(&other, nullptr, 0, nullptr) == ATTUNE_REFUSED);
        CHECK(std::string(attune_error_text()).find("the input q") == std::string::npos);
    }
    attune_options how{};
    how.size = offsetof(attune_options, pool_state) + sizeof(void*);
    CHECK(sentence(nullptr, 0, &how).find("options of at least") == std::string::npos);
    how.size -= 1;
    CHECK(sentence(nullptr, 0, &how).find("options of at least") != std::string::npos);
    how.size = sizeof how;
    for (const int reserved : {-1, 1}) {
        how.reserved[2] = reserved;
        CHECK(sentence(nullptr, 0, &how).find("0 in reserved of attune_options") != std::string::npos);
        many[0].reserved = reserved;
        CHECK(sentence(many.data(), 1).find("0 in reserved of the argument q") != std::string::npos);
    }
    how.reserved[2] = 0, how.device = -1;
    CHECK(sentence(nullptr, 0, &how).find("a device that is 0") != std::string::npos);
    how.device = 0;
    CHECK(sentence(nullptr, 0, &how).find("a device that is 0") == std::string::npos);
}

TEST_CASE("DLPack's axes and versions are within the same limits") {
    float x[1]{};
    std::int64_t ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    DLTensor given{.data = x,
                   .device = {kDLCPU, 0},
                   .ndim = 8,
                   .dtype = {kDLFloat, 32, 1},
                   .shape = ones,
                   .strides = nullptr,
                   .byte_offset = 0};
    CHECK(attune::from_dlpack(given).rank() == 8);
    given.ndim = 0, given.shape = nullptr;
    CHECK(attune::from_dlpack(given).rank() == 0);
    for (const int axes : {-1, 9}) {
        given.ndim = axes, given.shape = ones;
        std::string message;
        try {
            (void)attune::from_dlpack(given);
        } catch (const attune::error& e) {
            message = e.what();
        }
        CHECK(message.starts_with("attune: expected a DLPack tensor of at most 8 axes"));
    }
    given.ndim = 1, given.shape = nullptr;
    CHECK(refuses([&] { (void)attune::from_dlpack(given); }));
    given.shape = ones, given.device = {kDLOpenCL, 0};
    CHECK(attune::from_dlpack(given).where() == memory::opencl);
    given.byte_offset = 4;
    CHECK(refuses([&] { (void)attune::from_dlpack(given); }));
    given.device = {kDLCPU, 0};
    CHECK(attune::from_dlpack(given).data() == x + 1);
    DLManagedTensorVersioned managed{};
    managed.dl_tensor = given;
    managed.version = {1, 1};
    CHECK(attune::from_dlpack(managed).rank() == 1);
    for (const int step : {-1, 1}) {
        managed.version.major = static_cast<std::uint32_t>(1 + step);
        CHECK(refuses([&] { (void)attune::from_dlpack(managed); }));
    }
}

TEST_CASE("the C functions of DLPack look at all their pointers") {
    float x[1]{};
    std::int64_t one[1] = {1};
    DLManagedTensor managed{};
    managed.dl_tensor = {.data = x,
                         .device = {kDLCPU, 0},
                         .ndim = 1,
                         .dtype = {kDLFloat, 32, 1},
                         .shape = one,
                         .strides = nullptr,
                         .byte_offset = 0};
    attune_tensor t{};
    attune_argument argument{};
    CHECK(attune_tensor_from_dlpack(&managed, 0, &t) == ATTUNE_OK);
    CHECK(attune_tensor_from_dlpack(&managed, 0, nullptr) == ATTUNE_REFUSED);
    CHECK(attune_tensor_from_dlpack(nullptr, 0, &t) == ATTUNE_REFUSED);
    CHECK(attune_argument_from_dlpack("q", &managed, 0, &argument) == ATTUNE_OK);
    CHECK(attune_argument_from_dlpack("q", &managed, 0, nullptr) == ATTUNE_REFUSED);
    CHECK(attune_argument_from_dlpack(nullptr, &managed, 0, &argument) == ATTUNE_REFUSED);
    CHECK(attune_tensor_to_dlpack(&t, 1, nullptr, nullptr, nullptr) == ATTUNE_REFUSED);
    void* made = nullptr;
    CHECK(attune_tensor_to_dlpack(nullptr, 1, nullptr, nullptr, &made) == ATTUNE_REFUSED);
    CHECK(made == nullptr);
}
