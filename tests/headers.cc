// Nothing but headers that are parsed once: see hmann_precompile in rooms.cmake.
