#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

/// The order in which states of parts of the keys are joined: a binary tree over the parts, the same whatever ranks
/// have them. So the bits depend on the parts alone.
namespace attune::mpi {

/// A node of the tree: 2^level parts from index * 2^level on, or as many as there are.
struct branch {
    int level, index;
    std::int64_t first() const { return std::int64_t{index} << level; }
    bool operator==(const branch&) const = default;
};

/// The messages of one rank. Ranks are a binary tree, too: each waits for those above it, and sends what it could not
/// join itself to the one below. The whole comes back along the same edges.
struct tree {
    struct message {
        int rank;
        std::vector<branch> branches;  ///< a state of each; none: no message
    };
    int parts = 0;           ///< of all ranks
    std::vector<int> own{};  ///< parts of this rank
    std::vector<message>
        received{};                 ///< in the order in which they are waited for; the whole goes to all of these ranks
    std::optional<message> sent{};  ///< to whom; the whole comes from there. Rank 0 sends nothing

    std::int64_t messages_sent() const;
    std::int64_t messages_received() const;
    std::int64_t states_sent() const;
    std::int64_t states_received() const;
};

namespace detail {

/// States that wait for the other half of their node. `joined` is called with the state of the lower half and that of
/// the upper one, and returns that of both.
template <class State> class waiting_states {
public:
    explicit waiting_states(int parts) : parts_(parts) {}

    template <class Join> void add(branch at, State state, Join&& joined) {
        while (std::int64_t{1} << at.level < parts_) {
            const branch other{at.level, at.index ^ 1};
            if (other.first() < parts_) {
                const auto found = all_.find(other.first());
                if (found == all_.end() || found->second.first != other) break;
                State beside = std::move(found->second.second);
                all_.erase(found);
                state = at.index % 2 == 0 ? joined(std::move(state), std::move(beside))
                                          : joined(std::move(beside), std::move(state));
            }
            at = {at.level + 1, at.index / 2};
        }
        all_.emplace(at.first(), std::pair(at, std::move(state)));
    }

    /// In the order of their parts.
    const std::map<std::int64_t, std::pair<branch, State>>& all() const { return all_; }

private:
    int parts_;
    std::map<std::int64_t, std::pair<branch, State>> all_;
};

/// The messages of one rank; `owner`: the rank of each part.
tree tree_of(int rank, int ranks, std::span<const int> owner);

}  // namespace detail
}  // namespace attune::mpi
