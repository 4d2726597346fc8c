#include <algorithm>
#include <array>
#include <attune/mpi.hpp>
#include <climits>
#include <iterator>
#include <limits>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "mpi/src/agreement/failure.hpp"

namespace attune::mpi {

namespace {

using detail::say;

struct operation {
    std::vector<MPI_Request> pieces{};
    std::shared_ptr<const void> owner{};
    std::size_t received{};  ///< bytes that are to come
    int from{any_rank};
    bool is_receive{};
};

/// What MPI may still write to or read when its transport is gone. It is never freed: a rank that died will not say
/// that it is done.
std::vector<operation>& abandoned() {
    static auto& all = *new std::vector<operation>();
    return all;
}

bool is_finalized() {
    int finalized = 0;
    MPI_Finalized(&finalized);
    return finalized != 0;
}

void check(int code, std::string_view doing) {
    if (code == MPI_SUCCESS) return;
    std::array<char, MPI_MAX_ERROR_STRING> text{};
    int length = 0;
    MPI_Error_string(code, text.data(), &length);
    detail::fail(say("MPI to ", doing), text.data(), "what MPI's documentation says of it");
}

void check_start(MPI_Comm communicator) {
    constexpr std::string_view start = "MPI_Init_thread(..., MPI_THREAD_FUNNELED, ...) before and MPI_Finalize after";
    int initialized = 0, provided = 0, is_main = 0, is_between = 0;
    MPI_Initialized(&initialized);
    if (!initialized) detail::fail("MPI to be initialized", "a process that did not", start);
    if (is_finalized()) detail::fail("MPI to be initialized", "a process after MPI_Finalize", start);
    MPI_Query_thread(&provided);
    if (provided == MPI_THREAD_SINGLE) detail::fail("MPI for threads", "MPI_THREAD_SINGLE, as of MPI_Init", start);
    MPI_Is_thread_main(&is_main);
    if (provided == MPI_THREAD_FUNNELED && !is_main)
        detail::fail("the thread that initialized MPI", "another",
                     "MPI_THREAD_SERIALIZED, or a context in the main thread");
    if (communicator == MPI_COMM_NULL) detail::fail("a communicator", "MPI_COMM_NULL", "MPI_COMM_WORLD");
    MPI_Comm_test_inter(communicator, &is_between);
    if (is_between) detail::fail("ranks of one group", "an intercommunicator", "MPI_Intercomm_merge");
}

/// A type of bytes that do not lie in one run.
class bytes_apart {
public:
    /// As many bytes of each rank's, so far from those of the rank before it.
    bytes_apart(int count, std::size_t apart) {
        MPI_Datatype row = MPI_DATATYPE_NULL;
        check(MPI_Type_contiguous(count, MPI_BYTE, &row), "make a type");
        const int code = MPI_Type_create_resized(row, 0, static_cast<MPI_Aint>(apart), &type_);
        MPI_Type_free(&row);
        check(code, "make a type");
        check(MPI_Type_commit(&type_), "make a type");
    }
    /// Runs of bytes, each from its place on.
    bytes_apart(const std::vector<int>& lengths, const std::vector<MPI_Aint>& places) {
        check(
            MPI_Type_create_hindexed(static_cast<int>(lengths.size()), lengths.data(), places.data(), MPI_BYTE, &type_),
            "make a type");
        check(MPI_Type_commit(&type_), "make a type");
    }
    bytes_apart(const bytes_apart&) = delete;
    bytes_apart& operator=(const bytes_apart&) = delete;
    ~bytes_apart() { MPI_Type_free(&type_); }  // what is under way keeps it

    MPI_Datatype type() const { return type_; }

private:
    MPI_Datatype type_{MPI_DATATYPE_NULL};
};

class mpi_transport final : public transport {
public:
    mpi_transport(MPI_Comm communicator, const options& how, std::size_t piece) : piece_(piece) {
        check_start(communicator);
        if (piece < 1 || piece > INT_MAX)
            detail::fail(say("pieces of 1 to ", INT_MAX, " bytes"), say(piece), "leaving them out, for 1 GiB");
        duplicate(communicator, how.timeout);
        check(MPI_Comm_set_errhandler(mine_, MPI_ERRORS_RETURN), "return its errors");
        check(MPI_Comm_rank(mine_, &rank_), "say which rank this is");
        check(MPI_Comm_size(mine_, &size_), "say how many ranks there are");
    }

