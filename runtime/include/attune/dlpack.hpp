#pragma once
/// Tensors from and for other frameworks, by DLPack. Not included by attune/runtime.hpp.
#include <attune/dlpack.h>
#include <attune/runtime/tensor.hpp>

#include <memory>
#include <string_view>

namespace attune {

/// A view of memory that DLPack describes. It owns nothing: the owner of the managed tensor keeps it, and deletes it
/// after the calls. CUDA memory and OpenCL buffers keep the device's index. Throws attune::error for memory of other
/// devices, for an offset into an OpenCL buffer, element types that attune does not have, vectors and more than 8 axes.
/// The error calls the tensor by `name`: from_dlpack(managed, "q").
tensor from_dlpack(const DLTensor& given, bool read_only = false, std::string_view name = {});
tensor from_dlpack(const DLManagedTensor& given, std::string_view name = {});
/// Throws also for a tensor of another major version of DLPack; only its version is read.
tensor from_dlpack(const DLManagedTensorVersioned& given, std::string_view name = {});

/// The view as DLPack. The consumer calls its deleter, which releases `owner`; without an owner, the memory must
/// outlive the consumer. A view of a GPU's memory must say which GPU's: tensor::in(memory::cuda, 0).
DLManagedTensorVersioned* to_dlpack(const tensor& view, std::shared_ptr<const void> owner = {});
/// For consumers of DLPack before 1.0. Throws attune::error for a view of const elements, which that version cannot
/// mark.
DLManagedTensor* to_dlpack_unversioned(const tensor& view, std::shared_ptr<const void> owner = {});

}  // namespace attune
