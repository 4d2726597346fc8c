#pragma once
#include <attune/mpi/agree.hpp>
#include <attune/mpi/transport.hpp>
#include <attune/runtime/error.hpp>

#include <concepts>
#include <cstddef>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace attune::mpi {

struct options {
    double timeout = 60;  ///< seconds that this rank waits for another before the call fails; 0: without end
    double grace = 0.25;  ///< seconds in which, after a failure, the ranks tell each other why: they throw one sentence
};

/// A call that began and could not finish, on this rank or another: its outputs are undefined on all ranks, and the
/// context makes no more calls.
class context_failure : public error {
public:
    using error::error;
};

/// What carries the messages of a communicator: `static std::unique_ptr<transport> make(Communicator, const options&)`.
/// Of MPI_Comm in attune/mpi.hpp.
template <class Communicator> struct transport_of;

/// Ranks that make calls together. Making one is collective; all its functions are called by one thread.
class context {
public:
    explicit context(std::unique_ptr<transport> carrier, options how = {});
    template <class Communicator>
        requires requires(Communicator c, options how) {
            { transport_of<Communicator>::make(c, how) } -> std::convertible_to<std::unique_ptr<transport>>;
        }
    explicit context(Communicator communicator, options how = {})
        : context(transport_of<Communicator>::make(communicator, how), how) {}
    context(context&&) noexcept;
    context& operator=(context&&) noexcept;
    ~context();

    int rank() const;
    int size() const;

    // The functions below make calls, in this order: agree, or begin; messages, in `guard`.

    /// Before any data. `check` adds to a statement the facts that all ranks must have alike, and throws this rank's
    /// refusal. Where the ranks differ or one refuses, all of them throw the same attune::error, and the context goes
    /// on.
    template <std::invocable<statement&> Check> void agree(std::string call, Check&& check) {
        statement mine(std::move(call));
        try {
            std::forward<Check>(check)(mine);
        } catch (const std::exception& refusal) {
            mine.refuse(refusal.what());
        }
        agree(std::move(mine));
    }
    void agree(statement mine);
    /// The same without an agreement: of a call on which the ranks have agreed before.
    void begin(std::string call);

    /// Runs the part of a call that sends and receives. If it throws, the other ranks throw the same sentence.
    template <std::invocable Work> decltype(auto) guard(Work&& work) {
        try {
            return std::forward<Work>(work)();
        } catch (const context_failure&) {
            throw;  // known to all
        } catch (const std::exception& reason) {
            fail(reason.what());
        } catch (...) {
            fail("an exception that is no std::exception");
        }
    }
    [[noreturn]] void fail(std::string_view sentence);

    /// Everybody's bytes, rank after rank, equally many of each; `what`: "visits".
    std::vector<std::byte> gather(std::span<const std::byte> mine, std::string_view what);

    /// Messages of this call. `part`, less than `parts`, is the same on both sides; `what` names them where one does
    /// not come: "expected keys of rank 3 within 60 s, got none". `what` lives until the request is gone.
    static constexpr int parts = 512;
    request send(outgoing data, int to, int part, std::string_view what);
    request receive(incoming data, int from, int part, std::string_view what);
    /// Whether it is over; lets all messages get on. Throws context_failure when the call has failed on another rank.
    bool test(request asked);
    /// Throws context_failure after the timeout.
    void wait(request asked);
    /// Lets all messages get on while this rank does something else, as between the tasks of a kernel. Throws
    /// context_failure when the call has failed on another rank.
    void progress();

    transport& carrier();

private:
    struct state;
    std::unique_ptr<state> state_;
};

}  // namespace attune::mpi
