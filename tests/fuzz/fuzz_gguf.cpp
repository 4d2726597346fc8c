// Models in GGUF (examples/language_model): refused with a sentence, or read with every tensor's bytes in the file and
// of the size that its shape says.
#include "gguf.hpp"

#include <cstdlib>
#include <stdexcept>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
    try {
        const language_model::gguf file("fuzzed", bytes);
        for (const auto& [name, tensor] : file.tensors()) {
            const auto count = static_cast<std::size_t>(tensor.count());
            if (count / tensor.type->elements * tensor.type->bytes != tensor.bytes.size()) std::abort();
            if (!tensor.bytes.empty() && (tensor.bytes.data() < bytes.data() ||
                                          tensor.bytes.data() + tensor.bytes.size() > bytes.data() + bytes.size()))
                std::abort();
            if (tensor.all().size() != count) std::abort();
            if (count > 0 && tensor.row(0).size() != static_cast<std::size_t>(tensor.extents.front())) std::abort();
        }
    } catch (const std::runtime_error&) {
        // not such a file
    }
    return 0;
}
