#pragma once
#include <attune/workload.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

/// Changes of a call's values, and questions about them, for tests.
namespace attune::support {

/// Replaces one in `one_in` elements of an f32 input by a value.
inline void sprinkle(workload& call, std::string_view input, float value, unsigned one_in) {
    owned_tensor& t = call[input];
    for_each_offset(t.view, [&](std::int64_t at) {
        if (call.random() % one_in == 0) t.reals[static_cast<std::size_t>(at)] = value;
    });
}

/// Replaces every element of an f32 input by its magnitude times a factor: slopes, scales.
inline void scale_by(workload& call, std::string_view input, float factor) {
    owned_tensor& t = call[input];
    for_each_offset(t.view, [&](std::int64_t at) {
        float& x = t.reals[static_cast<std::size_t>(at)];
        x = std::abs(x) * factor;
    });
}

/// Whether all outputs still hold only the pattern; with `gaps_only`, only the room between the rows is looked at.
inline bool outputs_untouched(const workload& call, bool gaps_only = false) {
    for (const output_declaration& output : call.graph().outputs) {
        const owned_tensor& t = call[output.name];
        std::vector<bool> written(std::max(t.reals.size(), t.halves.size()), false);
        if (gaps_only) for_each_offset(t.view, [&](std::int64_t at) { written[static_cast<std::size_t>(at)] = true; });
        for (std::size_t i = 0; i < written.size(); ++i)
            if (!written[i] && (t.halves.empty() ? t.reals[i] != pattern : t.halves[i] != half_pattern)) return false;
    }
    return true;
}

}  // namespace attune::support