    ~mpi_transport() override {
        if (is_finalized()) {
            for (auto& [asked, each] : under_way_) abandoned_.push_back(std::move(each));
        } else {
            while (!under_way_.empty()) cancel(request{under_way_.begin()->first});
            std::erase_if(abandoned_, [](operation& each) { return is_over(each); });
            // With a message under way the communicator is not done with; nor can a rank that died free it.
            if (abandoned_.empty()) MPI_Comm_free(&mine_);
        }
        std::move(abandoned_.begin(), abandoned_.end(), std::back_inserter(abandoned()));
    }

    int rank() const override { return rank_; }
    int size() const override { return size_; }

    request send(outgoing what, int to, int tag) override {
        check_alive();
        return began({.owner = what.owner}, what,
                     [&](const std::byte* bytes, int count, MPI_Datatype type, MPI_Request& each) {
                         return MPI_Isend(bytes, count, type, to, tag, mine_, &each);
                     });
    }

    request receive(incoming what, int from, int tag) override {
        check_alive();
        const int source = from == any_rank ? MPI_ANY_SOURCE : from;
        return began({.owner = what.owner, .received = what.size(), .from = from, .is_receive = true}, what,
                     [&](std::byte* bytes, int count, MPI_Datatype type, MPI_Request& each) {
                         return MPI_Irecv(bytes, count, type, source, tag, mine_, &each);
                     });
    }

    request agree(outgoing mine, incoming all) override {
        check_alive();
        // Both are needed as long as the gather is under way.
        using owners = std::pair<std::shared_ptr<const void>, std::shared_ptr<const void>>;
        operation made{.owner = std::make_shared<owners>(std::move(mine.owner), std::move(all.owner))};
        const std::size_t apart = mine.bytes.size();
        std::byte* to = all.bytes.data();
        // MPIs multiply ranks and counts in int.
        for_pieces(mine.bytes, std::max<std::size_t>(1, piece_ / static_cast<std::size_t>(size_)),
                   [&](auto bytes, int count) {
                       const bytes_apart row(count, apart);
                       const int code = MPI_Iallgather(bytes, count, MPI_BYTE, to, 1, row.type(), mine_,
                                                       &made.pieces.emplace_back(MPI_REQUEST_NULL));
                       to += count;
                       return code;
                   });
        return began(std::move(made));
    }

    bool test(request asked) override {
        check_alive();
        const auto found = under_way_.find(static_cast<std::uint64_t>(asked));
        if (found == under_way_.end()) throw std::logic_error("a request that is gone was tested");
        operation& it = found->second;
        statuses_.resize(it.pieces.size());
        int over = 0;
        const int code = MPI_Testall(static_cast<int>(it.pieces.size()), it.pieces.data(), &over, statuses_.data());
        if (code != MPI_SUCCESS) {
            const bool each = code == MPI_ERR_IN_STATUS;
            operation failed = std::move(it);
            under_way_.erase(found);
            const auto wrong = std::find_if(statuses_.begin(), statuses_.end(), [](const MPI_Status& one) {
                return one.MPI_ERROR != MPI_SUCCESS && one.MPI_ERROR != MPI_ERR_PENDING;
            });
            const int reason = each && wrong != statuses_.end() ? wrong->MPI_ERROR : code;
            const std::string doing = failed.is_receive
                                          ? say("receive ", failed.received, " bytes of rank ", failed.from)
                                          : "carry a message";
            if (!is_over(failed)) abandoned_.push_back(std::move(failed));
            check(reason, doing);
        }
        if (!over) return false;
        const operation done = std::move(it);
        under_way_.erase(found);
        if (done.is_receive) check_received(done, statuses_);
        return true;
    }

    void cancel(request asked) override {
        const auto found = under_way_.find(static_cast<std::uint64_t>(asked));
        if (found == under_way_.end()) return;
        operation gone = std::move(found->second);
        under_way_.erase(found);
        if (!is_finalized()) {
            // MPI takes back what it would receive and nothing that it sends. What is half through may stay so.
            if (gone.is_receive)
                for (MPI_Request& each : gone.pieces)
                    if (each != MPI_REQUEST_NULL) MPI_Cancel(&each);
            if (is_over(gone)) return;
        }
        abandoned_.push_back(std::move(gone));
    }

private:
    static void check_alive() {
        if (is_finalized())
            detail::fail("MPI", "a process after MPI_Finalize", "MPI_Finalize after the last call of a context");
    }

    static bool is_over(operation& it) {
        int over = 0;
        const int code = MPI_Testall(static_cast<int>(it.pieces.size()), it.pieces.data(), &over, MPI_STATUSES_IGNORE);
        return code == MPI_SUCCESS && over != 0;
    }

