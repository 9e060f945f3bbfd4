// Prepares NCCL for several ranks on one GPU, which it accepts only if they seem to be on different
// hosts.
#pragma once

namespace tasuki {

// Makes NCCL treat this process as the only one on its host (NCCL_HOSTID), and makes it send
// through sockets with few blocks on the GPU, because the kernels of all sharing ranks must fit
// there together. Call it on all ranks before the first call of NCCL. Variables set by the user are
// kept, except the host's id. Exchanges are slow: the GPU serves its processes in turn.
void prepare_shared_gpu(int rank, bool one_node);

}  // namespace tasuki
