#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

/// Attention over the ranks of a job. A `transport` carries the messages: MPI, or threads of one process.
namespace attune::mpi {

/// The bytes of a message, and their owner. They may lie in several pieces, equally long and equally far from each
/// other; the other side has as many, wherever they lie there. A transport holds `owner` until the message is through:
/// where a peer died, that may be never, and the network may still write to the bytes or read them. Without an owner
/// the caller sees to it.
template <class Byte> struct message {
    std::span<Byte> bytes;  ///< of the first piece
    std::shared_ptr<const void> owner{};
    std::size_t pieces = 1;
    std::size_t apart{};  ///< bytes from where a piece begins to where the next one does

    std::size_t size() const { return bytes.size() * pieces; }
    std::span<Byte> piece(std::size_t i) const { return {bytes.data() + i * apart, bytes.size()}; }
};
using outgoing = message<const std::byte>;
using incoming = message<std::byte>;

/// A message under way, of the transport that gave it.
enum class request : std::uint64_t {};

inline constexpr int any_rank = -1;

/// Tags are less than this, which each MPI has at least.
inline constexpr int tag_limit = 32768;

/// Carries bytes between the ranks of one context. Nothing blocks: send, receive and agree begin something, and `test`
/// says whether it is over. All functions are called by one thread. A failure throws attune::error.
class transport {
public:
    virtual ~transport() = default;

    virtual int rank() const = 0;
    virtual int size() const = 0;

    /// Of any length. Messages from one rank to another with the same tag arrive in the order in which they were sent.
    virtual request send(outgoing what, int to, int tag) = 0;
    /// As many bytes as are sent: another number is an error of `test`. `from` may be any_rank, for less than 1 GiB.
    virtual request receive(incoming what, int from, int tag) = 0;
    /// Everybody's bytes, rank after rank, equally many of each, of any number, in one piece. All ranks call it in the
    /// same order.
    virtual request agree(outgoing mine, incoming all) = 0;

    /// Whether it is over; then, and where it throws, the request is gone. Messages get on while one asks.
    virtual bool test(request asked) = 0;
    /// Gives a request up, unless it is over. The transport may go on holding the owner.
    virtual void cancel(request asked) = 0;

    /// Seconds of a clock that never goes back: deadlines are measured by it.
    virtual double now() const;
    /// Gives the core away for a while, at most until `now()` is `until`; called where a test found nothing over, with
    /// how often that was so without a break.
    virtual void idle(int times, double until);
};

}  // namespace attune::mpi
