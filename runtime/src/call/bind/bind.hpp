#pragma once
#include "call/indices/indices.hpp"
#include "call/shape/shape.hpp"
#include "execution/call_threads.hpp"
#include "execution/threads.hpp"
#include "execution/workspace.hpp"

#include <attune/runtime/detail/choice.hpp>

#include <array>
#include <cstddef>
#include <memory_resource>
#include <vector>

struct halide_buffer_t;
struct halide_dimension_t;

#pragma GCC visibility push(hidden)
namespace attune::detail {

/// The target that options or the environment ask for, and which of them; empty if neither does.
std::string_view forced_target(const options& how, std::string_view& by);

/// The target of kernels that read memory of a GPU; empty for the host's.
std::string_view target_of(memory where);

/// Everything that a call needs, checked. Construction refuses arguments by their shapes, types and pointers,
/// `check_values` by the contents of their memory: both throw attune::error. Nothing is refused afterwards. Neither
/// they nor `run` allocate from the heap for a variant of ordinary size. A constructed call does not change: on the
/// host any number of threads may run it.
class bound_call {
public:
    enum class outputs : bool { optional, needed };

    /// `first_batch`, `first_query`: the caller's numbers of batch element 0 and query 0.
    bound_call(const kernel_table& table, std::span<const named_argument> arguments, const options& how, outputs wanted,
               bool explain, std::int64_t first_batch = 0, std::int64_t first_query = 0);
    ~bound_call();
    bound_call(const bound_call&) = delete;

    const kernel& chosen() const { return *choice_.chosen; }
    const std::string& why() const { return choice_.why; }
    const std::string& why_shapes() const { return choice_.why_shapes; }
    const call_shape& shape() const { return shape_; }
    const matched_arguments& given() const { return given_; }
    int threads() const { return threads_; }
    /// The threads that the keys in use are worth, if the others sleep.
    int threads_in_use() const { return threads_worth(work(given_), threads_); }
    int key_splits() const;              ///< of the keys in use; 0 where the kernel is not told
    std::int64_t longest_keys() const;   ///< keys in use of any batch element; 0 where a GPU alone can read how many
    std::int64_t stacked_heads() const;  ///< groups of query heads that read the same keys
    std::int64_t stacked_rows() const;   ///< of one task, where queries of a group of heads are stacked
    std::int64_t stacks() const;         ///< tasks of one part of the keys

    bool nothing_to_do() const;  ///< no batch, head or query

    /// Lengths, and indices that tensors hold: before each run and before `blocks`.
    void check_values() const { check_values(given_); }
    void run(int threads) const { run({given_, argv_}, threads); }  ///< not if there is nothing to do
    /// An argument and its replacement in one run: a tensor like it, or a number that decides no index and no length
    /// (rebind.hpp).
    struct replacement {
        const named_argument *bound, *by;
    };
    /// Checks, and runs with some arguments replaced; writes empty sums where there is nothing to do. On the host.
    void run_with(std::span<const replacement> others, int threads) const;
    /// Calls of one variant that have something to do, after the stores of all of them: on the host all at once, the
    /// last of them first; on a GPU one after the other.
    static void run_together(std::span<const bound_call* const> calls, int threads);
    /// The same of any calls, some of which may have nothing to do.
    static void run_all(std::span<const bound_call* const> calls, int threads);
    /// If there is nothing to do: sums over no query and means over no head are 0.
    void write_empty_sums() const { write_empty_sums(given_); }
    block_map blocks();

    std::size_t saved_bytes() const;  ///< of the rows that the kernel keeps for itself
    std::size_t sum_bytes() const;    ///< of a gradient: of the sums of all parts of the queries
    std::size_t table_bytes() const { return table_bytes_; }  ///< of the tables of conditions; known after `blocks`

private:
    struct slot;
    void find_memory(int wanted);
    void choose_kernel(const options& how, bool explain);
    void bind_inputs();
    void bind_outputs();
    void check_sizes() const;
    /// The memory that one run reads and writes.
    struct run_arguments {
        const matched_arguments& given;
        std::span<void* const> argv;
    };
    void check_values(const matched_arguments& given) const;
    void run(run_arguments with, int threads) const;
    void write_empty_sums(const matched_arguments& given) const;
    struct lent;
    void lend(lent& to, run_arguments with) const;
    std::size_t inputs_of_kernel() const;                        ///< and the user context
    void store(std::span<void* const> argv, int threads) const;  ///< before anything else is computed
    void** arguments_of_stores(std::span<void* const> argv, scratch& memory) const;
    bool is_token_major() const;
    struct seen_keys {
        std::int64_t longest{}, most_seen{}, all_seen{};  ///< the longest of all lengths; of them what masks may leave
    };
    seen_keys keys_in_use(const matched_arguments& given) const;
    std::int64_t keys_of_query(const matched_arguments& given) const;
    std::int32_t splits_of(std::int64_t keys) const;
    void count_keys(const matched_arguments& given, std::array<std::int32_t, 2>& numbers, std::span<void*> argv) const;
    static constexpr std::int64_t endless_work = std::int64_t{1} << 48;
    std::int64_t work(const matched_arguments& given) const;  ///< of decode and recurrences
    enum class launched : std::uint8_t { all, stores, reads };
    /// `is_last`: a call that waits does it behind this launch.
    void run_on_device(const lent& with, int threads, launched what, bool is_last) const;
    void run_recurrence(run_arguments with, int threads) const;
    void check_recurrence() const;
    task_options tasks() const { return {how_.pool ? how_.pool : team_of_this_thread().pool, how_.between_tasks}; }

    // The workspace rather than the stack, which is the caller's.
    static constexpr std::size_t first_bytes = 4096;
    const scratch first_{first_bytes};
    std::pmr::monotonic_buffer_resource memory_{first_.data(), first_.data() ? first_bytes : 0};
    const kernel_table& table_;
    matched_arguments given_;
    call_shape shape_;
    choice choice_;
    int threads_;
    std::pmr::vector<slot> slots_;
    std::pmr::vector<void*> argv_;  // the inputs' places, after that of the user context
    options how_;
    memory where_{};  ///< of some tensor, if not the host's
    int device_{-1};  ///< that tensors or options name
    std::int32_t all_keys_{}, most_splits_{};
    std::size_t table_bytes_{};
    index_checks indices_;
};

}  // namespace attune::detail
#pragma GCC visibility pop
