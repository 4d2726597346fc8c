#include "ptx/convergence.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>
#include <utility>

namespace attune::generators::inline ptx {
namespace {

/// The basic blocks of a function, and those that every way from each leads through.
class control_flow {
public:
    struct block {
        std::size_t first{}, end{};  ///< steps
        std::vector<std::size_t> next{};
    };

    explicit control_flow(const std::vector<step>& steps) {
        cut(steps);
        connect(steps);
        find_dominators();
    }
    const std::vector<block>& blocks() const { return blocks_; }  ///< the last one is the function's end
    std::size_t end() const { return blocks_.size() - 1; }
    /// Whether every way from one block to the end leads through another one, or is in it already.
    bool leads_through(std::size_t from, std::size_t through) const { return after_[from].contains(through); }

private:
    void cut(const std::vector<step>& steps);
    void connect(const std::vector<step>& steps);
    void find_dominators();

    std::vector<block> blocks_;
    std::map<std::string, std::size_t> labels_;
    std::vector<std::set<std::size_t>> after_;
};

void control_flow::cut(const std::vector<step>& steps) {
    std::size_t first = 0;
    const auto close = [&](std::size_t at) {
        if (at > first) blocks_.push_back({first, at});
        first = at;
    };
    for (std::size_t at = 0; at < steps.size(); ++at) {
        if (!steps[at].line) continue;
        if (steps[at].line->is_label()) {
            close(at);
            labels_[steps[at].line->label()] = blocks_.size();
        } else if (steps[at].line->ends_block()) {
            close(at + 1);
        }
    }
    close(steps.size());
    blocks_.push_back({steps.size(), steps.size()});
}

void control_flow::connect(const std::vector<step>& steps) {
    for (std::size_t n = 0; n < end(); ++n) {
        const auto& line = steps[blocks_[n].end - 1].line;
        const bool ends = line && line->ends_block(), always = ends && line->predicate.empty();
        if (ends && line->is_branch()) {
            const auto to = labels_.find(line->branch_target());
            if (to == labels_.end()) throw std::runtime_error("expected a branch to a label, got " + line->code);
            blocks_[n].next.push_back(to->second);
        } else if (ends) {
            blocks_[n].next.push_back(end());
        }
        if (!always) blocks_[n].next.push_back(n + 1);
    }
}

/// Post-dominators, as sets: blocks are few.
void control_flow::find_dominators() {
    std::set<std::size_t> all;
    for (std::size_t n = 0; n < blocks_.size(); ++n) all.insert(n);
    after_.assign(blocks_.size(), all);
    after_[end()] = {end()};
    for (bool changed = true; changed;) {
        changed = false;
        for (std::size_t n = end(); n-- > 0;) {
            std::set<std::size_t> common = after_[blocks_[n].next.front()];
            for (const std::size_t to : blocks_[n].next)
                std::erase_if(common, [&](std::size_t each) { return !after_[to].contains(each); });
            common.insert(n);
            if (common != after_[n]) after_[n] = std::move(common), changed = true;
        }
    }
}

/// Which registers differ between the threads of a warp, and which blocks a part of a warp may run alone. Both only
/// grow, until nothing changes.
class divergence {
public:
    explicit divergence(const std::vector<step>& steps) : steps_(steps), flow_(steps) {
        const auto is_of_warpgroup = [](const step& each) { return each.made && each.made->of_warpgroup; };
        if (std::ranges::any_of(steps, is_of_warpgroup)) differing_.insert("%tid.y");
        while (std::exchange(changed_, false))
            for (std::size_t n = 0; n < flow_.end(); ++n) look_at(n);
    }
    const control_flow& flow() const { return flow_; }
    bool may_be_alone(std::size_t block) const { return alone_.contains(block); }

private:
    void look_at(std::size_t n) {
        for (std::size_t at = flow_.blocks()[n].first; at < flow_.blocks()[n].end; ++at) {
            const step& each = steps_[at];
            const bool own = (each.made && each.made->of_warp) || each.is("shfl") || each.is("atom"),
                       common = each.is("vote.sync");
            const auto differs = [&](const std::string& r) { return differing_.contains(r); };
            if (!common && (own || may_be_alone(n) || std::ranges::any_of(each.read(), differs)))
                for (const std::string& r : each.written()) changed_ |= !r.empty() && differing_.insert(r).second;
            if (each.line && each.line->is_branch() && differing_.contains(each.line->predicate)) part_at(n);
        }
    }
    /// All that is reached before the ways from block `n` meet again.
    void part_at(std::size_t n) {
        std::vector<std::size_t> rest = flow_.blocks()[n].next;
        std::set<std::size_t> seen;
        while (!rest.empty()) {
            const std::size_t to = rest.back();
            rest.pop_back();
            if (to == flow_.end() || (to != n && flow_.leads_through(n, to)) || !seen.insert(to).second) continue;
            changed_ |= alone_.insert(to).second;
            for (const std::size_t further : flow_.blocks()[to].next) rest.push_back(further);
        }
    }

    const std::vector<step>& steps_;
    const control_flow flow_;
    std::set<std::string> differing_{"%tid.x", "%laneid"};
    std::set<std::size_t> alone_;
    bool changed_ = true;
};

}  // namespace

void check_convergence(const std::vector<step>& steps) {
    const divergence found(steps);
    for (std::size_t n = 0; n < found.flow().end(); ++n) {
        if (!found.may_be_alone(n)) continue;
        for (std::size_t at = found.flow().blocks()[n].first; at < found.flow().blocks()[n].end; ++at)
            if (steps[at].is_of_warp())
                throw std::runtime_error("expected all threads of a warp to reach " +
                                         (steps[at].line ? steps[at].line->code : std::string(steps[at].made->name)) +
                                         " together, got it in a branch that a part of a warp may take alone");
    }
}

}  // namespace attune::generators::inline ptx
