#include "stack_calls.hpp"

#include "../support/small_stack.hpp"
#include "kernel/level.hpp"

#include <attune/c.h>
#include <attune/dlpack.hpp>
#include <attune/runtime/cpu.hpp>
#include <attune/runtime/detail/c_variant.hpp>
#include <attune/runtime/error.hpp>

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <functional>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <utility>

using namespace attune;
using namespace attune::testing;

namespace stack {
namespace {

attune_argument in_c(const detail::named_argument& given) {
    if (given.is != detail::named_argument::form::view)
        return given.is == detail::named_argument::form::real
                   ? attune_real_argument(given.name.data(), given.real)
                   : attune_integer_argument(given.name.data(), static_cast<std::int32_t>(given.integer));
    constexpr std::pair<element_type, std::int32_t> codes[] = {{element_type::f32, ATTUNE_F32},
                                                               {element_type::bf16, ATTUNE_BF16},
                                                               {element_type::f16, ATTUNE_F16},
                                                               {element_type::i32, ATTUNE_I32},
                                                               {element_type::u8, ATTUNE_U8}};
    const auto code = std::ranges::find(codes, given.view.type(), &std::pair<element_type, std::int32_t>::first);
    REQUIRE(code != std::end(codes));
    attune_tensor view = attune_dense(given.view.mutable_data(), code->second,
                                      static_cast<std::int32_t>(given.view.rank()), given.view.shape().data());
    view.data = const_cast<void*>(given.view.data());
    view.strides = given.view.strides().data();
    view.read_only = given.view.read_only();
    return attune_tensor_argument(given.name.data(), view);
}

const kernel_table* called_from_c = nullptr;
constexpr attune_variant variant{ATTUNE_C_VERSION, &detail::this_runtime,
                                 []() -> const kernel_table& { return *called_from_c; }};

/// The first tensor as DLPack's and back, in both languages.
bool goes_through_dlpack(const std::vector<detail::named_argument>& arguments,
                         const std::vector<attune_argument>& in_c) {
    const auto first = static_cast<std::size_t>(
        std::ranges::find_if(arguments, [](const auto& each) { return each.view.rank() > 0; }) - arguments.begin());
    DLManagedTensorVersioned* const managed = to_dlpack(arguments[first].view);
    const tensor back = from_dlpack(*managed, arguments[first].name);
    managed->deleter(managed);
    void* given = nullptr;
    attune_argument again{};
    if (attune_tensor_to_dlpack(&in_c[first].tensor, 1, nullptr, nullptr, &given) != ATTUNE_OK) return false;
    const bool came_back = attune_argument_from_dlpack(in_c[first].name, given, 1, &again) == ATTUNE_OK;
    auto* const from_c = static_cast<DLManagedTensorVersioned*>(given);
    from_c->deleter(from_c);
    return came_back && back.data() == arguments[first].view.data() && again.tensor.data == in_c[first].tensor.data;
}

struct door {
    const char* name;
    std::function<bool()> open;  ///< whether what was called did what it should
};

bool refuses(const std::function<void()>& call) {
    try {
        call();
    } catch (const error&) {
        return true;
    }
    return false;
}

void check(const std::vector<door>& doors) {
    const std::size_t nothing = touched(roomy_stack, [] {});
    for (const door& each : doors) {
        INFO(each.name);
        int done = 0;
        const auto enter = [&] { done += each.open(); };
        enter();  // what is made once is there
        CHECK(touched(roomy_stack, enter) - nothing <= most_of_a_stack);
        touched(small_stack, enter);
        CHECK(done == 3);
    }
}

}  // namespace

std::vector<std::string> levels_here() {
    std::vector<std::string> names;
    for (const generators::level& each : generators::levels())
        if (!each.is_gpu && runs(each.name)) names.emplace_back(each.name);
    if (names.empty()) throw std::runtime_error("no level runs here");
    return names;
}

generators::jit_kernel kernel_of(const generators::variant& variant, const std::string& types,
                                 const std::string& depths, const std::string& shapes, const std::string& level) {
    return generators::jit_kernel(
        generators::kernels_of({&variant, 1},
                               {.targets = {level}, .dtypes = {types}, .depths = {depths}, .shapes = {shapes}})
            .front());
}

void check_calls(const kernel_table& kernel, const std::vector<detail::named_argument>& arguments) {
    auto refused = arguments;
    refused.pop_back();
    std::vector<attune_argument> given;
    for (const detail::named_argument& each : arguments) given.push_back(in_c(each));
    called_from_c = &kernel;
    attune_options two_threads{};
    two_threads.size = sizeof two_threads, two_threads.threads = 2;
    std::vector<char> text(std::size_t{1} << 20);
    const bool packed = std::ranges::find(arguments, "cu_seqlens_q", &detail::named_argument::name) != arguments.end();
    const auto once = detail::prepare(kernel, arguments, {.threads = 2});
    const auto called = [&](const options& how) { return detail::call(kernel, arguments, how), true; };
    const auto says_what_it_takes = [](const explanation& what) {
        return what.stack_bytes == most_of_a_stack && !what.json().empty() && !what.text().empty();
    };
    const auto has_blocks = [&](const auto& of) {  // of one sequence alone
        return packed ? refuses([&] { of(); }) : of().total() >= 0;
    };
    check({{"call", [&] { return called({.threads = 1}); }},
           {"call on two threads", [&] { return called({.threads = 2}); }},
           {"call whose indices are all checked", [&] { return called({.threads = 2, .checked = true}); }},
           {"explain", [&] { return says_what_it_takes(detail::explain(kernel, arguments, {.threads = 2})); }},
           {"blocks", [&] { return has_blocks([&] { return detail::blocks(kernel, arguments, {}); }); }},
           {"kernels", [&] { return !detail::kernels(kernel).json().empty(); }},
           {"refused call", [&] { return refuses([&] { detail::call(kernel, refused, {}); }); }},
           {"prepare", [&] { return detail::prepare(kernel, arguments, {.threads = 2}) != nullptr; }},
           {"prepared call", [&] { return detail::call(*once), true; }},
           {"explain of a prepared call", [&] { return says_what_it_takes(detail::explain(*once)); }},
           {"blocks of a prepared call", [&] { return has_blocks([&] { return detail::blocks(*once); }); }},
           {"refused prepare", [&] { return refuses([&] { detail::prepare(kernel, refused, {}); }); }}});
    const auto answered = [&](attune_status status) { return status == ATTUNE_OK && text[0] == '{'; };
    check({{"call from C", [&] { return attune_run(&variant, given.data(), given.size(), &two_threads) == ATTUNE_OK; }},
           {"refused call from C",
            [&] { return attune_run(&variant, given.data(), given.size() - 1, &two_threads) == ATTUNE_REFUSED; }},
           {"explain from C",
            [&] {
                return answered(attune_explain(&variant, given.data(), given.size(), &two_threads, text.data(),
                                               text.size(), nullptr));
            }},
           {"blocks from C",
            [&] {
                const attune_status status = attune_blocks(&variant, given.data(), given.size(), &two_threads,
                                                           text.data(), text.size(), nullptr);
                return packed ? status == ATTUNE_REFUSED : answered(status);
            }},
           {"kernels from C", [&] { return attune_kernels(&variant, text.data(), text.size(), nullptr) == ATTUNE_OK; }},
           {"describe from C", [&] { return answered(attune_describe(&variant, text.data(), text.size(), nullptr)); }},
           {"DLPack", [&] { return goes_through_dlpack(arguments, given); }}});
}

}  // namespace stack
