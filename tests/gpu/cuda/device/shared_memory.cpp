#include "shared_memory.hpp"

namespace ptx {

void shared_memory::begin(std::size_t bytes, const shared_checks& what) {
    bytes_.assign(bytes, 0xcd);
    what_ = what, checks_ = what.unwritten || what.races;
    if (checks_) words_.assign(bytes / 4 + 1, {});
    since_ = 1;
}

const char* shared_memory::note_read(u64 at, u32 bytes, int warp) {
    for (u64 word = at / 4; word < (at + bytes + 3) / 4; ++word) {
        history& its = words_[word];
        if (its.copies) return "expected a copy that was waited for, got one on its way to what is read";
        if (what_.unwritten && !its.written) return "expected to read what some thread wrote, got what none did";
        if (!what_.races) continue;
        if (its.written_since == since_ && its.writer != warp)
            return "expected a barrier before a read of what another warp writes, got none: a race";
        if (its.read_since != since_)
            its.read_since = since_, its.reader = static_cast<s16>(warp);
        else if (its.reader != warp)
            its.reader = several;
    }
    return nullptr;
}

const char* shared_memory::note_write(u64 at, u32 bytes, int warp) {
    for (u64 word = at / 4; word < (at + bytes + 3) / 4; ++word) {
        history& its = words_[word];
        if (its.copies) return "expected a copy that was waited for, got one on its way to what is written";
        its.written = true;
        if (!what_.races) continue;
        if (its.written_since == since_ && its.writer != warp && bytes >= 4)
            return "expected a barrier between two warps' writes to a place, got none: a race";
        if (its.read_since == since_ && its.reader != warp)
            return "expected a barrier before a write of what another warp reads, got none: a race";
        its.written_since = since_, its.writer = static_cast<s16>(warp);
    }
    return nullptr;
}

const char* shared_memory::copy_begins(u64 at, u32 bytes, int warp) {
    if (const char* const wrong = write(at, bytes, warp)) return wrong;
    if (checks_)
        for (u64 word = at / 4; word < (at + bytes + 3) / 4; ++word) ++words_[word].copies;
    return nullptr;
}

const char* shared_memory::copy_arrives(u64 at, u32 bytes, int warp) {
    if (!checks_) return nullptr;
    for (u64 word = at / 4; word < (at + bytes + 3) / 4; ++word) --words_[word].copies;
    return write(at, bytes, warp);
}

}  // namespace ptx
