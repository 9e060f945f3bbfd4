// Libraries of Tasuki that are loaded when they are needed, because they are linked to others that
// not every machine has: libtasuki_hdf5.so, libtasuki_onnx.so.
#pragma once

namespace tasuki {

struct OwnLibrary {
  const char* name;      // "libtasuki_hdf5.so"
  const char* variable;  // of the environment, whose value is the path of another file instead
  const char* purpose;   // "HDF5", for errors
  const char* remedy;    // what to do without it: "install libhdf5-dev and build it again"
};

// Opens the library, for the rest of the process, and returns the address of a symbol in it. It is
// the file that the variable names, else the one beside libtasuki.so (or the program, if that is
// linked into it), else the one in the loader's path. It finds its own libraries first, whatever
// versions of them the program has. Errors are of kind unavailable: there is no such file, it
// cannot be loaded, or it lacks the symbol.
void* symbol_in(const OwnLibrary& library, const char* symbol);

}  // namespace tasuki
