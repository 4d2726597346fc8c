#pragma once
#include "schedules/search_space.hpp"
#include "tuner/device_access.hpp"
#include "tuner/jit_kernel.hpp"
#include "tuner/log.hpp"
#include "tuner/search.hpp"

#include <functional>
#include <memory>
#include <string>

namespace attune::generators::inline tuner {

struct tune_options {
    double seconds = 180;   ///< of a kernel's search; 0: no limit
    std::size_t count = 0;  ///< candidates of a kernel's search; 0: no limit
    unsigned seed = 1;
    int threads = 1;                  ///< of timed calls
    device_access* device = nullptr;  ///< the GPU for searches of its target
    int jobs = 2;                     ///< candidates that compile at a time
    bool exhaustive{};                ///< compare all candidates with the default, not with the best so far
    double confidence = 0.95;
    double timing_seconds = 0.01;  ///< the least duration of one timing
    std::string while_timing;      ///< a companion process: quiet_machine.hpp
    /// Called with each sentence that a user should read before the search goes on.
    std::function<void(const std::string&)> note = [](const std::string&) {};
    /// How candidates are compiled; a test may plant a wrong one.
    std::function<std::unique_ptr<jit_kernel>(const listed_kernel&)> compile = [](const listed_kernel& k) {
        return std::make_unique<jit_kernel>(k);
    };
};

/// A running search.
struct tune_progress {
    std::size_t tried{}, of{};
    double best_over_default{}, seconds{}, seconds_left{};
    bool timing{};
};

struct tune_result {
    std::string search;  ///< its name, as in the log
    tuned_kernel of;
    recorded_search record;
    search_choice choice;
    std::size_t space{};
    double noise{};               ///< how much one kernel's own times differed
    double rank_correlation{};    ///< of the cost model's estimates and the times
    std::vector<schedule> wrong;  ///< candidates whose results were wrong: bugs

    /// Whether the cost model knows such kernels: not those of gradients.
    bool is_modelled() const { return of.bucket != shape_bucket::gradient; }
};

/// The calls on which schedules of a kernel are measured.
cpu_model measured_machine(const tuned_kernel& of, const tune_options& how);

/// "my::alibi f32 64x64 x86-64-v3 prefill"
std::string name_of_search(const tuned_kernel& of);

/// Compiles, checks and times candidates, in alternate phases, until the budget or the space is spent. Candidates in a
/// log of this search are not tried again. A log of another kernel, space, machine or version is not used, which is
/// noted. `best_so_far` is called with each new incumbent. Throws std::runtime_error for a kernel that cannot be tuned:
/// random calls do not fit its graph, or the results of its default schedule are wrong.
tune_result tune(const tuned_kernel& of, const tune_options& how, tune_log& log,
                 const std::function<void(const tune_progress&)>& progress,
                 const std::function<void(const search_state&)>& best_so_far);

/// The length up to which the schedule that was chosen for short calls is faster than `usual`, that of longer calls.
/// They are compared at rising lengths.
void compare_lengths(tune_result& short_prefill, const schedule& usual, const tune_options& how, tune_log& log);

/// The same decisions, from a log alone.
tune_result replayed(const tuned_kernel& of, const recorded_search& record);

/// The times of all candidates over the default's, in the order of trying.
std::vector<std::pair<schedule, double>> scores_of(const tune_result& result);

database_entry entry_of(const tune_result& result);
/// The incumbent of a running search.
database_entry preliminary_entry_of(const tuned_kernel& of, const tune_options& how, const search_state& state);

}  // namespace attune::generators::inline tuner
