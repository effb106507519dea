# cmake -DBUILD=build/release -DSOURCE=. -P install_test.cmake: installs the library, checks what its headers include, builds tests/consumer
# against it with find_package, and runs it. It compiles the same source again with the flags that pkg-config gives. Then come the programs,
# if they are built: the installed hmann finds its hmann-eval.
set(folder ${BUILD}/install_test)
set(run COMMAND_ERROR_IS_FATAL ANY)
file(REMOVE_RECURSE ${folder})
execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --component library --prefix ${folder}/prefix OUTPUT_QUIET ${run})

# Public headers include only public ones.
file(GLOB_RECURSE installed ${folder}/prefix/include/hmann/*)
foreach(header IN LISTS installed)
  file(STRINGS ${header} lines REGEX "^#include \"")
  foreach(line IN LISTS lines)
    if(line MATCHES "\"(hmann/[^\"]+)\"" AND NOT EXISTS ${folder}/prefix/include/${CMAKE_MATCH_1} OR line MATCHES "\"(index|datasets|proto|client)/")
      message(FATAL_ERROR "${header}: ${line}: not a public header")
    endif()
  endforeach()
endforeach()

execute_process(COMMAND ${CMAKE_COMMAND} -S ${SOURCE}/tests/consumer -B ${folder}/consumer -G Ninja -DCMAKE_PREFIX_PATH=${folder}/prefix
  OUTPUT_QUIET ${run})
execute_process(COMMAND ${CMAKE_COMMAND} --build ${folder}/consumer ${run})
execute_process(COMMAND ${folder}/consumer/consumer ${SOURCE}/datasets/sample/base.u8bin ${folder}/a.hmann OUTPUT_VARIABLE out ${run})
if(NOT out MATCHES "^nearest [0-9]+ at [0-9.]+\n$")
  message(FATAL_ERROR "the consumer printed: ${out}")
endif()

foreach(example filter tier)
  execute_process(COMMAND ${folder}/consumer/${example} ${folder}/a.hmann OUTPUT_VARIABLE told ${run})
  if(NOT told MATCHES "^([0-9]+ [0-9]+\n)+$|^[0-9]+ bytes on the shelf\n$")
    message(FATAL_ERROR "the example ${example} printed: ${told}")
  endif()
endforeach()

file(GLOB_RECURSE pc ${folder}/prefix/*/hmann.pc)
get_filename_component(pc_folder "${pc}" DIRECTORY)
set(ENV{PKG_CONFIG_PATH} ${pc_folder})
execute_process(COMMAND pkg-config --define-variable=prefix=${folder}/prefix --cflags --libs --static hmann OUTPUT_VARIABLE flags
  OUTPUT_STRIP_TRAILING_WHITESPACE ${run})
separate_arguments(flags)
execute_process(COMMAND c++ -std=c++20 ${SOURCE}/tests/consumer/main.cc ${flags} -o ${folder}/by_pkg_config ${run})
execute_process(COMMAND ${folder}/by_pkg_config ${SOURCE}/datasets/sample/base.u8bin ${folder}/b.hmann OUTPUT_VARIABLE again ${run})
if(NOT again STREQUAL out)
  message(FATAL_ERROR "found by pkg-config, it printed: ${again}instead of: ${out}")
endif()

if(EXISTS ${BUILD}/bin/hmann)
  execute_process(COMMAND ${folder}/consumer/client 127.0.0.1:1 sample OUTPUT_VARIABLE out ${run})
  if(NOT out STREQUAL "UNAVAILABLE\n")
    message(FATAL_ERROR "the client of an installed hmann, without a server, printed: ${out}")
  endif()
  execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${folder}/whole OUTPUT_QUIET ${run})
  execute_process(COMMAND ${folder}/whole/bin/hmann eval sweep --help OUTPUT_QUIET ${run})
  if(NOT EXISTS ${folder}/whole/share/man/man1/hmann-eval-sweep.1)
    message(FATAL_ERROR "no manual page of hmann eval sweep in ${folder}/whole")
  endif()
endif()
