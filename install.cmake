# cmake --install: the program with its manual and completion, and the library as find_package(hmann) and pkg-config find it.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/hmann)
set(library_rooms index/collection index/tune index index/attributes index/search index/construct index/construct/jobs index/construct/import index/construct/graph index/format index/tiers index/codes index/graph datasets index/distance index/params index/base)

install(DIRECTORY ${CMAKE_SOURCE_DIR}/index/include/hmann DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT library)

set(libraries "")
foreach(room IN LISTS library_rooms)
  hmann_target_name(${room} target)
  install(TARGETS ${target} EXPORT hmann ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  string(APPEND libraries " -l${target}")
endforeach()
set_target_properties(hmann_index_collection PROPERTIES EXPORT_NAME hmann)
install(EXPORT hmann NAMESPACE hmann:: FILE hmann-targets.cmake DESTINATION ${package} COMPONENT library)

# find_package(hmann COMPONENTS client): hmann::client, which needs gRPC.
if(TARGET hmann_client)
  install(DIRECTORY ${CMAKE_SOURCE_DIR}/client/include/hmann DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT library)
  install(TARGETS hmann_proto hmann_client EXPORT hmann-client ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library
    INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  set_target_properties(hmann_client PROPERTIES EXPORT_NAME client)
  install(EXPORT hmann-client NAMESPACE hmann:: FILE hmann-client-targets.cmake DESTINATION ${package} COMPONENT library)
endif()

file(CONFIGURE OUTPUT hmann-config.cmake @ONLY CONTENT [[
include(CMakeFindDependencyMacro)
macro(check_required_components name)
  foreach(component IN LISTS ${name}_FIND_COMPONENTS)
    if(NOT ${name}_${component}_FOUND AND ${name}_FIND_REQUIRED_${component})
      set(${name}_FOUND FALSE)
    endif()
  endforeach()
endmacro()
find_dependency(absl)
find_dependency(nlohmann_json)
find_dependency(roaring)
find_dependency(SQLite3)
find_dependency(Threads)
find_dependency(OpenMP COMPONENTS CXX)
include(${CMAKE_CURRENT_LIST_DIR}/hmann-targets.cmake)
if(client IN_LIST hmann_FIND_COMPONENTS AND EXISTS ${CMAKE_CURRENT_LIST_DIR}/hmann-client-targets.cmake)
  find_dependency(Protobuf)
  find_dependency(gRPC CONFIG)
  include(${CMAKE_CURRENT_LIST_DIR}/hmann-client-targets.cmake)
  set(hmann_client_FOUND TRUE)
endif()
check_required_components(hmann)
]])
write_basic_package_version_file(${CMAKE_BINARY_DIR}/hmann-config-version.cmake COMPATIBILITY SameMinorVersion)
file(RELATIVE_PATH up /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
file(CONFIGURE OUTPUT hmann.pc @ONLY CONTENT [[
prefix=${pcfiledir}/@up@
Name: hmann
Description: Nearest-neighbor search in two-tier memory (HM-ANN)
Version: @PROJECT_VERSION@
Requires: absl_status absl_statusor
Requires.private: absl_strings absl_str_format absl_time libxxhash numa liburing hdf5 sqlite3
Cflags: -I${prefix}/@CMAKE_INSTALL_INCLUDEDIR@
Libs: -L${prefix}/@CMAKE_INSTALL_LIBDIR@@libraries@
Libs.private: -lroaring -fopenmp -pthread
]])
install(FILES ${CMAKE_BINARY_DIR}/hmann-config.cmake ${CMAKE_BINARY_DIR}/hmann-config-version.cmake DESTINATION ${package} COMPONENT library)
install(FILES ${CMAKE_BINARY_DIR}/hmann.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT library)

if(TARGET hmann)
  install(TARGETS hmann RUNTIME COMPONENT program)
  install(FILES ${CMAKE_SOURCE_DIR}/server/hmann.service DESTINATION lib/systemd/system COMPONENT program)
  # The unit reads /etc: of the prefix /usr, that lies beside it. What an administrator has changed stays.
  install(CODE "
    string(REGEX REPLACE \"/usr/*\\$\" \"\" root \"\${CMAKE_INSTALL_PREFIX}\")
    if(NOT EXISTS \"\$ENV{DESTDIR}\${root}/etc/hmann/serve.toml\")
      file(INSTALL \"${CMAKE_SOURCE_DIR}/server/serve.toml\" DESTINATION \"\${root}/etc/hmann\")
    endif()" COMPONENT program)
  install(FILES README.md ARCHITECTURE.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/hmann COMPONENT program)
  install(FILES CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/hmann RENAME changelog COMPONENT program)
  install(DIRECTORY client/python/examples DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/hmann/client/python COMPONENT program)
  install(DIRECTORY doc DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/hmann COMPONENT program FILES_MATCHING PATTERN "*.md")
  install(FILES ${CMAKE_SOURCE_DIR}/server/alerts.yml ${CMAKE_SOURCE_DIR}/tools/build_shards.sbatch DESTINATION ${CMAKE_INSTALL_DATADIR}/hmann COMPONENT program)
  install(FILES ${CMAKE_SOURCE_DIR}/proto/hmann/v1/search.proto ${CMAKE_SOURCE_DIR}/proto/hmann/v1/admin.proto
    DESTINATION ${CMAKE_INSTALL_DATADIR}/hmann/proto/hmann/v1 COMPONENT library)
  install(CODE "
    set(share \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}\")
    file(MAKE_DIRECTORY \"\${share}/bash-completion/completions\")
    execute_process(COMMAND $<TARGET_FILE:hmann> man --out \"\${share}/man/man1\" COMMAND_ERROR_IS_FATAL ANY)
    execute_process(COMMAND $<TARGET_FILE:hmann> completion bash OUTPUT_FILE \"\${share}/bash-completion/completions/hmann\"
      COMMAND_ERROR_IS_FATAL ANY)" COMPONENT program)
endif()
if(TARGET hmann_python)
  set(python lib/python3/dist-packages)
  install(DIRECTORY ${CMAKE_SOURCE_DIR}/client/python/hmann DESTINATION ${python} COMPONENT python
    FILES_MATCHING PATTERN "*.py" PATTERN "*.pyi" PATTERN py.typed)
  install(FILES ${CMAKE_BINARY_DIR}/python/hmann/v1/search_pb2.py ${CMAKE_BINARY_DIR}/python/hmann/v1/search_pb2_grpc.py
    DESTINATION ${python}/hmann/v1 COMPONENT python)
  install(TARGETS hmann_python LIBRARY DESTINATION ${python}/hmann COMPONENT python)
endif()
