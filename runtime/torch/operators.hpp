#pragma once
#include <attune/c.h>
#include <attune/runtime/detail/operation.hpp>

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

/// Variants as operators of PyTorch, for the file that attune_add_torch_library writes. It uses only PyTorch's stable
/// ABI: a library compiled with one version loads in all later ones.
namespace attune::torch_operators {

using torch_tensor = torch::stable::Tensor;

inline void check(AOTITorchError status, const char* what) {
    if (status != AOTI_TORCH_SUCCESS) throw std::runtime_error(std::string("attune: expected PyTorch to ") + what);
}

struct element_pair {
    int32_t (*torch)();
    int32_t attune;
};
inline constexpr element_pair elements[] = {{aoti_torch_dtype_float32, ATTUNE_F32},
                                            {aoti_torch_dtype_bfloat16, ATTUNE_BF16},
                                            {aoti_torch_dtype_float16, ATTUNE_F16},
                                            {aoti_torch_dtype_int32, ATTUNE_I32},
                                            {aoti_torch_dtype_uint8, ATTUNE_U8},
                                            {aoti_torch_dtype_bool, ATTUNE_BOOL},
                                            {aoti_torch_dtype_int8, ATTUNE_I8},
                                            {aoti_torch_dtype_int64, ATTUNE_I64},
                                            {aoti_torch_dtype_int16, ATTUNE_I16},
                                            {aoti_torch_dtype_float8_e4m3fn, ATTUNE_F8_E4M3},
                                            {aoti_torch_dtype_float8_e5m2, ATTUNE_F8_E5M2}};

/// What PyTorch calls the types that no kernel takes.
inline std::string name_of_other(int32_t type) {
    static constexpr std::pair<int32_t (*)(), const char*> others[] = {
        {aoti_torch_dtype_float64, "float64"},      {aoti_torch_dtype_uint16, "uint16"},
        {aoti_torch_dtype_uint32, "uint32"},        {aoti_torch_dtype_uint64, "uint64"},
        {aoti_torch_dtype_complex32, "complex32"},  {aoti_torch_dtype_complex64, "complex64"},
        {aoti_torch_dtype_complex128, "complex128"}};
    for (const auto& [of, name] : others)
        if (of() == type) return name;
    return "PyTorch's type " + std::to_string(type);
}

using detail::operation, detail::parameter, detail::result;

/// "alibi(Tensor q, Tensor k, Tensor v, Tensor slopes, Tensor? kv_lengths=None) -> Tensor"; with outputs of
/// the caller's, "alibi.out(...) -> ()".
inline std::string schema(const operation& of, bool out) {
    static constexpr std::string_view types[] = {"Tensor", "Tensor?", "int", "float"};
    std::string text = of.name + (out ? ".out(" : "(");
    for (const parameter& p : of.parameters) {
        const bool optional = p.is == parameter::form::optional_tensor;
        text += std::string(types[static_cast<std::size_t>(p.is)]) + " " + p.name + (optional ? "=None" : ", ");
    }
    std::string returned;
    for (std::size_t i = 0; i < of.results.size(); ++i) {
        if (out)
            text +=
                std::string(i ? ", Tensor(" : ", *, Tensor(") + static_cast<char>('a' + i) + "!) " + of.results[i].name;
        returned += (i ? ", Tensor " : "Tensor ") + of.results[i].name;
    }
    if (out) return text + ") -> ()";
    return text + ") -> " + (of.results.size() == 1 ? "Tensor" : "(" + returned + ")");
}

/// Runs the tasks of a call on PyTorch's own threads. If they were idle, they would wait for work on the CPUs that the
/// call needs. Each thread takes the next task, because the first tasks are the longest.
inline void on_torch_threads(void*, std::int32_t count, std::int32_t threads, attune_task task, void* tasks) {
    struct shared {
        attune_task task;
        void* tasks;
        std::int32_t count;
        std::atomic<std::int32_t> next{0};
    } all{task, tasks, count};
    const auto take = [](std::int64_t, std::int64_t, void* given) {
        shared& of = *static_cast<shared*>(given);
        for (std::int32_t i; (i = of.next.fetch_add(1, std::memory_order_relaxed)) < of.count;) of.task(of.tasks, i);
    };
    if (torch_parallel_for(0, std::min(count, threads), 1, take, &all) != AOTI_TORCH_SUCCESS) take(0, 1, &all);
}

/// PyTorch's threads do not survive a fork, attune's do.
inline bool forked() {
    static const pid_t loaded = getpid();
    return getpid() != loaded;
}

/// One call: the tensors that it keeps alive, and the views that attune gets.
class call {
public:
    explicit call(const operation& of) : of_(of) { arguments_.reserve(of.parameters.size() + of.results.size()); }

    void take(const parameter& p, StableIValue value) {
        using form = parameter::form;
        using torch::stable::detail::to;
        const char* const name = p.name.c_str();
        switch (p.is) {
            case form::integer: arguments_.push_back(attune_integer_argument(name, to<int64_t>(value))); break;
            case form::real: arguments_.push_back(attune_real_argument(name, to<double>(value))); break;
            case form::tensor: add(p.name, &p, to<torch_tensor>(value)); break;
            case form::optional_tensor:
                if (auto given = to<std::optional<torch_tensor>>(value)) add(p.name, &p, std::move(*given));
                break;
        }
    }

