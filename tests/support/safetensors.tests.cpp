#include "safetensors.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cstring>
#include <fstream>

using namespace attune;
using namespace attune::support;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

std::vector<std::byte> file_of(const std::string& header, std::size_t data_bytes, std::uint64_t said_length) {
    std::vector<std::byte> bytes(8 + header.size() + data_bytes);
    std::memcpy(bytes.data(), &said_length, 8);
    std::memcpy(bytes.data() + 8, header.data(), header.size());
    for (std::size_t i = 0; i < data_bytes; ++i) bytes[8 + header.size() + i] = static_cast<std::byte>(i);
    return bytes;
}

tensor_file parse(const std::string& header, std::size_t data_bytes = 0) {
    return parse_safetensors("made.safetensors", file_of(header, data_bytes, header.size()));
}

auto complains(const std::string& what) { return MessageMatches(ContainsSubstring(what)); }

}  // namespace

TEST_CASE("a well-formed file is read: tensors, metadata, parameters") {
    const auto file = parse(
        R"({"__metadata__": {"params": "{\"w\": 13, \"scale\": 0.5, \"canvas\": [8, 4], \"why\": \"text\"}", "tolerances": "{\"out\": 2e-5}",
                                "inputs": "[\"x\", \"ids\"]", "outputs": "[\"out\"]", "debug": "[\"mask\"]", "title": "a title"},
                                "x": {"dtype": "U8", "shape": [2, 3], "data_offsets": [0, 6]}, "ids": {"dtype": "I32", "shape": [], "data_offsets": [6, 10]},
                                "mask": {"dtype": "BOOL", "shape": [2], "data_offsets": [10, 12]}, "none": {"dtype": "F32", "shape": [0, 7], "data_offsets": [12, 12]}})",
        12);
    CHECK(file["x"].shape == std::vector<std::int64_t>{2, 3});
    CHECK(file["x"].as<std::uint8_t>()[5] == 5);
    CHECK(file["ids"].as<std::int32_t>()[0] == 0x09080706);
    CHECK(file["ids"].count() == 1);
    CHECK(file["none"].count() == 0);
    CHECK(file.params == std::map<std::string, double>{{"w", 13}, {"scale", 0.5}, {"canvas_0", 8}, {"canvas_1", 4}});
    CHECK(file.tolerances.at("out") == 2e-5);
    CHECK(file.inputs == std::vector<std::string>{"x", "ids"});
    CHECK(file.outputs == std::vector<std::string>{"out"});
    CHECK(file.metadata.at("title") == "a title");
    CHECK_THROWS_MATCHES(file["y"], std::out_of_range, complains("no tensor `y`"));
    CHECK_THROWS_AS(file["x"].as<float>(), std::invalid_argument);
}

TEST_CASE("debug tensors can be dropped") {
    auto file = parse(
        R"({"__metadata__": {"debug": "[\"mask\"]"}, "mask": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}, "x": {"dtype": "U8", "shape": [1], "data_offsets": [1, 2]}})",
        2);
    REQUIRE(file.find("mask") != nullptr);
    file.drop_debug();
    CHECK(file.find("mask") == nullptr);
    CHECK(file.find("x") != nullptr);
}

TEST_CASE("truncated files are refused") {
    CHECK_THROWS_MATCHES(parse_safetensors("made.safetensors", {}), std::runtime_error, complains("truncated"));
    CHECK_THROWS_MATCHES(parse_safetensors("made.safetensors", std::vector<std::byte>(7)), std::runtime_error,
                         complains("this one has 7"));
    CHECK_THROWS_MATCHES(parse_safetensors("made.safetensors", file_of("{}", 0, 3)), std::runtime_error,
                         complains("truncated"));
    CHECK_THROWS_MATCHES(parse_safetensors("made.safetensors", file_of("{}", 0, ~0ull)), std::runtime_error,
                         complains("truncated"));
    CHECK_THROWS_MATCHES(parse(R"({"x": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}})", 15),
                         std::runtime_error, complains("truncated file?"));
}

TEST_CASE("headers that do not say what follows are refused") {
    const auto refused = [](const std::string& header, const std::string& why) {
        CHECK_THROWS_MATCHES(parse(header, 16), std::runtime_error, complains(why));
    };
    refused("{", "not a JSON object");
    refused("[]", "not a JSON object");
    refused(R"({"x": 3})", "expected an object with dtype");
    refused(R"({"x": {"dtype": "F32", "shape": [4]}})", "expected an object with dtype");
    refused(R"({"x": {"dtype": "F64", "shape": [2], "data_offsets": [0, 16]}})", "unknown element type F64");
    refused(R"({"x": {"dtype": 32, "shape": [2], "data_offsets": [0, 16]}})", "dtype is not a string");
    refused(R"({"x": {"dtype": "F32", "shape": 4, "data_offsets": [0, 16]}})", "shape is not an array");
    refused(R"({"x": {"dtype": "F32", "shape": [4.5], "data_offsets": [0, 16]}})", "not an integer");
    refused(R"({"x": {"dtype": "F32", "shape": [-4], "data_offsets": [0, 16]}})", "impossible");
    refused(R"({"x": {"dtype": "F32", "shape": [4611686018427387904, 4], "data_offsets": [0, 16]}})", "impossible");
    refused(R"({"x": {"dtype": "F32", "shape": [3], "data_offsets": [0, 16]}})",
            "needs 12 bytes, data_offsets hold 16");
    refused(R"({"x": {"dtype": "F32", "shape": [4], "data_offsets": [16, 0]}})", "run backwards");
    refused(R"({"x": {"dtype": "F32", "shape": [4], "data_offsets": [-16, 0]}})", "two non-negative integers");
    refused(
        R"({"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}, "y": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}})",
        "overlap");
    refused(R"({"__metadata__": {"params": 3}})", "metadata `params` is not a string");
    refused(R"({"__metadata__": {"params": "{"}})", "metadata `params` is not JSON");
    refused(R"({"__metadata__": {"params": "[1]"}})", "metadata `params` is not an object");
    refused(R"({"__metadata__": {"debug": "{}"}})", "metadata `debug` is not a list");
}

TEST_CASE("a file that is not there is refused by name") {
    CHECK_THROWS_MATCHES(read_safetensors("/nowhere/at/all.safetensors"), std::runtime_error,
                         MessageMatches(ContainsSubstring("/nowhere/at/all.safetensors: cannot be opened")));
}
