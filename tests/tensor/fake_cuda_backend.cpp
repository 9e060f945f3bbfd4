// A libtasuki_cuda.so that needs another library, registers nothing and has no GPU.
#include "tensor/cuda_loading/entry.hpp"

extern "C" int dependency_of_fake_cuda_backend();

extern "C" const tasuki::CudaEntry tasuki_cuda_entry{FAKE_VERSION, 13000,
                                                     [] { dependency_of_fake_cuda_backend(); },
                                                     [] { return std::vector<tasuki::Gpu>(); }};
