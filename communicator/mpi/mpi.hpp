// Checked MPI calls and owners of MPI handles.
#pragma once

#include <mpi.h>

#include <string>
#include <vector>

#include "core/error.hpp"
#include "tensor/dtype.hpp"
#include "tensor/reduce.hpp"

// Calls an MPI function and throws tasuki::Error (kind io) with the function's name and MPI's own
// text if it fails. Relies on MPI_ERRORS_RETURN, which run_job and MpiComm set: by default MPI ends
// the process.
#define TASUKI_MPI(function, ...) ::tasuki::check_mpi(function(__VA_ARGS__), #function)

namespace tasuki {

void check_mpi(int code, const char* function);

// Name and version of the MPI library that is loaded: "Open MPI v4.1.4". May be called before
// MPI_Init.
std::string mpi_library_name();

// The scope, on this rank, of an error that all ranks of `comm` throw. By it, one rank prints the
// error without delay: rank 0 of the job if it is in `comm`, else the first rank of `comm`. Not
// collective.
ErrorScope scope_of_shared_error(MPI_Comm comm);

// Owns an MPI communicator. Empty after a move, and on ranks left out of a split. Construction
// and destruction are collective; after MPI_Finalize the destructor does nothing.
//
// While an exception unwinds the stack, MPI's handle is not freed and stays until the process ends:
// other ranks may not have met the error, and MPI would give their messages to the next
// communicator with the same number, or crash (Open MPI 4.1). keep() has the same effect where an
// error has ended the use of the communicator without an exception here.
class MpiComm {
 public:
  MpiComm() = default;
  ~MpiComm();
  MpiComm(MpiComm&& other) noexcept;
  MpiComm& operator=(MpiComm&& other) noexcept;
  MpiComm(const MpiComm&) = delete;
  MpiComm& operator=(const MpiComm&) = delete;

  static MpiComm duplicate(MPI_Comm comm);
  // Does not own `comm`, which must outlive this object.
  static MpiComm refer_to(MPI_Comm comm);
  // Empty if color is MPI_UNDEFINED.
  static MpiComm split(MPI_Comm comm, int color, int key);
  // The ranks that can share memory with this one, in the order of `comm`.
  static MpiComm split_by_memory(MPI_Comm comm);

  // Leaves MPI's handle to the process. Empty afterwards.
  void keep() { comm_ = MPI_COMM_NULL; }

  MPI_Comm get() const { return comm_; }
  explicit operator bool() const { return comm_ != MPI_COMM_NULL; }
  int rank() const;
  int size() const;

 private:
  explicit MpiComm(MPI_Comm comm);
  void free() noexcept;

  MPI_Comm comm_ = MPI_COMM_NULL;
  bool is_owner_ = true;
};

// Non-blocking operations under way. The destructor cancels operations that wait() has not
// completed, which happens only when an exception is thrown.
class MpiRequests {
 public:
  MpiRequests() = default;
  ~MpiRequests();
  MpiRequests(const MpiRequests&) = delete;
  MpiRequests& operator=(const MpiRequests&) = delete;

  // Where MPI is to store the request of a further operation.
  MPI_Request* add();
  // Waits for all operations and lets other ranks on the same cores run meanwhile.
  void wait();
  // Whether all operations are complete. Does not wait.
  bool are_done();

 private:
  std::vector<MPI_Request> requests_;
};

// MPI's types and operations. MPI has none for float16 and bfloat16: these are created on first use
// (with reduce_arrays() of tensor/reduce.hpp) and live until MPI_Finalize.
MPI_Datatype mpi_type(DType type);
MPI_Op mpi_op(DType type, ReduceOp op);

}  // namespace tasuki
