# The version of the package that attuneConfig.cmake beside this file finds.
file(GLOB attune_versions "${CMAKE_CURRENT_LIST_DIR}/../../../lib*/python3*/*-packages/attune/lib*/cmake/attune/attuneConfigVersion.cmake")
foreach(file IN LISTS attune_versions)
    include("${file}")
endforeach()
