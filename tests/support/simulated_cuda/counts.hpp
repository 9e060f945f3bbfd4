// What a process has asked the simulated GPU for. With SIMULATED_CUDA_COUNTS=FILE the process
// writes it there when it ends, a name and a number per line: what two runs of different length
// differ by is what their additional steps cost. The names:
//
//   launch.KERNEL, launch.cublasLtMatmul, launch.nccl (a group counts once), launch.library
//   (cuDNN), copy, filling
//                     operations of streams, also in graphs, each time that they are done
//   graph             launches of a graph
//   allocation        of device memory and of pinned host memory
//   wait              for a stream, an event or the device
#pragma once

namespace tasuki::simulated {

void count(const char* name);

}  // namespace tasuki::simulated
