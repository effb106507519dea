# cmake -DSOURCE=eval/report -DFOLDER=<in the build tree> -DWHAT="The report page needs uPlot" -P npm_ci.cmake: fills FOLDER/node_modules as package-lock.json says.
file(MAKE_DIRECTORY ${FOLDER})
foreach(name package.json package-lock.json .npmrc)
  configure_file(${SOURCE}/${name} ${FOLDER}/${name} COPYONLY)
endforeach()
execute_process(COMMAND npm ci --no-audit --no-fund --loglevel=error WORKING_DIRECTORY ${FOLDER} RESULT_VARIABLE result OUTPUT_VARIABLE output
  ERROR_VARIABLE output)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "${WHAT} from the npm registry, and `npm ci` in ${FOLDER} failed (${result}):\n${output}\n"
    "Is there a network? `npm config get registry` says where npm looks; HTTPS_PROXY sets a proxy.")
endif()
