#pragma once
#include "stand_in_driver.hpp"

#include <attune/runtime.hpp>
#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>

#include <dlfcn.h>

#include <cstdio>
#include <functional>
#include <sstream>
#include <string>
#include <utility>

/// Kernels one line of which is made wrong, on the device in software.
namespace mutants {

template <class Function> Function* of_driver(const char* name) {
    return reinterpret_cast<Function*>(dlsym(dlopen("libcuda.so.1", RTLD_LAZY), name));
}
inline const stand_in::controls& driver() {
    static const auto* const controls =
        static_cast<const stand_in::controls*>(dlsym(dlopen("libcuda.so.1", RTLD_LAZY), stand_in::controls_name));
    REQUIRE(controls);
    return *controls;
}

/// A kind of mistake: what a line becomes, or the line itself where the kind does not apply.
using mistake = std::function<std::string(const std::string&)>;

/// The mutant that lives, and what it was made of. The driver asks a function without a state.
struct mutant {
    mistake of;
    int number = -1, count = 0;
    std::string line;
};
inline mutant living;

inline std::string rewritten(const std::string& text) {
    std::istringstream lines(text);
    std::string all, line;
    living.count = 0, living.line.clear();
    while (std::getline(lines, line)) {
        const std::string made = living.of(line);
        const bool here = made != line && living.count++ == living.number;
        if (here) living.line = line;
        all += (here ? made : line) + "\n";
    }
    return all;
}

/// How many mutants of a kind there are, and how many of those that were tried are found.
struct tally {
    int all = 0, tried = 0, refused = 0, wrong = 0;
};

/// A call whose results are known.
class judged_call {
public:
    judged_call(const attune::kernel_table& table, attune::support::workload right, double tolerance)
        : table_(table), right_(std::move(right)), expected_(right_.expected()), tolerance_(tolerance) {}

    /// Each `step`th mutant of a kind; those that are not found are printed.
    tally tried(const char* kind, const mistake& of, int step) const {
        REQUIRE(of_driver<int(unsigned)>("cuInit")(0) == 0);
        REQUIRE(ended(of, -1).empty());
        tally its{.all = living.count};
        REQUIRE(its.all > 0);
        for (int number = 0; number < its.all; number += step, ++its.tried) {
            const std::string said = ended(of, number);
            (said == wrong_numbers ? its.wrong : its.refused) += !said.empty();
            if (said.empty()) std::printf("not found: %s\n", living.line.c_str());
        }
        std::printf("%s: %d of %d tried, %d refused, %d with wrong numbers\n", kind, its.tried, its.all, its.refused,
                    its.wrong);
        return its;
    }

private:
    static constexpr const char* wrong_numbers = "wrong numbers";

    /// How the call ends whose kernel has the mutant: a sentence of the driver, "wrong numbers", or nothing.
    std::string ended(const mistake& of, int number) const {
        living.of = of, living.number = number;
        driver().rewrite(rewritten);
        void* context = nullptr;  // of its own, so that the module is loaded anew
        REQUIRE(of_driver<int(void**, unsigned, int)>("cuCtxCreate_v2")(&context, 0, 0) == 0);
        attune::support::workload call = right_;
        std::string said;
        try {
            attune::detail::call(table_, call.arguments(), {.target = "cuda", .context = context});
            for (const attune::output_declaration& output : call.graph().outputs)
                if (!(call.largest_error(expected_, output.name) < tolerance_)) said = wrong_numbers;
        } catch (const attune::error& refused) {
            said = refused.what();
        }
        void* popped = nullptr;
        REQUIRE(of_driver<int(void**)>("cuCtxPopCurrent_v2")(&popped) == 0);
        driver().rewrite(nullptr);
        return said;
    }

    const attune::kernel_table& table_;
    const attune::support::workload right_;
    const attune::reference::results expected_;
    const double tolerance_;
};

inline bool has(const std::string& line, const char* text) { return line.find(text) != std::string::npos; }
inline std::string replaced(std::string line, const std::string& from, const std::string& to) {
    const std::size_t at = line.find(from);
    return at == std::string::npos ? line : line.replace(at, from.size(), to);
}

}  // namespace mutants
