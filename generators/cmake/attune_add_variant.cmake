# attune_add_variant(<target>
#     HEADER <variant header>              the file that defines the graphs; its folder becomes an include folder of <target>
#     GRAPHS <my::alibi>...                the graphs, as C++ names them
#     [DTYPES f32...]                      element types; default f32
#     [DEPTHS 64 128 64x32...]             depth of q and k, or depth x depth of v; default 64 128
#     [TARGETS x86-64-v3 x86-64-v4...]     ISA levels, and opencl, cuda, cuda-sm90a (beside cuda) or vulkan; default ATTUNE_TARGETS. Beside x86-64-v4, x86-64-v4-bf16 and x86-64-v4-amx are built if DTYPES has bf16
#                                          or HEADER a `quantized<`, for products of integers
#     [SHAPES prefill decode]              kernels for any number of queries, or for 1 to 16 (where the graph allows it, not on Vulkan); decode:<my::alibi> for one graph alone; default both
#     [OF <target>]                        instead of HEADER and GRAPHS: those of an earlier attune_add_variant, whose generator compiles these too
#     [SCHEDULES <folder>]                 measured schedules, a file a CPU or GPU; default those that come with attune
#     [TUNED_FOR <cpu>]                    whose: the name of a file there, native (the machine that builds), model (what the cost model says) or generic (none); default ATTUNE_TUNED_FOR.
#                                          A GPU's file has to be named, after a comma where there is a CPU, too: native,nvidia-h200. Several CPUs, or all of the folder: kernels of
#                                          each beside the default's, of which the runtime chooses by the CPU's model
#     [CUBINS all|none|sm_80...]           cards for which CUDA kernels are compiled when they are built, beside PTX for others; all: sm_80, 86, 89, 90a, 100 and 120, as far as ptxas knows them.
#                                          Default ATTUNE_CUBINS, which is all; without a ptxas (ATTUNE_PTXAS) that means none
#     [F32_PRODUCTS f32|tf32|3xtf32]       how CUDA multiplies f32 in prefill: as f32 (default), or by tensor cores, numbers rounded to TF32, or by three products of TF32 for one of f32
#     [FINITE]                             a promise: no element that calls read below kv_lengths is NaN or infinite, masked or not, and no score is NaN; kernels need not look for them
#     [SHARED])                            a shared library, too
#
# Makes
#   <target>_generator   a program in ${CMAKE_BINARY_DIR}/bin that holds the graphs and compiles them: `emit`, `explain`, `--help`
#   <target>             a static library: an object of kernels for each graph and ISA level, the registry by which attune::run finds them, and
#                        <target>.h by which C does (attune/c.h)
#   <target>_shared      with SHARED, the same as lib<target>.so
#   <target>_tune        to be built by hand: searches schedules for this machine and writes them into the folder SCHEDULES (generators/docs/tuning.md); if there is none,
#                        into the folder schedules beside the project's first CMakeLists, for those that come with attune are not a project's to change
#
# An application links <target> and needs neither Halide nor attune's generators. Each graph has an object an ISA level. It is compiled
# anew when what its kernels are made of has changed, and for nothing else: the graph (by its fingerprint), types, depths, schedules, the
# level, Halide, or the part of attune that says what a kernel is (ATTUNE_KERNEL_ROOMS). The environment's ATTUNE_KERNEL_CACHE names a
# folder, by its absolute path, where compiled kernels are kept by the same, and taken from by other builds.
#
# The shared library holds the runtime and depends on the C and C++ libraries only. It exports the functions of attune/c.h, its variants
# and their tables, calls its own, and is never unloaded. For attune::run an application links attune::runtime beside it.
#
# Cross compiling: ATTUNE_HOST_GENERATORS is the bin/ folder of the same project built for the machine at hand; its generators are then
# run, and none are built. Nor is Halide's library needed.
include_guard(GLOBAL)
include("${CMAKE_CURRENT_LIST_DIR}/attune_find_ptxas.cmake")

