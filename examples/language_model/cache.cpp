#include "cache.hpp"

#include <cmath>

namespace language_model {

cache::cache(const sizes& model, std::int64_t how_many, std::int64_t long_each)
    : sequences(how_many),
      slots(long_each),
      model_(model),
      turns_(slots, model.depth, model.base),
      local_turns_(model.gemma ? slots : 0, model.depth, model.local_base) {}

cache::rotation::rotation(std::int64_t slots, std::int64_t depth, double base) {
    for (std::int64_t position = 0; position < slots; ++position)
        for (std::int64_t pair = 0; pair < depth / 2; ++pair) {
            const double frequency = std::pow(base, -2.0 * static_cast<double>(pair) / static_cast<double>(depth));
            cosines.push_back(static_cast<float>(std::cos(static_cast<double>(position) * frequency)));
            sines.push_back(static_cast<float>(std::sin(static_cast<double>(position) * frequency)));
        }
}

}  // namespace language_model
