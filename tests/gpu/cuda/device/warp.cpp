#include "execution.hpp"

namespace ptx {

void execution::refuse(const instruction& i, int lane, const std::string& sentence) const {
    const std::size_t thread = static_cast<std::size_t>(now->index) * lanes + static_cast<std::size_t>(lane);
    const auto triple = [](std::size_t x, std::size_t y, std::size_t z) {
        return "(" + std::to_string(x) + ", " + std::to_string(y) + ", " + std::to_string(z) + ")";
    };
    throw fault(of->name + ", line " + std::to_string(i.line) + " `" +
                of->lines->at(static_cast<std::size_t>(i.line) - 1) + "`, thread " +
                triple(thread % block.x, thread / block.x % block.y, thread / block.x / block.y) + " of block " +
                triple(at.x, at.y, at.z) + ": " + sentence);
}

void execution::need_whole_warp(const instruction& i) const {
    if (mask == all_lanes) return;
    refuse(i, std::countr_zero(mask),
           "expected all 32 threads of a warp at an instruction of the whole warp, got " +
               std::to_string(std::popcount(mask)));
}

void branch(execution& e, const instruction& i) {
    warp_flow& flow = e.now->flow;
    const u32 taken = e.mask, staying = flow.now.mask & ~taken;
    if (staying) {
        flow.waiting.push_back({flow.now.mask, i.meet, flow.now.meet});  // all of them, once both ways are done
        flow.waiting.push_back({staying, flow.now.pc, i.meet});          // pc is the next instruction's already
        flow.now = {taken, i.target, i.meet};
    } else {
        flow.now.pc = i.target;
    }
}

void leave(execution& e, const instruction&) {
    warp_flow& flow = e.now->flow;
    flow.alive &= ~e.mask;
    flow.now.mask &= flow.alive;
    for (path& each : flow.waiting) each.mask &= flow.alive;
}

void barrier(execution& e, const instruction& i) {
    warp_flow& flow = e.now->flow;
    if (e.mask != flow.alive)
        e.refuse(i, std::countr_zero(e.mask),
                 "expected all threads of a warp at a barrier, got " + std::to_string(std::popcount(e.mask)) + " of " +
                     std::to_string(std::popcount(flow.alive)));
    flow.at_barrier = true;
}

void meet(execution& e, const instruction& i) {
    warp_flow& flow = e.now->flow;
    if (e.mask != flow.alive)
        e.refuse(i, std::countr_zero(e.mask), "expected all threads of a warp at a barrier, got a part of them");
    meeting& of = e.meetings[static_cast<std::size_t>(i.vector)];
    const auto threads = static_cast<unsigned>(i.variant >> 1);
    if (of.arrived != 0 && of.expected != threads)
        e.refuse(i, std::countr_zero(e.mask),
                 "expected " + std::to_string(of.expected) + " threads at barrier " + std::to_string(i.vector) +
                     ", as those that have arrived do, got " + std::to_string(threads));
    of.arrived += lanes, of.expected = threads;
    if (i.variant & 1) flow.meets = true, of.waiting.push_back(e.now);
    if (of.arrived < threads) return;
    for (warp* each : of.waiting) each->flow.meets = false;
    of = {};
}

void trap(execution& e, const instruction& i) { e.refuse(i, std::countr_zero(e.mask), "expected no trap, got one"); }
void nothing(execution&, const instruction&) {}

namespace {

/// Lets those go on whose turn it is; false at the warp's end.
bool take_turn(warp_flow& flow) {
    while (!flow.now.mask || flow.now.pc == flow.now.meet) {
        if (flow.waiting.empty()) {
            flow.done = !flow.now.mask;
            return !flow.done;
        }
        flow.now = flow.waiting.back();
        flow.waiting.pop_back();
    }
    return true;
}

}  // namespace

void run_warp(execution& e) {
    warp_flow& flow = e.now->flow;
    const instruction* const code = e.of->code.data();
    flow.at_barrier = false;
    while (take_turn(flow)) {
        const instruction& i = code[flow.now.pc++];
        e.mask = flow.now.mask;
        if (i.when.predicate >= 0) {
            const u32 holds = e.predicate(i.when.predicate);
            e.mask &= i.when.negated ? ~holds : holds;
        }
        if (operation_count* const count = e.count_of(i))
            ++count->issued, count->lanes += static_cast<u64>(std::popcount(e.mask));
        if (e.mask) i.run(e, i);
        if (flow.at_barrier || flow.meets) return;
    }
}

}  // namespace ptx
