#include "operation.hpp"

#include <ggml-backend-impl.h>
#include <ggml-impl.h>

#include <memory>
#include <new>
#include <string_view>

/// The backend as ggml sees it: one device of the kind ACCEL, as that of a BLAS is, which computes nodes of graphs in
/// the CPU's memory, in the order that it is given them.
namespace attune::ggml {
namespace {

struct state {
    int threads = GGML_DEFAULT_N_THREADS;
    scratch memory;
};

state& of(ggml_backend_t backend) { return *static_cast<state*>(backend->context); }

/// What computes nothing: a scheduler may leave it among the nodes of a backend.
bool is_empty(ggml_op op) {
    return op == GGML_OP_NONE || op == GGML_OP_RESHAPE || op == GGML_OP_VIEW || op == GGML_OP_PERMUTE ||
           op == GGML_OP_TRANSPOSE;
}

ggml_status compute_graph(ggml_backend_t backend, ggml_cgraph* graph) try {
    for (int i = 0; i < ggml_graph_n_nodes(graph); ++i) {
        const ggml_tensor& node = *ggml_graph_node(graph, i);
        if (is_empty(node.op) || (node.flags & GGML_TENSOR_FLAG_COMPUTE) == 0) continue;
        const std::string wrong = compute(node, of(backend).threads, of(backend).memory);
        if (wrong.empty()) continue;
        GGML_LOG_ERROR("%s (%s)\n", wrong.c_str(), node.name);
        return GGML_STATUS_FAILED;
    }
    return GGML_STATUS_SUCCESS;
} catch (const std::bad_alloc&) {
    return GGML_STATUS_ALLOC_FAILED;
}

ggml_guid_t guid() {
    static ggml_guid made = {0x61, 0x74, 0x74, 0x75, 0x6e, 0x65, 0x2d, 0x66,
                             0x6f, 0x72, 0x2d, 0x67, 0x67, 0x6d, 0x6c, 0x2e};
    return &made;
}

ggml_backend_t new_backend(ggml_backend_dev_t device, const char*) {
    ggml_backend_i calls{};
    calls.get_name = [](ggml_backend_t) { return "attune"; };
    calls.free = [](ggml_backend_t backend) {
        delete &of(backend);
        delete backend;
    };
    calls.graph_compute = compute_graph;
    auto its = std::unique_ptr<state>(new (std::nothrow) state);
    auto* const made = its ? new (std::nothrow) ggml_backend{guid(), calls, device, its.get()} : nullptr;
    if (made) static_cast<void>(its.release());
    return made;
}

/// Whether the ggml that loads this library means by its numbers what the one means that it was built with. The loader
/// compares the version of the backends' interface alone.
bool has_same_numbers() {
    const auto is = [](ggml_type type, std::string_view name) { return ggml_type_name(type) == name; };
    return ggml_op_name(GGML_OP_FLASH_ATTN_EXT) == std::string_view("FLASH_ATTN_EXT") && is(GGML_TYPE_F32, "f32") &&
           is(GGML_TYPE_F16, "f16") && is(GGML_TYPE_BF16, "bf16") && is(GGML_TYPE_Q8_0, "q8_0") &&
           is(GGML_TYPE_Q4_0, "q4_0");
}

void set_threads(ggml_backend_t backend, int threads) { of(backend).threads = threads; }

ggml_backend_device_i device_calls() {
    ggml_backend_device_i calls{};
    calls.get_name = [](ggml_backend_dev_t) { return "attune"; };
    calls.get_description = [](ggml_backend_dev_t) { return "attention by kernels compiled ahead of time"; };
    calls.get_memory = [](ggml_backend_dev_t, std::size_t* free, std::size_t* total) { *free = *total = 0; };
    calls.get_type = [](ggml_backend_dev_t) { return GGML_BACKEND_DEVICE_TYPE_ACCEL; };
    calls.get_props = [](ggml_backend_dev_t device, ggml_backend_dev_props* props) {
        *props = {};
        props->name = ggml_backend_dev_name(device);
        props->description = ggml_backend_dev_description(device);
        props->type = ggml_backend_dev_type(device);
        props->caps.buffer_from_host_ptr = true;
        props->caps.mmap_support = true;
    };
    calls.init_backend = new_backend;
    calls.get_buffer_type = [](ggml_backend_dev_t) { return ggml_backend_cpu_buffer_type(); };
    calls.buffer_from_host_ptr = [](ggml_backend_dev_t, void* data, std::size_t size, std::size_t) {
        return ggml_backend_cpu_buffer_from_ptr(data, size);
    };
    calls.supports_op = [](ggml_backend_dev_t, const ggml_tensor* node) {
        try {
            return is_empty(node->op) || is_supported(*node);
        } catch (const std::bad_alloc&) {
            return false;
        }
    };
    calls.supports_buft = [](ggml_backend_dev_t, ggml_backend_buffer_type_t type) {
        return ggml_backend_buft_is_host(type);
    };
    return calls;
}

ggml_backend_reg_t registered() {
    static ggml_backend_device device{device_calls(), nullptr, nullptr};
    static ggml_backend_reg made = [] {
        ggml_backend_reg_i calls{};
        calls.get_name = [](ggml_backend_reg_t) { return "attune"; };
        calls.get_device_count = [](ggml_backend_reg_t) { return std::size_t{1}; };
        calls.get_device = [](ggml_backend_reg_t, std::size_t) { return &device; };
        calls.get_proc_address = [](ggml_backend_reg_t, const char* name) {
            return std::string_view(name) == "ggml_backend_set_n_threads" ? reinterpret_cast<void*>(set_threads)
                                                                          : nullptr;
        };
        return ggml_backend_reg{GGML_BACKEND_API_VERSION, calls, nullptr};
    }();
    device.reg = &made;
    return &made;
}

}  // namespace
}  // namespace attune::ggml

/// What ggml looks for in a library that it loads.
extern "C" {
GGML_BACKEND_API ggml_backend_reg_t ggml_backend_init(void);
ggml_backend_reg_t ggml_backend_init(void) {
    return attune::ggml::has_same_numbers() ? attune::ggml::registered() : nullptr;
}
}
