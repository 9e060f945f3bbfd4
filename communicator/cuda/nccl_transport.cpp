// GpuTransport over CUDA and NCCL.
#include <cstring>

#include "communicator/cuda/cuda_channel.hpp"
#include "communicator/gpu/gpu_transport.hpp"
#include "tensor/cuda_loading/entry.hpp"

namespace tasuki {
namespace {

class NcclTransport : public GpuTransport {
 public:
  std::string describe() const override {
    int version = 0;
    check_nccl(ncclGetVersion(&version), "ncclGetVersion");
    return fmt::format("NCCL {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
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
