#include "module.hpp"

#include "translator.hpp"

#include <atomic>
#include <bit>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>

namespace ptx {
namespace {

u32* special_of(warp& w, special which) { return w.words.data() + static_cast<std::size_t>(which) * lanes; }

/// One thread of the host, which runs blocks of a launch.
class block_runner {
public:
    block_runner(const program& kernel, const launch_options& how, std::span<void* const> arguments)
        : how_(how), threads_(how.block.count()), warps_((threads_ + lanes - 1) / lanes) {
        its_.of = &kernel, its_.global = how.memory, its_.block = how.block;
        its_.parameters.resize(kernel.parameter_bytes);
        for (std::size_t n = 0; n < arguments.size(); ++n)
            std::memcpy(its_.parameters.data() + kernel.parameters[n].offset, arguments[n], kernel.parameters[n].bytes);
        its_.local.resize(kernel.local_bytes * warps_.size() * lanes);
        its_.met.resize(kernel.code.size());
        if (how.counts) its_.counted.resize(kernel.code.size());
        for (std::size_t n = 0; n < warps_.size(); ++n) prepare(warps_[n], n);
    }

    void run(std::size_t number) {
        const extent& grid = how_.grid;
        its_.at = {static_cast<unsigned>(number % grid.x), static_cast<unsigned>(number / grid.x % grid.y),
                   static_cast<unsigned>(number / grid.x / grid.y)};
        its_.shared.begin(its_.of->shared_bytes + how_.shared_bytes, how_.checks);
        for (warp& each : warps_) begin(each);
        for (meeting& each : its_.meetings) each = {};
        for (bool alive = true; alive; its_.shared.barrier()) {
            alive = false;
            for (warp& each : warps_) each.flow.at_barrier = false;
            while (run_warps()) {
            }
            for (warp& each : warps_) alive = alive || !each.flow.done;
        }
    }

    const std::vector<operation_count>& counted() const { return its_.counted; }

private:
    /// Those that go on before the block's next barrier; false if there are none.
    bool run_warps() {
        bool ran = false;
        for (warp& each : warps_) {
            if (each.flow.done || each.flow.at_barrier || each.flow.meets) continue;
            its_.now = &each, ran = true;
            run_warp(its_);
        }
        for (warp& each : warps_) {
            if (ran || !each.flow.meets) continue;
            its_.now = &each;
            const auto at = static_cast<std::size_t>(each.flow.now.pc) - 1;
            its_.refuse(its_.of->code[at], std::countr_zero(each.flow.alive),
                        "expected the threads that a barrier names, got some that wait for ever");
        }
        return ran;
    }
    /// Values that are the same in each block.
    void prepare(warp& w, std::size_t index) {
        const program& of = *its_.of;
        w.index = static_cast<int>(index);
        w.words.resize(static_cast<std::size_t>(of.words) * lanes),
            w.longs.resize(static_cast<std::size_t>(of.longs) * lanes),
            w.predicates.resize(static_cast<std::size_t>(of.predicates));
        for (const auto& [slot, value] : of.constant_words)
            std::fill_n(w.words.begin() + std::ptrdiff_t{slot} * lanes, lanes, value);
        for (const auto& [slot, value] : of.constant_longs)
            std::fill_n(w.longs.begin() + std::ptrdiff_t{slot} * lanes, lanes, value);
        const auto fill = [&](special which, unsigned value) { std::fill_n(special_of(w, which), lanes, value); };
        fill(special::ntid_x, how_.block.x), fill(special::ntid_y, how_.block.y), fill(special::ntid_z, how_.block.z);
        fill(special::nctaid_x, how_.grid.x), fill(special::nctaid_y, how_.grid.y),
            fill(special::nctaid_z, how_.grid.z);
        fill(special::warpid, static_cast<unsigned>(index));
        for (std::size_t lane = 0; lane < lanes; ++lane) {
            const std::size_t thread = index * lanes + lane;
            special_of(w, special::laneid)[lane] = static_cast<u32>(lane);
            special_of(w, special::tid_x)[lane] = static_cast<u32>(thread % how_.block.x);
            special_of(w, special::tid_y)[lane] = static_cast<u32>(thread / how_.block.x % how_.block.y);
            special_of(w, special::tid_z)[lane] = static_cast<u32>(thread / how_.block.x / how_.block.y);
        }
    }
    void begin(warp& w) {
        const std::size_t threads = std::min<std::size_t>(lanes, threads_ - static_cast<std::size_t>(w.index) * lanes);
        w.flow = {};
        w.flow.alive = w.flow.now.mask = threads == lanes ? all_lanes : (1u << threads) - 1;
        w.copies = {}, w.sums.clear();
        std::fill_n(special_of(w, special::ctaid_x), lanes, its_.at.x);
        std::fill_n(special_of(w, special::ctaid_y), lanes, its_.at.y);
        std::fill_n(special_of(w, special::ctaid_z), lanes, its_.at.z);
    }

    const launch_options& how_;
    std::size_t threads_;
    std::vector<warp> warps_;
    execution its_;
};

}  // namespace

module::module(std::string_view text, const card& on) {
    const module_text read = read_module(text);
    if (const std::string wrong = why_not(on, read.target); !wrong.empty()) throw std::runtime_error(wrong);
    for (const entry_text& each : read.entries) entries_.emplace(each.name, translator(read, each, on).whole());
}

const program* module::entry(const std::string& name) const {
    const auto found = entries_.find(name);
    return found == entries_.end() ? nullptr : &found->second;
}

counts launch(const program& kernel, const launch_options& how, std::span<void* const> arguments) {
    if (arguments.size() != kernel.parameters.size())
        throw std::invalid_argument("expected " + std::to_string(kernel.parameters.size()) + " arguments of " +
                                    kernel.name + ", got " + std::to_string(arguments.size()));
    const std::size_t blocks = how.grid.count(), most = how.host_threads > 0
                                                            ? static_cast<std::size_t>(how.host_threads)
                                                            : std::max(1u, std::thread::hardware_concurrency());
    std::atomic<std::size_t> next = 0;
    std::mutex guard;
    std::exception_ptr problem;
    counts made;
    const auto work = [&] {
        block_runner runner(kernel, how, arguments);
        try {
            for (std::size_t block = 0; (block = next.fetch_add(1)) < blocks;) runner.run(block);
        } catch (...) {
            const std::lock_guard hold(guard);
            if (!problem) problem = std::current_exception();
            next = blocks;
        }
        const std::lock_guard hold(guard);
        made.add(kernel, runner.counted());
    };
    {
        std::vector<std::jthread> others;
        for (std::size_t n = 1; n < std::min(most, blocks); ++n) others.emplace_back(work);
        work();
    }
    if (problem) std::rethrow_exception(problem);
    return made;
}

}  // namespace ptx
