// GpuTransport over CUDA and NCCL.
#include <array>
#include <cstring>

#include "communicator/cuda/cuda_channel.hpp"
#include "communicator/gpu/gpu_transport.hpp"
#include "tensor/cuda_loading/entry.hpp"

namespace tasuki {
namespace {

std::string text_of(const cudaUUID_t& uuid) {
  std::string text = "GPU-";
  for (const char byte : uuid.bytes)
    text += fmt::format("{:02x}", static_cast<unsigned>(static_cast<unsigned char>(byte)));
  return text;
}

class NcclTransport : public GpuTransport {
 public:
  std::string describe() const override {
    int version = 0;
    check_nccl(ncclGetVersion(&version), "ncclGetVersion");
    return fmt::format("NCCL {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
  }

  std::vector<Gpu> gpus() override {
    int count = 0;
    check_cuda(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
    std::vector<Gpu> found;
    for (int index = 0; index < count; ++index) {
      cudaDeviceProp properties{};
      check_cuda(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
      std::array<char, 32> bus_id{};
      check_cuda(cudaDeviceGetPCIBusId(bus_id.data(), bus_id.size(), index),
                 "cudaDeviceGetPCIBusId");
      found.push_back({properties.name, text_of(properties.uuid), bus_id.data()});
    }
    return found;
  }

  Bytes new_id() override {
    ncclUniqueId id;
    check_nccl(ncclGetUniqueId(&id), "ncclGetUniqueId");
    Bytes bytes(sizeof(id));
    std::memcpy(bytes.data(), &id, sizeof(id));
    return bytes;
  }

  std::unique_ptr<GpuChannel> open(Device device) override {
    return std::make_unique<CudaChannel>(device);
  }
};

}  // namespace

void register_nccl_transport() {
  register_gpu_transport(std::make_unique<NcclTransport>());
}

}  // namespace tasuki
