// The version of Tasuki, and which builds of programs and libraries this process runs.
#pragma once

#include <string>
#include <vector>

namespace tasuki {

// "0.1.0 (5ad6af21)": the release and, if built from a git repository, the commit.
const char* version();

// "train_mnist, build ccf91f9669ff7140" for the program, and the same for each of Tasuki's
// libraries that is loaded, in alphabetical order. The number is the first 8 bytes of the identity
// that the linker has written into the file (a GNU build id), which changes with any change of the
// code, or "without a build id" if it has written none.
std::vector<std::string> loaded_builds();

}  // namespace tasuki
