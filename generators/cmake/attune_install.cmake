# The install rules: headers, the static libraries, a relocatable CMake package with the components dsl, runtime, generators, common and mpi,
# attune-runtime.pc, attune-mpi.pc, and packages (cpack). Halide is not part of it: the generators ask for it where kernels are compiled, applications never do.
# find_package finds the build folder, too: the same package stands in its lib/cmake/attune.
include(CMakePackageConfigHelpers)
set(build_package_folder "${attune_BINARY_DIR}/lib/cmake/attune")
set(package_folder "${CMAKE_INSTALL_LIBDIR}/cmake/attune")

set(components dsl runtime)
if(TARGET attune_generators)  # a cross build has none
    list(APPEND components generators)
endif()
foreach(component IN LISTS components)
    set(libraries attune_${component})
    if(component STREQUAL "generators")
        set_target_properties(attune_mapped_tensors PROPERTIES EXPORT_NAME mapped_tensors)
        get_property(rooms GLOBAL PROPERTY ATTUNE_GENERATOR_LIBRARIES)
        list(APPEND libraries ${rooms} attune_mapped_tensors)
    endif()
    install(DIRECTORY "${attune_SOURCE_DIR}/${component}/include/" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT ${component})
    set_target_properties(attune_${component} PROPERTIES EXPORT_NAME ${component})
    install(TARGETS ${libraries} EXPORT attune_${component}
        ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT ${component})
    # One file of targets a component, so that a project that only runs kernels is not asked for Halide.
    install(EXPORT attune_${component} NAMESPACE attune:: FILE attune_${component}.cmake DESTINATION "${package_folder}"
        COMPONENT ${component})
    export(EXPORT attune_${component} NAMESPACE attune:: FILE "${build_package_folder}/attune_${component}.cmake")
endforeach()

