# The headers of libpq, PostgreSQL's client, as the target `libpq`. The library itself is loaded when a store of
# PostgreSQL is opened: with the twenty libraries that it needs, linking it would make `weir take` take four times as
# long. weir is built without such stores where the headers are not there, or with -DWEIR_POSTGRES=OFF.
option(WEIR_POSTGRES "stores in PostgreSQL (libpq)" ON)
find_package(PkgConfig REQUIRED)
if(WEIR_POSTGRES)
    pkg_check_modules(LIBPQ libpq)
endif()
add_library(libpq INTERFACE)
if(WEIR_POSTGRES AND LIBPQ_FOUND)
    set(WEIR_HAS_POSTGRES ON)
    target_include_directories(libpq SYSTEM INTERFACE ${LIBPQ_INCLUDE_DIRS})
    target_link_libraries(libpq INTERFACE ${CMAKE_DL_LIBS})
else()
    set(WEIR_HAS_POSTGRES OFF)
    message(STATUS "without libpq: weir will know no stores in PostgreSQL")
endif()
