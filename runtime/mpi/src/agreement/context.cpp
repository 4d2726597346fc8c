#include <algorithm>
#include <attune/mpi/context.hpp>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <unordered_map>

#include "base/text.hpp"
#include "mpi/src/agreement/failure.hpp"

namespace attune::mpi {

namespace {

using detail::say;

constexpr int notice_tag = 0, calls_apart = 63;  // tags of so many calls in a row differ
static_assert(1 + calls_apart * context::parts <= tag_limit);

std::span<const std::byte> as_bytes(const auto& value) { return std::as_bytes(std::span(&value, 1)); }

/// What each rank sends of its statement: the whole of it only if they differ.
struct digest {
    std::uint64_t calls{}, fingerprint{}, length{}, refuses{};
};

}  // namespace

struct context::state {
    struct open {
        std::string_view what;
        int other{};
        enum { sent, received, joined } kind{};
    };

    std::unique_ptr<transport> carrier;
    options how;
    std::string call;
    std::uint64_t calls{};
    std::unordered_map<std::uint64_t, open> under_way;
    std::string failed;  ///< the sentence, once there is one

    std::shared_ptr<notice> heard = std::make_shared<notice>();  ///< where the next notice comes
    request hearing{};
    std::vector<std::optional<notice>> told;
    std::uint64_t failed_in = std::numeric_limits<std::uint64_t>::max();  ///< the first call that failed elsewhere

    state(std::unique_ptr<transport> with, options given) : carrier(std::move(with)), how(given) {
        if (!(how.timeout >= 0) || !(how.grace >= 0))
            detail::fail("a timeout and a grace of at least 0 s",
                         say(in_seconds(how.timeout), " and ", in_seconds(how.grace)), "0 for a timeout without end");
        told.resize(static_cast<std::size_t>(carrier->size()));
        listen();
    }
    ~state() {
        try {
            for (const auto& [asked, what] : under_way) carrier->cancel(request{asked});
            carrier->cancel(hearing);
        } catch (...) {  // nobody hears of a request that is given up
        }
    }

    void listen() {
        hearing = carrier->receive({std::as_writable_bytes(std::span(heard.get(), 1)), heard}, any_rank, notice_tag);
    }

    void refuse_if_failed() const {
        if (!failed.empty())
            throw context_failure(detail::refusal("a context in which every call succeeded",
                                                  say("one in which a call failed (", failed, ")"),
                                                  "a new context, of the ranks that live"));
    }

    /// Whether another rank told something now.
    bool hear_more() {
        bool any = false;
        for (; carrier->test(hearing); listen()) {
            const auto from = static_cast<std::size_t>(heard->rank);
            if (from < told.size()) told[from] = *heard;
            failed_in = std::min(failed_in, heard->call);
            any = true;
        }
        return any;
    }
    /// Whether another rank told of a failure in this call or before. One that is ahead has done its part of this call,
    /// which goes on.
    bool hear() {
        hear_more();
        return failed_in <= calls;
    }

    int tag(int part) const { return 1 + static_cast<int>(calls % calls_apart) * parts + part; }

    /// This rank's notice about a request that is not over.
    notice of(request asked) const {
        const open& it = under_way.at(static_cast<std::uint64_t>(asked));
        const std::string within = say(" within ", in_seconds(how.timeout), ", got ");
        constexpr std::string_view longer = "; try a longer timeout if it lives";
        notice mine{.rank = carrier->rank(), .what = notice::waiting, .awaited = it.other};
        switch (it.kind) {
            case open::sent:
                mine.say(
                    say("attune: expected rank ", it.other, " to take ", it.what, within, "no sign of it", longer));
                break;
            case open::received:
                mine.say(say("attune: expected ", it.what, " of rank ", it.other, within, "none", longer));
                break;
            case open::joined:
                mine.what = notice::joining;
                mine.say(say(it.what, within, "nothing of it", longer, ", and the same calls on every rank"));
        }
        return mine;
    }

    /// The notice of a rank that hears of a failure and waits for no request in particular.
    notice of_any() const {
        const auto first = std::min_element(under_way.begin(), under_way.end(),
                                            [](const auto& a, const auto& b) { return a.first < b.first; });
        if (first != under_way.end()) return of(request{first->first});
        notice mine{.rank = carrier->rank(), .what = notice::busy, .awaited = any_rank};
        mine.say(say("attune: expected ", call, " to go on, got a failure of another rank; try a new context"));
        return mine;
    }

    request opened(request asked, open what) {
        under_way[static_cast<std::uint64_t>(asked)] = what;
        return asked;
    }

    bool test(request asked) {
        if (!carrier->test(asked)) return false;
        under_way.erase(static_cast<std::uint64_t>(asked));
        return true;
    }

    void wait(request asked) {
        const double until = how.timeout > 0 ? carrier->now() + how.timeout : std::numeric_limits<double>::infinity();
        for (int times = 0; !test(asked); ++times) {
            const bool late = carrier->now() >= until;
            if (hear() || late) {
                notice mine = of(asked);
                mine.late = late;
                conclude(mine);
            }
            carrier->idle(times, until);
        }
    }

    /// An error of the transport's is one of the call's.
    template <class Work> auto guarded(Work&& work) {
        try {
            return work();
        } catch (const context_failure&) {
            throw;
        } catch (const error& reason) {
            fail(reason.what());
        }
    }

    /// All ranks' bytes, with an owner each.
    void join(outgoing from, incoming to, std::string_view what) {
        guarded([&] { wait(opened(carrier->agree(std::move(from), std::move(to)), {what, any_rank, open::joined})); });
    }

