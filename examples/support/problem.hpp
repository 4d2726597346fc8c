#pragma once
#include <attune/ir/graph_ir.hpp>
#include <attune/runtime/tensor.hpp>

#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace attune::examples {

/// The tensors and numbers of one run of an example: those of a file, or random ones of a shape.
class problem {
public:
    std::int64_t batches{}, heads{}, key_heads{}, query_length{}, key_length{}, depth{}, value_depth{};
    tensor q, k, v;  ///< (b, h, lq, d), (b, hk, lk, d), (b, hk, lk, dv)
    tensor out;      ///< (b, h, lq, dv): to be written
    std::mt19937 random{20261121};

    /// Inputs and numbers under the names that the variant reads; throws std::out_of_range naming what is missing.
    const tensor& operator[](std::string_view name) const;
    double number(std::string_view name) const;
    const tensor& output(std::string_view name) const;  ///< to be written; `out` too
    bool has(std::string_view name) const { return inputs_.count(std::string(name)) > 0; }

    const std::map<std::string, tensor>& inputs() const { return inputs_; }
    const std::map<std::string, double>& numbers() const { return numbers_; }
    /// What the outputs must be, by name, where a file says so; dense.
    const std::map<std::string, std::vector<float>>& expected() const { return expected_; }
    double tolerance = 2e-5;

    // For those who make one.
    void add(const std::string& name, std::vector<std::int64_t> shape, std::vector<float> values);
    void add(const std::string& name, std::vector<std::int64_t> shape, std::vector<std::int32_t> values);
    void add(const std::string& name, std::vector<std::int64_t> shape, std::vector<std::uint8_t> values);
    void set(const std::string& name, double value) { numbers_[name] = value; }

    /// Memory for all outputs of a graph.
    void make_outputs(const graph_ir& graph);
    /// f32, dense: further results that a call writes.
    tensor make(std::vector<std::int64_t> shape);

    /// Unit-normal q, k and v. `shape` is BxHxLqxLkxD, such as 1x8x2048x2048x64; throws std::invalid_argument
    /// otherwise.
    static problem of_shape(const std::string& shape);
    static problem of_file(const std::filesystem::path& file);

private:
    using buffer = std::variant<std::vector<float>, std::vector<std::int32_t>, std::vector<std::uint8_t>>;
    std::deque<buffer> buffers_;  // a deque: views into it stay valid
    std::map<std::string, tensor> inputs_, outputs_;
    std::map<std::string, double> numbers_;
    std::map<std::string, std::vector<float>> expected_;

    template <class T> tensor keep(std::vector<std::int64_t> shape, std::vector<T> values);
};

}  // namespace attune::examples
