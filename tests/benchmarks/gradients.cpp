// The times of forward passes and their gradients, and their share of the peak. gradients.py has PyTorch beside it.
// Rates count 2.5 times the forward's useful multiply-adds, as the field does.
#include "gradient_variants.hpp"
#include "peak.hpp"

#include <attune/runtime.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace {

using attune::axis_kind;
using attune::element_type;

struct shape {
    std::int64_t batches, heads, key_heads, length, depth;
};

struct variant {
    std::string_view name;
    element_type element;
    attune::graph_ir forward, gradient;
    const attune::kernel_table &forward_kernels, &gradient_kernels;
    double (*pairs)(double length);  ///< that are seen
};

double all_pairs(double length) { return length * length; }
double causal_pairs(double length) { return length * (length + 1) / 2; }
double window_pairs(double length) {
    const double keys = std::min(length, 256.0);
    return keys * (keys + 1) / 2 + (length - keys) * keys;
}
constexpr int documents = 8;
double document_pairs(double length) { return documents * causal_pairs(length / documents); }

template <const auto& Forward, const auto& Gradient>
variant of(std::string_view name, double (*pairs)(double), element_type element = element_type::f32) {
    return {name,
            element,
            attune::dsl::ir_of<Forward>,
            attune::dsl::ir_of<Gradient>,
            attune::detail::table_of<Forward>(),
            attune::detail::table_of<Gradient>(),
            pairs};
}

const std::vector<variant>& variants() {
    static const std::vector<variant> all{
        of<bench::trained_full, bench::full_gradient>("full", all_pairs),
        of<bench::trained_causal, bench::causal_gradient>("causal", causal_pairs),
        of<bench::trained_alibi, bench::alibi_gradient>("alibi", causal_pairs),
        of<bench::trained_alibi, bench::alibi_of_q_k_v_gradient>("alibi_qkv", causal_pairs),
        of<bench::trained_window, bench::window_gradient>("window", window_pairs),
        of<bench::trained_documents, bench::documents_gradient>("documents", document_pairs),
        of<bench::trained_softcap, bench::softcap_gradient>("softcap", causal_pairs),
        of<bench::trained_biased, bench::biased_gradient>("bias", all_pairs),
        of<bench::trained_full_of_halves, bench::full_of_halves_gradient>("full_bf16", all_pairs, element_type::bf16),
        of<bench::trained_causal_of_halves, bench::causal_of_halves_gradient>("causal_bf16", causal_pairs,
                                                                              element_type::bf16)};
    return all;
}

/// A tensor and its numbers. Rows begin where PyTorch's do: a vector of 64 bytes that lies across two lines of the
/// cache takes two loads.
class numbers {
public:
    numbers(element_type type, std::vector<std::int64_t> extents) : type_(type), extents_(std::move(extents)) {
        for (const std::int64_t extent : extents_) count_ *= extent;
        data_.reset(static_cast<std::byte*>(::operator new(bytes(), lines)));
        std::memset(data_.get(), 0, bytes());
    }
    attune::tensor view() const { return {type_, static_cast<void*>(data_.get()), extents_}; }
    void draw(std::mt19937& random, float scale) const {
        std::normal_distribution<float> normal;
        for (std::int64_t i = 0; i < count_; ++i) {
            const float x = scale * normal(random);
            if (type_ == element_type::f32) reinterpret_cast<float*>(data_.get())[i] = x;
            if (type_ == element_type::bf16) reinterpret_cast<attune::bfloat16*>(data_.get())[i] = attune::bfloat16(x);
            if (type_ == element_type::i32)
                reinterpret_cast<std::int32_t*>(data_.get())[i] = static_cast<std::int32_t>(i * documents / count_);
        }
    }
    void write(const std::string& file) const {
        std::ofstream(file, std::ios::binary)
            .write(reinterpret_cast<const char*>(data_.get()), static_cast<std::streamsize>(bytes()));
    }

private:
    static constexpr std::align_val_t lines{64};
    struct free_lines {
        void operator()(std::byte* memory) const { ::operator delete(memory, lines); }
    };
    std::size_t bytes() const { return static_cast<std::size_t>(count_ * attune::bytes_of(type_)); }

    element_type type_;
    std::vector<std::int64_t> extents_;
    std::int64_t count_ = 1;
    std::unique_ptr<std::byte[], free_lines> data_;
};

