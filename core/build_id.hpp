// The builds of the program and libraries that this process runs.
#pragma once

#include <string>
#include <vector>

namespace tasuki {

// "train_mnist, build ccf91f9669ff7140" for the program, and the same for each of Tasuki's
// libraries that is loaded, in alphabetical order. The number is the first 8 bytes of the GNU build
// id, which the linker writes into the file and which changes with any change of the code; "without
// a build id" if there is none.
std::vector<std::string> loaded_builds();

}  // namespace tasuki
