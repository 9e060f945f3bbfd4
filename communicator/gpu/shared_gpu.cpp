#include "communicator/gpu/shared_gpu.hpp"

#include <fmt/core.h>

#include <cstdlib>

#include "core/environment.hpp"

namespace tasuki {

void prepare_shared_gpu(int rank, bool one_node) {
  constexpr int keep_users = 0, replace = 1;
  setenv("NCCL_HOSTID", fmt::format("{}-rank{}", host_name(), rank).c_str(), replace);
  setenv("NCCL_NET", "Socket", keep_users);
  setenv("NCCL_IB_DISABLE", "1", keep_users);
  setenv("NCCL_MNNVL_ENABLE", "0", keep_users);
  setenv("NCCL_NVLS_ENABLE", "0", keep_users);
  // Versions of NCCL that know it refuse two ranks on a GPU without it.
  setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", keep_users);
  setenv("NCCL_MAX_CTAS", "2", keep_users);
  // NCCL's default leaves the loopback interface out if there is another one.
  if (one_node) setenv("NCCL_SOCKET_IFNAME", "lo", keep_users);
}

}  // namespace tasuki
