# attune_add_tvm_ffi_library(<name> KERNELS <target>)
#
# A shared library lib<name>.so with a function of TVM-FFI for each variant of <target>, a library made by attune_add_variant: the symbol __tvm_ffi_<variant>, which
# tvm_ffi.load_module of Python and ffi::Module::LoadFromFile of C++ find by the variant's name without its namespace; where two variants have one name, both are
# named in full, my_alibi. Arguments are the formula's in order, q, k and v first; kv_lengths and cu_seqlens_q, or None; the outputs, which the caller allocates.
# Tensors are those of TVM-FFI, or of any library that has DLPack. TVM-FFI's headers, 0.1.15 or later, are taken from the package apache-tvm-ffi of the Python of
# ATTUNE_TVM_FFI_PYTHON, else of the active environment. The library needs libtvm_ffi.so, which is there where tvm_ffi is imported, and no more.
# The library holds the kernels and the runtime; attune.load takes it, too.
include_guard(GLOBAL)
include("${CMAKE_CURRENT_LIST_DIR}/attune_find_python_package.cmake")

set(ATTUNE_TVM_FFI_PYTHON "" CACHE FILEPATH "A Python that has apache-tvm-ffi, for attune_add_tvm_ffi_library")

function(attune_add_tvm_ffi_library name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "KERNELS" "")
    set(graphs "")
    if(TARGET "${arg_KERNELS}")
        get_target_property(graphs "${arg_KERNELS}" ATTUNE_GRAPHS)
        get_target_property(header "${arg_KERNELS}" ATTUNE_HEADER)
    endif()
    if(arg_UNPARSED_ARGUMENTS OR NOT graphs)
        message(FATAL_ERROR "attune_add_tvm_ffi_library(${name}): expected KERNELS to name a library made by attune_add_variant, got `${arg_KERNELS}` and `${arg_UNPARSED_ARGUMENTS}`")
    endif()
    attune_find_python_package(tvm_ffi tvm_ffi include/tvm/ffi/tvm_ffi.h 0.1.15 "${ATTUNE_TVM_FFI_PYTHON}" apache-tvm-ffi)
    if(NOT tvm_ffi)
        message(FATAL_ERROR "attune_add_tvm_ffi_library(${name}): expected a Python with apache-tvm-ffi 0.1.15 or later, got ${tvm_ffi_found}; try `pip install apache-tvm-ffi` in an \
active environment, or -DATTUNE_TVM_FFI_PYTHON=<its python3>")
    endif()

    list(TRANSFORM graphs REPLACE "^.*::" "" OUTPUT_VARIABLE short_names)
    set(functions "")
    foreach(graph short IN ZIP_LISTS graphs short_names)
        string(REGEX REPLACE "[^A-Za-z0-9]+" "_" symbol "${graph}")
        set(same ${short_names})
        list(FILTER same INCLUDE REGEX "^${short}$")
        list(LENGTH same count)
        if(count GREATER 1)
            set(short "${symbol}")
        endif()
        string(APPEND functions "
static constexpr attune::tvm_ffi_functions::function<${graph}, ${symbol}_variant> call_${symbol};
TVM_FFI_DLL_EXPORT_TYPED_FUNC(${short}, call_${symbol})
TVM_FFI_DLL_EXPORT_TYPED_FUNC_DOC(${short}, attune::tvm_ffi_functions::text_of<${graph}>(\"${short}\"))
")
    endforeach()
    set(folder "${CMAKE_CURRENT_BINARY_DIR}/${name}_functions")
    file(CONFIGURE OUTPUT "${folder}/${name}.cpp" @ONLY CONTENT "// Written by attune_add_tvm_ffi_library(@name@ KERNELS @arg_KERNELS@).
#include \"@header@\"

#include \"functions.hpp\"

#include <@arg_KERNELS@.h>
@functions@")
    attune_add_shared(${name} ${arg_KERNELS} "${folder}" "__tvm_ffi_*;" ${graphs})
    target_sources(${name} PRIVATE "${folder}/${name}.cpp")
    set_source_files_properties("${folder}/${name}.cpp" PROPERTIES COMPILE_OPTIONS -Wno-unused-parameter)  # of TVM-FFI's macros, as clang++ has it
    get_property(doors GLOBAL PROPERTY ATTUNE_DOORS)
    target_include_directories(${name} PRIVATE "${doors}/tvm_ffi")
    # TVM-FFI's own copy of DLPack's header comes first: it may be newer than the system's.
    target_include_directories(${name} SYSTEM BEFORE PRIVATE "${tvm_ffi}/include" "${tvm_ffi}/3rdparty/dlpack/include")
    target_compile_features(${name} PRIVATE cxx_std_20)
    target_compile_definitions(${name} PRIVATE TVM_FFI_DLL_EXPORT_INCLUDE_METADATA=1)  # types and texts of the functions
    target_link_libraries(${name} PRIVATE "${tvm_ffi}/lib/libtvm_ffi.so")
endfunction()
