# attune_find_python_package(<result> <package> <file> <python>)
#
# Sets <result> to the folder of a Python package that has <file>, in the environment of the interpreter <python>; where that is empty, in the active environment or
# the python3 of PATH. Else to "".
include_guard(GLOBAL)

function(attune_find_python_package result package file python)
    set(${result} "" PARENT_SCOPE)
    set(where "import importlib.util as u; s = u.find_spec('${package}'); print(s.submodule_search_locations[0] if s else '')")
    set(candidates "$ENV{VIRTUAL_ENV}/bin/python3" python3)
    if(python)
        set(candidates "${python}")
    endif()
    foreach(candidate IN LISTS candidates)
        execute_process(COMMAND "${candidate}" -c "${where}" OUTPUT_VARIABLE folder OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE status)
        if(status EQUAL 0 AND EXISTS "${folder}/${file}")
            set(${result} "${folder}" PARENT_SCOPE)
            return()
        endif()
    endforeach()
endfunction()
