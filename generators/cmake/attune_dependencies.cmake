# attune_find_dependencies([TESTS])
#
# Finds what building attune needs, with Catch2 if TESTS is given. All that is missing is reported at once, and listed by
# name in ${CMAKE_BINARY_DIR}/missing for the setup behind ./examples/run and ./tests/run. A macro: the imported targets and
# variables belong to the caller.
include("${CMAKE_CURRENT_LIST_DIR}/attune_find_halide.cmake")

macro(attune_find_dependencies)
    set(attune_missing "")
    set(attune_advice "")
    attune_look_for(Boost "Boost 1.81 or later (headers: libboost-dev or libboost1.81-dev)" 1.81 CONFIG)
    attune_look_for(fmt "fmt 9 (libfmt-dev)" 9)
    attune_look_for(nlohmann_json "JSON for Modern C++ 3.9 (nlohmann-json3-dev)" 3.9)
    attune_look_for(CLI11 "CLI11 2.1 (libcli11-dev)" 2.1)
    if("${ARGN}" STREQUAL "TESTS")
        attune_look_for(Catch2 "Catch2 3 (catch2; or -DATTUNE_BUILD_TESTS=OFF)" 3)
    endif()
    attune_find_halide()
    if(NOT attune_halide_found)
        list(APPEND attune_missing Halide)
        string(APPEND attune_advice "  Halide 21 (pip install halide==21.0.0 in an active environment, or -DHalide_ROOT=<folder>)\n")
    endif()

    list(JOIN attune_missing "\n" attune_missing_lines)
    file(WRITE "${CMAKE_BINARY_DIR}/missing" "${attune_missing_lines}")
    if(attune_missing)
        message(FATAL_ERROR "not found:\n${attune_advice}"
            "./examples/run and ./tests/run install what is missing; on a system of another kind, -DCMAKE_PREFIX_PATH says where to look.")
    endif()
    find_package(Threads REQUIRED)
endmacro()

# attune_look_for(<package> <advice> <version> [CONFIG])
macro(attune_look_for package advice)
    find_package(${package} ${ARGN} QUIET)
    if(NOT ${package}_FOUND)
        list(APPEND attune_missing ${package})
        string(APPEND attune_advice "  ${advice}\n")
    endif()
endmacro()
