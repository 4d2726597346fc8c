#pragma once
#include "../module.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace ptx {

/// A kernel of a few lines: `k(out, in)`, whose registers are %r (words), %f (the same as reals), %h (16 bits), %rd (64
/// bits) and %p, and whose first lines put the two addresses into %rd0 and %rd1 and the thread's number into %r0.
class small_kernel {
public:
    explicit small_kernel(const std::string& body, const std::string& card = "sm_90a",
                          const std::string& target = "sm_80")
        : module_(".version 8.0\n.target " + target + "\n.address_size 64\n" + entry + body + "\nret;\n}\n",
                  card_of(card)) {}

    /// Of a block of `threads` threads, with `out` and `in` as the only memory that there is.
    template <class Out, class In>
    counts run(std::vector<Out>& out, const std::vector<In>& in, unsigned threads = 32, bool races = false,
               extent grid = {}) {
        allocations memory;
        void *to = out.data(), *from = const_cast<In*>(in.data());
        memory.add(reinterpret_cast<u64>(to), out.size() * sizeof(Out));
        memory.add(reinterpret_cast<u64>(from), in.size() * sizeof(In));
        void* const arguments[] = {&to, &from};
        launch_options how;
        how.grid = grid, how.block = {threads, 1, 1}, how.shared_bytes = 4096, how.checks = {true, races},
        how.counts = true, how.memory = &memory;
        return launch(*module_.entry("k"), how, arguments);
    }
    /// The sentence of its refusal; empty if it runs.
    std::string refused(unsigned threads = 32, bool races = false) {
        std::vector<u32> out(256), in(256);
        try {
            run(out, in, threads, races);
        } catch (const fault& wrong) {
            return wrong.what();
        }
        return "";
    }

    static constexpr const char* entry = R"(.visible .entry k(.param .u64 k_0, .param .u64 k_1)
{
.reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<64>; .reg .f32 %f<64>; .reg .b64 %rd<16>; .reg .f64 %fd<8>;
ld.param.u64 %rd0, [k_0]; ld.param.u64 %rd1, [k_1]; mov.u32 %r0, %tid.x;
)";
    /// Lines of the text before the body's first.
    static constexpr int lines_before = 7;

private:
    module module_;
};

/// The address of this thread's word of `out` in %rd2, of `in` in %rd3.
inline const std::string own_words = "mul.wide.u32 %rd4, %r0, 4; add.s64 %rd2, %rd0, %rd4; add.s64 %rd3, %rd1, %rd4;\n";

}  // namespace ptx
