// Libraries of Tasuki that are loaded when they are needed, because they need others that few
// machines have: libtasuki_onnx.so.
#pragma once

#include <string>

namespace tasuki {

// The path of one: beside libtasuki.so (or the program, if that is linked into it); if it is not
// there, its name, which the loader's path may have.
std::string own_library_path(const std::string& name);

// Opens such a library, for the rest of the process, and finds the function in it. Errors are of
// kind unavailable and end with `remedy`, such as "install libonnx1": the library or one that it
// needs is missing, or it is not of this build. By several threads at once, too.
void* own_library_function(const std::string& name, const char* function, const char* remedy);

}  // namespace tasuki
