# attune_find_halide()
#
# Finds Halide 21 as a CMake package and says so in `attune_halide_found`. It looks, in this order,
#   1. where find_package does, PATH left aside: Halide_ROOT, which may be the folder of Python's `halide` package, Halide_DIR, CMAKE_PREFIX_PATH, the system;
#   2. in Python's `halide` package: beside attune's own where that was installed by pip, in the environment that attune's own setup made in build/venv, in the
#      active one, in python3's.
# Python is only asked where the package lies. The configuration file that the Python package leaves in <environment>/share/cmake
# is passed by, for it wants Python's development headers, which nothing here needs.
function(attune_find_halide)
    if(TARGET Halide::Halide)
        set(attune_halide_found TRUE PARENT_SCOPE)
        return()
    endif()
    set(CMAKE_DISABLE_FIND_PACKAGE_Halide_Python TRUE)

    # Python's package is in lib64, which CMake leaves out on Debian.
    find_package(Halide 21 QUIET CONFIG COMPONENTS Halide NO_SYSTEM_ENVIRONMENT_PATH PATH_SUFFIXES lib64/cmake/Halide)
    if(NOT Halide_FOUND)
        file(GLOB folder "${attune_prefix}/../halide/lib*/cmake/Halide")
        if(NOT folder)
            attune_python_halide(folder)
        endif()
        if(folder)
            set(Halide_DIR "${folder}" CACHE PATH "The folder of HalideConfig.cmake" FORCE)
            find_package(Halide 21 QUIET CONFIG COMPONENTS Halide NO_SYSTEM_ENVIRONMENT_PATH)
        endif()
    endif()
    set(attune_halide_found ${Halide_FOUND} PARENT_SCOPE)
    set(Halide_VERSION "${Halide_VERSION}" PARENT_SCOPE)
endfunction()

# Sets `result` to the folder of HalideConfig.cmake inside the first Python `halide` package met, else to "".
function(attune_python_halide result)
    set(${result} "" PARENT_SCOPE)
    set(where "import importlib.util as u; s = u.find_spec('halide'); print(s.submodule_search_locations[0] if s else '')")
    set(candidates "$ENV{VIRTUAL_ENV}/bin/python3" python3)
    if(attune_SOURCE_DIR)
        list(PREPEND candidates "${attune_SOURCE_DIR}/build/venv/bin/python3")
    endif()
    foreach(python IN LISTS candidates)
        execute_process(COMMAND "${python}" -c "${where}" OUTPUT_VARIABLE package OUTPUT_STRIP_TRAILING_WHITESPACE
            ERROR_QUIET RESULT_VARIABLE status)
        if(NOT status EQUAL 0 OR NOT package)
            continue()
        endif()
        foreach(lib IN ITEMS lib64 lib)
            if(EXISTS "${package}/${lib}/cmake/Halide/HalideConfig.cmake")
                set(${result} "${package}/${lib}/cmake/Halide" PARENT_SCOPE)
                return()
            endif()
        endforeach()
    endforeach()
endfunction()
