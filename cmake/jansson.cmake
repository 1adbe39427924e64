# jansson, as the target `jansson`: from its archive where there is one, because every library that
# has to be loaded costs `weir take` a tenth of its time.
find_package(PkgConfig REQUIRED)
pkg_check_modules(JANSSON REQUIRED jansson)
find_library(JANSSON_ARCHIVE libjansson.a HINTS ${JANSSON_LIBRARY_DIRS})
add_library(jansson INTERFACE)
target_include_directories(jansson SYSTEM INTERFACE ${JANSSON_INCLUDE_DIRS})
if(JANSSON_ARCHIVE)
    target_link_libraries(jansson INTERFACE ${JANSSON_ARCHIVE})
else()
    target_link_libraries(jansson INTERFACE ${JANSSON_LINK_LIBRARIES})
endif()
