#include "tuner/jit_kernel.hpp"

#include "codegen/halide_target.hpp"
#include "emit/kernel_record.hpp"
#include "lower.hpp"

#include <HalideRuntime.h>
#include <HalideRuntimeCuda.h>
#include <HalideRuntimeOpenCL.h>

#include <stdexcept>
#include <string>

namespace attune::generators::inline tuner {
namespace {

/// The functions that kernels call, at the addresses in this program: attune's copy of Halide's support library, not
/// the one that Halide's own JIT brings.
Halide::Internal::JITModule support_library() {
    Halide::Internal::JITModule exports;
#define ATTUNE_EXPORT(name) \
    exports.add_symbol_for_export(#name, Halide::Internal::JITModule::Symbol(reinterpret_cast<void*>(&name)))
    ATTUNE_EXPORT(halide_malloc);
    ATTUNE_EXPORT(halide_free);
    ATTUNE_EXPORT(halide_do_par_for);
    ATTUNE_EXPORT(halide_error);
    ATTUNE_EXPORT(halide_error_access_out_of_bounds);
    ATTUNE_EXPORT(halide_error_bad_dimensions);
    ATTUNE_EXPORT(halide_error_bad_extern_fold);
    ATTUNE_EXPORT(halide_error_bad_fold);
    ATTUNE_EXPORT(halide_error_bad_type);
    ATTUNE_EXPORT(halide_error_bounds_inference_call_failed);
    ATTUNE_EXPORT(halide_error_buffer_allocation_too_large);
    ATTUNE_EXPORT(halide_error_buffer_argument_is_null);
    ATTUNE_EXPORT(halide_error_buffer_extents_negative);
    ATTUNE_EXPORT(halide_error_buffer_extents_too_large);
    ATTUNE_EXPORT(halide_error_buffer_is_null);
    ATTUNE_EXPORT(halide_error_constraint_violated);
    ATTUNE_EXPORT(halide_error_constraints_make_required_region_smaller);
    ATTUNE_EXPORT(halide_error_debug_to_file_failed);
    ATTUNE_EXPORT(halide_error_device_dirty_with_no_device_support);
    ATTUNE_EXPORT(halide_error_device_interface_no_device);
    ATTUNE_EXPORT(halide_error_explicit_bounds_too_small);
    ATTUNE_EXPORT(halide_error_extern_stage_failed);
    ATTUNE_EXPORT(halide_error_fold_factor_too_small);
    ATTUNE_EXPORT(halide_error_host_and_device_dirty);
    ATTUNE_EXPORT(halide_error_host_is_null);
    ATTUNE_EXPORT(halide_error_no_device_interface);
    ATTUNE_EXPORT(halide_error_out_of_memory);
    ATTUNE_EXPORT(halide_error_param_too_large_f64);
    ATTUNE_EXPORT(halide_error_param_too_large_i64);
    ATTUNE_EXPORT(halide_error_param_too_large_u64);
    ATTUNE_EXPORT(halide_error_param_too_small_f64);
    ATTUNE_EXPORT(halide_error_param_too_small_i64);
    ATTUNE_EXPORT(halide_error_param_too_small_u64);
    ATTUNE_EXPORT(halide_error_requirement_failed);
    ATTUNE_EXPORT(halide_error_specialize_fail);
    ATTUNE_EXPORT(halide_error_split_factor_not_positive);
    ATTUNE_EXPORT(halide_error_storage_bound_too_small);
    ATTUNE_EXPORT(halide_error_unaligned_host_ptr);
    ATTUNE_EXPORT(halide_device_malloc);
    ATTUNE_EXPORT(halide_device_free);
    ATTUNE_EXPORT(halide_copy_to_device);
    ATTUNE_EXPORT(halide_copy_to_host);
    ATTUNE_EXPORT(halide_opencl_device_interface);
    ATTUNE_EXPORT(halide_opencl_initialize_kernels);
    ATTUNE_EXPORT(halide_opencl_finalize_kernels);
    ATTUNE_EXPORT(halide_opencl_run);
    ATTUNE_EXPORT(halide_cuda_device_interface);
    ATTUNE_EXPORT(halide_cuda_initialize_kernels);
    ATTUNE_EXPORT(halide_cuda_finalize_kernels);
    ATTUNE_EXPORT(halide_cuda_run);
#undef ATTUNE_EXPORT
    return exports;
}

/// The same module without the device in its target. The device's code is data by then, and Halide's JIT would bring
/// its own support for a device in the target.
Halide::Module for_the_machine_alone(const Halide::Module& module) {
    Halide::Module same(module.name(),
                        module.target().without_feature(Halide::Target::CUDA).without_feature(Halide::Target::OpenCL));
    same.set_any_strict_float(module.any_strict_float());
    for (const auto& buffer : module.buffers()) same.append(buffer);
    for (const auto& function : module.functions()) same.append(function);
    return same;
}

}  // namespace

struct jit_kernel::compiled {
    std::string symbol, cut, target;
    Halide::Internal::JITModule code, stores;
    attune::kernel row{};
    kernel_table table{};
};

jit_kernel::jit_kernel(const listed_kernel& made) : compiled_(std::make_unique<compiled>()) {
    compiled& c = *compiled_;
    c.symbol = made.symbol, c.cut = to_json(made.request.schedule), c.target = made.request.target->called();
    try {
        const Halide::Target target = halide_target(*made.request.target);
        const lowered_kernel lowered = lower(made.request);
        Halide::Module module = lowered.module(c.symbol, target);
        if (made.request.on_gpu()) module = for_the_machine_alone(module);
        static const Halide::Internal::JITModule support = support_library();
        c.code = Halide::Internal::JITModule(module, module.get_function_by_name(c.symbol), {support});
        if (lowered.stores.defined()) {
            const std::string name = c.symbol + "_stores";
            Halide::Module before = lowered.module_of_stores(name, target);
            if (made.request.on_gpu()) before = for_the_machine_alone(before);
            c.stores = Halide::Internal::JITModule(before, before.get_function_by_name(name), {support});
        }
    } catch (const Halide::Error& problem) {  // not a std::exception
        throw std::runtime_error(made.of->name + ": Halide could not compile it: " + problem.what());
    }
    const auto entry_of = [](const Halide::Internal::JITModule& code) {
        return reinterpret_cast<int (*)(void**)>(
            const_cast<void*>(reinterpret_cast<const void*>(code.argv_function())));
    };
    c.row = kernel_record(made);
    c.row.symbol = c.symbol.c_str(), c.row.target = c.target.c_str(), c.row.schedule = c.cut.c_str();
    c.row.call = entry_of(c.code);
    if (!made.request.graph().stores.empty()) c.row.stores = entry_of(c.stores);
    c.table = {.version = kernel_table_version,
               .variant = made.of->name.c_str(),
               .graph = made.of->graph,
               .kernels = {&c.row, 1}};
    if (made.request.on_gpu()) c.table.devices = &attune::detail::gpus;
}

jit_kernel::~jit_kernel() = default;

const kernel_table& jit_kernel::table() const { return compiled_->table; }

}  // namespace attune::generators::inline tuner
