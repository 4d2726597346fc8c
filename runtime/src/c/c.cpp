#include <attune/c.h>
#include <attune/runtime/detail/c_variant.hpp>
#include <attune/runtime/error.hpp>
#include <attune/runtime/team.hpp>
#include <attune/runtime/threads.hpp>

#include "base/text.hpp"
#include "c/support.hpp"

#include <array>
#include <cstring>
#include <functional>
#include <new>

/// The functions of attune/c.h that belong to no variant, and the way to those that do: through the variant, to the
/// runtime that it is part of.
namespace attune::detail {
namespace {

thread_local constinit std::array<char, 2048> last_error{};

attune_status refused(std::string_view text) noexcept {
    put(text, last_error.data(), last_error.size(), nullptr);
    return ATTUNE_REFUSED;
}

attune_status check(const attune_variant* variant) noexcept {
    if (!variant) return refused("attune: expected a variant, got null; try <variant>_variant() of <target>.h");
    if (variant->version != ATTUNE_C_VERSION)
        return refused(
            "attune: expected a variant of this version of attune/c.h, got one of another; try the functions of its "
            "own library");
    return ATTUNE_OK;
}

attune_status answer(const attune_variant* variant, c_calls::question what, const attune_argument* arguments,
                     std::size_t count, const attune_options* options, char* json, std::size_t capacity,
                     std::size_t* length) noexcept {
    if (const attune_status status = check(variant); status != ATTUNE_OK) return status;
    return variant->calls->answer(*variant, what, arguments, count, options, json, capacity, length, last_error.data(),
                                  last_error.size());
}

template <class Work> attune_status guarded_here(Work work) noexcept {
    return guarded(last_error.data(), last_error.size(), work);
}

}  // namespace

std::span<char> error_text_here() noexcept { return last_error; }

}  // namespace attune::detail

using namespace attune::detail;

struct attune_team {
    attune_team(std::int32_t count, attune_barrier barrier, void* state)
        : workers(count, barrier ? std::function<void()>([barrier, state] { barrier(state); }) : nullptr) {}
    attune::team workers;
};

std::int32_t attune_c_version() noexcept { return ATTUNE_C_VERSION; }
const char* attune_version() noexcept { return ATTUNE_VERSION; }
const char* attune_error_text() noexcept { return last_error.data(); }

attune_status attune_run(const attune_variant* variant, const attune_argument* arguments, std::size_t count,
                         const attune_options* options) noexcept {
    if (const attune_status status = check(variant); status != ATTUNE_OK) return status;
    return variant->calls->run(*variant, arguments, count, options, last_error.data(), last_error.size());
}

attune_status attune_prepare(const attune_variant* variant, const attune_argument* arguments, std::size_t count,
                             const attune_options* options, attune_call** call) noexcept {
    if (!call) return refused("attune: expected a place for the call, got null; try the address of an attune_call*");
    *call = nullptr;
    char made[sizeof *call + 1];  // answers end with a zero
    std::size_t length = 0;
    if (const attune_status status =
            answer(variant, c_calls::question::prepare, arguments, count, options, made, sizeof made, &length);
        status != ATTUNE_OK)
        return status;
    if (length != sizeof *call)
        return refused(
            "attune: expected kernels of an attune that has attune_prepare, got those of an older one; try building "
            "them again");
    std::memcpy(call, made, sizeof *call);
    return ATTUNE_OK;
}

attune_status attune_run_prepared(const attune_call* call, const attune_argument* others, std::size_t count) noexcept {
    if (!call) return refused("attune: expected a call, got null; try what attune_prepare made");
    return call->run(*call, others, count, last_error.data(), last_error.size());
}

void attune_free_call(attune_call* call) noexcept {
    if (call) call->free(call);
}

attune_status attune_synchronize(const attune_variant* variant, const attune_options* options) noexcept {
    std::size_t length = 0;
    if (const attune_status status =
            answer(variant, c_calls::question::synchronize, nullptr, 0, options, nullptr, 0, &length);
        status != ATTUNE_OK)
        return status;
    return length > 0 ? ATTUNE_OK
                      : refused(
                            "attune: expected kernels of an attune that has attune_synchronize, got those of an older "
                            "one; try building them again");
}