/// All that a forward pass and its gradient read and write, by name.
class tensors {
public:
    tensors(const variant& v, const shape& s) {
        for (const attune::graph_ir* graph : {&v.forward, &v.gradient})
            for (const attune::input_declaration& d : graph->inputs) {
                std::vector<std::int64_t> extents;
                for (int axis = 0; axis < d.rank; ++axis) {
                    const axis_kind is = d.axes[static_cast<std::size_t>(axis)].kind;
                    extents.push_back(is == axis_kind::batch                                   ? s.batches
                                      : is == axis_kind::head                                  ? s.heads
                                      : is == axis_kind::key_head                              ? s.key_heads
                                      : is == axis_kind::depth || is == axis_kind::value_depth ? s.depth
                                                                                               : s.length);
                }
                const element_type type = d.element == element_type::any ? v.element : d.element;
                all_.try_emplace(std::string(d.name), type, extents);
                for (const attune::output_declaration& made : v.gradient.outputs)
                    if (made.name.substr(1) == d.name) all_.try_emplace(std::string(made.name), type, extents);
            }
        std::mt19937 random(1);
        for (const auto& [name, of] : all_) of.draw(random, name == "slopes" ? 0.1f : 1.0f);
    }
    std::vector<attune::detail::named_argument> arguments(const attune::graph_ir& graph) const {
        std::vector<attune::detail::named_argument> all;
        const auto take = [&](std::string_view name) { all.push_back({.name = name, .view = find(name).view()}); };
        for (const auto& input : graph.inputs) take(input.name);
        for (const auto& output : graph.outputs) take(output.name);
        return all;
    }
    void write(const std::string& folder) const {
        for (const auto& [name, of] : all_) of.write(folder + "/" + name);
    }

private:
    const numbers& find(std::string_view name) const { return all_.find(name)->second; }
    std::map<std::string, numbers, std::less<>> all_;
};

/// The fastest of some calls, in seconds.
double fastest(const std::function<void()>& call, int repeats) {
    double best = 1e9;
    for (int i = 0; i <= repeats; ++i) {
        const auto begin = std::chrono::steady_clock::now();
        call();
        const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
        if (i > 0 || repeats == 0) best = std::min(best, taken.count());
    }
    return best;
}

nlohmann::ordered_json timed(const variant& v, const shape& s, int repeats, const attune::options& how,
                             const std::string& folder) {
    static attune::support::peaks peaks;
    const tensors x(v, s);
    const auto forward = x.arguments(v.forward), gradient = x.arguments(v.gradient);
    const double ahead = fastest([&] { attune::detail::call(v.forward_kernels, forward, how); }, repeats),
                 back = fastest([&] { attune::detail::call(v.gradient_kernels, gradient, how); }, repeats);
    if (!folder.empty()) x.write(folder);
    const attune::explanation said = attune::detail::explain(v.gradient_kernels, gradient, how);
    const int threads = how.threads > 0 ? how.threads : attune::threads();
    const double pairs = v.pairs(static_cast<double>(s.length)),
                 rate = 10 * pairs * static_cast<double>(s.depth * s.heads * s.batches) / back * 1e-9;
    const double share = peaks.share(rate, attune::support::instruction_of(said.target, said.schedule), threads);
    return {{"case", v.name},
            {"batches", s.batches},
            {"heads", s.heads},
            {"key_heads", s.key_heads},
            {"length", s.length},
            {"depth", s.depth},
            {"level", said.target},
            {"threads", threads},
            {"forward_ms", ahead * 1e3},
            {"gradient_ms", back * 1e3},
            {"gflops", rate},
            {"of_peak", share},
            {"both_over_forward", (ahead + back) / ahead}};
}

/// "causal/B1/H8/2/S2048/D64": 8 heads over 2.
std::pair<const variant*, shape> parsed(const std::string& text) {
    const std::size_t end = text.find('/');
    shape s{};
    if (end != std::string::npos)
        for (const variant& v : variants())
            if (v.name == text.substr(0, end)) {
                const char* const rest = text.c_str() + end;
                if (std::sscanf(rest, "/B%ld/H%ld/%ld/S%ld/D%ld", &s.batches, &s.heads, &s.key_heads, &s.length,
                                &s.depth) == 5)
                    return {&v, s};
                if (std::sscanf(rest, "/B%ld/H%ld/S%ld/D%ld", &s.batches, &s.heads, &s.length, &s.depth) == 4)
                    return s.key_heads = s.heads, std::pair(&v, s);
            }
    throw std::invalid_argument("expected a case such as causal/B1/H8/2/S2048/D64, got " + text);
}

int run(int count, char** arguments) {
    int repeats = 3;
    std::string folder;
    std::vector<std::string> cases;
    attune::options how;
    for (int i = 1; i < count; ++i) {
        const std::string_view said = arguments[i];
        const bool more = i + 1 < count;
        if (said == "--threads" && more)
            how.threads = std::atoi(arguments[++i]);
        else if (said == "--repeats" && more)
            repeats = std::atoi(arguments[++i]);
        else if (said == "--write" && more)
            folder = arguments[++i];
        else if (said.starts_with("--"))
            throw std::invalid_argument(
                "expected --threads N, --repeats N, --write FOLDER and cases such as causal/B1/H8/S2048/D64, got " +
                std::string(said));
        else
            cases.emplace_back(said);
    }
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const std::string& text : cases) {
        const auto [v, s] = parsed(text);
        all.push_back(timed(*v, s, repeats, how, folder));
    }
    std::printf("%s\n", all.dump(2).c_str());
    return 0;
}

}  // namespace

int main(int count, char** arguments) {
    try {
        return run(count, arguments);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 2;
    }
}
