// Functions of a program that brings its own HDF5: libtasuki_hdf5.so must not call them. (With
// AddressSanitizer it would, because it cannot be loaded with RTLD_DEEPBIND.)
#ifndef __SANITIZE_ADDRESS__

#include <cstdio>
#include <cstdlib>

extern "C" {

[[noreturn]] static void refuse(const char* name) {
  std::fprintf(stderr, "the program's own %s was called\n", name);
  std::abort();
}

[[gnu::used, gnu::visibility("default")]] int H5open() {
  refuse("H5open");
}
[[gnu::used, gnu::visibility("default")]] long H5Fopen(const char*, unsigned, long) {
  refuse("H5Fopen");
}
[[gnu::used, gnu::visibility("default")]] long H5Dopen2(long, const char*, long) {
  refuse("H5Dopen2");
}
[[gnu::used, gnu::visibility("default")]] int H5Dread(long, long, long, long, long, void*) {
  refuse("H5Dread");
}

}  // extern "C"

#endif