attune_status attune_explain(const attune_variant* variant, const attune_argument* arguments, std::size_t count,
                             const attune_options* options, char* json, std::size_t capacity,
                             std::size_t* length) noexcept {
    return answer(variant, c_calls::question::explain, arguments, count, options, json, capacity, length);
}

attune_status attune_blocks(const attune_variant* variant, const attune_argument* arguments, std::size_t count,
                            const attune_options* options, char* json, std::size_t capacity,
                            std::size_t* length) noexcept {
    std::size_t found = 0;
    const attune_status status =
        answer(variant, c_calls::question::blocks, arguments, count, options, json, capacity, &found);
    if (length) *length = found;
    return status == ATTUNE_OK && found == 0
               ? refused(
                     "attune: expected kernels of an attune that has attune_blocks, got those of an older one; try "
                     "building them again")
               : status;
}

attune_status attune_kernels(const attune_variant* variant, char* json, std::size_t capacity,
                             std::size_t* length) noexcept {
    return answer(variant, c_calls::question::kernels, nullptr, 0, nullptr, json, capacity, length);
}

attune_status attune_describe(const attune_variant* variant, char* json, std::size_t capacity,
                              std::size_t* length) noexcept {
    return answer(variant, c_calls::question::describe, nullptr, 0, nullptr, json, capacity, length);
}

attune_status attune_set_threads(std::int32_t count) noexcept {
    return guarded_here([&] { attune::set_threads(count); });
}

attune_status attune_threads(std::int32_t* count) noexcept {
    if (!count)
        return refused("attune: expected a place for the number of threads, got null; try the address of an int32_t");
    return guarded_here([&] { *count = attune::threads(); });
}

attune_status attune_set_parallel_for(attune_parallel_for run, void* state) noexcept {
    return guarded_here([&] {
        if (!run) return attune::set_parallel_for({});
        attune::set_parallel_for(from_c(run, state));
    });
}

attune_status attune_make_team(std::int32_t workers, attune_barrier barrier, void* state, attune_team** team) noexcept {
    return guarded_here([&] {
        if (!team) fail("a place for the team", "null", "the address of an attune_team*");
        *team = nullptr;
        *team = new attune_team(workers, barrier, state);
    });
}

attune_status attune_run_team(attune_team* team, std::int32_t worker, attune_status (*calls)(void*),
                              void* state) noexcept {
    attune_status status = ATTUNE_OK;
    const attune_status left = guarded_here([&] {
        if (!team) fail("a team", "null", "what attune_make_team made");
        const auto of_worker_0 = [&] {
            if (!calls) fail("the calls of worker 0", "null", "a function that makes them");
            status = calls(state);
        };
        team->workers.run(worker, std::cref(of_worker_0));  // by reference: a copy would be on the heap
    });
    return left == ATTUNE_OK ? status : left;
}

void attune_free_team(attune_team* team) noexcept { delete team; }

attune_status attune_tensor_from_dlpack(const void* managed, std::int32_t versioned, attune_tensor* tensor) noexcept {
    return guarded_here([&] { from_dlpack(managed, versioned != 0, {}, tensor); });
}

attune_status attune_argument_from_dlpack(const char* name, const void* managed, std::int32_t versioned,
                                          attune_argument* argument) noexcept {
    if (!name || !argument)
        return refused(
            "attune: expected a name and a place for the argument, got null; try the formula's, such as \"q\"");
    return guarded_here([&] {
        attune_argument made{};
        made.name = name;
        from_dlpack(managed, versioned != 0, name, &made.tensor);
        *argument = made;
    });
}

attune_status attune_tensor_to_dlpack(const attune_tensor* tensor, std::int32_t versioned, void (*release)(void*),
                                      void* owner, void** managed) noexcept {
    return guarded_here([&] { to_dlpack(tensor, versioned != 0, release, owner, managed); });
}
