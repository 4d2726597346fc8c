// Mapped weights: what comes back, and what is refused.
#include "weights.hpp"
#include "model_file.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>

using namespace sentence_embeddings;
using namespace sentence_embeddings::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {
const model_tensors two = {{"a", {{2, 3}, {1, 2, 3, 4, 5, 6}}}, {"b", {{2}, {7, 8}}}};

void refuses(const std::string& bytes, const std::string& sentence) {
    const auto path = file_named("refused.safetensors");
    write(path, bytes);
    CHECK_THROWS_MATCHES(weights(path), std::runtime_error,
                         MessageMatches(ContainsSubstring(path.string() + ": ") && ContainsSubstring(sentence)));
}
/// A file of one tensor, 24 bytes of data, and that entry.
void refuses_entry(const std::string& entry, const std::string& sentence) {
    std::string header = R"({"a":)" + entry + "}";
    header.append((4 - header.size() % 4) % 4, ' ');
    refuses(bytes_of(header, std::string(24, '\0')), sentence);
}
}  // namespace

TEST_CASE("weights: tensors come back as they were written, by name and shape") {
    const auto path = file_named("two.safetensors");
    write(path, bytes_of(two));
    const weights file(path);
    const attune::tensor a = file.get("a", {2, 3}), b = file.get("b", {2});
    CHECK(a.description() == "f32 (2, 3)");
    CHECK(a.read_only());
    const auto* values = static_cast<const float*>(a.data());
    CHECK(std::equal(values, values + 6, two.at("a").values.begin()));
    CHECK(static_cast<const float*>(b.data())[1] == 8);
}

TEST_CASE("weights: a name may begin with bert., and tensors of other types are passed over") {
    const auto path = file_named("prefixed.safetensors");
    write(path,
          bytes_of(R"({"__metadata__":{"format":"pt"},"bert.a":{"dtype":"F32","shape":[1],"data_offsets":[8,12]},)"
                   R"("n":{"dtype":"I64","shape":[1],"data_offsets":[0,8]}}    )",
                   std::string("\0\0\0\0\0\0\0\0\0\0\x80?", 12)));
    const weights file(path);
    CHECK(*static_cast<const float*>(file.get("a", {1}).data()) == 1);
    CHECK_THROWS_MATCHES(file.get("n", {1}), std::runtime_error,
                         MessageMatches(ContainsSubstring("expected an f32 tensor n, got none")));
}

TEST_CASE("weights: a tensor of another name or shape is refused") {
    const auto path = file_named("two.safetensors");
    write(path, bytes_of(two));
    const weights file(path);
    CHECK_THROWS_MATCHES(
        file.get("c", {2}), std::runtime_error,
        MessageMatches(ContainsSubstring("expected an f32 tensor c, got none; is this a MiniLM-L6 sentence model?")));
    CHECK_THROWS_MATCHES(file.get("a", {3, 2}), std::runtime_error,
                         MessageMatches(ContainsSubstring("expected a of shape (3, 2), got (2, 3)")));
}

TEST_CASE("weights: a tensor that no f32 can be read from where it lies is refused") {
    const auto path = file_named("shifted.safetensors");
    const std::string entry = R"({"a":{"dtype":"F32","shape":[5],"data_offsets":[0,20]}})", data(20, '\0');
    const std::size_t missing = (4 - entry.size() % 4) % 4;
    write(path, bytes_of(entry + std::string(missing, ' '), data));
    CHECK_NOTHROW(weights(path).get("a", {5}));
    write(path, bytes_of(entry + std::string(missing + 1, ' '), data));
    CHECK_THROWS_MATCHES(weights(path).get("a", {5}), std::runtime_error,
                         MessageMatches(ContainsSubstring(
                             "expected a to begin at a multiple of 4 bytes of the file, got another place")));
}

TEST_CASE("weights: every truncation of a file is refused") {
    const std::string whole = bytes_of(two);
    for (std::size_t length = 0; length < whole.size(); ++length) {
        INFO(length << " of " << whole.size() << " bytes");
        refuses(whole.substr(0, length), length < whole.size() - 32 ? "expected" : "truncated: expected");
    }
    refuses("", "truncated: expected 8 bytes that say how long the header is, got 0 bytes in all");
    refuses(whole.substr(0, whole.size() - 1),
            "truncated: expected b to end at byte 32 of the data, got 31 bytes of data");
}

TEST_CASE("weights: what is no .safetensors file is refused") {
    refuses(std::string(8, '\xff') + "{}", "truncated: expected a header of 18446744073709551615 bytes, got 2");
    refuses(bytes_of("[1, 2]  ", ""),
            "expected a header that is a JSON object, got something else; is this a .safetensors file?");
    refuses(bytes_of("{\"a\":   ", "......"), "expected a header that is a JSON object");
    const auto missing = file_named("absent.safetensors");
    for (const auto& path : {missing, missing.parent_path()})
        CHECK_THROWS_MATCHES(weights(path), std::runtime_error,
                             MessageMatches(ContainsSubstring(
                                 path.string() + ": expected a .safetensors file, got nothing that can be read")));
}

TEST_CASE("weights: a header that does not describe the data is refused") {
    refuses_entry(R"({"dtype":"F32","shape":[6],"data_offsets":[0,20]})",
                  "expected 24 bytes for a, got those from 0 to 20");
    refuses_entry(R"({"dtype":"F32","shape":[6],"data_offsets":[24,0]})",
                  "expected 24 bytes for a, got those from 24 to 0");
    refuses_entry(R"({"dtype":"F32","shape":[6],"data_offsets":[4,28]})",
                  "truncated: expected a to end at byte 28 of the data, got 24 bytes of data");
    refuses_entry(R"({"dtype":"F32","shape":[4611686018427387905,4],"data_offsets":[0,16]})",
                  "expected a with a shape and two data_offsets");
    for (const char* entry :
         {R"({"dtype":"F32","shape":[-6],"data_offsets":[0,24]})",
          R"({"dtype":"F32","shape":[6.0],"data_offsets":[0,24]})", R"({"dtype":"F32","shape":[6],"data_offsets":[0]})",
          R"({"dtype":"F32","shape":[6]})", R"({"dtype":"F32","shape":6,"data_offsets":[0,"24"]})"})
        refuses_entry(entry, "expected a with a shape and two data_offsets, got {");
}
