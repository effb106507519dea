# How a room, its tests and its benchmarks become targets.
#
# Every room publishes an include root of its own (build/rooms/<target>/<room> -> source), reached only through KNOWS:
# a header of a room that is not known cannot be included, so a wrong arrow does not build.

find_package(GTest REQUIRED)
find_package(benchmark QUIET)

function(hmann_target_name room out)
  string(REPLACE "/" "_" name "${room}")
  set(${out} "hmann_${name}" PARENT_SCOPE)
endfunction()

# hmann_room(index/graph SOURCES beam.cc ... KNOWS index/base ... LINKS xxhash ...)
# SOURCES are relative to the room; KNOWS are rooms; LINKS are outside libraries. The target is hmann_index_graph.
function(hmann_room room)
  cmake_parse_arguments(R "" "" "SOURCES;KNOWS;LINKS" ${ARGN})
  hmann_target_name(${room} target)
  set(root ${CMAKE_BINARY_DIR}/rooms/${target})
  get_filename_component(parent ${root}/${room} DIRECTORY)
  file(MAKE_DIRECTORY ${parent})
  file(CREATE_LINK ${CMAKE_SOURCE_DIR}/${room} ${root}/${room} SYMBOLIC)
  add_library(${target} STATIC ${R_SOURCES})
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${root}>)
  foreach(known IN LISTS R_KNOWS)
    hmann_target_name(${known} dependency)
    target_link_libraries(${target} PUBLIC ${dependency})
  endforeach()
  target_link_libraries(${target} PUBLIC ${R_LINKS})
endfunction()

# hmann_test(beam_test KNOWS index/graph ... LINKS ... LABELS fast [TIMEOUT 120] [ARGS ...])
# Source: <name>.cc in the current room; one executable; ctest runs it with the working directory at the source root.
function(hmann_test name)
  cmake_parse_arguments(T "" "TIMEOUT" "SOURCES;KNOWS;LINKS;LABELS;ENVIRONMENT" ${ARGN})
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 120)
  endif()
  if(NOT T_LABELS)
    set(T_LABELS fast)
  endif()
  add_executable(${name} ${name}.cc ${T_SOURCES})
  foreach(known IN LISTS T_KNOWS)
    hmann_target_name(${known} dependency)
    target_link_libraries(${name} PRIVATE ${dependency})
  endforeach()
  target_link_libraries(${name} PRIVATE ${T_LINKS} GTest::gmock GTest::gtest GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES LABELS "${T_LABELS}" TIMEOUT ${T_TIMEOUT}
    ENVIRONMENT "HMANN_BINARY_DIR=${CMAKE_BINARY_DIR};${T_ENVIRONMENT}")
endfunction()

# hmann_bench(kernels_bench KNOWS index/distance): a Google Benchmark program, built with the rest, run by hand or ./dev bench.
function(hmann_bench name)
  cmake_parse_arguments(B "" "" "KNOWS;LINKS" ${ARGN})
  if(NOT benchmark_FOUND)
    return()
  endif()
  add_executable(${name} ${name}.cc)
  foreach(known IN LISTS B_KNOWS)
    hmann_target_name(${known} dependency)
    target_link_libraries(${name} PRIVATE ${dependency})
  endforeach()
  target_link_libraries(${name} PRIVATE ${B_LINKS} benchmark::benchmark benchmark::benchmark_main)
endfunction()
