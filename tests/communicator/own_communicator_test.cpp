// Communicators that a program derives from Communicator.
#include <gtest/gtest.h>

#include <cmath>

#include "communicator/bytes.hpp"
#include "communicator/mpi_comm.hpp"
#include "core/activity.hpp"

namespace tasuki {
namespace {

// Notes what this rank is seen doing when it combines values.
class DerivedCommunicator : public Communicator {
 public:
  DerivedCommunicator() : Communicator(CommunicatorSetup{.name = "derived"}) {}

  Activity seen;

 protected:
  void combine(const Tensor& values, ReduceOp op) override {
    seen = record_.read();
    Communicator::combine(values, op);
  }

 private:
  // The watchdog reads the record before, in which this rank would be silent otherwise.
  struct Publishing {
    explicit Publishing(ActivityRecord& record) : before(publish_activity_in(&record)) {}
    ~Publishing() { publish_activity_in(before); }
    ActivityRecord* before;
  };
  ActivityRecord record_;
  Publishing publishing_{record_};
};

// A call by the derived class has the default arguments of Communicator, too.
TEST(OwnCommunicator, TakesDefaultArguments) {
  DerivedCommunicator comm;
  const auto size = static_cast<std::size_t>(comm.size());
  const Tensor one = Tensor::full({1}, 1);
  comm.allreduce(one);
  EXPECT_EQ(one.item(), size);
  comm.reduce(one);
  EXPECT_EQ(one.item(), comm.rank() == 0 ? size * size : size);
  EXPECT_EQ(comm.bcast(one).item(), size * size);
  EXPECT_EQ(comm.gather(one).size(), comm.rank() == 0 ? size : 0);
  EXPECT_EQ(comm.scatter(std::vector(size, Tensor::full({1}, comm.rank()))).item(), 0);
  EXPECT_EQ(comm.reduce_scatter(Tensor::full({comm.size()}, 2)).item(), 2 * size);
  EXPECT_EQ(bcast_bytes(comm, Bytes(2)).size(), 2);
  EXPECT_EQ(gather_bytes(comm, Bytes(2)).size(), comm.rank() == 0 ? size : 0);
  EXPECT_EQ(scatter_bytes(comm, std::vector(size, Bytes(3))).size(), 3);
  EXPECT_EQ(comm.allocate(64)->bytes(), 64);
  if (comm.rank() == 1) {
    comm.send(one, 0);
    comm.send({&one, 1}, 0);
    send_bytes(comm, Bytes(5), 0);
  } else if (comm.rank() == 0 && size > 1) {
    EXPECT_EQ(comm.recv(1).item(), size);
    EXPECT_EQ(comm.recv_many(1).size(), 1);
    EXPECT_EQ(recv_bytes(comm, 1).size(), 5);
  }
}

// The overridden function runs inside sum_gradients(), with its checks and scopes.
TEST(OwnCommunicator, RunsInsideTheExchangeItOverrides) {
  DerivedCommunicator comm;
  if (comm.size() == 1) GTEST_SKIP() << "one rank has nothing to exchange";
  const Tensor arena = Tensor::full({7}, comm.rank());
  const GradientView::Segment whole[] = {{0, 7}};
  comm.sum_gradients({arena, whole});
  EXPECT_EQ(arena.data<float>()[6], comm.size() * (comm.size() - 1) / 2);
  EXPECT_EQ(comm.seen.waiting, Waiting::sum_gradients);
  EXPECT_EQ(comm.seen.bytes, 7 * 4);
}

// Messages of the program's MPI calls and of the communicator do not mix.
TEST(MpisOwnHandle, HasTheSameRanksButSeparateMessages) {
  const auto all = create_communicator("naive");
  const auto part = all->split(all->rank() % 2, -all->rank());
  const MPI_Comm mpi = mpi_comm(*part);
  int rank = -1, size = 0;
  MPI_Comm_rank(mpi, &rank);
  MPI_Comm_size(mpi, &size);
  EXPECT_EQ(rank, part->rank());
  EXPECT_EQ(size, part->size());
  if (part->size() > 1 && part->rank() == 0) {
    const int number = 17;
    MPI_Send(&number, 1, MPI_INT, 1, 0, mpi);
    send_bytes(*part, Bytes(3), 1);
  } else if (part->rank() == 1) {
    EXPECT_EQ(recv_bytes(*part, any_source).size(), 3);
    int number = 0;
    // Not MPI_Recv, which misses early messages of other nodes with MPICH 4.3 (docs/mpi.md).
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, mpi, &message, MPI_STATUS_IGNORE);
    MPI_Mrecv(&number, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
    EXPECT_EQ(number, 17);
  }
}

TEST(MpisOwnHandle, CanCreateACommunicator) {
  const auto all = create_communicator("naive");
  MPI_Comm reversed = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, 0, -all->rank(), &reversed);
  const auto comm = create_communicator("auto", reversed);
  MPI_Comm_free(&reversed);  // the communicator has its own
  EXPECT_EQ(comm->rank(), all->size() - 1 - all->rank());
  const Tensor one = Tensor::full({1}, 1);
  comm->allreduce(one);
  EXPECT_EQ(one.item(), all->size());
}

TEST(OwnCommunicator, DescribesItselfByNameByDefault) {
  EXPECT_EQ(DerivedCommunicator().describe(), "derived");
}

// That of examples/my_training: sums that float32 would round on the way.
TEST(OwnCommunicator, SumsInDoublePrecision) {
  const auto comm = create_communicator("double");
  const Tensor arena = Tensor::full({3}, comm->rank() == 0 ? 1 : std::ldexp(1, -24));
  const GradientView::Segment whole[] = {{0, 3}};
  comm->sum_gradients({arena, whole});
  const double sum = 1 + (comm->size() - 1) * std::ldexp(1, -24);
  EXPECT_EQ(arena.data<float>()[2], static_cast<float>(sum));
  // Other types are left alone.
  const Tensor large = Tensor::full({1}, 0, DType::int64);
  *large.data<std::int64_t>() = (std::int64_t{1} << 53) + 1;
  comm->allreduce(large, ReduceOp::max);
  EXPECT_EQ(*large.data<std::int64_t>(), (std::int64_t{1} << 53) + 1);
}

}  // namespace
}  // namespace tasuki
