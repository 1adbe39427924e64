# Builds for aarch64 on another machine, and runs the tests by qemu-user: the preset `aarch64`. The libraries that
# Debian has no cross packages of lie in a folder of the build (scripts/test_packages.sh).
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)

set(WEIR_SYSROOT ${CMAKE_CURRENT_LIST_DIR}/../build/aarch64-sysroot)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${WEIR_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${WEIR_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig)
set(CMAKE_FIND_ROOT_PATH ${WEIR_SYSROOT} /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)

# Which processor it is to be, the variable QEMU_CPU says.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu)
