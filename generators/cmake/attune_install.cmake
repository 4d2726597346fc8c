# The install rules: headers, the two static libraries, and a relocatable CMake package with the components dsl, runtime and
# generators. Halide is not part of it: the generators ask for it where kernels are compiled, applications never do.
include(CMakePackageConfigHelpers)
set(package_folder "${CMAKE_INSTALL_LIBDIR}/cmake/attune")

foreach(component IN ITEMS dsl runtime generators)
    install(DIRECTORY "${attune_SOURCE_DIR}/${component}/include/" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT ${component}
        FILES_MATCHING PATTERN "*.hpp")
    set_target_properties(attune_${component} PROPERTIES EXPORT_NAME ${component})
    install(TARGETS attune_${component} EXPORT attune_${component}
        ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT ${component})
    # One file of targets a component, so that a project that only runs kernels is not asked for Halide.
    install(EXPORT attune_${component} NAMESPACE attune:: FILE attune_${component}.cmake DESTINATION "${package_folder}"
        COMPONENT ${component})
endforeach()

configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/attuneConfig.cmake.in" "${attune_BINARY_DIR}/package/attuneConfig.cmake"
    INSTALL_DESTINATION "${package_folder}" NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file("${attune_BINARY_DIR}/package/attuneConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(
    FILES
        "${attune_BINARY_DIR}/package/attuneConfig.cmake"
        "${attune_BINARY_DIR}/package/attuneConfigVersion.cmake"
        "${CMAKE_CURRENT_LIST_DIR}/attune_add_variant.cmake"
        "${CMAKE_CURRENT_LIST_DIR}/attune_find_halide.cmake"
        "${CMAKE_CURRENT_LIST_DIR}/generator_main.cpp.in"
    DESTINATION "${package_folder}" COMPONENT dsl)
