#include "control_flow.hpp"

#include "execution.hpp"

#include <algorithm>
#include <set>

namespace ptx {
namespace {

/// Basic blocks by number. The last number is no block: the kernel's end, to which all ways lead.
class flow_graph {
public:
    explicit flow_graph(const program& of) {
        const int size = static_cast<int>(of.code.size());
        std::set<int> firsts{0};
        for (int at = 0; at < size; ++at) {
            const instruction& i = of.code[static_cast<std::size_t>(at)];
            if (i.target >= 0) firsts.insert(i.target);
            if (i.target >= 0 || i.run == leave) firsts.insert(at + 1);
        }
        starts_.assign(firsts.begin(), firsts.lower_bound(size));
        const int end = count();
        before_.resize(starts_.size() + 1), after_.resize(starts_.size() + 1);
        for (int block = 0; block < end; ++block) {
            const int last = (block + 1 < end ? starts_[static_cast<std::size_t>(block) + 1] : size) - 1;
            const instruction& i = of.code[static_cast<std::size_t>(last)];
            const bool always = i.when.predicate < 0;
            if (i.target >= 0) add(block, block_at(i.target));
            if (i.run == leave) add(block, end);
            if ((i.target < 0 && i.run != leave) || !always) add(block, block + 1);
        }
    }

    int count() const { return static_cast<int>(starts_.size()); }
    int start(int block) const { return starts_[static_cast<std::size_t>(block)]; }
    int block_at(int instruction) const {
        return static_cast<int>(std::ranges::upper_bound(starts_, instruction) - starts_.begin()) - 1;
    }

    /// Of each block its immediate post-dominator, by Cooper, Harvey and Kennedy's iteration on the graph turned round.
    /// -1: none, of a loop without an end.
    std::vector<int> post_dominators() const {
        std::vector<int> place(starts_.size() + 1, -1), found(starts_.size() + 1, -1);
        const std::vector<int> order = from_the_end(place);
        found.back() = count();
        for (bool changed = true; changed;) {
            changed = false;
            for (auto block = order.rbegin() + 1; block < order.rend(); ++block) {
                int common = -1;
                for (int next : after_[static_cast<std::size_t>(*block)]) {
                    if (found[static_cast<std::size_t>(next)] < 0) continue;
                    common = common < 0 ? next : nearest(common, next, place, found);
                }
                changed = changed || common != found[static_cast<std::size_t>(*block)];
                found[static_cast<std::size_t>(*block)] = common;
            }
        }
        return found;
    }

private:
    void add(int from, int to) {
        after_[static_cast<std::size_t>(from)].push_back(to);
        before_[static_cast<std::size_t>(to)].push_back(from);
    }
    static int nearest(int a, int b, const std::vector<int>& place, const std::vector<int>& found) {
        while (a != b) {
            int& lower = place[static_cast<std::size_t>(a)] < place[static_cast<std::size_t>(b)] ? a : b;
            lower = found[static_cast<std::size_t>(lower)];
        }
        return a;
    }
    /// Blocks that lead to the end, each after those that come before it, the end itself last; and the place of each.
    std::vector<int> from_the_end(std::vector<int>& place) const {
        std::vector<int> order;
        std::vector<bool> seen(before_.size());
        std::vector<std::pair<int, std::size_t>> open{{count(), 0}};
        seen.back() = true;
        while (!open.empty()) {
            auto& [block, next] = open.back();
            const std::vector<int>& before = before_[static_cast<std::size_t>(block)];
            if (next < before.size()) {
                const int to = before[next++];
                if (!seen[static_cast<std::size_t>(to)])
                    seen[static_cast<std::size_t>(to)] = true, open.emplace_back(to, 0);
            } else {
                place[static_cast<std::size_t>(block)] = static_cast<int>(order.size());
                order.push_back(block);
                open.pop_back();
            }
        }
        return order;
    }

    std::vector<int> starts_;
    std::vector<std::vector<int>> before_, after_;
};

}  // namespace

void find_meetings(program& of) {
    const flow_graph graph(of);
    const std::vector<int> meetings = graph.post_dominators();
    for (std::size_t at = 0; at < of.code.size(); ++at) {
        instruction& i = of.code[at];
        if (i.target < 0) continue;
        const int meeting = meetings[static_cast<std::size_t>(graph.block_at(static_cast<int>(at)))];
        i.meet = meeting >= 0 && meeting < graph.count() ? graph.start(meeting) : -1;
    }
}

}  // namespace ptx
