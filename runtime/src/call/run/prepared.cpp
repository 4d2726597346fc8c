#include "call/bind/rebind.hpp"
#include "call/run/notices.hpp"
#include "call/run/packed.hpp"
#include "call/run/parts.hpp"
#include "execution/threads.hpp"

#include <attune/runtime/detail/call.hpp>

#include <algorithm>
#include <cstdint>
#include <memory_resource>
#include <new>
#include <string>
#include <string_view>
#include <vector>

namespace attune::detail {

/// A call's arguments, and on the host all that they decide. Calls for a GPU are bound anew each time: the GPU that is
/// the thread's current one may be another by then. So are calls with cu_seqlens_q where it says another division.
class [[gnu::visibility("hidden")]] prepared {
public:
    prepared(const kernel_table& table, std::span<const named_argument> arguments, const options& how)
        : table_(table),
          arguments_(arguments.begin(), arguments.end()),
          target_(how.target),
          how_(with_target(how, target_)) {
        if (packed_by(table_, arguments_))
            packed_.emplace(table_, arguments_, how_, bound_call::outputs::needed, false);
        else if (!(parts_ = parted_call::of(table_, arguments_, how_)))
            bound_.emplace(table_, arguments_, how_, bound_call::outputs::needed, false);
        deciding_ = deciding_scalars(table_.graph);  // once its layout is known
        is_top_left_ = is_top_left(table_);
    }

    void call() const {
        if (packed_ ? packed_->has_changed() || packed_->is_for_device() : bound_ && is_device(bound_->chosen().target))
            return detail::call(table_, arguments_, how_);
        check_values();
        if (is_top_left_) note();
        if (packed_) return packed_->run(threads_of(how_.threads));
        if (parts_) return parts_->run(threads_of(how_.threads));
        if (bound_->nothing_to_do()) return bound_->write_empty_sums();
        bound_->run(threads_of(how_.threads));
    }
    /// With some arguments replaced. If they may decide something else, the call is bound anew, as by `run`.
    void call(std::span<const named_argument> others) const {
        const replacements by(table_.graph, arguments_, others, !packed_);
        if (bound_ && !is_device(bound_->chosen().target) && !by.decide(table_.graph, deciding_)) {
            const auto replaced = [&](std::string_view name) {
                return std::ranges::find(others, name, &named_argument::name) != others.end();
            };
            if (is_top_left_ && !replaced("kv_lengths")) note();
            return bound_->run_with(by.all(), threads_of(how_.threads));
        }
        const scratch room(arguments_.size() * sizeof(named_argument));
        if (!room.data()) throw std::bad_alloc();
        std::pmr::monotonic_buffer_resource memory(room.data(), bytes_of_scratch(room.data()));
        std::pmr::vector<named_argument> all(arguments_.begin(), arguments_.end(), &memory);
        for (const auto& [bound, other] : by.all()) {
            named_argument& to = all[static_cast<std::size_t>(bound - arguments_.data())];
            const std::string_view name = to.name;
            to = *other, to.name = name;
        }
        options how = how_;
        if (bound_) how.target = bound_->chosen().target;  // whatever the environment says by now
        detail::call(table_, all, how);
    }
    void check_values() const {
        packed_ ? packed_->check_values() : parts_ ? parts_->check_values() : bound_->check_values();
    }
    explanation explain() const { return detail::explain(table_, arguments_, how_); }
    block_map blocks() const { return detail::blocks(table_, arguments_, how_); }

private:
    void note() const {
        if (packed_) return note_few_queries(table_, *packed_);
        note_few_queries(table_, parts_ ? parts_->first() : *bound_);
    }
    static options with_target(options how, std::string_view target) {
        how.target = target;
        return how;
    }

    const kernel_table& table_;
    const std::vector<named_argument> arguments_;
    const std::string target_;  ///< a copy: the options' text may be gone
    const options how_;
    std::uint64_t deciding_{};  ///< scalars, a bit each
    bool is_top_left_{};
    std::optional<const bound_call> bound_;
    std::optional<const packed_call> packed_;
    std::unique_ptr<const parted_call> parts_;  ///< these, or the bound one
};

std::shared_ptr<const prepared> prepare(const kernel_table& table, std::span<const named_argument> arguments,
                                        const options& how) {
    return std::make_shared<const prepared>(table, arguments, how);
}
void call(const prepared& what) { what.call(); }
void call(const prepared& what, std::span<const named_argument> others) { what.call(others); }
void check_values(const prepared& what) { what.check_values(); }
explanation explain(const prepared& what) { return what.explain(); }
block_map blocks(const prepared& what) { return what.blocks(); }

}  // namespace attune::detail
