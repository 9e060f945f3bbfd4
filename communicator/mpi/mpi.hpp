// Checked MPI calls and owners of MPI handles.
#pragma once

#include <mpi.h>

#include <vector>

#include "tasuki/core/error.hpp"
#include "tasuki/tensor/dtype.hpp"
#include "tasuki/tensor/reduce_op.hpp"

// Calls an MPI function and throws tasuki::Error (kind io) with the function's name and MPI's own
// text when it fails. Works because run_job and MpiComm set MPI_ERRORS_RETURN; MPI's default would
// end the process before anything could be said.
#define TASUKI_MPI(function, ...) ::tasuki::check_mpi(function(__VA_ARGS__), #function)

namespace tasuki {

void check_mpi(int code, const char* function);

// The scope, on this rank, of an error that all ranks of `comm` are bound to meet, so that it is
// printed once and at once: by rank 0 of the job where it is one of them, else by their first. Not
// collective.
ErrorScope scope_of_shared_error(MPI_Comm comm);

// Owns a communicator of MPI; empty after a move and for ranks left out of a split. Making one is
// collective, freeing one is collective too and is skipped once MPI is finalized.
class MpiComm {
 public:
  MpiComm() = default;
  ~MpiComm();
  MpiComm(MpiComm&& other) noexcept;
  MpiComm& operator=(MpiComm&& other) noexcept;
  MpiComm(const MpiComm&) = delete;
  MpiComm& operator=(const MpiComm&) = delete;

  static MpiComm duplicate(MPI_Comm comm);
  // Empty where color is MPI_UNDEFINED.
  static MpiComm split(MPI_Comm comm, int color, int key);
  // Ranks that can share memory, in their order.
  static MpiComm split_by_memory(MPI_Comm comm);

  MPI_Comm get() const { return comm_; }
  explicit operator bool() const { return comm_ != MPI_COMM_NULL; }
  int rank() const;
  int size() const;

 private:
  explicit MpiComm(MPI_Comm comm);
  void free() noexcept;

  MPI_Comm comm_ = MPI_COMM_NULL;
};

// Non-blocking operations under way. When it is destroyed before wait(), which only an error does,
// what is left is cancelled.
class MpiRequests {
 public:
  MpiRequests() = default;
  ~MpiRequests();
  MpiRequests(const MpiRequests&) = delete;
  MpiRequests& operator=(const MpiRequests&) = delete;

  // Where the next operation's request is to be written.
  MPI_Request* add();
  // Waits for all, letting other ranks on the same cores run meanwhile.
  void wait();

 private:
  std::vector<MPI_Request> requests_;
};

// MPI's type and operation for ours. float16 and bfloat16, which MPI does not know, get types and
// operations made for them (in terms of tensor/cpu/reduce.hpp); those live until MPI_Finalize.
MPI_Datatype mpi_type(DType type);
MPI_Op mpi_op(DType type, ReduceOp op);

}  // namespace tasuki
