// Several ranks on one GPU, which NCCL accepts only if they seem to be on different hosts.
#pragma once

namespace tasuki {

// Makes NCCL treat this process as the only one on its host (NCCL_HOSTID), and makes it send
// through sockets with few blocks on the GPU, as the kernels of all sharing ranks must fit there
// together. To be called on all ranks before the first call of NCCL. Variables that the user has
// set are kept, except for the host's id. Slow: the GPU serves its processes in turn.
void prepare_shared_gpu(int rank, bool one_node);

}  // namespace tasuki
