# Turns a room, its tests and its benchmarks into targets.
#
# Every room publishes its own include root: links below build/rooms/<target>/<room> to its headers, but not to those of rooms inside it.
# Only KNOWS makes it reachable. A header of an unknown room cannot be included, so a wrong arrow does not build.

find_package(GTest REQUIRED)
find_package(absl REQUIRED)
find_package(benchmark QUIET)
find_package(nlohmann_json REQUIRED)

function(hmann_target_name room out)
  string(REPLACE "/" "_" name "${room}")
  set(${out} "hmann_${name}" PARENT_SCOPE)
endfunction()

# hmann_knows(target PUBLIC index/base ...): adds the headers and libraries of these rooms.
function(hmann_knows target visibility)
  foreach(known IN LISTS ARGN)
    hmann_target_name(${known} dependency)
    target_link_libraries(${target} ${visibility} ${dependency})
  endforeach()
endfunction()

# hmann_precompile(target HEADERS <a> ...) parses headers of other libraries once for the target. (target FROM other) reuses those of
# `other`, which must have the same compiler flags. These headers take most of a file's compile time (absl/status 2 s, gmock 2, CLI 4, gRPC
# 8). ccache looks into a precompiled header only with the sloppiness set below.
function(hmann_precompile target)
  cmake_parse_arguments(P "" "FROM" "HEADERS" ${ARGN})
  if(CMAKE_CROSSCOMPILING OR HMANN_FUZZES OR CMAKE_DISABLE_PRECOMPILE_HEADERS)
    return()
  endif()
  if(P_FROM)
    set_property(TARGET ${target} PROPERTY PRECOMPILE_HEADERS_REUSE_FROM ${P_FROM})
  else()
    target_precompile_headers(${target} PRIVATE ${P_HEADERS})
  endif()
  get_target_property(type ${target} TYPE)
  if(type STREQUAL EXECUTABLE)
    # CMake would compile with -fPIE and could then not use a header precompiled with -fPIC.
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fPIC)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_compile_options(${target} PRIVATE -fpch-preprocess)
  endif()
  if(CCACHE)
    set_target_properties(${target} PROPERTIES CXX_COMPILER_LAUNCHER
      "${CMAKE_COMMAND};-E;env;CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime;${CCACHE}")
  endif()
endfunction()
set(HMANN_PRECOMPILED <absl/status/statusor.h> <absl/strings/str_cat.h> <absl/strings/str_format.h> <algorithm> <atomic> <chrono> <filesystem>
  <fstream> <functional> <map> <memory> <mutex> <optional> <set> <span> <string> <thread> <vector>)


# hmann_cold(target): the target is on no critical path of queries or builds, so a release compiles it for short compile times (for three
# files, -O1 took two thirds of the time of -O3).
function(hmann_cold target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()

add_library(hmann_headers OBJECT ${CMAKE_SOURCE_DIR}/tests/headers.cc)
target_link_libraries(hmann_headers PUBLIC absl::statusor absl::strings absl::str_format)
hmann_precompile(hmann_headers HEADERS ${HMANN_PRECOMPILED})
if(NOT HMANN_ENGINE_ONLY)
  # Programs with options. CLI/Config.hpp and CLI/Formatter.hpp stay out: they make every file generate their code (cmd_completion.cc 8.8 s
  # instead of 5.6).
  find_package(CLI11 REQUIRED)
  add_library(hmann_command_headers OBJECT ${CMAKE_SOURCE_DIR}/tests/headers.cc)
  target_link_libraries(hmann_command_headers PUBLIC absl::statusor absl::strings absl::str_format CLI11::CLI11 nlohmann_json::nlohmann_json)
  hmann_cold(hmann_command_headers)
  hmann_precompile(hmann_command_headers HEADERS ${HMANN_PRECOMPILED} <CLI/App.hpp> <nlohmann/json.hpp>)
endif()

# hmann_room(index/graph [PUBLIC answer.h ...] SOURCES beam.cc ... KNOWS index/base ... LINKS xxhash ...)
# PUBLIC: its installed headers, included as hmann/answer.h. They lie in index/include/hmann (the client's in client/include/hmann). COLD:
# see hmann_cold. SOURCES are relative to the room; KNOWS are rooms; LINKS are external libraries. HEADERS replaces the usual precompiled
# headers, or HEADERS_FROM names the target that has them. The target is hmann_index_graph.
function(hmann_room room)
  cmake_parse_arguments(R "COLD" "HEADERS_FROM" "PUBLIC;SOURCES;KNOWS;LINKS;HEADERS" ${ARGN})
  hmann_target_name(${room} target)
  set(root ${CMAKE_BINARY_DIR}/rooms/${target})
  file(REMOVE_RECURSE ${root})
  file(MAKE_DIRECTORY ${root}/${room})
  set(folder ${CMAKE_SOURCE_DIR}/${room})
  file(GLOB headers RELATIVE ${folder} CONFIGURE_DEPENDS ${folder}/*.h ${folder}/*.def ${folder}/*/*.h)
  foreach(header IN LISTS headers)
    get_filename_component(inner ${header} DIRECTORY)
    if(NOT inner OR NOT EXISTS ${folder}/${inner}/CMakeLists.txt)
      file(MAKE_DIRECTORY ${root}/${room}/${inner})
      file(CREATE_LINK ${folder}/${header} ${root}/${room}/${header} SYMBOLIC)
    endif()
  endforeach()
  string(REGEX MATCH "^[a-z]+" top ${room})
  foreach(header IN LISTS R_PUBLIC)
    file(MAKE_DIRECTORY ${root}/hmann)
    file(CREATE_LINK ${CMAKE_SOURCE_DIR}/${top}/include/hmann/${header} ${root}/hmann/${header} SYMBOLIC)
  endforeach()
  add_library(${target} STATIC ${R_SOURCES})
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${root}>)
  if(R_COLD)
    hmann_cold(${target})
  endif()
  hmann_knows(${target} PUBLIC ${R_KNOWS})
  target_link_libraries(${target} PUBLIC ${R_LINKS})
  if(R_HEADERS)
    hmann_precompile(${target} HEADERS ${R_HEADERS})
  elseif(R_HEADERS_FROM)
    hmann_precompile(${target} FROM ${R_HEADERS_FROM})
  elseif(room MATCHES "^(index|datasets)" AND NOT room MATCHES "^index/(base|distance|codes)$")  # others have their own flags
    hmann_precompile(${target} FROM hmann_headers)
  endif()
  if(room MATCHES "^(index/distance|index/codes|proto)$")  # a file has its own flags; generated ones define the same names
    set_target_properties(${target} PROPERTIES UNITY_BUILD OFF)
  endif()
