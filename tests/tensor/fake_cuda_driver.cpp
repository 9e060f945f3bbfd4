// A libcuda.so.1 that answers as the environment tells it: FAKE_CUDA_INIT (a CUresult),
// FAKE_CUDA_VERSION and FAKE_CUDA_DEVICES.
#include <cstdlib>

namespace {
int setting(const char* name, int otherwise) {
  const char* const text = std::getenv(name);
  return text != nullptr ? std::atoi(text) : otherwise;
}
}  // namespace

extern "C" {

int cuDriverGetVersion(int* version) {
  *version = setting("FAKE_CUDA_VERSION", 99000);
  return 0;
}
int cuInit(unsigned /*flags*/) {
  return setting("FAKE_CUDA_INIT", 0);
}
int cuDeviceGetCount(int* count) {
  *count = setting("FAKE_CUDA_DEVICES", 1);
  return 0;
}
int cuGetErrorName(int /*code*/, const char** text) {
  *text = "CUDA_ERROR_OF_THE_TEST";
  return 0;
}
int cuGetErrorString(int /*code*/, const char** text) {
  *text = "an error of the test";
  return 0;
}
}
