#include "call/packed.hpp"
#include "call/parts.hpp"
#include "execution/threads.hpp"

#include <attune/runtime/detail/call.hpp>

#include <string>
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
    }

    void call() const {
        if (packed_ ? packed_->has_changed() : bound_ && is_device(bound_->chosen().target))
            return detail::call(table_, arguments_, how_);
        check_values();
        if (packed_) return packed_->run(threads_of(how_.threads));
        if (parts_) return parts_->run(threads_of(how_.threads));
        if (bound_->nothing_to_do()) return bound_->write_empty_sums();
        bound_->run(threads_of(how_.threads));
    }
    void check_values() const {
        packed_ ? packed_->check_values() : parts_ ? parts_->check_values() : bound_->check_values();
    }
    explanation explain() const { return detail::explain(table_, arguments_, how_); }
    block_map blocks() const { return detail::blocks(table_, arguments_, how_); }

private:
    static options with_target(options how, std::string_view target) {
        how.target = target;
        return how;
    }

    const kernel_table& table_;
    const std::vector<named_argument> arguments_;
    const std::string target_;  ///< what options point to, and may be gone
    const options how_;
    std::optional<const bound_call> bound_;
    std::optional<const packed_call> packed_;
    std::unique_ptr<const parted_call> parts_;  ///< these, or the bound one
};

std::shared_ptr<const prepared> prepare(const kernel_table& table, std::span<const named_argument> arguments,
                                        const options& how) {
    return std::make_shared<const prepared>(table, arguments, how);
}
void call(const prepared& what) { what.call(); }
void check_values(const prepared& what) { what.check_values(); }
explanation explain(const prepared& what) { return what.explain(); }
block_map blocks(const prepared& what) { return what.blocks(); }

}  // namespace attune::detail
