// How a module's text is cut into entries, parameters and statements.
#include "../syntax.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>

#include <stdexcept>

using namespace ptx;
using Catch::Matchers::Message;

TEST_CASE("an entry has its parameters at their offsets, its labels and its statements with their lines") {
    const module_text read = read_module(R"(//
// Comments and /* others */
.version 8.0 /* over
lines */
.target sm_80, debug
.address_size 64
.extern .shared .align 16 .b8 dynamic[];
.visible .entry first(
    .param .u32 first_0,
    .param .u64 .ptr .align 1 first_1, // an address
    .param .align 8 .b8 first_2[24],
    .param .u8 first_3
)
.maxntid 256, 1, 1
{
    .reg .pred %p<3>;
    .loc 1 2 3
$L__BB0_1:
    { ld.global.v2.f32 {%f1, %f2}, [%rd1
        + 8]; } @!%p1 bra $L__BB0_1; // back
    cp.async.cg.shared.global.L2::128B [%r1], [%rd1], 16;
    ret;
}
.visible .entry second() { ret; }
)");
    CHECK(read.target == "sm_80");
    CHECK(read.dynamic == std::vector<std::string>{"dynamic"});
    REQUIRE(read.entries.size() == 2);
    const entry_text& entry = read.entries[0];
    CHECK((entry.name == "first" && read.entries[1].name == "second" && read.entries[1].parameters.empty()));
    REQUIRE(entry.parameters.size() == 4);
    CHECK((entry.parameters[0].offset == 0 && entry.parameters[0].bytes == 4));
    CHECK((entry.parameters[1].offset == 8 && entry.parameters[1].name == "first_1"));
    CHECK((entry.parameters[2].offset == 16 && entry.parameters[2].bytes == 24));
    CHECK((entry.parameters[3].offset == 40 && entry.parameter_bytes == 41));
    REQUIRE(entry.statements.size() == 5);
    CHECK((entry.statements[0].words == std::vector<std::string>{"", "reg"} &&
           entry.statements[0].operands[0] == ".pred %p<3>"));
    const statement& load = entry.statements[1];
    CHECK((load.operation() == "ld.global.v2.f32" && load.line == 19 && load.operands[0] == "{%f1, %f2}"));
    const statement& back = entry.statements[2];
    CHECK((back.guard == "%p1" && back.guard_negated && back.line == 20));
    CHECK(entry.labels.at("$L__BB0_1") == 1);
    CHECK((entry.statements[3].words.back() == "L2::128B" && entry.statements[3].operands.size() == 3));
    CHECK(read.lines[20] == "cp.async.cg.shared.global.L2::128B [%r1], [%rd1], 16;");
}

TEST_CASE("what is no module of kernels is refused, with the line") {
    CHECK_THROWS_MATCHES(read_module(".version 8.0\n"), std::runtime_error,
                         Message("line 2 of the PTX: expected a module of PTX, which names its .target, got none"));
    CHECK_THROWS_MATCHES(read_module(".target sm_80\n.func f() { ret; }"), std::runtime_error,
                         Message("line 2 of the PTX: expected kernels alone, got a function (.func)"));
    CHECK_THROWS_MATCHES(read_module(".target sm_80\n.global .u32 g;"), std::runtime_error,
                         Message("line 2 of the PTX: expected no variables of a module, got .global"));
    CHECK_THROWS_MATCHES(read_module(".target sm_80\n.entry k() {\nret;"), std::runtime_error,
                         Message("line 3 of the PTX: expected the end of k, got that of the text"));
    CHECK_THROWS_MATCHES(read_module(".target sm_80\n.entry k(.param x) { ret; }"), std::runtime_error,
                         Message("line 2 of the PTX: expected a parameter with its type, got .param x"));
}

TEST_CASE("types have their bits, and declarations their bytes") {
    CHECK((bits_of("f32") == 32 && bits_of("b16") == 16 && bits_of("bf16") == 16 && bits_of("bf16x2") == 32 &&
           bits_of("pred") == 1 && bits_of("s8") == 8 && bits_of("x32") == 0));
    const variable made = read_variable(".shared .align 16 .b32 table[10]", 1);
    CHECK((made.name == "table" && made.align == 16 && made.bytes == 40));
    CHECK(split("a, {b, c}, [d + 1]", ',') == std::vector<std::string>{"a", "{b, c}", "[d + 1]"});
}
