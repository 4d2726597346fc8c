#include "memory.hpp"

#include <array>
#include <cstring>
#include <mutex>

namespace ptx {
namespace {

std::string hexadecimal(u64 address) {
    char text[24];
    std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(address));
    return text;
}
[[noreturn]] void refuse_shared(const execution& e, const instruction& i, int lane, u64 at, const char* wrong) {
    e.refuse(i, lane,
             std::string(wrong) + " (byte " + std::to_string(at) + " of " + std::to_string(e.shared.size()) +
                 " of shared memory)");
}

void check_global(execution& e, const instruction& i, const u64* at, u32 bytes) {
    each_lane(e.mask, [&](int lane) {
        if (at[lane] % bytes == 0) return;
        e.refuse(i, lane,
                 "expected an address that is a multiple of " + std::to_string(bytes) + ", the access's size, got " +
                     hexadecimal(at[lane]));
    });
    if (!e.global) return;
    allocations::range& met = e.met[static_cast<std::size_t>(&i - e.of->code.data())];
    each_lane(e.mask, [&](int lane) {
        if (met.holds(at[lane], bytes)) return;
        met = e.global->around(at[lane]);
        if (!met.holds(at[lane], bytes))
            e.refuse(i, lane,
                     "expected an address in memory that was allocated, got " + std::to_string(bytes) + " bytes at " +
                         hexadecimal(at[lane]));
    });
}

/// Whether generic addresses are of shared memory, which then are made its own.
bool are_shared(const execution& e, const instruction& i, u64* at) {
    u32 in = 0;
    each_lane(e.mask, [&](int lane) { in |= static_cast<u32>(at[lane] >> 56 == shared_window >> 56) << lane; });
    if (in && in != e.mask)
        e.refuse(i, std::countr_zero(e.mask & ~in),
                 "expected the addresses of a warp in one kind of memory, got some in shared memory");
    if (in) each_lane(e.mask, [&](int lane) { at[lane] -= shared_window; });
    return in != 0;
}

/// Where each lane's bytes are, once they were found to be right.
struct places {
    std::array<u8*, lanes> at{};
};
template <space S, bool Writes> void find_places(execution& e, const instruction& i, u32 bytes, places& found) {
    std::array<u64, lanes> at;
    addresses_of(e, i.address, at.data());
    if constexpr (S == space::local) {
        const std::size_t size = e.of->local_bytes;
        each_lane(e.mask, [&](int lane) {
            if (at[static_cast<std::size_t>(lane)] + bytes > size)
                e.refuse(i, lane,
                         "expected an address in the thread's own memory of " + std::to_string(size) + " bytes");
            const auto thread = static_cast<std::size_t>(e.now->index * lanes + lane);
            found.at[static_cast<std::size_t>(lane)] =
                e.local.data() + thread * size + at[static_cast<std::size_t>(lane)];
        });
        return;
    }
    operation_count* const count = e.count_of(i);
    if (count) ++count->requests;
    if (S == space::shared || (S == space::generic && are_shared(e, i, at.data()))) {
        u64 found_right = ~u64{};  // many lanes often read one place
        each_lane(e.mask, [&](int lane) {
            const u64 here = at[static_cast<std::size_t>(lane)];
            found.at[static_cast<std::size_t>(lane)] = e.shared.data() + here;
            if (here == found_right) return;
            if (const char* const wrong = e.shared.wrong_place(here, bytes)) refuse_shared(e, i, lane, here, wrong);
            if (const char* const wrong =
                    Writes ? e.shared.write(here, bytes, e.now->index) : e.shared.read(here, bytes, e.now->index))
                refuse_shared(e, i, lane, here, wrong);
            found_right = here;
        });
        if (count) count->wavefronts += wavefronts(at.data(), bytes, e.mask);
        return;
    }
    check_global(e, i, at.data(), bytes);
    each_lane(e.mask, [&](int lane) {
        found.at[static_cast<std::size_t>(lane)] = reinterpret_cast<u8*>(at[static_cast<std::size_t>(lane)]);
    });
    if (count) count->sectors += sectors(at.data(), bytes, e.mask);
}

/// Elements of T, in registers of R.
template <class T, class R, space S> void load(execution& e, const instruction& i) {
    places found;
    find_places<S, false>(e, i, static_cast<u32>(sizeof(T)) * static_cast<u32>(i.vector), found);
    for (int n = 0; n < i.vector; ++n) {
        if (i.d[static_cast<std::size_t>(n)] < 0) continue;
        R* const to = e.values<R>(i.d[static_cast<std::size_t>(n)]);
        each_lane(e.mask, [&](int lane) {
            T value;
            std::memcpy(&value, found.at[static_cast<std::size_t>(lane)] + static_cast<std::size_t>(n) * sizeof(T),
                        sizeof value);
            to[lane] = static_cast<R>(value);
        });
    }
}
template <class T, class R, space S> void store(execution& e, const instruction& i) {
    places found;
    find_places<S, true>(e, i, static_cast<u32>(sizeof(T)) * static_cast<u32>(i.vector), found);
    for (int n = 0; n < i.vector; ++n) {
        const R* const from = e.values<R>(i.s[static_cast<std::size_t>(n)]);
        each_lane(e.mask, [&](int lane) {
            const T value = static_cast<T>(from[lane]);
            std::memcpy(found.at[static_cast<std::size_t>(lane)] + static_cast<std::size_t>(n) * sizeof(T), &value,
                        sizeof value);
        });
    }
}

template <class T, class R> void load_parameters(execution& e, const instruction& i) {
    std::array<u64, lanes> at;
    addresses_of(e, i.address, at.data());
    const std::size_t bytes = sizeof(T) * static_cast<std::size_t>(i.vector);
    each_lane(e.mask, [&](int lane) {
        const u64 here = at[static_cast<std::size_t>(lane)];
        if (here + bytes > e.parameters.size())
            e.refuse(i, lane,
                     "expected an address among the parameters' " + std::to_string(e.parameters.size()) +
                         " bytes, got " + std::to_string(here));
        for (std::size_t n = 0; n < static_cast<std::size_t>(i.vector); ++n) {
            T value;
            std::memcpy(&value, e.parameters.data() + here + n * sizeof(T), sizeof value);
            if (i.d[n] >= 0) e.values<R>(i.d[n])[lane] = static_cast<R>(value);
        }
    });
}

/// One at a time, of all blocks: those of a device come in no order, and these in that of the lanes.
template <class T, space S> void atomic_sum(execution& e, const instruction& i) {
    static std::mutex one_at_a_time;
    places found;
    find_places<S, true>(e, i, sizeof(T), found);
    const T* const added = e.values<T>(i.s[0]);
    const std::lock_guard hold(one_at_a_time);
    for (u32 rest = e.mask; rest; rest &= rest - 1) {
        const int lane = std::countr_zero(rest);
        T before;
        std::memcpy(&before, found.at[static_cast<std::size_t>(lane)], sizeof before);
        const T after = before + added[lane];
        std::memcpy(found.at[static_cast<std::size_t>(lane)], &after, sizeof after);
        if (i.d[0] >= 0) e.values<T>(i.d[0])[lane] = before;
    }
}

template <class T, class R, bool Loads> handler handler_of(space where) {
    switch (where) {
        case space::global: return Loads ? load<T, R, space::global> : store<T, R, space::global>;
        case space::shared: return Loads ? load<T, R, space::shared> : store<T, R, space::shared>;
        case space::local: return Loads ? load<T, R, space::local> : store<T, R, space::local>;
        case space::generic: return Loads ? load<T, R, space::generic> : store<T, R, space::generic>;
        case space::parameters: return Loads ? load_parameters<T, R> : nullptr;
    }
    return nullptr;
}
template <bool Loads> handler handler_of(space where, std::string_view type, bool in_longs) {
    if (type.size() < 2) return nullptr;
    const std::string_view bits = type.substr(1);
    const bool is_signed = type[0] == 's';
    if (bits == "64") return handler_of<u64, u64, Loads>(where);
    if (bits == "32")
        return in_longs ? (is_signed ? handler_of<s32, s64, Loads>(where) : handler_of<u32, u64, Loads>(where))
                        : handler_of<u32, u32, Loads>(where);
    if (bits == "16" && is_signed)
        return in_longs ? handler_of<s16, s64, Loads>(where) : handler_of<s16, s32, Loads>(where);
    if (bits == "16") return in_longs ? handler_of<u16, u64, Loads>(where) : handler_of<u16, u32, Loads>(where);
    if (bits == "8" && is_signed)
        return in_longs ? handler_of<s8, s64, Loads>(where) : handler_of<s8, s32, Loads>(where);
    if (bits == "8") return in_longs ? handler_of<u8, u64, Loads>(where) : handler_of<u8, u32, Loads>(where);
    return nullptr;
}
template <class T> handler atomic_sum_in(space where) {
    return where == space::shared   ? atomic_sum<T, space::shared>
           : where == space::global ? atomic_sum<T, space::global>
                                    : atomic_sum<T, space::generic>;
}

void arrive(execution& e, const instruction& i, const std::vector<copy_on_its_way>& copies) {
    for (const copy_on_its_way& each : copies) {
        if (const char* const wrong = e.shared.copy_arrives(each.to, each.bytes, e.now->index))
            refuse_shared(e, i, each.lane, each.to, wrong);
        u8* const to = e.shared.data() + each.to;
        std::memcpy(to, reinterpret_cast<const void*>(each.from), each.bytes - each.zeros);
        std::memset(to + (each.bytes - each.zeros), 0, each.zeros);
    }
}

}  // namespace

