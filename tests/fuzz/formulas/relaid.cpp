#include "relaid.hpp"

#include <attune/workload.hpp>

#include <algorithm>
#include <cstring>
#include <numeric>

namespace fuzz {

using attune::tensor;

relaid_tensor::relaid_tensor(const tensor& from, bool dense, bool ascending, std::mt19937& random) {
    lay_out(from, dense, ascending, random);
    const auto flush = random() % 2 == 0 ? attune::testing::guarded_memory<std::byte>::flush::end
                                         : attune::testing::guarded_memory<std::byte>::flush::begin;
    const auto bytes = static_cast<std::size_t>(bytes_of(from.type()));
    memory_ =
        std::make_unique<attune::testing::guarded_memory<std::byte>>(static_cast<std::size_t>(count_) * bytes, flush);
    clear();
    void* const first = memory_->data() + origin_ * static_cast<std::int64_t>(bytes);
    view_ = tensor(from.type(), first, shape_, strides_);
    copy(from);
}

void relaid_tensor::lay_out(const tensor& from, bool dense, bool ascending, std::mt19937& random) {
    shape_.assign(from.shape().begin(), from.shape().end());
    strides_.assign(shape_.size(), 1);
    std::vector<std::size_t> order(shape_.size());  // innermost first
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::reverse(order.begin(), order.end());
    const bool keeps_last = dense && !order.empty();
    std::shuffle(order.begin() + (keeps_last ? 1 : 0), order.end(), random);
    std::int64_t step = 1;
    for (const std::size_t axis : order) {
        const bool last = keeps_last && axis + 1 == shape_.size();
        if (!last && random() % 3 == 0) step += static_cast<std::int64_t>(random() % 4);
        strides_[axis] = step;
        step *= std::max<std::int64_t>(shape_[axis], 1);
    }
    count_ = std::min<std::int64_t>(1, step);
    for (const std::int64_t extent : shape_) count_ = extent == 0 ? 0 : count_;
    for (std::size_t axis = 0; axis < shape_.size(); ++axis) {
        const std::int64_t reach = std::max<std::int64_t>(shape_[axis] - 1, 0) * strides_[axis];
        if (count_ > 0) count_ += reach;
        if ((keeps_last && axis + 1 == shape_.size()) || random() % 4 != 0 || ascending) continue;
        strides_[axis] = -strides_[axis], origin_ += reach;
    }
    if (count_ == 0) origin_ = 0;
}

void relaid_tensor::copy(const tensor& from) {
    const auto bytes = static_cast<std::size_t>(bytes_of(from.type()));
    std::vector<std::byte> elements = elements_of(from);
    const std::byte* next = elements.data();
    attune::support::for_each_offset(view_, [&](std::int64_t at) {
        std::memcpy(memory_->data() + (origin_ + at) * static_cast<std::int64_t>(bytes), next, bytes);
        next += bytes;
    });
}

void relaid_tensor::clear() { std::ranges::fill(memory_->values(), std::byte{0xff}); }

bool relaid_tensor::is_spilled() const {
    const std::span<const std::byte> all = memory_->values();
    const auto bytes = static_cast<std::size_t>(bytes_of(view_.type()));
    std::vector<bool> covered(all.size());
    attune::support::for_each_offset(view_, [&](std::int64_t at) {
        std::fill_n(covered.begin() + (origin_ + at) * static_cast<std::int64_t>(bytes), bytes, true);
    });
    for (std::size_t i = 0; i < all.size(); ++i)
        if (!covered[i] && all[i] != std::byte{0xff}) return true;
    return false;
}

std::vector<std::byte> relaid_tensor::elements() const { return elements_of(view_); }

std::vector<std::byte> elements_of(const tensor& t) {
    const auto bytes = static_cast<std::size_t>(bytes_of(t.type()));
    std::vector<std::byte> elements;
    attune::support::for_each_offset(t, [&](std::int64_t at) {
        const auto* const from = static_cast<const std::byte*>(t.data()) + at * static_cast<std::int64_t>(bytes);
        elements.insert(elements.end(), from, from + bytes);
    });
    return elements;
}

std::vector<double> numbers_in(const tensor& t) {
    std::vector<double> numbers;
    const auto read = [&]<class T, class Wider>(T, Wider) {
        attune::support::for_each_offset(t, [&](std::int64_t at) {
            numbers.push_back(static_cast<double>(static_cast<Wider>(static_cast<const T*>(t.data())[at])));
        });
    };
    if (t.type() == attune::element_type::f64) read(double{}, double{});
    if (t.type() == attune::element_type::f32) read(float{}, float{});
    if (t.type() == attune::element_type::bf16) read(attune::bfloat16{}, float{});
    if (t.type() == attune::element_type::f16) read(attune::float16{}, float{});
    return numbers;
}

}  // namespace fuzz
