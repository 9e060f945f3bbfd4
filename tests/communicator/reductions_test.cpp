// allreduce, reduce and reduce_scatter against plain MPI on int64 or float64, for every
// communicator, type, operation and size.
#include <mpi.h>

#include "communicator/bytes.hpp"
#include "communicator_fixture.hpp"

namespace tasuki {
namespace {

constexpr DType types[] = {DType::float32,  DType::float64, DType::float16,
                           DType::bfloat16, DType::int32,   DType::int64};
constexpr ReduceOp operations[] = {ReduceOp::sum, ReduceOp::max, ReduceOp::min, ReduceOp::prod};

// Small whole numbers: every type holds them and their sums and products over a few ranks exactly,
// so results are compared for equality.
double value(std::int64_t element, int rank) {
  return static_cast<double>((element * 7 + rank * 5) % 4 + (element + rank) % 2) - 1;
}

// The result by plain MPI in double.
std::vector<double> expected(std::int64_t count, ReduceOp op, int rank) {
  std::vector<double> values(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) values[static_cast<std::size_t>(i)] = value(i, rank);
  const MPI_Op mpi[] = {MPI_SUM, MPI_MAX, MPI_MIN, MPI_PROD};
  MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(count), MPI_DOUBLE,
                mpi[static_cast<std::size_t>(op)], MPI_COMM_WORLD);
  return values;
}

class Reductions : public EveryCommunicator {
 protected:
  void fill(const Tensor& tensor) const {
    Tensor values = Tensor::empty(tensor.shape(), DType::float64);
    for (std::int64_t i = 0; i < tensor.count(); ++i) values.data<double>()[i] = value(i, rank());
    tensor.copy_from(values);
  }

  void expect_reduced(const Tensor& tensor, ReduceOp op) const {
    const auto wanted = expected(tensor.count(), op, rank());
    const Tensor found = tensor.to(DType::float64);
    for (std::int64_t i = 0; i < tensor.count(); ++i)
      ASSERT_EQ(found.data<double>()[i], wanted[static_cast<std::size_t>(i)])
          << name_of(op) << " of " << tensor.count() << " " << name_of(tensor.dtype())
          << ", element " << i;
  }