handler load_of(space where, std::string_view type, bool in_longs) { return handler_of<true>(where, type, in_longs); }
handler store_of(space where, std::string_view type, bool in_longs) { return handler_of<false>(where, type, in_longs); }
handler atomic_sum_of(space where, std::string_view type) {
    if (type == "f32") return atomic_sum_in<float>(where);
    if (type == "f64") return atomic_sum_in<double>(where);
    if (type == "u32" || type == "s32") return atomic_sum_in<u32>(where);
    return type == "u64" ? atomic_sum_in<u64>(where) : nullptr;
}

void addresses_of(const execution& e, const memory_operand& operand, u64* addresses) {
    if (operand.slot < 0) {
        for (int lane = 0; lane < lanes; ++lane) addresses[lane] = static_cast<u64>(operand.offset);
    } else if (operand.wide) {
        const u64* const base = e.longs(operand.slot);
        for (int lane = 0; lane < lanes; ++lane) addresses[lane] = base[lane] + static_cast<u64>(operand.offset);
    } else {
        const u32* const base = e.words(operand.slot);
        for (int lane = 0; lane < lanes; ++lane) addresses[lane] = base[lane] + static_cast<u32>(operand.offset);
    }
}

const u8* shared_bytes_read(execution& e, const instruction& i, int lane, u64 at, u32 bytes) {
    if (const char* const wrong = e.shared.wrong_place(at, bytes)) refuse_shared(e, i, lane, at, wrong);
    if (const char* const wrong = e.shared.read(at, bytes, e.now->index)) refuse_shared(e, i, lane, at, wrong);
    return e.shared.data() + at;
}

