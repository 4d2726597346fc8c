# An overlay port of the sources that it lies in: vcpkg install attune --overlay-ports=<attune>/runtime/packaging/vcpkg
# vcpkg's own halide is older than attune takes, so Halide 21 is named by HALIDE_ROOT; vcpkg passes that on where VCPKG_KEEP_ENV_VARS names it.
if(NOT EXISTS "$ENV{HALIDE_ROOT}")
    message(FATAL_ERROR "attune: expected HALIDE_ROOT to be the folder of Halide 21, got \"$ENV{HALIDE_ROOT}\"; try HALIDE_ROOT=<folder> VCPKG_KEEP_ENV_VARS=HALIDE_ROOT")
endif()
set(VCPKG_BUILD_TYPE release)  # kernels have no other
cmake_path(SET source NORMALIZE "${CMAKE_CURRENT_LIST_DIR}/../../../..")
vcpkg_cmake_configure(SOURCE_PATH "${source}" OPTIONS -DATTUNE_BUILD_TESTS=OFF -DATTUNE_BUILD_EXAMPLES=OFF -DATTUNE_TUNED_FOR=generic "-DHalide_ROOT=$ENV{HALIDE_ROOT}")
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/attune)
vcpkg_fixup_pkgconfig(SKIP_CHECK)
vcpkg_install_copyright(FILE_LIST "${source}/LICENSE" "${source}/runtime/python/NOTICES.md")
file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/attune")
