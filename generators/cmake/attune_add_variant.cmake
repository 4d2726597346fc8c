# attune_add_variant(<target>
#     HEADER <variant header>              the file that defines the graphs; its folder becomes an include folder of <target>
#     GRAPHS <my::alibi>...                the graphs, as C++ names them
#     [DTYPES f32...]                      element types; default f32
#     [DEPTHS 64 128 64x32...]             depth of q and k, or depth x depth of v; default 64 128
#     [TARGETS x86-64-v3 x86-64-v4...])    ISA levels; default ATTUNE_TARGETS
#
# Makes
#   <target>_generator   a program in ${CMAKE_BINARY_DIR}/bin that holds the graphs and compiles them: `emit`, `explain`, `--help`
#   <target>             a static library: one object of kernels an ISA level, and the registry by which attune::run finds them
#
# An application links <target> and needs neither Halide nor attune's generators. The kernels are rebuilt when their generator
# is, that is when the variant header, or anything that it includes, or attune itself has changed.
function(attune_add_variant target)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "HEADER" "GRAPHS;DTYPES;DEPTHS;TARGETS")
    if(arg_UNPARSED_ARGUMENTS)
        message(FATAL_ERROR "attune_add_variant(${target}): expected HEADER, GRAPHS, DTYPES, DEPTHS or TARGETS, got `${arg_UNPARSED_ARGUMENTS}`")
    endif()
    if(NOT arg_HEADER OR NOT arg_GRAPHS)
        message(FATAL_ERROR "attune_add_variant(${target}): expected HEADER <variant header> and GRAPHS <my::graph>..., got one of them at most")
    endif()
    cmake_path(ABSOLUTE_PATH arg_HEADER BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}" NORMALIZE OUTPUT_VARIABLE header)
    if(NOT EXISTS "${header}")
        message(FATAL_ERROR "attune_add_variant(${target}): expected HEADER to name a file, got `${arg_HEADER}`; looked for ${header}")
    endif()
    list(REMOVE_DUPLICATES arg_GRAPHS)
    if(NOT DEFINED arg_DTYPES)
        set(arg_DTYPES f32)
    endif()
    if(NOT DEFINED arg_DEPTHS)
        set(arg_DEPTHS 64 128)
    endif()
    if(NOT DEFINED arg_TARGETS)
        set(arg_TARGETS ${ATTUNE_TARGETS})
    endif()

    cmake_path(GET header PARENT_PATH header_folder)
    cmake_path(GET header FILENAME header_name)
    set(folder "${CMAKE_CURRENT_BINARY_DIR}/${target}_kernels")

    # The generator program.
    set(rows "")
    foreach(graph IN LISTS arg_GRAPHS)
        string(APPEND rows "        {\"${graph}\", attune::dsl::listing_of<${graph}>},\n")
    endforeach()
    foreach(list IN ITEMS TARGETS DTYPES DEPTHS)
        list(JOIN arg_${list} "\", \"" words)
        set(${list} "{\"${words}\"}")
    endforeach()
    configure_file("${CMAKE_CURRENT_FUNCTION_LIST_DIR}/generator_main.cpp.in" "${folder}/main.cpp" @ONLY)
    set(generator "${target}_generator")
    add_executable(${generator} "${folder}/main.cpp")
    target_include_directories(${generator} PRIVATE "${header_folder}")
    target_link_libraries(${generator} PRIVATE attune::generators)
    set_target_properties(${generator} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
    if(ATTUNE_SANITIZE)
        target_compile_options(${generator} PRIVATE -fno-sanitize=all)
    endif()

    # What it emits: an object an ISA level, and the registry.
    set(emit ${generator} emit)
    if(ATTUNE_SANITIZE MATCHES "address")
        # It is not instrumented, but linked as if it were; the compiler inside keeps memory until it ends.
        set(emit "${CMAKE_COMMAND}" -E env ASAN_OPTIONS=detect_leaks=0 "$<TARGET_FILE:${generator}>" emit)
    endif()
    set(objects "")
    list(JOIN arg_GRAPHS " " graphs)
    list(JOIN arg_DTYPES " " dtypes)
    list(JOIN arg_DEPTHS " " depths)
    foreach(level IN LISTS arg_TARGETS)
        set(object "${folder}/${target}_${level}${CMAKE_CXX_OUTPUT_EXTENSION}")
        add_custom_command(
            OUTPUT "${object}"
            COMMAND ${emit} --target ${level} --dtypes ${arg_DTYPES} --depths ${arg_DEPTHS} --object "${object}"
            DEPENDS ${generator}
            COMMENT "Compiling ${graphs} (${dtypes}; depths ${depths}) for ${level}"
            VERBATIM)
        list(APPEND objects "${object}")
    endforeach()
    set(registry "${folder}/${target}_registry.cpp")
    add_custom_command(
        OUTPUT "${registry}"
        COMMAND ${emit} --registry "${registry}" --header "${header_name}"
            --targets ${arg_TARGETS} --dtypes ${arg_DTYPES} --depths ${arg_DEPTHS}
        DEPENDS ${generator}
        COMMENT "Writing the registry of ${graphs}"
        VERBATIM)

    # The library that applications link.
    set_source_files_properties(${objects} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
    add_library(${target} STATIC "${registry}" ${objects})
    target_include_directories(${target} PUBLIC "${header_folder}")
    target_link_libraries(${target} PUBLIC attune::runtime)
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
endfunction()
