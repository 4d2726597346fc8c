#include "simulation.hpp"

#include <algorithm>
#include <cmath>
#include <queue>
#include <random>
#include <tuple>

namespace simulated {
namespace {

using attune::mpi::layout, attune::mpi::stage, attune::mpi::run_of_keys;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// A port or a link. What comes slower than it could carry leaves room for others.
struct port {
    double free = 0;
    /// A message whose head arrives at `head` and of which the last byte has left the port before at `tail`.
    void carry(double& head, double& tail, double seconds) {
        head = std::max(head, free);
        free = head + seconds;
        tail = std::max(free, tail);
    }
};

class run {
public:
    run(const schedule& what, const network& by) : what_(what), by_(by), nodes_(what.computing.size()) {
        const std::size_t racks = nodes_.size() / at(by.rack) + 1;
        leaving_.resize(racks), entering_.resize(racks);
        for (std::size_t n = 0; n < nodes_.size(); ++n) {
            nodes_[n].missing.resize(what.computing[n].size() - 1);
            nodes_[n].asked.resize(nodes_[n].missing.size());
        }
        for (std::size_t t = 0; t < what.transfers.size(); ++t) {
            node& to = nodes_[at(what.transfers[t].to)];
            ++to.missing[at(what.transfers[t].stage)];
            to.asked[at(what.transfers[t].stage)].push_back(static_cast<int>(t));
        }
    }

    outcome all() {
        for (int n = 0; n < std::ssize(nodes_); ++n) ask(n, 0, 0), compute(n, 0);
        while (!events_.empty()) {
            const event now = events_.top();
            events_.pop();
            happen(now);
        }
        const double count = static_cast<double>(nodes_.size());
        outcome made{.seconds = ends_ + 2 * by_.latency * std::log2(count), .waiting = waiting_};
        made.efficiency = made.seconds > 0 ? what_.useful / (count * made.seconds) : 1;
        return made;
    }

private:
    enum class kind : std::uint8_t { asked, port_is_free, leaves_rack, enters_rack, arrives, received, computed };
    struct event {
        double time;
        kind what;
        int of;  // a transfer, or a node
        bool operator>(const event& other) const {
            return std::tie(time, what, of) > std::tie(other.time, other.what, other.of);
        }
    };
    struct node {
        port out, in;
        bool sends = false;
        std::priority_queue<int, std::vector<int>, std::greater<>> ready;  // transfers that were asked for
        std::vector<int> missing;                                          // by stage: transfers
        std::vector<std::vector<int>> asked;
        std::size_t computes = 0;  // its own keys, then the stages
        double waits = -1;         // since when
    };

    const schedule& what_;
    const network& by_;
    std::vector<node> nodes_;
    std::vector<port> leaving_, entering_;
    std::vector<double> tail_ = std::vector<double>(what_.transfers.size());
    std::priority_queue<event, std::vector<event>, std::greater<>> events_;
    double ends_ = 0, waiting_ = 0;

    double seconds_of(int t) const { return what_.transfers[at(t)].bytes / by_.bytes; }
    std::size_t rack_of(int n) const { return at(n / by_.rack); }

