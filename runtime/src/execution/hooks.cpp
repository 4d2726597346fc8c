#include "base/text.hpp"
#include "execution/device_call.hpp"
#include "execution/pool.hpp"
#include "execution/workspace.hpp"

#include <attune/runtime/detail/kernel_table.hpp>
#include <attune/runtime/error.hpp>
#include <attune/runtime/threads.hpp>

#include <HalideRuntime.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <new>
#include <string>

/// Halide's hooks are process-wide. attune's are installed once, at the first call. They pass on calls of other
/// kernels: those of the application go on with the handlers that were there before.
namespace attune::detail {
namespace {

/// What one call shares among its threads; Halide hands its address to every hook as the user context.
struct call_context {
    std::atomic<int> spare_threads;  // beyond the caller
    task_options how;
    const void* caller;             // tells the calling thread from others
    int shared_by = 0;              // threads that kernels which run together share; 0: there is one kernel
    pool* lent = nullptr;           // theirs, if the application brings them
    bool takes_all_errors = false;  // those of its thread that come with another context too
    std::mutex mutex{};
    std::string message{};                // the first error; guarded by mutex
    std::exception_ptr thrown{};          // by between_tasks
    std::size_t held = 0, most_held = 0;  // bytes outside tasks: by the caller's thread alone

    void say_once(std::string text) {
        while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
        const std::lock_guard lock(mutex);
        if (message.empty()) message = std::move(text);
    }
    int reserve(int helpers) {
        int spare = spare_threads.load(std::memory_order_relaxed);
        while (
            !spare_threads.compare_exchange_weak(spare, spare - std::min(spare, helpers), std::memory_order_relaxed)) {
        }
        return std::min(spare, helpers);
    }
    /// An exception cannot pass through a kernel: it waits for the kernel's end.
    int pause() noexcept {
        if (thrown) return halide_error_code_generic_error;  // by a task of another kernel of the call
        try {
            if (*how.between_tasks) (*how.between_tasks)();
            return 0;
        } catch (...) {
            thrown = std::current_exception();
            return halide_error_code_generic_error;
        }
    }
};

/// The call that this thread works for. A context is attune's if and only if it is this one: pointers of others are
/// never read.
thread_local call_context* current = nullptr;
thread_local bool in_task = false;

class working_for {
public:
    explicit working_for(call_context* call, bool task) : before_(current), task_before_(in_task) {
        current = call, in_task = task;
    }
    ~working_for() { current = before_, in_task = task_before_; }
    working_for(const working_for&) = delete;

private:
    call_context* before_;
    bool task_before_;
};

call_context* ours(void* user_context) { return user_context && user_context == current ? current : nullptr; }

struct {
    halide_do_par_for_t parallel_for = halide_default_do_par_for;
    halide_error_handler_t error = halide_default_error;
    halide_malloc_t malloc = halide_default_malloc;
    halide_free_t free = halide_default_free;
} previous;

/// One parallel loop of a kernel. Its step stands once in the code: a call of it is nothing beside a task.
struct kernel_loop {
    call_context* call;
    halide_task_t task;
    int first;
    std::uint8_t* closure;
    std::atomic<int> result{0};  // of the first task that failed
    std::atomic<int> done{0};

