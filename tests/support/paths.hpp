// Where tests find files of the build and of the source tree.
#pragma once

#include <string>

namespace tasuki::testing {

// The absolute path of a file that is given relative to the build folder. What tasuki_test_paths()
// (cmake/TasukiTest.cmake) defines, such as TRAIN_MNIST, is a call of it.
std::string from_build(const std::string& relative);

}  // namespace tasuki::testing
