# Packages of Debian, made by `./dev package`: hmann, hmann-eval, libhmann-dev, python3-hmann. The baselines of hmann-eval are not in them:
# they are compiled for the CPU that they are measured on.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME hmann)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "The hmann authors <hmann@localhost>")
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_COMPONENTS_ALL program library)
set(scripts ${CMAKE_BINARY_DIR}/packages/scripts)
set(packaged hmann_index_collection)

# hmann_copyright(component package): what Debian wants of every package.
function(hmann_copyright component package)
  install(FILES ${scripts}/copyright DESTINATION share/doc/${package} COMPONENT ${component})
endfunction()
file(WRITE ${scripts}/copyright "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: hmann

Files: *
Copyright: The hmann authors
License: Apache-2.0
 The text is in /usr/share/common-licenses/Apache-2.0.
 .
 Compiled in are headers of Debian's packages, with the copyright that these name: libcli11-dev, nlohmann-json3-dev, libtomlplusplus-dev, libxxhash-dev.
 The report page of hmann-eval holds uPlot, with its license.
")

set(CPACK_COMPONENT_PROGRAM_DESCRIPTION "Vector search among more vectors than fast memory holds
 Builds, tunes, searches and serves indexes whose graph lies in slow memory
 (CXL, a far NUMA node, NVMe), and their upper layers in DRAM (HM-ANN).")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME hmann)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION database)
file(WRITE ${scripts}/conffiles "/etc/hmann/serve.toml\n")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_CONTROL_EXTRA ${scripts}/conffiles)
hmann_copyright(program hmann)
hmann_copyright(library libhmann-dev)

if(TARGET hmann-eval)
  list(APPEND CPACK_COMPONENTS_ALL eval)
  set(CPACK_COMPONENT_EVAL_DESCRIPTION "hmann's measurements: hmann eval
 Measures recall against speed, and servers under load. Programs to compare with
 are built from source.")
  set(CPACK_DEBIAN_EVAL_PACKAGE_NAME hmann-eval)
  set(CPACK_DEBIAN_EVAL_PACKAGE_SECTION database)
  set(CPACK_DEBIAN_EVAL_PACKAGE_DEPENDS "hmann (= ${PROJECT_VERSION})")
  hmann_copyright(eval hmann-eval)
  list(APPEND packaged hmann hmann-eval hmann_adapter server_adapter hmann_client)
endif()

set(CPACK_COMPONENT_LIBRARY_DESCRIPTION "hmann as a C++ library
 Headers, static libraries, the wire (.proto), find_package and pkg-config.")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libhmann-dev)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_DEPENDS "libabsl-dev, nlohmann-json3-dev, libxxhash-dev, libnuma-dev, liburing-dev, libhdf5-dev, libroaring-dev, libsqlite3-dev")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_RECOMMENDS "libgrpc++-dev, libprotobuf-dev, protobuf-compiler-grpc")

if(TARGET hmann_python)
  list(APPEND CPACK_COMPONENTS_ALL python)
  set(CPACK_COMPONENT_PYTHON_DESCRIPTION "hmann from Python
 Builds and searches indexes of numpy arrays, and asks servers.")
  set(CPACK_DEBIAN_PYTHON_PACKAGE_NAME python3-hmann)
  set(CPACK_DEBIAN_PYTHON_PACKAGE_SECTION python)
  # What Python compiles beside the sources goes with them.
  file(WRITE ${scripts}/postinst "#!/bin/sh\nset -e\nif [ \"$1\" = configure ]; then py3compile -p python3-hmann; fi\n")
  file(WRITE ${scripts}/prerm "#!/bin/sh\nset -e\npy3clean -p python3-hmann\n")
  set(CPACK_DEBIAN_PYTHON_PACKAGE_CONTROL_EXTRA ${scripts}/postinst ${scripts}/prerm)
  set(CPACK_DEBIAN_PYTHON_PACKAGE_CONTROL_STRICT_PERMISSION ON)
  set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS "python3 (>= 3.11), python3 (<< 3.12), python3-numpy, python3-grpcio, python3-protobuf")
  hmann_copyright(python python3-hmann)
  list(APPEND packaged hmann_python_package)
endif()
add_custom_target(packaged DEPENDS ${packaged})  # all that is in packages, and no test
include(CPack)
