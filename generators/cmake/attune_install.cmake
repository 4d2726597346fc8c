# The install rules: headers, the static libraries, a relocatable CMake package with the components dsl, runtime, generators and common,
# attune-runtime.pc, and packages (cpack). Halide is not part of it: the generators ask for it where kernels are compiled, applications never do.
include(CMakePackageConfigHelpers)
set(package_folder "${CMAKE_INSTALL_LIBDIR}/cmake/attune")

set(components dsl runtime)
if(TARGET attune_generators)  # a cross build has none
    list(APPEND components generators)
endif()
foreach(component IN LISTS components)
    set(libraries attune_${component})
    if(component STREQUAL "generators")
        set_target_properties(attune_reference PROPERTIES EXPORT_NAME reference)
        get_property(rooms GLOBAL PROPERTY ATTUNE_GENERATOR_LIBRARIES)
        list(APPEND libraries ${rooms} attune_reference)
    endif()
    install(DIRECTORY "${attune_SOURCE_DIR}/${component}/include/" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT ${component})
    set_target_properties(attune_${component} PROPERTIES EXPORT_NAME ${component})
    install(TARGETS ${libraries} EXPORT attune_${component}
        ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT ${component})
    # One file of targets a component, so that a project that only runs kernels is not asked for Halide.
    install(EXPORT attune_${component} NAMESPACE attune:: FILE attune_${component}.cmake DESTINATION "${package_folder}"
        COMPONENT ${component})
endforeach()

set_target_properties(attune_gpu PROPERTIES EXPORT_NAME gpu)  # with the runtime: who links kernels for GPUs needs no package more
install(TARGETS attune_gpu EXPORT attune_runtime ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT runtime)

if(TARGET attune_common)
    foreach(library IN ITEMS common common_shared)
        target_include_directories(attune_${library} PUBLIC "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
        set_target_properties(attune_${library} PROPERTIES EXPORT_NAME ${library})
        install(TARGETS attune_${library} EXPORT attune_${library}
            ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT common
            LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT common)
        install(EXPORT attune_${library} NAMESPACE attune:: FILE attune_${library}.cmake DESTINATION "${package_folder}" COMPONENT common)
    endforeach()
    get_target_property(c_header attune_common ATTUNE_C_HEADER)
    install(FILES "${c_header}" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT common)
endif()

file(RELATIVE_PATH prefix_from_pc "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
configure_file("${CMAKE_CURRENT_LIST_DIR}/attune-runtime.pc.in" "${attune_BINARY_DIR}/package/attune-runtime.pc" @ONLY)
install(FILES "${attune_BINARY_DIR}/package/attune-runtime.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" COMPONENT runtime)

install(DIRECTORY "${attune_SOURCE_DIR}/generators/schedules/" DESTINATION "${CMAKE_INSTALL_DATADIR}/attune/schedules" COMPONENT dsl)

configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/attuneConfig.cmake.in" "${attune_BINARY_DIR}/package/attuneConfig.cmake"
    INSTALL_DESTINATION "${package_folder}" PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_DATADIR NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file("${attune_BINARY_DIR}/package/attuneConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(
    FILES
        "${attune_BINARY_DIR}/package/attuneConfig.cmake"
        "${attune_BINARY_DIR}/package/attuneConfigVersion.cmake"
        "${CMAKE_CURRENT_LIST_DIR}/attune_add_variant.cmake"
        "${CMAKE_CURRENT_LIST_DIR}/attune_find_halide.cmake"
        "${CMAKE_CURRENT_LIST_DIR}/exports.map.in"
        "${CMAKE_CURRENT_LIST_DIR}/generator_main.cpp.in"
        "${CMAKE_CURRENT_LIST_DIR}/kernels.pc.in"
        "${CMAKE_CURRENT_LIST_DIR}/kernelsConfig.cmake.in"
    DESTINATION "${package_folder}" COMPONENT dsl)

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
