#include "local_transport.hpp"

#include <algorithm>
#include <attune/runtime/error.hpp>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <limits>
#include <list>
#include <mutex>
#include <optional>
#include <queue>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/text.hpp"

namespace attune::mpi {

namespace {

using detail::say;
constexpr double never = std::numeric_limits<double>::infinity();

struct died {};  // no std::exception: nothing but run_local catches it, as nothing outlives a killed process

/// From pieces to others, of as many bytes.
void copy_pieces(const outgoing& from, const incoming& to) {
    for (std::size_t done = 0, all = from.size(); done < all;) {
        const auto source = from.piece(done / from.bytes.size()).subspan(done % from.bytes.size());
        const auto target = to.piece(done / to.bytes.size()).subspan(done % to.bytes.size());
        const std::size_t now = std::min(source.size(), target.size());
        std::memcpy(target.data(), source.data(), now);
        done += now;
    }
}

/// A message that was sent and not received.
struct parcel {
    int from{}, tag{};
    outgoing data;
    std::uint64_t sender{};  ///< its request; 0: over for the sender
    double arrival{};
};

struct posted {
    int from{}, tag{};
    incoming data;
    std::uint64_t request{};
};

struct gathering {
    std::vector<outgoing> from;  ///< by rank
    std::size_t there{}, left{};
    double complete{};
};

enum class progress { under_way, over, wrong };

/// The requests of one rank that are under way.
struct station {
    std::condition_variable changed;
    std::uint64_t version{}, seen{};  ///< of what it may wait for
    bool is_blocked{}, is_there{true}, is_dead{};
    bool is_stuck{};      ///< all ranks waited, and nothing was to come
    double until{never};  ///< when it wants to be woken
    std::list<parcel> mailbox;
    std::list<posted> wanted;
    std::unordered_map<std::uint64_t, progress> requests;
    std::unordered_map<std::uint64_t, std::string> wrongs;
    std::unordered_map<std::uint64_t, std::pair<std::size_t, incoming>> joined;  ///< gatherings, by request
    std::unordered_map<int, double> last_arrival;  ///< by the sender: they keep their order
    std::uint64_t next{1};
    int messages{};
    std::size_t agreements{};
};

class exchange {
public:
    exchange(int ranks, const local_script& script) : script_(script), stations_(static_cast<std::size_t>(ranks)) {}

    int size() const { return static_cast<int>(stations_.size()); }

    double now() {
        const std::lock_guard lock(mutex_);
        return time();
    }

    request send(int rank, outgoing data, int to, int tag) {
        const std::lock_guard lock(mutex_);
        station& mine = counted(rank);
        station& other = at(to);
        const std::uint64_t made = mine.next++;
        const bool eager = data.size() <= script_.eager;
        parcel sent{rank, tag, std::move(data), eager ? 0 : made, time()};
        if (eager) sent.data = copy_of(sent.data);
        if (script_.delay) sent.arrival += script_.delay(rank, to, sent.data.size(), mine.messages - 1);
        double& last = other.last_arrival[rank * tag_limit + tag];
        sent.arrival = last = std::max(last, sent.arrival);
        mine.requests[made] = eager ? progress::over : progress::under_way;
        if (other.is_there) {
            if (sent.arrival > time()) coming_.push({sent.arrival, to});
            other.mailbox.push_back(std::move(sent));
            wake(other);
        }
        return request{made};
    }

    request receive(int rank, incoming data, int from, int tag) {
        const std::lock_guard lock(mutex_);
        station& mine = living(rank);
        const std::uint64_t made = mine.next++;
        mine.requests[made] = progress::under_way;
        mine.wanted.push_back({from, tag, std::move(data), made});
        return request{made};
    }

    request agree(int rank, outgoing data, incoming all) {
        const std::lock_guard lock(mutex_);
        station& mine = counted(rank);
        const std::uint64_t made = mine.next++;
        const std::size_t which = mine.agreements++;
        if (gatherings_.size() <= which) gatherings_.resize(which + 1);
        gathering& it = gatherings_[which];
        it.from.resize(stations_.size());
        it.from[static_cast<std::size_t>(rank)] = copy_of(data);
        const double delay = script_.delay ? script_.delay(rank, any_rank, data.bytes.size(), mine.messages - 1) : 0;
        it.complete = std::max(it.complete, time() + delay);
        mine.requests[made] = progress::under_way;
        mine.joined[made] = {which, std::move(all)};
        if (++it.there == stations_.size())
            for (int each = 0; each < size(); ++each) {
                if (it.complete > time()) coming_.push({it.complete, each});
                wake(at(each));
            }
        return request{made};
    }

