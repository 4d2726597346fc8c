// Schedules as JSON: refused with a sentence, or a schedule that is the same after a round trip and can be judged.
#include "kernel/schedule.hpp"

#include <cstdlib>
#include <stdexcept>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace attune::generators;
    for (const char* name : {"x86-64-v3", "cuda"}) {
        const level& target = level_named(name);
        try {
            const schedule read = schedule_from_json({reinterpret_cast<const char*>(data), size}, target);
            if (is_for_gpu(read) != target.is_gpu || schedule_from_json(to_json(read), target) != read) std::abort();
            for (const int depth : {1, 64, 80}) {
                try {
                    check(read, {depth, depth});
                } catch (const std::runtime_error&) {
                    // a rule that it breaks
                }
            }
        } catch (const std::runtime_error&) {
            // not a schedule
        }
    }
    return 0;
}
