// Several ranks on one GPU, which NCCL refuses unless it takes them for ranks of different hosts.
#pragma once

namespace tasuki {

// Makes NCCL take this process for one on a host of its own (NCCL_HOSTID), and sends its values
// through sockets with few threads of the GPU, as ranks that share one must not fill it. Before the
// first call of NCCL, on all ranks. What the user has set stays, but for the host's id. Correct and
// slow: the GPU serves its processes in turns.
void prepare_shared_gpu(int rank, bool one_node);

}  // namespace tasuki