  void check(const Tensor& tensor, ReduceOp op) {
    fill(tensor);
    comm_->allreduce(tensor, op);
    expect_reduced(tensor, op);
  }
};

TEST_P(Reductions, AllreduceOfEverySizeTypeAndOperation) {
  const Tensor room = allocated(100'000 + 64, DType::float64);
  for (const std::int64_t count : {0, 1, 17, 1000, 100'000}) {
    for (const DType type : types) {
      for (const ReduceOp op : operations) {
        // At the largest size, one operation is enough.
        if (count == 100'000 && op != ReduceOp::sum) continue;
        check(Tensor::empty({count}, type), op);
        // A sub-range of allocated memory, not at the start of a cache line.
        check({room.storage(), 24, {count}, type}, op);
      }
    }
  }
}

TEST_P(Reductions, ScalarsAndMatrices) {
  for (const Shape& shape : {Shape{}, Shape{3, 5}, Shape{2, 3, 4}}) {
    check(Tensor::empty(shape), ReduceOp::sum);
    check(Tensor::empty(shape, DType::int64), ReduceOp::max);
  }
}

// Chains of chunks, pieces and calls that large vectors meet, at small sizes.
TEST_P(Reductions, ManySmallPieces) {
  make_with({.mpi_call = 40, .message_chunk = 256});
  for (const std::int64_t count : {40, 1000, 9999}) {
    check(allocated(count), ReduceOp::sum);
    check(Tensor::empty({count}), ReduceOp::sum);
    check(Tensor::empty({count}, DType::bfloat16), ReduceOp::max);
  }
}

// Longer than the shared memory through which private buffers pass.
TEST_P(Reductions, PrivateBuffersInPieces) {
  check(Tensor::empty({1'500'000}), ReduceOp::sum);
}

TEST_P(Reductions, RanksCanMixMemory) {
  const Tensor allocated_here = allocated(5000);
  check(rank() % 2 == 0 ? allocated_here : Tensor::empty({5000}), ReduceOp::sum);
  const Tensor other = allocated(5000);
  check(rank() % 2 == 0 ? allocated_here : other, ReduceOp::sum);
}

TEST_P(Reductions, AreBitIdenticalOnAllRanksAndRepeatedly) {
  const Tensor values = allocated(10'007);
  const auto run = [&] {
    for (std::int64_t i = 0; i < values.count(); ++i)
      values.data<float>()[i] = 1.0f / static_cast<float>(3 + i + 1000 * rank());
    comm_->allreduce(values);
    return std::vector<float>(values.data<float>(), values.data<float>() + values.count());
  };
  const auto first = run();
  EXPECT_EQ(first, run());
  const auto bytes = std::as_bytes(std::span(first));
  EXPECT_EQ(bcast_bytes(*comm_, bytes), Bytes(bytes.begin(), bytes.end()));
}

TEST_P(Reductions, ReduceReachesOnlyTheRoot) {
  for (int root = 0; root < size(); ++root) {
    const Tensor values = Tensor::empty({33});
    fill(values);
    const Tensor before = values.clone();
    comm_->reduce(values, ReduceOp::sum, root);
    if (rank() == root) {
      expect_reduced(values, ReduceOp::sum);
    } else {
      expected(33, ReduceOp::sum, rank());  // takes part in the root's check
      EXPECT_EQ(values.slice(5, 6).item(), before.slice(5, 6).item());
    }
  }
}

TEST_P(Reductions, ReduceScatterDistributesItems) {
  for (const std::int64_t items : {0, 1, 7, 12}) {
    const Tensor values = Tensor::empty({items, 3});
    fill(values);
    const Tensor before = values.clone();
    const Tensor part = comm_->reduce_scatter(values, ReduceOp::sum);
    const std::int64_t begin =
        items / size() * rank() + std::min<std::int64_t>(rank(), items % size());
    ASSERT_EQ(part.shape(), (Shape{items / size() + (rank() < items % size() ? 1 : 0), 3}));
    const auto wanted = expected(items * 3, ReduceOp::sum, rank());
    for (std::int64_t i = 0; i < part.count(); ++i)
      EXPECT_EQ(part.data<float>()[i], wanted[static_cast<std::size_t>(begin * 3 + i)]);
    for (std::int64_t i = 0; i < values.count(); ++i)
      EXPECT_EQ(values.data<float>()[i], before.data<float>()[i]);
  }
}

// From memory of the communicator and from private memory, in one piece and in many; the bits are
// those of the whole.
TEST_P(Reductions, ReduceScatterOfEveryTypeAndOperation) {
  for (const bool in_pieces : {false, true}) {
    if (in_pieces) make_with({.mpi_call = 400});
    const Tensor room = allocated(1013 + 64, DType::float64);
    for (const DType type : types) {
      for (const ReduceOp op : operations) {
        if (in_pieces && op != ReduceOp::sum) continue;
        for (const Shape& shape : {Shape{1013}, Shape{size() + 1, 2, 3}, Shape{size(), 0}}) {
          for (const Tensor& values :
               {Tensor::empty(shape, type), Tensor(room.storage(), 24, shape, type)}) {
            fill(values);
            const Tensor part = comm_->reduce_scatter(values, op);
            const auto wanted = expected(values.count(), op, rank());
            const Range dealt = part_of(shape[0], size(), rank());
            ASSERT_EQ(part.shape()[0], dealt.size());
            const std::int64_t first = dealt.begin * (values.count() / shape[0]);
            const Tensor found = part.to(DType::float64);
            for (std::int64_t i = 0; i < part.count(); ++i)
              ASSERT_EQ(found.data<double>()[i], wanted[static_cast<std::size_t>(first + i)])
                  << name_of(op) << " of " << shape.text() << " " << name_of(type) << ", element "
                  << first + i;
          }
        }
      }
    }
  }
}

// Longer than the shared memory through which private buffers pass, and no two elements alike.
TEST_P(Reductions, ReduceScatterOfManyElements) {
  const std::int64_t count = 700'001;
  const Tensor values = Tensor::empty({count});
  std::vector<double> wanted(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    values.data<float>()[i] = static_cast<float>(i + 3 * rank());
    wanted[static_cast<std::size_t>(i)] = values.data<float>()[i];
  }
  const Tensor before = values.clone();
  MPI_Allreduce(MPI_IN_PLACE, wanted.data(), static_cast<int>(count), MPI_DOUBLE, MPI_SUM,
                MPI_COMM_WORLD);
  const Tensor part = comm_->reduce_scatter(values);
  const Range dealt = part_of(count, size(), rank());
  ASSERT_EQ(part.count(), dealt.size());
  for (std::int64_t i = 0; i < part.count(); ++i)
    ASSERT_EQ(part.data<float>()[i], wanted[static_cast<std::size_t>(dealt.begin + i)])
        << "element " << dealt.begin + i;
  for (std::int64_t i = 0; i < count; ++i)
    ASSERT_EQ(values.data<float>()[i], before.data<float>()[i]);
}

TEST_P(Reductions, RejectDifferentShapesOnAllRanks) {
  if (size() == 1) GTEST_SKIP() << "one rank agrees with itself";
  const Tensor values = Tensor::zeros({rank() == size() - 1 ? 5 : 4});
  try {
    comm_->allreduce(values);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::disagreement);
    EXPECT_NE(std::string(error.what()).find("sum of"), std::string::npos) << error.what();
  }
  EXPECT_THROW(comm_->reduce(values), Error);
  EXPECT_THROW(comm_->reduce_scatter(values), Error);
  EXPECT_THROW(comm_->allreduce(Tensor::zeros({4}), rank() == 0 ? ReduceOp::max : ReduceOp::sum),
               Error);
  // The communicator still works.
  check(Tensor::empty({4}), ReduceOp::sum);
}

TEST_P(Reductions, RejectUint8) {
  EXPECT_THROW(comm_->allreduce(Tensor::zeros({4}, DType::uint8)), Error);
}

TASUKI_FOR_EVERY_COMMUNICATOR(Reductions);
// That of examples/my_training.
INSTANTIATE_TEST_SUITE_P(Own, Reductions, ::testing::Values("double"), name_of_parameter);

}  // namespace
}  // namespace tasuki