set_target_properties(attune_gpu PROPERTIES EXPORT_NAME gpu)  # with the runtime: who links kernels for GPUs needs no package more
install(TARGETS attune_gpu EXPORT attune_runtime ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT runtime)
set_target_properties(attune_reference PROPERTIES EXPORT_NAME reference)  # likewise: who compares kernels with their formulas
install(TARGETS attune_reference EXPORT attune_runtime ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT runtime)
install(TARGETS attune_reference_shared LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT runtime)
install(FILES "${attune_SOURCE_DIR}/generators/reference/include/attune/reference.hpp" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/attune" COMPONENT runtime)
install(FILES "${attune_SOURCE_DIR}/generators/reference/include/attune/reference/evaluate.hpp" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/attune/reference" COMPONENT runtime)

if(TARGET attune_common)
    foreach(library IN ITEMS common common_shared)
        target_include_directories(attune_${library} PUBLIC "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
        set_target_properties(attune_${library} PROPERTIES EXPORT_NAME ${library})
        install(TARGETS attune_${library} EXPORT attune_${library}
            ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT common
            LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT common)
        install(EXPORT attune_${library} NAMESPACE attune:: FILE attune_${library}.cmake DESTINATION "${package_folder}" COMPONENT common)
        export(EXPORT attune_${library} NAMESPACE attune:: FILE "${build_package_folder}/attune_${library}.cmake")
    endforeach()
    get_target_property(c_header attune_common ATTUNE_C_HEADER)
    install(FILES "${c_header}" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT common)
endif()

if(TARGET attune_mpi)
    set_target_properties(attune_ranks PROPERTIES EXPORT_NAME ranks)
    set_target_properties(attune_mpi PROPERTIES EXPORT_NAME mpi)
    install(DIRECTORY "${attune_SOURCE_DIR}/runtime/mpi/include/" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT mpi)
    install(TARGETS attune_ranks attune_mpi EXPORT attune_mpi ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT mpi)
    install(EXPORT attune_mpi NAMESPACE attune:: FILE attune_mpi.cmake DESTINATION "${package_folder}" COMPONENT mpi)
    export(EXPORT attune_mpi NAMESPACE attune:: FILE "${build_package_folder}/attune_mpi.cmake")
endif()

file(RELATIVE_PATH prefix_from_pc "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
configure_file("${CMAKE_CURRENT_LIST_DIR}/attune-runtime.pc.in" "${attune_BINARY_DIR}/package/attune-runtime.pc" @ONLY)
install(FILES "${attune_BINARY_DIR}/package/attune-runtime.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" COMPONENT runtime)
if(TARGET attune_mpi)
    configure_file("${CMAKE_CURRENT_LIST_DIR}/attune-mpi.pc.in" "${attune_BINARY_DIR}/package/attune-mpi.pc" @ONLY)
    install(FILES "${attune_BINARY_DIR}/package/attune-mpi.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" COMPONENT mpi)
endif()

foreach(door IN ITEMS torch jax tvm_ffi ggml)  # compiled where PyTorch, jaxlib, TVM-FFI or ggml is
    install(DIRECTORY "${attune_SOURCE_DIR}/runtime/${door}" DESTINATION "${CMAKE_INSTALL_DATADIR}/attune" COMPONENT dsl)
endforeach()
install(DIRECTORY "${attune_SOURCE_DIR}/generators/schedules/" DESTINATION "${CMAKE_INSTALL_DATADIR}/attune/schedules" COMPONENT dsl)

# attune_configure_package(<folder> INSTALL_DESTINATION <folder>...): the package in a folder, by what is said where of.
macro(attune_configure_package folder)
    configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/attuneConfig.cmake.in" "${folder}/attuneConfig.cmake" ${ARGN}
        PATH_VARS attune_functions attune_schedules attune_c_header attune_doors NO_CHECK_REQUIRED_COMPONENTS_MACRO)
    write_basic_package_version_file("${folder}/attuneConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
endmacro()
set(attune_functions "${attune_SOURCE_DIR}/generators/cmake")
set(attune_schedules "${attune_SOURCE_DIR}/generators/schedules")
set(attune_c_header "${attune_SOURCE_DIR}/runtime/include/attune/c.h")
set(attune_doors "${attune_SOURCE_DIR}/runtime")
attune_configure_package("${build_package_folder}" INSTALL_DESTINATION "${build_package_folder}" INSTALL_PREFIX "${attune_BINARY_DIR}")
set(attune_functions "${package_folder}")
set(attune_schedules "${CMAKE_INSTALL_DATADIR}/attune/schedules")
set(attune_c_header "${CMAKE_INSTALL_INCLUDEDIR}/attune/c.h")
set(attune_doors "${CMAKE_INSTALL_DATADIR}/attune")
attune_configure_package("${attune_BINARY_DIR}/package" INSTALL_DESTINATION "${package_folder}")
install(
    FILES
        "${attune_BINARY_DIR}/package/attuneConfig.cmake"
        "${attune_BINARY_DIR}/package/attuneConfigVersion.cmake"
        "${CMAKE_CURRENT_LIST_DIR}/attune_add_variant.cmake"
        "${CMAKE_CURRENT_LIST_DIR}/attune_add_torch_library.cmake"
        "${CMAKE_CURRENT_LIST_DIR}/attune_add_jax_library.cmake"
        "${CMAKE_CURRENT_LIST_DIR}/attune_add_tvm_ffi_library.cmake"
        "${CMAKE_CURRENT_LIST_DIR}/attune_add_ggml_backend.cmake"
        "${CMAKE_CURRENT_LIST_DIR}/attune_find_python_package.cmake"
        "${CMAKE_CURRENT_LIST_DIR}/attune_find_halide.cmake"
        "${CMAKE_CURRENT_LIST_DIR}/attune_find_ptxas.cmake"
        "${CMAKE_CURRENT_LIST_DIR}/exports.map.in"
        "${CMAKE_CURRENT_LIST_DIR}/generator_main.cpp.in"
        "${CMAKE_CURRENT_LIST_DIR}/kernels.pc.in"
        "${CMAKE_CURRENT_LIST_DIR}/kernelsConfig.cmake.in"
    DESTINATION "${package_folder}" COMPONENT dsl)

include(attune_bill_of_materials)
attune_write_bill_of_materials("${attune_BINARY_DIR}/package/attune.spdx.json")
install(FILES "${attune_BINARY_DIR}/package/attune.spdx.json" DESTINATION "${CMAKE_INSTALL_DATADIR}/attune" COMPONENT dsl)

set(ATTUNE_PACKAGE_CONTACT "attune <root@localhost>" CACHE STRING "Who answers for the packages that cpack makes: a name and an address")
set(CPACK_GENERATOR "TGZ;DEB")
set(CPACK_PACKAGE_NAME attune)
set(CPACK_PACKAGE_VENDOR attune)
set(CPACK_PACKAGE_CONTACT "${ATTUNE_PACKAGE_CONTACT}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${attune_DESCRIPTION}")
set(CPACK_RESOURCE_FILE_LICENSE "${attune_SOURCE_DIR}/LICENSE")
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_STRIP_FILES OFF)  # static libraries keep their symbols
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libboost1.81-dev | libboost-dev (>= 1.81), libstdc++6")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "cmake (>= 3.28)")
include(CPack)
