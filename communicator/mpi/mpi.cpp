#include "communicator/mpi/mpi.hpp"

#include <algorithm>
#include <array>
#include <exception>
#include <sstream>
#include <string>
#include <utility>

#include "core/error.hpp"
#include "core/log.hpp"
#include "core/polite_wait.hpp"
#include "tensor/reduce.hpp"

namespace tasuki {
namespace {

std::string mpi_error_text(int code) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS)
    return fmt::format("MPI error {}", code);
  std::string line(text.data(), static_cast<std::size_t>(length));
  std::ranges::replace(line, '\n', ';');  // MPICH has a line for each function on the way
  return line;
}

bool mpi_is_finalized() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  return finalized != 0;
}

template <DType type, ReduceOp op>
void combine_halves(void* in, void* in_out, int* count, MPI_Datatype* /*datatype*/) {
  const std::array<const void*, 2> sources{in, in_out};
  const std::array<void*, 1> destinations{in_out};
  reduce_arrays(type, op, sources, destinations, *count);
}

// A two-byte MPI type, and the four operations on it.
struct HalfType {
  MPI_Datatype datatype = MPI_DATATYPE_NULL;
  std::array<MPI_Op, 4> ops{};
};

template <DType type>
const HalfType& half_type() {
  static const HalfType made = [] {
    HalfType half;
    TASUKI_MPI(MPI_Type_contiguous, 2, MPI_BYTE, &half.datatype);
    TASUKI_MPI(MPI_Type_commit, &half.datatype);
    constexpr int commutative = 1;
    TASUKI_MPI(MPI_Op_create, combine_halves<type, ReduceOp::sum>, commutative, &half.ops[0]);
    TASUKI_MPI(MPI_Op_create, combine_halves<type, ReduceOp::max>, commutative, &half.ops[1]);
    TASUKI_MPI(MPI_Op_create, combine_halves<type, ReduceOp::min>, commutative, &half.ops[2]);
    TASUKI_MPI(MPI_Op_create, combine_halves<type, ReduceOp::prod>, commutative, &half.ops[3]);
    return half;
  }();
  return made;
}

}  // namespace

std::string mpi_library_name() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  TASUKI_MPI(MPI_Get_library_version, text.data(), &length);
  const std::string all(text.data(), static_cast<std::size_t>(length));
  std::istringstream words(all.substr(0, all.find_first_of(",\n")));  // Open MPI has one long line
  std::string name;
  for (std::string word; words >> word;) name += (name.empty() ? "" : " ") + word;
  return name;
}

void check_mpi(int code, const char* function) {
  if (code != MPI_SUCCESS) fail(ErrorKind::io, "{} failed: {}", function, mpi_error_text(code));
}

ErrorScope scope_of_shared_error(MPI_Comm comm) {
  MPI_Group job = MPI_GROUP_NULL, members = MPI_GROUP_NULL;
  TASUKI_MPI(MPI_Comm_group, MPI_COMM_WORLD, &job);
  TASUKI_MPI(MPI_Comm_group, comm, &members);
  const int first_of_job = 0;
  int place = MPI_UNDEFINED, rank = 0;
  TASUKI_MPI(MPI_Group_translate_ranks, job, 1, &first_of_job, members, &place);
  TASUKI_MPI(MPI_Group_rank, members, &rank);
  TASUKI_MPI(MPI_Group_free, &members);
  TASUKI_MPI(MPI_Group_free, &job);
  return place == MPI_UNDEFINED && rank == 0 ? ErrorScope::every_rank_printed_here
                                             : ErrorScope::every_rank;
}

MpiComm::MpiComm(MPI_Comm comm) : comm_(comm) {
  if (comm_ != MPI_COMM_NULL) TASUKI_MPI(MPI_Comm_set_errhandler, comm_, MPI_ERRORS_RETURN);
}

MpiComm::~MpiComm() {
  free();
}

MpiComm::MpiComm(MpiComm&& other) noexcept
    : comm_(std::exchange(other.comm_, MPI_COMM_NULL)), is_owner_(other.is_owner_) {}

