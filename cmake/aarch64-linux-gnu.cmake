# AArch64 from another machine: Debian's cross compiler, and QEMU for what it made (docs/testing.md#arm).
# Highway's and GoogleTest's packages for arm64 lie where Debian's multiarch installs them. They bring the C library that
# programs run with: the cross compiler's own, which `qemu-aarch64 -L` would take, is of another revision.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