    bool test(int rank, request asked) {
        const std::lock_guard lock(mutex_);
        station& mine = living(rank);
        receive_all(mine);
        const auto which = static_cast<std::uint64_t>(asked);
        const auto found = mine.requests.find(which);
        if (found == mine.requests.end()) throw std::logic_error("a request that is gone was tested");
        if (const auto it = mine.joined.find(which); it != mine.joined.end()) finish(mine, which, it->second);
        if (found->second == progress::under_way) return false;
        const bool wrong = found->second == progress::wrong;
        mine.requests.erase(found);
        if (wrong) throw error(std::exchange(mine.wrongs[which], {}));
        return true;
    }

    void cancel(int rank, request asked) {
        const std::lock_guard lock(mutex_);
        station& mine = at(rank);
        const auto which = static_cast<std::uint64_t>(asked);
        mine.requests.erase(which);
        mine.joined.erase(which);
        mine.wanted.remove_if([&](const posted& each) { return each.request == which; });
        for (station& other : stations_)
            other.mailbox.remove_if([&](const parcel& each) { return each.from == rank && each.sender == which; });
    }

    void idle(int rank, double until) {
        std::unique_lock lock(mutex_);
        station& mine = living(rank);
        if (mine.version == mine.seen) {
            mine.is_blocked = true;
            if (script_.clock_jumps) {
                if (until < never && std::exchange(mine.until, until) != until) coming_.push({until, rank});
                jump();
                mine.changed.wait(lock, [&] { return mine.version != mine.seen; });
            } else {
                double first = until;
                for (const parcel& each : mine.mailbox)
                    if (each.arrival > time()) first = std::min(first, each.arrival);
                for (const auto& [made, joined] : mine.joined)
                    if (const double complete = gatherings_[joined.first].complete; complete > time())
                        first = std::min(first, complete);
                const auto wait = std::chrono::duration<double>(std::clamp(first - time(), 0.0, 3600.0));
                mine.changed.wait_for(lock, wait, [&] { return mine.version != mine.seen; });
            }
            mine.is_blocked = false;
        }
        mine.seen = mine.version;
        if (std::exchange(mine.is_stuck, false))
            detail::fail("a message under way or a deadline", "ranks that all wait for each other",
                         "the same calls on every rank");
    }

    /// A rank's thread has no transport any more; its own memory is gone.
    void leave(int rank, bool is_dead = false) {
        const std::lock_guard lock(mutex_);
        station& mine = at(rank);
        if (!mine.is_there) return;
        mine.is_there = false, mine.is_dead = is_dead;
        mine.mailbox.clear(), mine.wanted.clear(), mine.joined.clear();
        for (station& other : stations_)
            other.mailbox.remove_if([&](const parcel& each) { return each.from == rank && each.sender != 0; });
        if (script_.clock_jumps) jump();
    }

private:
    station& at(int rank) {
        if (rank < 0 || rank >= size()) throw std::logic_error("there is no such rank");
        return stations_[static_cast<std::size_t>(rank)];
    }
    station& living(int rank) {
        station& mine = at(rank);
        if (mine.is_dead) throw died();
        return mine;
    }
    /// A rank that sends.
    station& counted(int rank) {
        station& mine = living(rank);
        if (rank == script_.dies && mine.messages == script_.dies_at) {
            mine.is_dead = true;
            throw died();
        }
        ++mine.messages;
        return mine;
    }

    static outgoing copy_of(const outgoing& data) {
        const auto copy = std::make_shared<std::vector<std::byte>>(data.size());
        copy_pieces(data, {*copy});
        return {*copy, copy};
    }

    double time() const {
        if (script_.clock_jumps) return clock_;
        return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
    }

    void wake(station& who) {
        ++who.version;
        who.changed.notify_one();
    }

    /// Where all ranks wait, to the next arrival or deadline.
    void jump() {
        const auto waits = [](const station& each) {
            return !each.is_there || (each.is_blocked && each.version == each.seen);
        };
        if (!std::all_of(stations_.begin(), stations_.end(), waits)) return;
        if (std::none_of(stations_.begin(), stations_.end(), [](const station& each) { return each.is_there; })) return;
        bool any = false;
        while (!any && !coming_.empty()) {
            clock_ = std::max(clock_, coming_.top().first);
            for (; !coming_.empty() && coming_.top().first <= clock_; coming_.pop()) {
                station& who = at(coming_.top().second);
                if (who.is_there) wake(who), any = true;
            }
        }
        if (any) return;
        for (station& each : stations_) each.is_stuck = true, wake(each);
    }

