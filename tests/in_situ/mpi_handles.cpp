// Every function of MPI that Tasuki calls and that makes or frees a handle.
#include "mpi_handles.hpp"

#include <mpi.h>

namespace {

tasuki::testing::MpiHandles handles;

// Ranks left out of a new communicator get none.
int made(int code, const MPI_Comm* comm) {
  if (code == MPI_SUCCESS && *comm != MPI_COMM_NULL) ++handles.communicators;
  return code;
}

int counted(int code, int& counter, int change) {
  if (code == MPI_SUCCESS) counter += change;
  return code;
}

}  // namespace

namespace tasuki::testing {

MpiHandles open_mpi_handles() {
  return handles;
}

}  // namespace tasuki::testing

extern "C" {

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm* result) {
  return made(PMPI_Comm_dup(comm, result), result);
}
int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm* result) {
  return made(PMPI_Comm_split(comm, color, key, result), result);
}
int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm* result) {
  return made(PMPI_Comm_split_type(comm, type, key, info, result), result);
}
int MPI_Comm_free(MPI_Comm* comm) {
  return counted(PMPI_Comm_free(comm), handles.communicators, -1);
}
int MPI_Comm_group(MPI_Comm comm, MPI_Group* group) {
  return counted(PMPI_Comm_group(comm, group), handles.groups, 1);
}
int MPI_Group_free(MPI_Group* group) {
  return counted(PMPI_Group_free(group), handles.groups, -1);
}
int MPI_Type_contiguous(int count, MPI_Datatype type, MPI_Datatype* result) {
  return counted(PMPI_Type_contiguous(count, type, result), handles.types, 1);
}
int MPI_Type_free(MPI_Datatype* type) {
  return counted(PMPI_Type_free(type), handles.types, -1);
}
int MPI_Op_create(MPI_User_function* function, int commutes, MPI_Op* op) {
  return counted(PMPI_Op_create(function, commutes, op), handles.operations, 1);
}
int MPI_Op_free(MPI_Op* op) {
  return counted(PMPI_Op_free(op), handles.operations, -1);
}
int MPI_Comm_get_errhandler(MPI_Comm comm, MPI_Errhandler* handler) {
  return counted(PMPI_Comm_get_errhandler(comm, handler), handles.error_handlers, 1);
}
int MPI_Errhandler_free(MPI_Errhandler* handler) {
  return counted(PMPI_Errhandler_free(handler), handles.error_handlers, -1);
}
}
