# What every target is compiled with.
set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON) # one set of objects for the static and the shared library
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

add_compile_definitions(_GNU_SOURCE) # epoll, getrandom, CLOCK_BOOTTIME
add_compile_options(
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wcast-qual -Wcast-align
    -Wstrict-prototypes -Wmissing-prototypes -Wwrite-strings -Wpointer-arith -Wundef -Wvla
    -Wformat=2 -Wimplicit-fallthrough -Wnull-dereference -Wdouble-promotion -Wswitch-enum
    -fno-semantic-interposition # what libweir exports is in libweir.map; nobody replaces parts of it
    -ffile-prefix-map=${CMAKE_SOURCE_DIR}/=)
if(WEIR_WERROR)
    add_compile_options(-Werror)
endif()
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
    add_compile_options(-mcx16) # the 16-byte compare-and-swap, inline
endif()
# What stops a mistake in memory from becoming somebody else's code. Where the compiler knows it: an older one, or
# one for another processor, does without. Sanitizers have their own checks in its place.
include(CheckCCompilerFlag)
function(harden flag)
    string(MAKE_C_IDENTIFIER "WEIR_HAS${flag}" known)
    set(CMAKE_REQUIRED_FLAGS -Werror) # of clang, which ignores what it does not know
    check_c_compiler_flag(${flag} ${known})
    if(${known})
        add_compile_options(${flag})
    endif()
endfunction()
if(NOT WEIR_SANITIZE)
    harden(-fstack-protector-strong)
    harden(-fstack-clash-protection)
    if(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
        harden(-fcf-protection) # a jump lands where one may
    elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
        harden(-mbranch-protection=standard)
    endif()
    if(CMAKE_BUILD_TYPE MATCHES "Rel") # it needs optimised code
        add_compile_options(-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)
    endif()
    add_link_options(-Wl,-z,relro,-z,now)
endif()
if(WEIR_SANITIZE)
    add_compile_options(-fsanitize=${WEIR_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    add_link_options(-fsanitize=${WEIR_SANITIZE})
endif()
if(WEIR_FUZZ)
    add_compile_options(-fsanitize=fuzzer-no-link) # what the fuzzer steers by
endif()
include_directories(${CMAKE_SOURCE_DIR}/include ${CMAKE_SOURCE_DIR}/src)

# weir_part(NAME source...): one folder's objects.
function(weir_part name)
    add_library(${name} OBJECT ${ARGN})
endfunction()