MpiComm& MpiComm::operator=(MpiComm&& other) noexcept {
  if (this != &other) {
    free();
    comm_ = std::exchange(other.comm_, MPI_COMM_NULL);
    is_owner_ = other.is_owner_;
  }
  return *this;
}

void MpiComm::free() noexcept {
  if (comm_ == MPI_COMM_NULL || !is_owner_ || mpi_is_finalized()) return;
  if (std::uncaught_exceptions() > 0) return;
  if (const int code = MPI_Comm_free(&comm_); code != MPI_SUCCESS)
    log_warning("MPI_Comm_free failed: {}", mpi_error_text(code));
}

MpiComm MpiComm::duplicate(MPI_Comm comm) {
  MPI_Comm made = MPI_COMM_NULL;
  TASUKI_MPI(MPI_Comm_dup, comm, &made);
  return MpiComm(made);
}

MpiComm MpiComm::refer_to(MPI_Comm comm) {
  MpiComm reference;
  reference.comm_ = comm;
  reference.is_owner_ = false;
  return reference;
}

MpiComm MpiComm::split(MPI_Comm comm, int color, int key) {
  MPI_Comm made = MPI_COMM_NULL;
  TASUKI_MPI(MPI_Comm_split, comm, color, key, &made);
  return MpiComm(made);
}

MpiComm MpiComm::split_by_memory(MPI_Comm comm) {
  MPI_Comm made = MPI_COMM_NULL;
  TASUKI_MPI(MPI_Comm_split_type, comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &made);
  return MpiComm(made);
}

int MpiComm::rank() const {
  int rank = 0;
  TASUKI_MPI(MPI_Comm_rank, comm_, &rank);
  return rank;
}

int MpiComm::size() const {
  int size = 0;
  TASUKI_MPI(MPI_Comm_size, comm_, &size);
  return size;
}

MpiRequests::~MpiRequests() {
  if (requests_.empty() || mpi_is_finalized()) return;
  for (MPI_Request& request : requests_) {
    if (request == MPI_REQUEST_NULL) continue;
    MPI_Cancel(&request);
    MPI_Request_free(&request);
  }
}

MPI_Request* MpiRequests::add() {
  return &requests_.emplace_back(MPI_REQUEST_NULL);
}

void MpiRequests::wait() {
  PoliteWait waiting;
  while (!are_done()) waiting.pause();
}

bool MpiRequests::are_done() {
  const int count = checked_cast<int>(requests_.size(), "number of MPI requests");
  int done = 0;
  TASUKI_MPI(MPI_Testall, count, requests_.data(), &done, MPI_STATUSES_IGNORE);
  if (done != 0) requests_.clear();
  return done != 0;
}

MPI_Datatype mpi_type(DType type) {
  switch (type) {
    case DType::float32:
      return MPI_FLOAT;
    case DType::float64:
      return MPI_DOUBLE;
    case DType::float16:
      return half_type<DType::float16>().datatype;
    case DType::bfloat16:
      return half_type<DType::bfloat16>().datatype;
    case DType::int32:
      return MPI_INT32_T;
    case DType::int64:
      return MPI_INT64_T;
    case DType::uint8:
      return MPI_UINT8_T;
  }
  fail(ErrorKind::internal, "unknown element type {}", static_cast<int>(type));
}

MPI_Op mpi_op(DType type, ReduceOp op) {
  if (type == DType::float16) return half_type<DType::float16>().ops[static_cast<std::size_t>(op)];
  if (type == DType::bfloat16)
    return half_type<DType::bfloat16>().ops[static_cast<std::size_t>(op)];
  switch (op) {
    case ReduceOp::sum:
      return MPI_SUM;
    case ReduceOp::max:
      return MPI_MAX;
    case ReduceOp::min:
      return MPI_MIN;
    case ReduceOp::prod:
      return MPI_PROD;
  }
  fail(ErrorKind::internal, "unknown reduction {}", static_cast<int>(op));
}

}  // namespace tasuki