    /// An output of the caller's.
    void take(const result& r, StableIValue value) {
        add(r.name, nullptr, torch::stable::detail::to<torch_tensor>(value));
    }

    /// Looks at the tensors, after everything on the stack is taken over.
    void look() {
        std::size_t next = 0;
        for (attune_argument& each : arguments_) {
            if (each.kind != ATTUNE_TENSOR) continue;
            each.tensor = view(each.name, *tensors_[next]);
            if (const parameter* const p = parameters_[next++]) note(*p, each.tensor);
        }
    }

    /// A new tensor for an output: a gradient's element type and extents are those of its input, which may broadcast;
    /// others' extents are those of the inputs' axes of the same name.
    void allocate(const result& r) {
        std::array<std::int64_t, 8> shape{}, strides{};
        std::int64_t step = 1;
        for (std::size_t axis = r.axes.size(); axis-- > 0; step *= std::max<std::int64_t>(shape[axis], 1)) {
            shape[axis] = extent(r, axis);
            strides[axis] = step;
            if (shape[axis] < 0)
                throw std::runtime_error("attune: expected the output " + r.name + " of " + of_.qualified +
                                         " to be passed, got none, and none of the inputs says how large it is; try " +
                                         of_.name + ".out");
        }
        AtenTensorHandle made = nullptr;
        check(aoti_torch_empty_strided(static_cast<std::int64_t>(r.axes.size()), shape.data(), strides.data(), type(r),
                                       aoti_torch_device_type_cpu(), 0, &made),
              "allocate an output");
        add(r.name, nullptr, torch_tensor(made));
        arguments_.back().tensor = view(r.name, *tensors_[count_ - 1]);
    }

    /// The allocated outputs, in order, for the stack. To be called last: a handle has no owner.
    void hand_out(StableIValue* stack) const {
        for (std::size_t i = count_ - of_.results.size(); i < count_; ++i) {
            AtenTensorHandle returned = nullptr;
            check(aoti_torch_new_tensor_handle(tensors_[i]->get(), &returned), "hand out an output");
            *stack++ = torch::stable::detail::from(returned);
        }
    }

    void run() const {
        attune_options how{};
        how.size = sizeof how;
        std::uint32_t threads = 0;
        check(torch_get_num_threads(&threads), "say its number of threads");
        how.threads = static_cast<std::int32_t>(threads);
        if (threads > 1 && !forked()) how.pool = on_torch_threads;
        if (attune_run(of_.variant, arguments_.data(), arguments_.size(), &how) != ATTUNE_OK)
            throw std::runtime_error(attune_error_text());
    }

private:
    std::int64_t extent(const result& r, std::size_t axis) const {
        const auto of = [&](axis_kind is) { return extents_[static_cast<std::size_t>(is)]; };
        const axis_kind is = r.axes[axis];
        if (r.like < 0) return of(is);
        const std::int64_t own = arguments_[static_cast<std::size_t>(r.like)].tensor.shape[axis];
        if (own != 1 || is == axis_kind::free) return own;
        return is == axis_kind::position ? std::max(of(axis_kind::query), of(axis_kind::key)) : of(is);
    }

    std::int32_t type(const result& r) const {
        if (!r.any_type) return aoti_torch_dtype_float32();
        const auto element = r.like < 0 ? element_ : arguments_[static_cast<std::size_t>(r.like)].tensor.element;
        const auto is = [&](const element_pair& pair) { return pair.attune == element; };
        return std::find_if(std::begin(elements), std::end(elements), is)->torch();
    }

    void add(const std::string& name, const parameter* is, torch_tensor&& given) {
        if (count_ == tensors_.size())
            throw std::runtime_error("attune: expected at most 64 tensors of " + of_.qualified + ", got more");
        arguments_.push_back(attune_tensor_argument(name.c_str(), {}));
        parameters_[count_] = is;
        tensors_[count_++].emplace(std::move(given));
    }

    /// What an input says of the call.
    void note(const parameter& p, const attune_tensor& seen) {
        if (static_cast<std::size_t>(seen.rank) != p.axes.size())
            throw std::runtime_error("attune: expected " + p.name + " of " + of_.qualified + " with " +
                                     std::to_string(p.axes.size()) + " axes, got " + std::to_string(seen.rank) +
                                     "; try the axes that attune.load(...)." + of_.name + ".describe() says");
        for (std::size_t axis = 0; axis < p.axes.size(); ++axis) {
            if (p.axes[axis] == axis_kind::free) continue;
            std::int64_t& extent = extents_[static_cast<std::size_t>(p.axes[axis])];
            if (extent < 0 || extent == 1) extent = seen.shape[axis];
        }
        if (p.any_type && element_ == 0) element_ = seen.element;
    }