endfunction()

add_library(hmann_test_headers OBJECT ${CMAKE_SOURCE_DIR}/tests/headers.cc)
target_link_libraries(hmann_test_headers PUBLIC GTest::gmock GTest::gtest absl::statusor absl::strings absl::str_format nlohmann_json::nlohmann_json)
hmann_cold(hmann_test_headers)
hmann_precompile(hmann_test_headers HEADERS <gmock/gmock.h> <gtest/gtest.h> <nlohmann/json.hpp> ${HMANN_PRECOMPILED})

# After this time a test counts as hanging. The longest takes two minutes alone; beside eight busy processes on two cores it took 18.
set(HMANN_TEST_SECONDS 2700)
if(CMAKE_CXX_FLAGS MATCHES "-fsanitize=")  # up to ten times slower
  set(HMANN_TEST_SECONDS 7200)
endif()

# hmann_test(beam_test KNOWS index/graph ... LINKS ... LABELS fast ENVIRONMENT ...)
# PLAIN: no precompiled headers, because its flags differ. Sources: <name>.cc in the current room, and SOURCES. They form one executable.
# ctest runs it with the source root as working directory.
function(hmann_test name)
  cmake_parse_arguments(T "PLAIN" "" "SOURCES;KNOWS;LINKS;LABELS;ENVIRONMENT" ${ARGN})
  if(NOT T_LABELS)
    set(T_LABELS fast)
  endif()
  add_executable(${name} ${name}.cc ${T_SOURCES})
  hmann_cold(${name})
  hmann_knows(${name} PRIVATE ${T_KNOWS})
  if(TARGET hmann_datasets_toolbox)  # creates their vectors
    hmann_knows(${name} PRIVATE datasets/toolbox)
  endif()
  target_link_libraries(${name} PRIVATE ${T_LINKS} GTest::gmock GTest::gtest GTest::gtest_main)
  if(NOT T_PLAIN)
    hmann_precompile(${name} FROM hmann_test_headers)
  endif()
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES LABELS "${T_LABELS}" TIMEOUT ${HMANN_TEST_SECONDS}
    ENVIRONMENT "HMANN_BINARY_DIR=${CMAKE_BINARY_DIR};${T_ENVIRONMENT}")
endfunction()

# hmann_bench(kernels_bench KNOWS index/distance): a Google Benchmark program, built with the rest; run it by hand or with ./dev bench.
function(hmann_bench name)
  cmake_parse_arguments(B "" "" "KNOWS;LINKS" ${ARGN})
  if(NOT benchmark_FOUND)
    return()
  endif()
  add_executable(${name} ${name}.cc)
  hmann_knows(${name} PRIVATE ${B_KNOWS})
  target_link_libraries(${name} PRIVATE ${B_LINKS} benchmark::benchmark benchmark::benchmark_main)
