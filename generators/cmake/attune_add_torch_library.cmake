# attune_add_torch_library(<name> KERNELS <target> [NAMESPACE <name>])
#
# A shared library lib<name>.so whose loading defines an operator of PyTorch for each variant of <target>, a library made by attune_add_variant:
# torch.ops.<name>.alibi(q, k, v, slopes), and torch.ops.<name>.alibi.out, which takes the outputs too. Python loads it by attune.torch.load, which adds what
# torch.compile and torch.export ask for; C++ by torch::... or dlopen. PyTorch's headers, 2.10 or later, are taken from the Python of ATTUNE_TORCH_PYTHON, else of
# the active environment. They are PyTorch's stable ABI: the library loads in version 2.10 and later, in whatever Python. It needs libtorch_cpu.so, which is there
# where PyTorch is imported, and no more.
# The library holds the kernels and the runtime; attune.load takes it, too, once PyTorch is imported. If one variant cannot become an operator, for instance because another
# version of attune built its kernels, none does: PyTorch warns, and attune.torch.load raises what attune_torch_problem() says.
include_guard(GLOBAL)
include("${CMAKE_CURRENT_LIST_DIR}/attune_find_python_package.cmake")

set(ATTUNE_TORCH_PYTHON "" CACHE FILEPATH "A Python that has PyTorch, for attune_add_torch_library")

function(attune_add_torch_library name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "KERNELS;NAMESPACE" "")
    set(graphs "")
    if(TARGET "${arg_KERNELS}")
        get_target_property(graphs "${arg_KERNELS}" ATTUNE_GRAPHS)
    endif()
    if(arg_UNPARSED_ARGUMENTS OR NOT graphs)
        message(FATAL_ERROR "attune_add_torch_library(${name}): expected KERNELS to name a library made by attune_add_variant, got `${arg_KERNELS}` and `${arg_UNPARSED_ARGUMENTS}`")
    endif()
    if(NOT arg_NAMESPACE)
        set(arg_NAMESPACE ${name})
    endif()
    attune_find_python_package(torch torch include/torch/csrc/stable/library.h 2.10 "${ATTUNE_TORCH_PYTHON}")
    if(NOT torch)
        message(FATAL_ERROR "attune_add_torch_library(${name}): expected a Python with PyTorch 2.10 or later, got ${torch_found}; try `pip install torch` in an active environment, \
or -DATTUNE_TORCH_PYTHON=<its python3>")
    endif()

    list(TRANSFORM graphs REPLACE "[^A-Za-z0-9]+" "_")
    list(TRANSFORM graphs APPEND "_variant" OUTPUT_VARIABLE functions)
    list(JOIN functions ", " functions)
    set(folder "${CMAKE_CURRENT_BINARY_DIR}/${name}_operators")
    file(CONFIGURE OUTPUT "${folder}/${name}.cpp" @ONLY CONTENT "// Written by attune_add_torch_library(@name@ KERNELS @arg_KERNELS@).
#include \"operators.hpp\"

#include <@arg_KERNELS@.h>

static const attune::torch_operators::library<@functions@> operators(\"@arg_NAMESPACE@\");

extern \"C\" __attribute__((visibility(\"default\"))) const char* attune_torch_namespace() noexcept;
extern \"C\" const char* attune_torch_namespace() noexcept { return \"@arg_NAMESPACE@\"; }
extern \"C\" __attribute__((visibility(\"default\"))) const char* attune_torch_problem() noexcept;
extern \"C\" const char* attune_torch_problem() noexcept { return operators.problem(); }
")
    attune_add_shared(${name} ${arg_KERNELS} "${folder}" "attune_torch_namespace; attune_torch_problem;" ${graphs})
    target_sources(${name} PRIVATE "${folder}/${name}.cpp")
    set_source_files_properties("${folder}/${name}.cpp" PROPERTIES COMPILE_OPTIONS -fvisibility=hidden)  # as PyTorch's classes are, which its own hold
    get_property(doors GLOBAL PROPERTY ATTUNE_DOORS)
    target_include_directories(${name} PRIVATE "${doors}/torch")
    target_include_directories(${name} SYSTEM PRIVATE "${torch}/include")
    target_compile_features(${name} PRIVATE cxx_std_20)
    # What is there since 2.10, in whatever version compiles it.
    target_compile_definitions(${name} PRIVATE TORCH_TARGET_VERSION=0x020a000000000000)
    target_link_libraries(${name} PRIVATE "${torch}/lib/libtorch_cpu.so")
endfunction()