    attune_tensor view(const std::string& name, const torch_tensor& given) const {
        const AtenTensorHandle handle = given.get();
        std::int32_t type = 0, device = 0;
        std::int64_t rank = 0;
        std::int64_t *shape = nullptr, *strides = nullptr;
        void* data = nullptr;
        check(aoti_torch_get_dtype(handle, &type), "say a tensor's type");
        check(aoti_torch_get_device_type(handle, &device), "say a tensor's device");
        if (device != aoti_torch_device_type_cpu())
            throw std::runtime_error("attune: expected " + name + " on the CPU, got a tensor of another device; try " +
                                     name + ".cpu()");
        check(aoti_torch_get_dim(handle, &rank), "say a tensor's axes");
        check(aoti_torch_get_sizes(handle, &shape), "say a tensor's shape");
        check(aoti_torch_get_strides(handle, &strides), "say a tensor's strides");
        check(aoti_torch_get_data_ptr(handle, &data), "say where a tensor lies");
        attune_tensor made{};
        made.data = data, made.shape = shape, made.strides = strides, made.rank = static_cast<std::int32_t>(rank);
        for (const element_pair& pair : elements)
            if (pair.torch() == type) made.element = pair.attune;
        if (made.element == 0)
            throw std::runtime_error(
                "attune: expected elements of float32, bfloat16, float16, int64, int32, int16, uint8, int8, "
                "float8_e4m3fn, float8_e5m2 or bool in " +
                name + ", got " + name_of_other(type) + "; try " + name +
                ".to(torch.float32), or torch.int32 for whole numbers");
        return made;
    }

    const operation& of_;
    std::vector<attune_argument> arguments_;
    std::array<std::optional<torch_tensor>, 64> tensors_;
    std::array<const parameter*, 64> parameters_{};  ///< which they are for; null: an output
    std::size_t count_ = 0;
    std::array<std::int64_t, 16> extents_ = [] {
        std::array<std::int64_t, 16> none{};
        none.fill(-1);
        return none;
    }();
    std::int32_t element_ = 0;  ///< of the first input that is as compiled
};

template <const attune_variant* (*Variant)()> const operation& operation_of() {
    static const operation& made = *new operation(Variant());  // not destroyed: threads may call until the end
    return made;
}

/// The function that PyTorch calls: takes the arguments over from the stack, and leaves the results there.
template <const attune_variant* (*Variant)(), bool Out> void boxed(StableIValue* stack, std::uint64_t, std::uint64_t) {
    const operation& of = operation_of<Variant>();
    call made(of);
    std::size_t at = 0;
    for (const parameter& p : of.parameters) made.take(p, stack[at++]);
    if constexpr (Out) {
        for (const result& r : of.results) made.take(r, stack[at++]);
        made.look();
        made.run();
    } else {
        made.look();
        for (const result& r : of.results) made.allocate(r);
        made.run();
        made.hand_out(stack);
    }
}

/// Defines torch.ops.<space>.<name> of each variant when the library is loaded; none of them, if one cannot be. Nobody
/// could catch an exception there: what is wrong is PyTorch's warning, and what attune.torch.load says.
template <const attune_variant* (*... Variants)()> class library {
public:
    explicit library(const char* space) noexcept {
        forked();
        try {
            (operation_of<Variants>(), ...);
            define(space);
        } catch (const std::exception& caught) {
            kernels_.reset(), names_.reset();
            problem_ = caught.what();
            aoti_torch_warn(space, __FILE__, __LINE__, caught.what());
        }
    }

    /// The sentence, or null.
    const char* problem() const noexcept { return problem_.empty() ? nullptr : problem_.c_str(); }

private:
    struct remover {
        void operator()(TorchLibraryHandle made) const { aoti_torch_delete_library_object(made); }
    };
    using handle = std::unique_ptr<std::remove_pointer_t<TorchLibraryHandle>, remover>;

    /// As PyTorch's StableLibrary does, which goes on where PyTorch refuses.
    void define(const char* space) {
        const std::string names =
            "take " + std::string(space) + " as a namespace, got a refusal; try a NAMESPACE that nothing else has";
        const std::string kernels = "take the operators of " + std::string(space);
        TorchLibraryHandle made = nullptr;
        check(aoti_torch_library_init_def(space, __FILE__, __LINE__, &made), names.c_str());
        names_.reset(made);
        check(aoti_torch_library_init_impl(space, "CPU", __FILE__, __LINE__, &made), kernels.c_str());
        kernels_.reset(made);
        const auto add = [&](const operation& of, bool out, auto function) {
            const std::string name = of.name + (out ? ".out" : "");
            check(aoti_torch_library_def(names_.get(), schema(of, out).c_str()), kernels.c_str());
            check(torch_library_impl(kernels_.get(), name.c_str(), function, TORCH_ABI_VERSION), kernels.c_str());
        };
        ((add(operation_of<Variants>(), false, boxed<Variants, false>),
          add(operation_of<Variants>(), true, boxed<Variants, true>)),
         ...);
    }

    handle names_, kernels_;
    std::string problem_;
};

}  // namespace attune::torch_operators