endfunction()

# hmann_fuzzer(reader_fuzz KNOWS index/format ... [LINKS ...]): a libFuzzer program; preset `fuzz` (clang) only, where HMANN_FUZZES is true.
string(FIND "${CMAKE_CXX_FLAGS}" fuzzer-no-link HMANN_FUZZES)
if(HMANN_FUZZES LESS 0)
  set(HMANN_FUZZES OFF)
else()
  set(HMANN_FUZZES ON)
  add_custom_target(fuzzers)
endif()
function(hmann_fuzzer name)
  cmake_parse_arguments(F "" "" "KNOWS;LINKS" ${ARGN})
  if(NOT HMANN_FUZZES)
    return()
  endif()
  add_executable(${name} ${name}.cc)
  hmann_knows(${name} PRIVATE ${F_KNOWS})
  target_link_libraries(${name} PRIVATE ${F_LINKS} -fsanitize=fuzzer)
  add_dependencies(fuzzers ${name})
endfunction()

# hmann_kernel_tests(index/distance distance TEST distance_test NEON a.cc ... [HEADERS x.h ...] [FLAGS ...])
# Checks of kernels beyond their test. Symbols and instructions of the objects are checked (a sanitizer or coverage adds its own). On a CPU
# without AVX, nothing outside the kernel files uses it. The NEON kernels are compared with the scalar ones, cross-compiled and emulated.
# NEON sources need neither gtest nor absl and are linked statically, so they need no sysroot. Tests are named <prefix>_...
function(hmann_kernel_tests room prefix)
  cmake_parse_arguments(K "" "TEST" "NEON;HEADERS;FLAGS" ${ARGN})
  hmann_target_name(${room} target)
  set(x86 FALSE)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    set(x86 TRUE)
  endif()
  if(x86 AND NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize|--coverage")
    add_test(NAME ${prefix}_kernel_objects COMMAND sh ${CMAKE_SOURCE_DIR}/index/distance/check_kernel_objects.sh
      ${CMAKE_NM} ${CMAKE_OBJDUMP} $<TARGET_OBJECTS:${target}> COMMAND_EXPAND_LISTS)
    set_tests_properties(${prefix}_kernel_objects PROPERTIES LABELS "fast;per_isa")
  endif()
  find_program(QEMU_X86_64 NAMES qemu-x86_64 qemu-x86_64-static)
  if(QEMU_X86_64 AND x86 AND NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize|--coverage|-march")
    add_test(NAME ${prefix}_test_without_avx COMMAND ${QEMU_X86_64} -cpu Nehalem $<TARGET_FILE:${K_TEST}>)
    set_tests_properties(${prefix}_test_without_avx PROPERTIES LABELS "per_isa" TIMEOUT ${HMANN_TEST_SECONDS})
  endif()
  find_program(AARCH64_CXX NAMES aarch64-linux-gnu-g++)
  find_program(QEMU_AARCH64 NAMES qemu-aarch64 qemu-aarch64-static)
  if(NOT (AARCH64_CXX AND QEMU_AARCH64 AND x86))
    message(STATUS "NEON kernels of ${room} are not tested: needs aarch64-linux-gnu-g++ and qemu-aarch64")
    return()
  endif()
  list(TRANSFORM K_NEON PREPEND ${CMAKE_SOURCE_DIR}/)
  file(GLOB headers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${room}/*.h ${CMAKE_SOURCE_DIR}/${room}/*/*.h ${CMAKE_SOURCE_DIR}/${room}/*.def)
  set(program ${CMAKE_CURRENT_BINARY_DIR}/${prefix}_conformance_aarch64)
  add_custom_command(OUTPUT ${program}
    COMMAND ${AARCH64_CXX} -std=c++20 -O3 -ffp-contract=off ${K_FLAGS} -Wall -Wextra -static -I${CMAKE_SOURCE_DIR} -I${CMAKE_SOURCE_DIR}/index/include ${K_NEON} -o ${program}
    DEPENDS ${K_NEON} ${headers} ${K_HEADERS}
    COMMENT "Cross-compiling the NEON kernels of ${room}" VERBATIM)
  add_custom_target(${prefix}_conformance_program ALL DEPENDS ${program})
  add_test(NAME ${prefix}_conformance_neon COMMAND ${QEMU_AARCH64} ${program} neon scalar)
  set_tests_properties(${prefix}_conformance_neon PROPERTIES LABELS "per_isa" TIMEOUT ${HMANN_TEST_SECONDS})
endfunction()
