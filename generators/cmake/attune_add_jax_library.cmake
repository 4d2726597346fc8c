# attune_add_jax_library(<name> KERNELS <target>)
#
# A shared library lib<name>.so with a foreign function of XLA for each variant of <target>, a library made by attune_add_variant. attune.jax.load makes functions for
# jax.jit, jax.vmap and jax.grad of them. XLA's headers are taken from the package jaxlib, 0.6 or later, of the Python of ATTUNE_JAX_PYTHON, else of the active
# environment; the library links to nothing of it. It loads in that version of jaxlib and, by XLA's word, in those of twelve months after; not in earlier ones.
# The library holds the kernels and the runtime; attune.load takes it, too, for NumPy.
include_guard(GLOBAL)
include("${CMAKE_CURRENT_LIST_DIR}/attune_find_python_package.cmake")

set(ATTUNE_JAX_PYTHON "" CACHE FILEPATH "A Python that has jaxlib, for attune_add_jax_library")

function(attune_add_jax_library name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "KERNELS" "")
    set(graphs "")
    if(TARGET "${arg_KERNELS}")
        get_target_property(graphs "${arg_KERNELS}" ATTUNE_GRAPHS)
    endif()
    if(arg_UNPARSED_ARGUMENTS OR NOT graphs)
        message(FATAL_ERROR "attune_add_jax_library(${name}): expected KERNELS to name a library made by attune_add_variant, got `${arg_KERNELS}` and `${arg_UNPARSED_ARGUMENTS}`")
    endif()
    attune_find_python_package(jaxlib jaxlib include/xla/ffi/api/ffi.h 0.6 "${ATTUNE_JAX_PYTHON}")
    if(NOT jaxlib)
        message(FATAL_ERROR "attune_add_jax_library(${name}): expected a Python with jaxlib 0.6 or later, got ${jaxlib_found}; try `pip install jax` in an active environment, \
or -DATTUNE_JAX_PYTHON=<its python3>")
    endif()

    list(TRANSFORM graphs REPLACE "[^A-Za-z0-9]+" "_" OUTPUT_VARIABLE symbols)
    set(functions "")
    set(shown "attune_xla_version; ")
    foreach(symbol IN LISTS symbols)
        string(APPEND functions "
extern \"C\" __attribute__((visibility(\"default\"))) XLA_FFI_Error* ${symbol}_xla(XLA_FFI_CallFrame* frame);
extern \"C\" XLA_FFI_Error* ${symbol}_xla(XLA_FFI_CallFrame* frame) { return attune::jax_calls::handle<${symbol}_variant>(frame); }
")
        string(APPEND shown "${symbol}_xla; ")
    endforeach()
    set(folder "${CMAKE_CURRENT_BINARY_DIR}/${name}_calls")
    file(CONFIGURE OUTPUT "${folder}/${name}.cpp" @ONLY CONTENT "// Written by attune_add_jax_library(@name@ KERNELS @arg_KERNELS@).
#include \"calls.hpp\"

#include <@arg_KERNELS@.h>

extern \"C\" __attribute__((visibility(\"default\"))) int attune_xla_version() noexcept;
extern \"C\" int attune_xla_version() noexcept { return XLA_FFI_API_MAJOR * 1000 + XLA_FFI_API_MINOR; }
@functions@")
    attune_add_shared(${name} ${arg_KERNELS} "${folder}" "${shown}" ${graphs})
    target_sources(${name} PRIVATE "${folder}/${name}.cpp")
    # XLA's headers have members that are named as their types, which g++ alone minds.
    set_source_files_properties("${folder}/${name}.cpp" PROPERTIES COMPILE_OPTIONS "$<$<CXX_COMPILER_ID:GNU>:-fpermissive>")
    get_property(doors GLOBAL PROPERTY ATTUNE_DOORS)
    target_include_directories(${name} PRIVATE "${doors}/jax")
    target_include_directories(${name} SYSTEM PRIVATE "${jaxlib}/include")
    target_compile_features(${name} PRIVATE cxx_std_20)
endfunction()