void begin_copy(execution& e, const instruction& i) {
    const u32 bytes = static_cast<u32>(i.vector);
    std::array<u64, lanes> to, from;
    addresses_of(e, i.address, to.data());
    addresses_of(e, i.from, from.data());
    const u32* const taken = i.variant == 1 ? e.words(i.s[2]) : nullptr;
    const u32 all = e.mask;
    if (taken)
        each_lane(all, [&](int lane) {
            e.mask &= taken[lane] ? all_lanes : ~(1u << lane);
        });  // of no bytes no address is looked at
    check_global(e, i, from.data(), bytes);
    if (operation_count* const count = e.count_of(i))
        ++count->requests, count->sectors += sectors(from.data(), bytes, e.mask),
            count->wavefronts += wavefronts(to.data(), bytes, all);
    e.mask = all;
    each_lane(all, [&](int lane) {
        const auto l = static_cast<std::size_t>(lane);
        if (const char* const wrong = e.shared.wrong_place(to[l], bytes)) refuse_shared(e, i, lane, to[l], wrong);
        if (const char* const wrong = e.shared.copy_begins(to[l], bytes, e.now->index))
            refuse_shared(e, i, lane, to[l], wrong);
        e.now->copies.open.push_back({to[l], from[l], bytes, taken ? bytes - std::min(bytes, taken[lane]) : 0, lane});
    });
}

void commit_copies(execution& e, const instruction&) {
    e.now->copies.groups.push_back(std::move(e.now->copies.open));
    e.now->copies.open.clear();
}

void wait_for_copies(execution& e, const instruction& i) {
    copies_on_their_way& its = e.now->copies;
    if (i.variant < 0) commit_copies(e, i);
    const auto left = static_cast<std::size_t>(std::max(i.variant, 0));
    while (its.groups.size() > left) {
        arrive(e, i, its.groups.front());
        its.groups.erase(its.groups.begin());
    }
}

}  // namespace ptx