    /// MPI_Comm_dup would wait for ever for a rank that does not come.
    void duplicate(MPI_Comm communicator, double timeout) {
        struct copying {
            MPI_Comm made{MPI_COMM_NULL};
        };
        const auto copy = std::make_shared<copying>();
        operation made{.pieces = {MPI_REQUEST_NULL}, .owner = copy};
        check(MPI_Comm_idup(communicator, &copy->made, made.pieces.data()), "duplicate a communicator");
        const double until = timeout > 0 ? now() + timeout : std::numeric_limits<double>::infinity();
        for (int times = 0; !is_over(made); ++times) {
            if (now() >= until) {
                abandoned().push_back(std::move(made));
                detail::fail(say("all ranks to make the context within ", in_seconds(timeout)), "not all of them",
                             "contexts in the same order on every rank, or a longer timeout");
            }
            idle(times, until);
        }
        mine_ = copy->made;
    }

    template <class Byte, class Begin> void for_pieces(std::span<Byte> bytes, std::size_t piece, Begin&& begin) {
        do {
            const int count = static_cast<int>(std::min(bytes.size(), piece));
            check(begin(bytes.data(), count), "begin a message");
            bytes = bytes.subspan(static_cast<std::size_t>(count));
        } while (!bytes.empty());
    }

    /// Long pieces are messages of their own, which MPIs copy once, straight to their place. Short ones are one.
    template <class Byte, class Begin> void cut(const message<Byte>& what, Begin&& begin) {
        constexpr std::size_t long_piece = std::size_t{64} << 10;
        const auto in_one_run = [&](std::span<Byte> bytes) {
            for_pieces(bytes, piece_, [&](Byte* from, int count) { return begin(from, count, MPI_BYTE); });
        };
        if (what.bytes.size() >= long_piece)
            for (std::size_t i = 0; i < what.pieces; ++i) in_one_run(what.piece(i));
        else if (what.pieces == 1 || what.apart == what.bytes.size())
            in_one_run({what.bytes.data(), what.size()});
        else
            in_short_pieces(what, begin);
    }

    /// As `in_one_run` cuts them.
    template <class Byte, class Begin> void in_short_pieces(const message<Byte>& what, Begin&& begin) {
        const std::size_t all = what.size(), length = what.bytes.size();
        std::size_t first = 0;
        do {
            std::vector<int> lengths;
            std::vector<MPI_Aint> places;
            for (const std::size_t end = std::min(all, first + piece_); first < end;) {
                const std::size_t within = first % length, now = std::min(length - within, end - first);
                lengths.push_back(static_cast<int>(now));
                places.push_back(static_cast<MPI_Aint>(first / length * what.apart + within));
                first += now;
            }
            const bytes_apart runs(lengths, places);
            check(begin(what.bytes.data(), 1, runs.type()), "begin a message");
        } while (first < all);
    }

    template <class Byte, class Begin> request began(operation made, const message<Byte>& what, Begin&& begin) {
        try {
            cut(what, [&](Byte* bytes, int count, MPI_Datatype type) {
                return begin(bytes, count, type, made.pieces.emplace_back(MPI_REQUEST_NULL));
            });
        } catch (const error&) {
            abandoned_.push_back(std::move(made));  // pieces before may be under way
            throw;
        }
        return began(std::move(made));
    }
    request began(operation made) {
        under_way_.emplace(next_, std::move(made));
        return request{next_++};
    }

    static void check_received(const operation& done, const std::vector<MPI_Status>& statuses) {
        std::size_t bytes = 0;
        for (const MPI_Status& each : statuses) {
            int count = 0;
            MPI_Get_count(&each, MPI_BYTE, &count);
            bytes += static_cast<std::size_t>(count);
        }
        if (bytes != done.received)
            detail::fail(say(done.received, " bytes of rank ", statuses.front().MPI_SOURCE), std::to_string(bytes),
                         "the same calls on every rank");
    }

    MPI_Comm mine_{MPI_COMM_NULL};
    int rank_{}, size_{};
    std::size_t piece_;
    std::uint64_t next_{1};
    std::unordered_map<std::uint64_t, operation> under_way_;
    std::vector<operation> abandoned_;
    std::vector<MPI_Status> statuses_;  ///< of one test
};

}  // namespace

std::unique_ptr<transport> transport_of<MPI_Comm>::make(MPI_Comm communicator, const options& how, std::size_t piece) {
    return std::make_unique<mpi_transport>(communicator, how, piece);
}

}  // namespace attune::mpi
