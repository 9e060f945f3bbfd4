// Which of NVIDIA's libraries can be loaded on this machine, for reports.
#pragma once

#include <string>
#include <vector>

namespace tasuki {

struct NvidiaLibrary {
  std::string name;     // "cuDNN"
  std::string version;  // "9.1.0"; empty: it was not loaded
  std::string problem;  // why not
};

// The driver's library, cuBLASLt, cuDNN and NCCL, from the places where the backend finds them
// (load_cuda_backend() in loader.hpp), in the newest version that Tasuki can use. They stay loaded.
std::vector<NvidiaLibrary> find_nvidia_libraries();

}  // namespace tasuki
