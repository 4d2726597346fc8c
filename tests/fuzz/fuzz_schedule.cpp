// Schedules as JSON: refused with a sentence, or a schedule that is the same after a round trip and can be judged.
#include "kernel/schedule.hpp"

#include <cstdlib>
#include <stdexcept>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace attune::generators;
    try {
        const schedule read = schedule_from_json({reinterpret_cast<const char*>(data), size});
        if (schedule_from_json(to_json(read)) != read) std::abort();
        for (const int depth : {1, 64, 80}) {
            try {
                check(read, depth);
                if (scratch_bytes(read, depth, depth) == 0) std::abort();
            } catch (const std::runtime_error&) {
                // a rule that it breaks
            }
        }
    } catch (const std::runtime_error&) {
        // not a schedule
    }
    return 0;
}
