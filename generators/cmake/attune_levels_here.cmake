# attune_levels_here(<variable> <level>...): those of the levels that the machine at hand runs, as attune's runtime finds it; all of them in a cross build, and where it runs none.
function(attune_levels_here variable)
    set(${variable} "${ARGN}" PARENT_SCOPE)
    if(CMAKE_CROSSCOMPILING)
        return()
    endif()
    if(NOT DEFINED ATTUNE_LEVELS_HERE)
        set(runtime "${attune_SOURCE_DIR}/runtime")
        set(program "#include <attune/runtime/cpu.hpp>\n#include <cstdio>\n
int main() {
    for (const std::string_view level : attune::cpu_levels())
        if (attune::runs(level)) std::printf(\"%.*s;\", static_cast<int>(level.size()), level.data());
}\n")
        try_run(ran compiled
            SOURCE_FROM_VAR levels_here.cpp program
            SOURCES "${runtime}/src/base/cpu.cpp" "${runtime}/src/base/text.cpp"
            CMAKE_FLAGS "-DINCLUDE_DIRECTORIES=${runtime}/include;${runtime}/src;${attune_SOURCE_DIR}/dsl/include;${Boost_INCLUDE_DIRS}"
            CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON
            COMPILE_OUTPUT_VARIABLE messages RUN_OUTPUT_VARIABLE levels
            NO_CACHE)
        if(NOT compiled)  # as the runtime itself will not be
            message(FATAL_ERROR "What levels this machine runs could not be found out: ${messages}")
        endif()
        if(NOT ran EQUAL 0)
            message(WARNING "What levels this machine runs could not be found out, so all are taken: the program ended with ${ran}")
            set(levels "")
        endif()
        set(ATTUNE_LEVELS_HERE "${levels}" CACHE INTERNAL "The ISA levels that this machine runs")
    endif()
    set(here ${ARGN})
    list(REMOVE_ITEM here "")
    foreach(level IN LISTS ARGN)
        if(NOT level IN_LIST ATTUNE_LEVELS_HERE)
            list(REMOVE_ITEM here ${level})
        endif()
    endforeach()
    if(here)
        set(${variable} "${here}" PARENT_SCOPE)
    endif()
endfunction()
