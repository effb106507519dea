// Contains only headers that are parsed once: see hmann_precompile in rooms.cmake.
