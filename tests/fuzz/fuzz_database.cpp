// Databases of schedules as JSON: refused with a sentence, or one that is the same after a round trip, finds what is in
// it, and gains nothing from itself.
#include "schedules/database.hpp"

#include <cstdlib>
#include <stdexcept>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace attune::generators;
    const auto expect = [](bool truth) {
        if (!truth) std::abort();
    };
    database read;
    try {
        read = database_from_json({reinterpret_cast<const char*>(data), size}, "fuzzed");
    } catch (const std::runtime_error& e) {
        return expect(std::string_view(e.what()).starts_with("fuzzed")), 0;  // a sentence that says where
    }
    const std::string text = database_to_json(read);
    expect(database_to_json(database_from_json(text, "written")) == text);
    expect(database_to_json(merged({read, read})) == text);
    for (const database_entry& entry : read.entries) {
        const database_entry* const found = read.nearest(entry.key);
        expect(found != nullptr && found->key == entry.key);
        database same = read;
        same.put(entry);
        expect(database_to_json(same) == text);
    }
    return 0;
}