    [[gnu::noinline]] bool step(int index) {
        if (result.load(std::memory_order_relaxed) != 0) return false;
        int code;
        {
            const working_for scope(call, true);
            code = task(call, first + index, closure);
        }
        done.fetch_add(1, std::memory_order_relaxed);
        if (code == 0 && call->how.between_tasks && call->caller == &current) code = call->pause();
        int none = 0;
        if (code != 0) result.compare_exchange_strong(none, code, std::memory_order_relaxed);
        return code == 0;
    }
};

// Functions given to set_parallel_for. They are kept, linked, since a loop may be using one; setting one is rare.
struct given_parallel_for {
    parallel_for function;
    given_parallel_for* before;
};
std::atomic<given_parallel_for*> applications_pool{nullptr};

/// The application's pool, for one call or for all; null: attune's own.
const parallel_for* pool_of_application(const task_options& how) {
    if (how.pool && *how.pool) return how.pool;
    const given_parallel_for* const own = applications_pool.load(std::memory_order_acquire);
    return own && own->function ? &own->function : nullptr;
}

void run_on_applications_pool(const parallel_for& function, kernel_loop& loop, int count, int threads) {
    try {
        function(count, threads, [&loop](int index) { loop.step(index); });
        const int done = loop.done.load(std::memory_order_relaxed);
        if (done == count || loop.result != 0) return;
        loop.call->say_once(
            say("the application's parallel loop (attune::options::pool, attune::set_parallel_for) ran ", done, " of ",
                count, " tasks"));
    } catch (const std::exception& e) {
        loop.call->say_once(say("the application's parallel loop threw: ", e.what()));
    } catch (...) {
        loop.call->say_once("the application's parallel loop threw something that is not a std::exception");
    }
    int none = 0;
    loop.result.compare_exchange_strong(none, halide_error_code_generic_error);
}

void run_loop(kernel_loop& loop, int count, int helpers) {
    const auto step = [](void* state, int index) { return static_cast<kernel_loop*>(state)->step(index); };
    if (helpers == 0) {
        for (int index = 0; index < count && loop.step(index); ++index) {
        }
    } else if (loop.call->lent) {
        loop.call->lent->run(count, helpers, step, &loop, &loop.call->spare_threads);
    } else if (const parallel_for* const application = pool_of_application(loop.call->how)) {
        run_on_applications_pool(*application, loop, count, helpers + 1);
    } else {
        pool::instance().run(count, helpers, step, &loop, loop.call->shared_by ? &loop.call->spare_threads : nullptr);
    }
}

// Functions that Halide calls are noexcept: an exception cannot pass through a kernel.
int on_parallel_for(void* user_context, halide_task_t task, int first, int count, std::uint8_t* closure) noexcept {
    call_context* const call = ours(user_context);
    if (!call) return previous.parallel_for(user_context, task, first, count, closure);
    kernel_loop loop{.call = call, .task = task, .first = first, .closure = closure};
    const int shared_by = call->shared_by;
    const int helpers = count <= 1 ? 0 : shared_by ? std::min(shared_by, count) - 1 : call->reserve(count - 1);
    try {
        run_loop(loop, count, helpers);
    } catch (...) {  // no memory for a pool, or for words about what the application's threw
        int none = 0;
        loop.result.compare_exchange_strong(none, halide_error_code_out_of_memory);
    }
    if (!shared_by) call->spare_threads.fetch_add(helpers, std::memory_order_relaxed);
    return loop.result;
}

void on_error(void* user_context, const char* message) noexcept {
    call_context* call = ours(user_context);
    if (!call && current && current->takes_all_errors) call = current;
    if (!call) return previous.error(user_context, message);
    try {
        call->say_once(message);
    } catch (const std::bad_alloc&) {
        // The code that the kernel returns has to do.
    }
}

void* on_malloc(void* user_context, std::size_t bytes) noexcept {
    call_context* const call = ours(user_context);
    if (!call) return previous.malloc(user_context, bytes);
    void* const block = take_scratch(bytes);
    if (block && !in_task)
        call->held += bytes_of_scratch(block), call->most_held = std::max(call->most_held, call->held);
    return block;
}

void on_free(void* user_context, void* block) noexcept {
    call_context* const call = ours(user_context);
    if (!call) return previous.free(user_context, block);
    if (block && !in_task) call->held -= bytes_of_scratch(block);
    give_scratch(block);
}

void install_hooks() {
    static std::once_flag once;
    std::call_once(once, [] {
        previous.error = halide_set_error_handler(on_error);
        previous.malloc = halide_set_custom_malloc(on_malloc);
        previous.free = halide_set_custom_free(on_free);
        previous.parallel_for = halide_set_custom_do_par_for(on_parallel_for);
    });
}

/// Kernels that run at once, for one call.
struct kernels_together {
    call_context* call;
    std::span<const kernel_launch> launches;
    std::atomic<int> result{0};  // of the first that failed