    [[noreturn]] void fail(std::string_view sentence) {
        refuse_if_failed();
        constexpr std::string_view head = "attune: ";
        notice mine{.rank = carrier->rank(), .what = notice::thrown};
        mine.say(sentence.substr(sentence.starts_with(head) ? head.size() : 0));
        conclude(mine);
    }

    /// Tells all ranks, hears those that answer in time, and throws the sentence that follows.
    [[noreturn]] void conclude(notice mine) {
        mine.call = calls;
        const int ranks = carrier->size(), rank = carrier->rank();
        told[static_cast<std::size_t>(rank)] = mine;
        const auto kept = std::make_shared<const notice>(mine);
        std::vector<request> sent;
        for (int other = 0; other < ranks; ++other)
            if (other != rank)
                quietly([&] { sent.push_back(carrier->send({as_bytes(*kept), kept}, other, notice_tag)); });
        // Each rank hears of each: that takes longer where they are many.
        const double until = carrier->now() + how.grace + 1e-4 * ranks;
        for (int times = 0; carrier->now() < until; ++times) {
            quietly([&] { times = hear_more() ? 0 : times; });
            std::erase_if(sent, [&](request each) {
                bool over = true;
                quietly([&] { over = carrier->test(each); });
                return over;
            });
            const bool all = std::all_of(told.begin(), told.end(), [](const auto& each) { return each.has_value(); });
            if (all && sent.empty()) break;
            carrier->idle(times, until);
        }
        for (const request each : sent) carrier->cancel(each);
        for (const auto& [asked, what] : under_way) carrier->cancel(request{asked});
        under_way.clear();
        failed = verdict(told);
        throw context_failure(failed);
    }

    /// A notice to a dead rank is dropped.
    template <class Work> static void quietly(Work&& work) {
        try {
            work();
        } catch (const error&) {
        }
    }
};

context::context(std::unique_ptr<transport> carrier, options how)
    : state_(std::make_unique<state>(std::move(carrier), how)) {}
context::context(context&&) noexcept = default;
context& context::operator=(context&&) noexcept = default;
context::~context() = default;

int context::rank() const { return state_->carrier->rank(); }
int context::size() const { return state_->carrier->size(); }
transport& context::carrier() { return *state_->carrier; }

void context::begin(std::string call) {
    state_->refuse_if_failed();
    state_->call = std::move(call);
    ++state_->calls;
}

void context::agree(statement mine) {
    state& s = *state_;
    begin(mine.call());
    const auto ranks = static_cast<std::size_t>(size());
    std::vector<std::byte> body = mine.bytes();
    const auto head = std::make_shared<const digest>(digest{s.calls, mine.fingerprint(), body.size(), mine.refuses()});
    const auto heads = std::make_shared<std::vector<digest>>(ranks);
    s.join({as_bytes(*head), head}, {std::as_writable_bytes(std::span(*heads)), heads}, s.call);

    const auto differs = [&](const digest& each) {
        return each.calls != head->calls || each.fingerprint != head->fingerprint || each.refuses;
    };
    if (std::none_of(heads->begin(), heads->end(), differs)) return;
    // Every rank sees that they differ. So all of them tell the whole.
    std::uint64_t longest = 0;
    for (const digest& each : *heads) longest = std::max(longest, each.length), s.calls = std::max(s.calls, each.calls);
    body.resize(longest);
    const std::vector<std::byte> bodies = gather(body, s.call);
    std::vector<statement> all;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
        all.push_back(statement::of(std::span(bodies).subspan(rank * longest, (*heads)[rank].length)));
        if (std::any_of(heads->begin(), heads->end(), [&](const digest& each) { return each.calls != s.calls; }))
            all.back().number((*heads)[rank].calls);
    }
    const std::optional<std::string> sentence = disagreement(all);
    throw error(sentence ? *sentence
                         : detail::refusal(say("the same of ", s.call, " from all ranks, in the same order"),
                                           "the same in another order", "one build on all ranks"));
}

std::vector<std::byte> context::gather(std::span<const std::byte> mine, std::string_view what) {
    state_->refuse_if_failed();
    const auto from = std::make_shared<const std::vector<std::byte>>(mine.begin(), mine.end());
    const auto to = std::make_shared<std::vector<std::byte>>(mine.size() * static_cast<std::size_t>(size()));
    state_->join({*from, from}, {*to, to}, what);
    return std::move(*to);
}

request context::send(outgoing data, int to, int part, std::string_view what) {
    state_->refuse_if_failed();
    return state_->guarded([&] {
        return state_->opened(state_->carrier->send(std::move(data), to, state_->tag(part)),
                              {what, to, state::open::sent});
    });
}

request context::receive(incoming data, int from, int part, std::string_view what) {
    state_->refuse_if_failed();
    return state_->guarded([&] {
        return state_->opened(state_->carrier->receive(std::move(data), from, state_->tag(part)),
                              {what, from, state::open::received});
    });
}

bool context::test(request asked) {
    state_->refuse_if_failed();
    return state_->guarded([&] {
        if (state_->test(asked)) return true;
        if (state_->hear()) state_->conclude(state_->of(asked));
        return false;
    });
}

void context::wait(request asked) {
    state_->refuse_if_failed();
    state_->guarded([&] { state_->wait(asked); });
}

void context::progress() {
    state_->refuse_if_failed();
    state_->guarded([&] {
        if (state_->hear()) state_->conclude(state_->of_any());
    });
}

void context::fail(std::string_view sentence) { state_->fail(sentence); }

}  // namespace attune::mpi
