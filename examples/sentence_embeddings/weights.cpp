#include "weights.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <stdexcept>

namespace sentence_embeddings {

attune::tensor weights::get(const std::string& name, const std::vector<std::int64_t>& shape) const {
    const auto refuse = [this](const std::string& why) {
        throw std::runtime_error(file_.path().string() + ": " + why);
    };
    auto found = file_.tensors().find(name);
    // What models with a head of their own call their encoder.
    if (found == file_.tensors().end()) found = file_.tensors().find("bert." + name);
    if (found == file_.tensors().end() || found->second.type != "F32")
        refuse(fmt::format("expected an f32 tensor {}, got none; is this a MiniLM-L6 sentence model?", name));
    const auto& [type, has, bytes] = found->second;
    if (has != shape)
        refuse(fmt::format("expected {} of shape ({}), got ({})", name, fmt::join(shape, ", "), fmt::join(has, ", ")));
    if (reinterpret_cast<std::uintptr_t>(bytes.data()) % alignof(float) != 0)  // the file begins at a page
        refuse(fmt::format("expected {} to begin at a multiple of 4 bytes of the file, got another place", name));
    return attune::tensor(reinterpret_cast<const float*>(bytes.data()), shape);
}

}  // namespace sentence_embeddings