    [[gnu::noinline]] bool step(int index) {
        if (result.load(std::memory_order_relaxed) != 0) return false;
        const working_for scope(call, true);
        const kernel_launch& it = launches[static_cast<std::size_t>(index)];
        const int code = it.entry(it.arguments);
        int none = 0;
        if (code != 0) result.compare_exchange_strong(none, code, std::memory_order_relaxed);
        return code == 0;
    }
};

/// Each task of the application's pool is a thread for all kernels: it begins those that are left, then joins the loops
/// of those that run.
void run_together_on(const parallel_for& function, kernels_together& all, int threads) {
    pool borrowed(pool::threads::of_others);
    all.call->lent = &borrowed;
    all.call->spare_threads = threads;
    int none = 0;
    try {
        const auto step = [](void* state, int index) { return static_cast<kernels_together*>(state)->step(index); };
        if (borrowed.run_on_others(static_cast<int>(all.launches.size()), threads, step, &all, all.call->spare_threads,
                                   [&](const auto& help) { function(threads, threads, [&](int) { help(); }); }))
            return;
        all.call->say_once(
            "the application's parallel loop (attune::options::pool, attune::set_parallel_for) ran no task");
    } catch (const std::exception& e) {
        all.call->say_once(say("the application's parallel loop threw: ", e.what()));
    } catch (...) {
        all.call->say_once("the application's parallel loop threw something that is not a std::exception");
    }
    all.result.compare_exchange_strong(none, halide_error_code_generic_error);
}

void throw_unless_done(const call_context& call, int code) {
    if (code == 0) return;
    if (call.thrown) std::rethrow_exception(call.thrown);
    const std::string said = call.message.empty() ? say("error code ", code) : call.message;
    if (code == halide_error_code_out_of_memory)
        throw kernel_failure(
            refusal("enough memory for the scratch of the kernel's threads", said, "fewer threads (attune::options)"));
    throw kernel_failure(
        refusal("the kernel to finish", said, "ATTUNE_TARGET with another level, and please report this"));
}

}  // namespace

void take_all_errors() {
    if (current) current->takes_all_errors = true;
}

void invoke(int (*entry)(void**), void** arguments, int threads, task_options how, std::size_t* shared_bytes) {
    install_hooks();
    call_context call{.spare_threads = threads - 1, .how = how, .caller = &current};
    void* user_context = &call;
    arguments[0] = &user_context;
    int code;
    {
        const working_for scope(&call, false);
        code = entry(arguments);
    }
    if (shared_bytes) *shared_bytes = call.most_held;
    throw_unless_done(call, code);
}

bool has_own_threads(const task_options& how) { return pool_of_application(how) == nullptr; }

void invoke_together(std::span<const kernel_launch> launches, int threads, task_options how) {
    install_hooks();
    const parallel_for* const application = pool_of_application(how);
    call_context call{.spare_threads = threads - 1, .how = how, .caller = &current};
    if (threads > 1) call.shared_by = threads;
    void* user_context = &call;
    for (const kernel_launch& each : launches) each.arguments[0] = &user_context;
    kernels_together all{.call = &call, .launches = launches};
    const int count = static_cast<int>(launches.size());
    if (application && threads > 1)
        run_together_on(*application, all, threads);
    else if (threads > 1)
        pool::instance().run(
            count, std::min(threads, count) - 1,
            [](void* state, int index) { return static_cast<kernels_together*>(state)->step(index); }, &all,
            &call.spare_threads, true);
    else
        for (int index = count; index-- > 0 && all.step(index);) {
        }
    throw_unless_done(call, all.result);
}

}  // namespace attune::detail

namespace attune {

void set_parallel_for(parallel_for function) {
    using namespace detail;
    auto* const given = new given_parallel_for{std::move(function), applications_pool.load()};
    while (!applications_pool.compare_exchange_weak(given->before, given)) {
    }
}

}  // namespace attune
