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

// "9.1.0" for 90100, and with cuDNN's factors before version 9 "8.9.7" for 8907.
std::string nvidia_version_text(std::size_t number, std::size_t major_factor);

}  // namespace tasuki
