#include "fake_group.hpp"

#include <cstring>

#include "communicator/mpi/mpi.hpp"
#include "communicator/mpi/transfer.hpp"

namespace tasuki::testing {
namespace {

// The id: where the members meet, and the number of the meeting.
struct Meeting {
  int world_rank = 0;
  int number = 0;
};

int world_rank() {
  int rank = 0;
  TASUKI_MPI(MPI_Comm_rank, MPI_COMM_WORLD, &rank);
  return rank;
}

// Members know their number in the group and the id alone, as with NCCL: each tells the first one
// where it is, and gets the list of all.
std::vector<int> meet(const Meeting& meeting, int rank, int ranks) {
  std::vector<int> members(static_cast<std::size_t>(ranks));
  const int own = world_rank(), tag = 1000 + meeting.number;
  if (own == meeting.world_rank) {
    members[static_cast<std::size_t>(rank)] = own;
    for (int other = 1; other < ranks; ++other) {
      int place[2] = {0, 0};
      // Not MPI_Recv, which misses early messages of other nodes with MPICH 4.3 (docs/mpi.md).
      MPI_Message message = MPI_MESSAGE_NULL;
      TASUKI_MPI(MPI_Mprobe, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
      TASUKI_MPI(MPI_Mrecv, place, 2, MPI_INT, &message, MPI_STATUS_IGNORE);
      members.at(static_cast<std::size_t>(place[0])) = place[1];
    }
    for (const int member : members)
      if (member != own)
        TASUKI_MPI(MPI_Send, members.data(), ranks, MPI_INT, member, tag, MPI_COMM_WORLD);
  } else {
    const int place[2] = {rank, own};
    TASUKI_MPI(MPI_Send, place, 2, MPI_INT, meeting.world_rank, tag, MPI_COMM_WORLD);
    TASUKI_MPI(MPI_Recv, members.data(), ranks, MPI_INT, meeting.world_rank, tag, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  }
  return members;
}

MPI_Comm communicator_of(const std::vector<int>& members, int tag) {
  MPI_Group world = MPI_GROUP_NULL, group = MPI_GROUP_NULL;
  TASUKI_MPI(MPI_Comm_group, MPI_COMM_WORLD, &world);
  TASUKI_MPI(MPI_Group_incl, world, static_cast<int>(members.size()), members.data(), &group);
  MPI_Comm made = MPI_COMM_NULL;
  TASUKI_MPI(MPI_Comm_create_group, MPI_COMM_WORLD, group, tag, &made);
  MPI_Group_free(&group);
  MPI_Group_free(&world);
  return made;
}

// Host memory under the values of a fake GPU.
Tensor on_host(const Tensor& values) {
  auto view = std::make_shared<Storage>(values.raw(), values.bytes(), Device::cpu(),
                                        [values](void*, std::size_t) {});
  return {view, 0, values.shape(), values.dtype()};
}

class FakeGroup : public GpuGroup {
 public:
  FakeGroup(MPI_Comm comm, std::function<void(std::function<void()>)> later)
      : comm_(comm), later_(std::move(later)) {
    TASUKI_MPI(MPI_Comm_rank, comm_, &rank_);
    TASUKI_MPI(MPI_Comm_size, comm_, &ranks_);
  }
  ~FakeGroup() override { MPI_Comm_free(&comm_); }
  FakeGroup(const FakeGroup&) = delete;
  FakeGroup& operator=(const FakeGroup&) = delete;

  void allreduce(const Tensor& values, ReduceOp op, const WireFormat& wire) override {
    later_([this, values = on_host(values), op, wire] {
      const bool is_converted = values.dtype() == DType::float32 && wire.dtype != DType::float32;
      Tensor travelling = values;
      if (is_converted) {
        const Tensor scaled = values.clone();
        for (float& value : scaled.span<float>()) value *= wire.factor;
        travelling = scaled.to(wire.dtype);
      }
      tasuki::allreduce(travelling.raw(), travelling.count(), travelling.dtype(), op, comm_);
      if (!is_converted) return;
      values.copy_from(travelling);
      for (float& value : values.span<float>()) value /= wire.factor;
    });
  }
  void reduce(const Tensor& values, ReduceOp op, int root) override {
    later_([this, values = on_host(values), op, root] {
      tasuki::reduce(values.raw(), values.count(), values.dtype(), op, root, comm_);
    });
  }
  void broadcast(const Tensor& values, int root) override {
    later_([this, values = on_host(values), root] { send_from(values, root); });
  }
  void reduce_scatter(const Tensor& values, ReduceOp op) override {
    later_([this, values = on_host(values), op] {
      for (int owner = 0; owner < ranks_; ++owner) {
        const Tensor part = part_of(values, owner);
        tasuki::reduce(part.raw(), part.count(), part.dtype(), op, owner, comm_);
        if (owner != rank_) part.fill(-1);  // other ranks' parts become invalid
      }
    });
  }
  void allgather(const Tensor& values) override {
    later_([this, values = on_host(values)] {
      for (int owner = 0; owner < ranks_; ++owner) send_from(part_of(values, owner), owner);
    });
  }

 private:
  Tensor part_of(const Tensor& values, int owner) const {
    const Range part = gpu_part(values.count(), values.dtype(), owner, ranks_);
    return values.slice(part.begin, part.end);
  }
  void send_from(const Tensor& values, int root) const {
    tasuki::bcast({static_cast<std::byte*>(values.raw()), values.bytes()}, root, comm_);
  }

  MPI_Comm comm_;
  std::function<void(std::function<void()>)> later_;
  int rank_ = 0, ranks_ = 1;
};

}  // namespace

Bytes new_fake_id() {
  static int meetings = 0;
  const Meeting meeting{world_rank(), ++meetings};
  const auto bytes = std::as_bytes(std::span(&meeting, 1));
  return {bytes.begin(), bytes.end()};
}

std::unique_ptr<GpuGroup> connect_fake_group(const Bytes& id, int rank, int ranks,
                                             std::function<void(std::function<void()>)> later) {
  Meeting meeting;
  TASUKI_CHECK(id.size() == sizeof(meeting), "an id of {} bytes", id.size());
  std::memcpy(&meeting, id.data(), sizeof(meeting));
  const auto members = meet(meeting, rank, ranks);
  return std::make_unique<FakeGroup>(communicator_of(members, meeting.number), std::move(later));
}

}  // namespace tasuki::testing
