#pragma once
#include <ggml.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <vector>

/// The result of a GGML_OP_FLASH_ATTN_EXT without rounding: in double, over the numbers that its cache holds. Its
/// tensors lie in the CPU's memory. Returns (depth, head, query, batch), the first innermost, as the operator does.
class exact_attention {
public:
    explicit exact_attention(const ggml_tensor& node)
        : q_(*node.src[0]), k_(*node.src[1]), v_(*node.src[2]), mask_(node.src[3]), sinks_(node.src[4]) {
        float numbers[3];
        std::memcpy(numbers, node.op_params, sizeof numbers);
        scale_ = static_cast<double>(numbers[0]), softcap_ = static_cast<double>(numbers[2]);
        if (numbers[1] != 0) throw std::runtime_error("expected attention without ALiBi");
        if (mask_ && mask_->ne[2] != 1) throw std::runtime_error("expected one mask for all heads");
    }

    std::vector<double> operator()() const {
        const std::int64_t groups = q_.ne[2] / k_.ne[2];
        std::vector<double> out(static_cast<std::size_t>(v_.ne[0] * q_.ne[2] * q_.ne[1] * q_.ne[3]), 0.0);
        for (std::int64_t b = 0; b < q_.ne[3]; ++b)
            for (std::int64_t head = 0; head < k_.ne[2]; ++head) {
                const std::vector<float> keys = numbers(k_, head, b), values = numbers(v_, head, b);
                for (std::int64_t h = head * groups; h < (head + 1) * groups; ++h)
                    for (std::int64_t i = 0; i < q_.ne[1]; ++i)
                        row(b, h, i, keys, values, out.data() + ((b * q_.ne[1] + i) * q_.ne[2] + h) * v_.ne[0]);
            }
        return out;
    }

private:
    /// Of one head (key, depth).
    static std::vector<float> numbers(const ggml_tensor& of, std::int64_t head, std::int64_t batch) {
        std::vector<float> made(static_cast<std::size_t>(of.ne[0] * of.ne[1]));
        for (std::int64_t key = 0; key < of.ne[1]; ++key) {
            const void* const from = at(of, key, head, batch);
            float* const to = made.data() + key * of.ne[0];
            if (of.type == GGML_TYPE_F32)
                std::memcpy(to, from, static_cast<std::size_t>(of.ne[0]) * sizeof *to);
            else
                ggml_get_type_traits(of.type)->to_float(from, to, of.ne[0]);
        }
        return made;
    }
    static const char* at(const ggml_tensor& of, std::int64_t row, std::int64_t head, std::int64_t batch) {
        return static_cast<const char*>(of.data) + static_cast<std::size_t>(row) * of.nb[1] +
               static_cast<std::size_t>(head) * of.nb[2] + static_cast<std::size_t>(batch) * of.nb[3];
    }

    void row(std::int64_t b, std::int64_t h, std::int64_t i, const std::vector<float>& keys,
             const std::vector<float>& values, double* out) const {
        constexpr double none = -std::numeric_limits<double>::infinity();
        const auto* const query = reinterpret_cast<const float*>(at(q_, i, h, b));
        const auto* const masked =
            mask_ ? reinterpret_cast<const ggml_fp16_t*>(at(*mask_, i, 0, b % mask_->ne[3])) : nullptr;
        std::vector<double> scores(static_cast<std::size_t>(k_.ne[1]), none);
        const double sink = sinks_ ? static_cast<double>(static_cast<const float*>(sinks_->data)[h]) : none;
        double most = sink;
        for (std::int64_t j = 0; j < k_.ne[1]; ++j) {
            const double added = masked ? static_cast<double>(ggml_fp16_to_fp32(masked[j])) : 0;
            if (added == none) continue;
            double sum = 0;
            for (std::int64_t d = 0; d < k_.ne[0]; ++d)
                sum += static_cast<double>(query[d]) *
                       static_cast<double>(keys[static_cast<std::size_t>(j * k_.ne[0] + d)]);
            sum *= scale_;
            if (softcap_ != 0) sum = softcap_ * std::tanh(sum / softcap_);
            most = std::max(most, scores[static_cast<std::size_t>(j)] = sum + added);
        }
        if (most == none) return;
        double total = std::exp(sink - most);
        for (std::int64_t j = 0; j < k_.ne[1]; ++j) {
            if (scores[static_cast<std::size_t>(j)] == none) continue;
            const double weight = std::exp(scores[static_cast<std::size_t>(j)] - most);
            total += weight;
            for (std::int64_t d = 0; d < v_.ne[0]; ++d)
                out[d] += weight * static_cast<double>(values[static_cast<std::size_t>(j * v_.ne[0] + d)]);
        }
        for (std::int64_t d = 0; d < v_.ne[0]; ++d) out[d] /= total;
    }

    const ggml_tensor &q_, &k_, &v_;
    const ggml_tensor *mask_, *sinks_;
    double scale_, softcap_;
};