    /// In the order in which they were asked for, as MPI does.
    void receive_all(station& mine) {
        for (auto want = mine.wanted.begin(); want != mine.wanted.end();) {
            const auto found = std::find_if(mine.mailbox.begin(), mine.mailbox.end(), [&](const parcel& each) {
                return (want->from == any_rank || each.from == want->from) && each.tag == want->tag &&
                       each.arrival <= time();
            });
            if (found == mine.mailbox.end()) {
                ++want;
                continue;
            }
            deliver(mine, *want, *found);
            mine.mailbox.erase(found);
            want = mine.wanted.erase(want);
        }
    }

    void deliver(station& mine, const posted& want, const parcel& found) {
        const bool fits = found.data.size() == want.data.size();
        mine.requests[want.request] = fits ? progress::over : progress::wrong;
        if (!fits)
            mine.wrongs[want.request] =
                detail::refusal(say(want.data.size(), " bytes of rank ", found.from), std::to_string(found.data.size()),
                                "the same calls on every rank");
        else
            copy_pieces(found.data, want.data);
        if (found.sender == 0) return;
        station& sender = at(found.from);
        if (const auto at = sender.requests.find(found.sender); at != sender.requests.end())
            at->second = progress::over;
        wake(sender);
    }

    void finish(station& mine, std::uint64_t which, const std::pair<std::size_t, incoming>& joined) {
        gathering& it = gatherings_[joined.first];
        if (it.there < stations_.size() || it.complete > time()) return;
        auto to = joined.second.bytes;
        bool fits = true;
        for (const outgoing& each : it.from) {
            fits = fits && each.bytes.size() * stations_.size() == joined.second.bytes.size();
            if (!fits) break;
            std::copy(each.bytes.begin(), each.bytes.end(), to.begin());
            to = to.subspan(each.bytes.size());
        }
        mine.requests[which] = fits ? progress::over : progress::wrong;
        if (!fits)
            mine.wrongs[which] =
                detail::refusal("equally many bytes of all ranks", "others", "the same calls on every rank");
        if (++it.left == stations_.size()) it.from.clear();
        mine.joined.erase(which);
    }

    const local_script script_;
    std::mutex mutex_;
    std::deque<station> stations_;
    std::deque<gathering> gatherings_;
    using event = std::pair<double, int>;
    std::priority_queue<event, std::vector<event>, std::greater<>> coming_;  ///< what wakes whom
    double clock_{};
};

class local_transport final : public transport {
public:
    local_transport(std::shared_ptr<exchange> with, int rank) : exchange_(std::move(with)), rank_(rank) {}
    ~local_transport() override { exchange_->leave(rank_); }

    int rank() const override { return rank_; }
    int size() const override { return exchange_->size(); }
    request send(outgoing what, int to, int tag) override { return exchange_->send(rank_, std::move(what), to, tag); }
    request receive(incoming what, int from, int tag) override {
        return exchange_->receive(rank_, std::move(what), from, tag);
    }
    request agree(outgoing mine, incoming all) override {
        return exchange_->agree(rank_, std::move(mine), std::move(all));
    }
    bool test(request asked) override { return exchange_->test(rank_, asked); }
    void cancel(request asked) override { exchange_->cancel(rank_, asked); }
    double now() const override { return exchange_->now(); }
    void idle(int, double until) override { exchange_->idle(rank_, until); }

private:
    std::shared_ptr<exchange> exchange_;
    int rank_;
};

}  // namespace

void run_local(int ranks, const local_script& script, const std::function<void(std::unique_ptr<transport>)>& work) {
    const auto between = std::make_shared<exchange>(ranks, script);
    std::vector<std::unique_ptr<transport>> transports;
    for (int rank = 0; rank < ranks; ++rank) transports.push_back(std::make_unique<local_transport>(between, rank));
    std::vector<std::exception_ptr> thrown(static_cast<std::size_t>(ranks));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
        const auto at = static_cast<std::size_t>(rank);
        threads.emplace_back([&work, mine = std::move(transports[at]), &thrown = thrown[at]]() mutable {
            try {
                work(std::move(mine));
            } catch (const died&) {
            } catch (...) {
                thrown = std::current_exception();
            }
        });
    }
    for (std::thread& each : threads) each.join();
    for (const std::exception_ptr& each : thrown)
        if (each) std::rethrow_exception(each);
}

}  // namespace attune::mpi
