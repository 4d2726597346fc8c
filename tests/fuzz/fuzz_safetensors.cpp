// Files of tensors: refused with a sentence, or read with every tensor's bytes of the size that its shape says.
#include "safetensors.hpp"

#include <cstdlib>
#include <stdexcept>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto* const bytes = reinterpret_cast<const std::byte*>(data);
    try {
        auto file = attune::support::parse_safetensors("fuzzed", {bytes, bytes + size});
        for (const auto& tensor : file.tensors)
            if (static_cast<std::size_t>(tensor.count()) * static_cast<std::size_t>(attune::bytes_of(tensor.element)) !=
                tensor.bytes.size())
                std::abort();
        file.drop_debug();
    } catch (const std::runtime_error&) {
        // not such a file
    }
    return 0;
}
