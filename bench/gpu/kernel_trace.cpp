// Writes when each kernel of a program ran, by CUDA's profiling interface (CUPTI). It is a library
// that CUDA's driver loads into any program, for kernel_times.py:
//
//   CUDA_INJECTION64_PATH=libtasuki_kernel_trace.so TASUKI_KERNEL_TRACE=FILE PROGRAM...
//
// At the program's end FILE gets a line for each kernel: its start and end in nanoseconds, and its
// name. What fails is said on stderr; the program goes on.
#include <cupti.h>
#include <cxxabi.h>
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

constexpr std::size_t buffer_bytes = 8 << 20;

struct Kernel {
  std::uint64_t start, end;
  std::string name;
};

// The functions of CUPTI that are used; opened at run time, since few machines have it.
struct Cupti {
  decltype(&cuptiActivityRegisterCallbacks) register_callbacks = nullptr;
  decltype(&cuptiActivityEnable) enable = nullptr;
  decltype(&cuptiActivityFlushAll) flush_all = nullptr;
  decltype(&cuptiActivityGetNextRecord) next_record = nullptr;
} cupti;

std::vector<Kernel>& kernels() {
  static auto* const all = new std::vector<Kernel>;  // must outlive CUPTI's threads
  return *all;
}

void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* most_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, buffer_bytes));
  *size = *buffer == nullptr ? 0 : buffer_bytes;
  *most_records = 0;  // as many as fit
}

void CUPTIAPI take_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t,
                          std::size_t valid) {
  CUpti_Activity* record = nullptr;
  while (cupti.next_record(buffer, valid, &record) == CUPTI_SUCCESS) {
    if (record->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) continue;
    const auto& kernel = *reinterpret_cast<const CUpti_ActivityKernel9*>(record);
    kernels().push_back({kernel.start, kernel.end, kernel.name});
  }
  std::free(buffer);
}

void write_kernels() {
  if (const CUptiResult result = cupti.flush_all(1); result != CUPTI_SUCCESS)
    std::fprintf(stderr, "kernel_trace: cuptiActivityFlushAll failed (%d)\n", result);
  const char* const path = std::getenv("TASUKI_KERNEL_TRACE");
  std::FILE* const file = path == nullptr ? nullptr : std::fopen(path, "w");
  if (file == nullptr) {
    std::fprintf(stderr, "kernel_trace: TASUKI_KERNEL_TRACE names no file that can be written\n");
    return;
  }
  for (const Kernel& kernel : kernels()) {
    int status = 0;
    char* const name = abi::__cxa_demangle(kernel.name.c_str(), nullptr, nullptr, &status);
    std::fprintf(file, "%llu %llu %s\n", static_cast<unsigned long long>(kernel.start),
                 static_cast<unsigned long long>(kernel.end),
                 name != nullptr ? name : kernel.name.c_str());
    std::free(name);
  }
  std::fclose(file);
}

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

}  // namespace

// Called by the driver, before the program's first call of CUDA is done.
extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  const std::string name = "libcupti.so." + std::to_string(CUDA_VERSION / 1000);
  void* const library = ::dlopen(name.c_str(), RTLD_NOW);
  if (library == nullptr) {
    std::fprintf(stderr, "kernel_trace: %s\n", ::dlerror());
    return 0;
  }
  if (!find(library, "cuptiActivityRegisterCallbacks", cupti.register_callbacks) ||
      !find(library, "cuptiActivityEnable", cupti.enable) ||
      !find(library, "cuptiActivityFlushAll", cupti.flush_all) ||
      !find(library, "cuptiActivityGetNextRecord", cupti.next_record)) {
    std::fprintf(stderr, "kernel_trace: %s lacks a function of CUPTI\n", name.c_str());
    return 0;
  }
  CUptiResult result = cupti.register_callbacks(give_buffer, take_buffer);
  if (result == CUPTI_SUCCESS) result = cupti.enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  if (result != CUPTI_SUCCESS) {
    std::fprintf(stderr, "kernel_trace: kernels cannot be recorded (CUPTI's error %d)\n", result);
    return 0;
  }
  std::atexit(write_kernels);
  return 1;
}