# The libraries attune::generators_<room> that decide what a kernel is. A property: a project that has attune in a subdirectory does not see its variables.
set_property(GLOBAL PROPERTY ATTUNE_KERNEL_ROOMS analysis kernel plans expr block_mask ptx passes stages cpu gpu lower codegen)

set(ATTUNE_HOST_GENERATORS "" CACHE PATH "Cross compiling: the folder of the generator programs that run on this machine")

set(ATTUNE_TUNED_FOR native CACHE STRING "The CPU whose measured schedules kernels have, unless attune_add_variant is given TUNED_FOR: a name, native, model or generic")

set(ATTUNE_CUBINS all CACHE STRING "Cards for which CUDA kernels are compiled where there is a ptxas, unless attune_add_variant is given CUBINS: all, none, or some such as sm_80;sm_90a")

function(attune_add_variant target)
    cmake_parse_arguments(PARSE_ARGV 1 arg "SHARED;FINITE" "HEADER;OF;SCHEDULES;TUNED_FOR;F32_PRODUCTS" "GRAPHS;DTYPES;DEPTHS;TARGETS;SHAPES;CUBINS")
    if(arg_UNPARSED_ARGUMENTS)
        message(FATAL_ERROR "attune_add_variant(${target}): expected HEADER, GRAPHS, OF, DTYPES, DEPTHS, TARGETS, SHAPES, SCHEDULES, TUNED_FOR, CUBINS, F32_PRODUCTS, FINITE or SHARED, got `${arg_UNPARSED_ARGUMENTS}`")
    endif()
    if(arg_OF)
        if(NOT TARGET ${arg_OF})
            message(FATAL_ERROR "attune_add_variant(${target}): expected OF to name a library made by attune_add_variant, got `${arg_OF}`")
        endif()
        get_target_property(arg_HEADER ${arg_OF} ATTUNE_HEADER)
        get_target_property(arg_GRAPHS ${arg_OF} ATTUNE_GRAPHS)
    endif()
    if(NOT arg_HEADER OR NOT arg_GRAPHS)
        message(FATAL_ERROR "attune_add_variant(${target}): expected HEADER <variant header> and GRAPHS <my::graph>..., got one of them at most")
    endif()
    cmake_path(ABSOLUTE_PATH arg_HEADER BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}" NORMALIZE OUTPUT_VARIABLE header)
    if(NOT EXISTS "${header}")
        message(FATAL_ERROR "attune_add_variant(${target}): expected HEADER to name a file, got `${arg_HEADER}`; looked for ${header}")
    endif()
    if(CMAKE_CROSSCOMPILING AND NOT ATTUNE_HOST_GENERATORS)
        message(FATAL_ERROR "attune_add_variant(${target}): expected ATTUNE_HOST_GENERATORS in a cross build, got none; build the project for \
this machine first and pass the bin/ folder of that build, which holds ${target}_generator")
    endif()
    if("cuda-sm90a" IN_LIST arg_TARGETS AND NOT "cuda" IN_LIST arg_TARGETS)
        message(FATAL_ERROR "attune_add_variant(${target}): expected cuda beside cuda-sm90a, which has kernels for some depths and element types alone, got `${arg_TARGETS}`; \
try TARGETS cuda cuda-sm90a")
    endif()
    if(CMAKE_CROSSCOMPILING AND "${arg_TARGETS}" MATCHES "(^|;)(cuda|cuda-sm90a|opencl|vulkan)(;|$)")
        message(FATAL_ERROR "attune_add_variant(${target}): expected ISA levels as TARGETS of a cross build, got `${arg_TARGETS}`; kernels for GPUs are launched by code \
for the machine that compiles them")
    endif()
    list(REMOVE_DUPLICATES arg_GRAPHS)
    if(NOT DEFINED arg_DTYPES)
        set(arg_DTYPES f32)
    endif()
    if(NOT DEFINED arg_DEPTHS)
        set(arg_DEPTHS 64 128)
    endif()
    set(of_their_own ${arg_TARGETS})
    if(NOT DEFINED arg_TARGETS)
        set(arg_TARGETS ${ATTUNE_TARGETS})
    endif()
    # Beside x86-64-v4 these are for bf16 and for products of integers (kernel_list.cpp): without any, no generator runs for them.
    file(READ "${header}" formulas)
    if(x86-64-v4 IN_LIST arg_TARGETS AND NOT "${arg_DTYPES}" MATCHES "bf16" AND NOT formulas MATCHES "quantized<")
        set(of_bf16 x86-64-v4-bf16 x86-64-v4-amx)
        list(REMOVE_ITEM arg_TARGETS ${of_bf16})
        # Who passes ATTUNE_TARGETS on, perhaps with more, did not choose those levels.
        set(left_out ${ATTUNE_TARGETS})
        list(REMOVE_ITEM left_out x86-64-v4 ${of_their_own})
        foreach(level IN LISTS of_bf16)
            if(level IN_LIST of_their_own AND (left_out OR NOT level IN_LIST ATTUNE_TARGETS))
                message(NOTICE "attune_add_variant(${target}): expected bf16 among DTYPES for ${level} of TARGETS, got `${arg_DTYPES}`, of which x86-64-v4 has the kernels; \
try TARGETS without it")
            endif()
        endforeach()
    endif()
    if(NOT DEFINED arg_SHAPES)
        set(arg_SHAPES prefill decode)
    endif()
    foreach(shapes IN LISTS arg_SHAPES)
        if(shapes MATCHES "^[a-z]+:(.+)$")
            set(graph "${CMAKE_MATCH_1}")
            if(NOT graph IN_LIST arg_GRAPHS)
                message(FATAL_ERROR "attune_add_variant(${target}): expected SHAPES for one of GRAPHS, got `${shapes}`; try one of `${arg_GRAPHS}`")
            endif()
        endif()
    endforeach()

    if(NOT DEFINED arg_TUNED_FOR)
        set(arg_TUNED_FOR ${ATTUNE_TUNED_FOR})
    endif()
    set(tuned_into "${arg_SCHEDULES}")
    if(NOT DEFINED arg_SCHEDULES)
        get_property(arg_SCHEDULES GLOBAL PROPERTY ATTUNE_SCHEDULES)
        set(tuned_into "${CMAKE_SOURCE_DIR}/schedules")
        if(CMAKE_SOURCE_DIR STREQUAL attune_SOURCE_DIR)  # attune's own build, whose schedules these are
            set(tuned_into "${arg_SCHEDULES}")
        endif()
    endif()
    cmake_path(ABSOLUTE_PATH tuned_into BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}" NORMALIZE)
    cmake_path(ABSOLUTE_PATH arg_SCHEDULES BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}" NORMALIZE OUTPUT_VARIABLE SCHEDULES)
    if(NOT IS_DIRECTORY "${SCHEDULES}")
        message(NOTICE "attune_add_variant(${target}): expected SCHEDULES to name a folder, got `${SCHEDULES}`, which is none; ${target}_tune makes it, and until then kernels have no measured schedules")
    endif()
    set(TUNED_FOR "${arg_TUNED_FOR}")
    set(FINITE false)
    set(finite "")
    if(arg_FINITE)
        set(FINITE true)
        set(finite --finite)
    endif()
    set(F32_PRODUCTS f32)
    set(by_products "")
    if(DEFINED arg_F32_PRODUCTS)
        set(F32_PRODUCTS "${arg_F32_PRODUCTS}")
        if(NOT F32_PRODUCTS MATCHES "^(f32|tf32|3xtf32)$")
            message(FATAL_ERROR "attune_add_variant(${target}): expected F32_PRODUCTS f32, tf32 or 3xtf32, got `${F32_PRODUCTS}`")
        endif()
        if(NOT "cuda" IN_LIST arg_TARGETS OR NOT "f32" IN_LIST arg_DTYPES)
            message(FATAL_ERROR "attune_add_variant(${target}): expected cuda among TARGETS and f32 among DTYPES with F32_PRODUCTS, got `${arg_TARGETS}` and `${arg_DTYPES}`")
        endif()
        set(by_products --f32-products ${F32_PRODUCTS})
    endif()
    file(GLOB schedule_files CONFIGURE_DEPENDS "${SCHEDULES}/*.json")

    cmake_path(GET header PARENT_PATH header_folder)
    cmake_path(GET header FILENAME header_name)
    set(folder "${CMAKE_CURRENT_BINARY_DIR}/${target}_kernels")

    # The generator program: made here, or found where it was made for this machine.
    set(generator "${target}_generator")
    if(arg_OF)
        set(generator "${arg_OF}_generator")
    endif()
    if(arg_OF AND NOT ATTUNE_HOST_GENERATORS)
        set(program ${generator})
        set(generator_file "$<TARGET_FILE:${generator}>")
    elseif(ATTUNE_HOST_GENERATORS)
        set(program "${ATTUNE_HOST_GENERATORS}/${generator}")
        if(NOT EXISTS "${program}")
            message(FATAL_ERROR "attune_add_variant(${target}): expected ${generator} in ATTUNE_HOST_GENERATORS, got none; looked for ${program}")
        endif()
        set(generator_file "${program}")
    else()
        set(rows "")
        foreach(graph IN LISTS arg_GRAPHS)
            string(APPEND rows "        {\"${graph}\", attune::dsl::ir_of<${graph}>},\n")
        endforeach()
        foreach(list IN ITEMS TARGETS DTYPES DEPTHS SHAPES)
            list(JOIN arg_${list} "\", \"" words)
            set(${list} "{\"${words}\"}")
        endforeach()
        configure_file("${CMAKE_CURRENT_FUNCTION_LIST_DIR}/generator_main.cpp.in" "${folder}/main.cpp" @ONLY)
        add_executable(${generator} "${folder}/main.cpp")
        target_include_directories(${generator} PRIVATE "${header_folder}")
        target_link_libraries(${generator} PRIVATE attune::generators)
        set_target_properties(${generator} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
        if(ATTUNE_SANITIZE)
            target_compile_options(${generator} PRIVATE -fno-sanitize=all)
        endif()
        if(TARGET attune_variant_headers)  # in attune's own build; they are read as for a library
            target_compile_options(${generator} PRIVATE -fPIC)
            target_precompile_headers(${generator} REUSE_FROM attune_variant_headers)
        endif()
        set(program ${generator})
        set(generator_file "$<TARGET_FILE:${generator}>")
    endif()
    # What says what a kernel is: those libraries, or all of a program that was made elsewhere.
    set(code --code "${generator_file}")
    if(NOT ATTUNE_HOST_GENERATORS)
        get_property(rooms GLOBAL PROPERTY ATTUNE_KERNEL_ROOMS)
        list(TRANSFORM rooms REPLACE "(.+)" "$<TARGET_FILE:attune::generators_\\1>" OUTPUT_VARIABLE code)
        list(PREPEND code --code)
    endif()

    set(of_cuda "")
    if("cuda" IN_LIST arg_TARGETS)
        attune_cubins(of_cuda ${target} "${arg_CUBINS}")
    elseif(arg_CUBINS AND NOT arg_CUBINS STREQUAL "none")
        message(FATAL_ERROR "attune_add_variant(${target}): expected cuda among TARGETS with CUBINS, got `${arg_TARGETS}`")
    endif()

    # What it emits: for each graph an object an ISA level, when the file beside it changes that says what it depends on; and the registry.
    set(emit "${program}" emit)
    set(instrumented "")
    if(ATTUNE_SANITIZE MATCHES "address")
        set(instrumented --sanitize address)
        # The program itself is not instrumented, but linked as if it were; the compiler inside keeps memory until it ends.
        set(emit "${CMAKE_COMMAND}" -E env ASAN_OPTIONS=detect_leaks=0 "${generator_file}" emit)
    endif()
    set(objects "")
    list(JOIN arg_GRAPHS " " graphs)
    list(JOIN arg_DTYPES " " dtypes)
    list(JOIN arg_DEPTHS " " depths)
    set(tuned --schedules "${SCHEDULES}" --tuned-for "${TUNED_FOR}")
    foreach(graph IN LISTS arg_GRAPHS)
        string(REGEX REPLACE "[^A-Za-z0-9]+" "_" name "${graph}")
        foreach(level IN LISTS arg_TARGETS)
            set(file "${folder}/${name}_${level}")
            set(object "${file}${CMAKE_CXX_OUTPUT_EXTENSION}")
            set(wanted --target ${level} --targets ${arg_TARGETS} --graph ${graph} --dtypes ${arg_DTYPES} --depths ${arg_DEPTHS} --shapes ${arg_SHAPES} ${tuned} ${finite} ${by_products} ${instrumented} ${code})
            set(made_by "${program}")
            if(level MATCHES "^cuda" AND of_cuda)
                list(APPEND wanted ${of_cuda})
                list(APPEND made_by "${ATTUNE_PTXAS}")
            endif()
            add_custom_command(
                OUTPUT "${file}.key"
                COMMAND ${emit} ${wanted} --key "${file}.key"
                DEPENDS ${made_by} ${schedule_files}
                COMMENT "Noting what ${graph} is made of for ${level}"
                VERBATIM)
            add_custom_command(
                OUTPUT "${object}"
                COMMAND ${emit} ${wanted} --object "${object}"
                DEPENDS "${file}.key"
                COMMENT "Compiling ${graph} (${dtypes}; depths ${depths}) for ${level}"
                VERBATIM)
            list(APPEND objects "${object}")
        endforeach()
    endforeach()
    set(registry "${folder}/${target}_registry.cpp")
    set(c_header "${folder}/include/${target}.h")
    file(MAKE_DIRECTORY "${folder}/include")
    add_custom_command(
        OUTPUT "${registry}" "${c_header}"
        COMMAND ${emit} --registry "${registry}" --header "${header_name}" --c-header "${c_header}"
            --targets ${arg_TARGETS} --dtypes ${arg_DTYPES} --depths ${arg_DEPTHS} --shapes ${arg_SHAPES} ${tuned} ${finite} ${by_products}
        DEPENDS "${program}" ${schedule_files}
        COMMENT "Writing the registry of ${graphs}"
        VERBATIM)

    if(NOT ATTUNE_HOST_GENERATORS)
        set(then "")
        if(NOT tuned_into STREQUAL SCHEDULES)
            set(then COMMAND "${CMAKE_COMMAND}" -E echo "Kernels are built with these schedules once attune_add_variant(${target} ...) says SCHEDULES ${tuned_into}")
        endif()
        add_custom_target(${target}_tune
            COMMAND ${program} tune --schedules "${tuned_into}" --log "${folder}/tune.jsonl" --resume --report "${folder}/tune.html"
            ${then}
            COMMENT "Searching schedules of ${graphs} for this machine, into ${tuned_into}"
            USES_TERMINAL VERBATIM)
    endif()

    # The library that applications link.
    set_source_files_properties(${objects} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
    add_library(${target} STATIC "${registry}" "${c_header}" ${objects})
    target_link_libraries(${target} PUBLIC attune::runtime)
    if(TARGET attune_variant_headers)
        target_precompile_headers(${target} REUSE_FROM attune_variant_headers)
    endif()
    # An archive is searched for what is missing: without this a second library of the same graph would be left out in silence.
    string(MAKE_C_IDENTIFIER "attune_library_${target}" name)
    set_source_files_properties("${registry}" PROPERTIES COMPILE_DEFINITIONS "ATTUNE_LIBRARY=${name}")
    target_link_options(${target} INTERFACE "LINKER:--undefined=${name}")
    foreach(level IN LISTS arg_TARGETS)
        if(level MATCHES "^(cuda|cuda-sm90a|opencl|vulkan)$")
            target_link_libraries(${target} PUBLIC attune::gpu)
            set_target_properties(${target} PROPERTIES ATTUNE_DEVICE_LIBRARY "-lattune_gpu ")
        endif()
    endforeach()
    target_include_directories(${target} PUBLIC "$<BUILD_INTERFACE:${header_folder}>" "$<BUILD_INTERFACE:${folder}/include>")
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON ATTUNE_HEADER "${header}" ATTUNE_GRAPHS "${arg_GRAPHS}" ATTUNE_DEPTHS "${arg_DEPTHS}" ATTUNE_C_HEADER "${c_header}")
    if(arg_SHARED)
        attune_add_shared(${target}_shared ${target} "${folder}" "" ${arg_GRAPHS})
        set_target_properties(${target}_shared PROPERTIES OUTPUT_NAME ${target})
    endif()
endfunction()

# The shared library beside the static one, of the same objects: a part of attune_add_variant, attune_add_torch_library, attune_add_jax_library and
# attune_add_tvm_ffi_library. `more` is what else it shows.
function(attune_add_shared shared target folder more)
    list(TRANSFORM ARGN REPLACE "[^A-Za-z0-9]+" "_" OUTPUT_VARIABLE variants)
    list(JOIN variants "\", \"" names)
    list(JOIN variants "_variant; " variants)
    string(APPEND more "attune_next_definition;")
    configure_file("${CMAKE_CURRENT_FUNCTION_LIST_DIR}/exports.map.in" "${folder}/exports.map" @ONLY)
    file(CONFIGURE OUTPUT "${folder}/variants.cpp" CONTENT "// Written by attune_add_variant(@target@ ...): attune/c.h says what it is.
extern \"C\" const char* const* attune_variants() noexcept;
extern \"C\" const char* const* attune_variants() noexcept {
    static constexpr const char* names[] = {\"@names@\", nullptr};
    return names;
}

// Where the next library of the program defines a function of this one; dlsym looks behind who calls it, so this is no jump (runtime/src/call/bind/definitions.cpp).
#include <dlfcn.h>
extern \"C\" void* attune_next_definition(const char* function) noexcept;
extern \"C\" void* attune_next_definition(const char* function) noexcept {
    void* next = dlsym(RTLD_NEXT, function);
    __asm__ volatile(\"\" : \"+r\"(next));
    return next;
}
" @ONLY)  # not written again where it is the same
    add_library(${shared} SHARED "${folder}/variants.cpp")
    # attune_run brings in the rest of attune/c.h. Threads of the pool run code that is inside: it must stay loaded.
    target_link_libraries(${shared} PRIVATE "$<LINK_LIBRARY:WHOLE_ARCHIVE,${target}>" attune::runtime)
    target_link_options(${shared} PRIVATE "LINKER:--version-script=${folder}/exports.map" LINKER:-Bsymbolic-functions LINKER:--undefined=attune_run LINKER:-z,nodelete LINKER:--gc-sections)
    # A linker that takes shared libraries as needed would leave out a second library of the same graph in silence. So it is linked, and the first call refuses both.
    target_link_options(${shared} INTERFACE "$<BUILD_INTERFACE:LINKER:--push-state,--no-as-needed,$<TARGET_LINKER_FILE:${shared}>,--pop-state>")
    set_target_properties(${shared} PROPERTIES LINK_DEPENDS "${folder}/exports.map")
    target_include_directories(${shared} PUBLIC
        "$<BUILD_INTERFACE:$<TARGET_PROPERTY:${target},INTERFACE_INCLUDE_DIRECTORIES>>"
        "$<BUILD_INTERFACE:$<TARGET_PROPERTY:attune::runtime,INTERFACE_INCLUDE_DIRECTORIES>>")
endfunction()

# attune_install_variant(<target>
#     [HEADERS <file>...]       further headers that the variant header includes
#     [COMPONENT <name>])
#
# Installs a library of kernels as an ordinary one: the library (both, if there are two), <target>.h, the variant header, a CMake package
# (find_package(<target>) gives <target>::<target> and <target>::<target>_shared) and <target>.pc for pkg-config. Who links the shared one from
# C needs nothing else; the static one needs attune's runtime (attune::runtime, attune-runtime.pc). Neither needs Halide, Python or what
# compiled the kernels.
function(attune_install_variant target)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "COMPONENT" "HEADERS")
    if(arg_UNPARSED_ARGUMENTS)
        message(FATAL_ERROR "attune_install_variant(${target}): expected HEADERS or COMPONENT, got `${arg_UNPARSED_ARGUMENTS}`")
    endif()
    get_target_property(header ${target} ATTUNE_HEADER)
    get_target_property(c_header ${target} ATTUNE_C_HEADER)
    if(NOT header)
        message(FATAL_ERROR "attune_install_variant(${target}): expected a library made by attune_add_variant in this project, got another target")
    endif()
    include(GNUInstallDirs)
    set(component "")
    if(arg_COMPONENT)
        set(component COMPONENT ${arg_COMPONENT})
    endif()
    get_property(attune_c_header GLOBAL PROPERTY ATTUNE_C_HEADER)
    get_property(attune_version GLOBAL PROPERTY ATTUNE_VERSION)
    set(runtime_libraries "-lattune_runtime -lstdc++ -lm -pthread -ldl")
    get_target_property(device_library ${target} ATTUNE_DEVICE_LIBRARY)
    if(device_library)
        string(PREPEND runtime_libraries "${device_library}")
    endif()
    string(MAKE_C_IDENTIFIER "attune_library_${target}" name)
    set(libraries "-Wl,--undefined=${name} ${runtime_libraries}")
    set(private_libraries "")
    set(shared "")
    if(TARGET ${target}_shared)
        set(libraries "-Wl,--push-state,--no-as-needed,-l${target},--pop-state")
        set(private_libraries "${runtime_libraries}")
        set(shared ${target}_shared)
        target_link_options(${shared} INTERFACE "$<INSTALL_INTERFACE:LINKER:--push-state,--no-as-needed,$<TARGET_LINKER_FILE:${target}::${shared}>,--pop-state>")
    endif()
    set(folder "${CMAKE_CURRENT_BINARY_DIR}/${target}_kernels")
    set(package_folder "${CMAKE_INSTALL_LIBDIR}/cmake/${target}")
    file(RELATIVE_PATH prefix_from_pc "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
    configure_file("${CMAKE_CURRENT_FUNCTION_LIST_DIR}/kernels.pc.in" "${folder}/${target}.pc" @ONLY)
    configure_file("${CMAKE_CURRENT_FUNCTION_LIST_DIR}/kernelsConfig.cmake.in" "${folder}/${target}Config.cmake" @ONLY)
    foreach(library IN ITEMS ${target} ${shared})
        target_include_directories(${library} PUBLIC "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
        install(TARGETS ${library} EXPORT ${library}
            ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" ${component}
            LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" ${component})
        install(EXPORT ${library} NAMESPACE ${target}:: FILE ${library}_targets.cmake DESTINATION "${package_folder}" ${component})
    endforeach()
    install(FILES "${folder}/${target}Config.cmake" DESTINATION "${package_folder}" ${component})
    install(FILES "${folder}/${target}.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" ${component})
    install(FILES "${header}" "${c_header}" ${arg_HEADERS} DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" ${component})
    install(FILES "${attune_c_header}" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/attune" ${component})
endfunction()