    void ask(int n, std::size_t stage, double now) {
        if (stage >= nodes_[at(n)].asked.size()) return;
        for (const int t : nodes_[at(n)].asked[stage]) events_.push({now + by_.latency, kind::asked, t});
    }
    void compute(int n, double now) {
        node& here = nodes_[at(n)];
        events_.push({now + what_.computing[at(n)][here.computes], kind::computed, n});
    }
    void send(int n, double now) {
        node& here = nodes_[at(n)];
        here.sends = !here.ready.empty();
        if (!here.sends) return;
        const int t = here.ready.top();
        here.ready.pop();
        double head = now;
        here.out.carry(head, tail_[at(t)], seconds_of(t));
        events_.push({here.out.free, kind::port_is_free, n});
        const bool stays = rack_of(n) == rack_of(what_.transfers[at(t)].to);
        tail_[at(t)] += by_.latency;
        events_.push({head + by_.latency, stays ? kind::arrives : kind::leaves_rack, t});
    }
    /// A stage that has arrived may be computed, and the next one be asked for.
    void go_on(int n, double now) {
        node& here = nodes_[at(n)];
        if (here.waits < 0 || here.missing[here.computes] > 0) return;
        waiting_ += now - here.waits, here.waits = -1;
        ++here.computes;
        ask(n, here.computes, now);
        compute(n, now);
    }
    void happen(const event& now) {
        switch (now.what) {
            case kind::asked: {
                node& sender = nodes_[at(what_.transfers[at(now.of)].from)];
                sender.ready.push(now.of);
                if (!sender.sends) send(what_.transfers[at(now.of)].from, now.time);
                return;
            }
            case kind::port_is_free: return send(now.of, now.time);
            case kind::leaves_rack: return cross(leaving_[rack_of(what_.transfers[at(now.of)].from)], now);
            case kind::enters_rack: return cross(entering_[rack_of(what_.transfers[at(now.of)].to)], now);
            case kind::arrives: {
                double head = now.time;
                nodes_[at(what_.transfers[at(now.of)].to)].in.carry(head, tail_[at(now.of)], seconds_of(now.of));
                events_.push({tail_[at(now.of)], kind::received, now.of});
                return;
            }
            case kind::received: {
                const transfer& it = what_.transfers[at(now.of)];
                --nodes_[at(it.to)].missing[at(it.stage)];
                return go_on(it.to, now.time);
            }
            case kind::computed: {
                node& here = nodes_[at(now.of)];
                ends_ = std::max(ends_, now.time);
                if (here.computes < here.missing.size()) here.waits = now.time, go_on(now.of, now.time);
                return;
            }
        }
    }
    void cross(port& link, const event& now) {
        double head = now.time;
        link.carry(head, tail_[at(now.of)], seconds_of(now.of) * by_.oversubscription / by_.rack);
        events_.push({head, now.what == kind::leaves_rack ? kind::enters_rack : kind::arrives, now.of});
    }
};

}  // namespace

schedule schedule_of(const layout& plan, const attune::mpi::work_table& work, double jitter, std::uint32_t seed) {
    const attune::mpi::exchange_plan& graph = plan.graphs()[0];
    const attune::mpi::rates& speed = plan.made_for().speed;
    const attune::mpi::detail::rank_work of_ranks(work, plan.owners(), plan.ranks());
    const attune::mpi::detail::chunks_of_ranks by_rank(plan.owners(), plan.ranks());
    std::mt19937 random(seed);
    schedule made;
    for (int r = 0; r < plan.ranks(); ++r) {
        const auto units = of_ranks.row(r);
        const auto seconds = [&](const auto& chunks) {
            std::uint64_t all = 0;
            for (const int c : chunks) all += units[at(c)];
            return work.flops * static_cast<double>(all) / speed.flops;
        };
        const auto slower = [&] { return 1 + jitter * static_cast<double>(random()) / 4294967295.0; };
        std::vector<double>& here = made.computing.emplace_back(1, seconds(by_rank.of(r)));
        made.useful += here[0], here[0] *= slower();
        const auto stages =
            attune::mpi::detail::stages_with_runs(r, units, by_rank, plan.chunks(), graph.predicted.stages);
        for (std::size_t s = 0; s < stages.size(); ++s) {
            const double alone = seconds(stages[s].chunks);
            made.useful += alone;
            const auto [first, rows] =
                attune::mpi::detail::first_and_count_of_rows(by_rank.of(r), stages[s].chunks, work, plan.chunks());
            here.push_back(alone * slower() + static_cast<double>(rows) * graph.bytes.results / speed.merged);
            for (const run_of_keys& each : stages[s].runs)
                made.transfers.push_back(
                    {each.rank, r, static_cast<int>(s), static_cast<double>(each.count) * graph.bytes.keys});
        }
    }
    made.messages = std::ssize(made.transfers) * graph.travellers;
    // Senders begin with the first stage, and with the rank before them.
    std::ranges::stable_sort(made.transfers, {}, [&](const transfer& t) {
        return std::pair(t.stage, (t.from - t.to + plan.ranks()) % plan.ranks());
    });
    return made;
}

outcome simulate(const schedule& what, const network& by) { return run(what, by).all(); }

head_exchange head_exchange_of(const layout& plan) {
    const attune::mpi::exchange_plan& graph = plan.graphs()[0];
    return {static_cast<double>(std::max(graph.head_bytes_sent, graph.head_bytes_received)),
            2 * (plan.head_parts() - 1)};
}

outcome simulate(const layout& plan, const schedule& of_same_heads, network by) {
    const int parts = plan.head_parts();
    by.rack = std::max(1, by.rack / parts);  // ranks that share heads follow each other
    outcome made = simulate(of_same_heads, by);
    const head_exchange more = head_exchange_of(plan);
    const double before = made.seconds;
    made.seconds += more.bytes / by.bytes + more.messages * by.latency;
    made.efficiency *= before / made.seconds, made.waiting *= parts;
    return made;
}

}  // namespace simulated
