// Every allreduce algorithm over MPI, on its own and inside of the communicators that send an
// allreduce's messages themselves, against plain MPI.
#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "communicator/algorithms/link_probe.hpp"
#include "communicator/algorithms/planned_allreduce.hpp"
#include "communicator/mpi_comm.hpp"
#include "communicator_fixture.hpp"

namespace tasuki {
namespace {

constexpr DType types[] = {DType::float32,  DType::float64, DType::float16,
                           DType::bfloat16, DType::int32,   DType::int64};
constexpr std::int64_t lengths[] = {0, 1, 3, 1000, 1'000'001};

class Algorithms : public ::testing::TestWithParam<AllreduceAlgorithm> {
 protected:
  int rank() const { return world_->rank(); }
  int size() const { return world_->size(); }

  // Small whole numbers, whose sums every type holds exactly.
  void check_integers(DType type, std::int64_t count) {
    Tensor values = Tensor::empty({count}, DType::float64);
    for (std::int64_t i = 0; i < count; ++i)
      values.data<double>()[i] = static_cast<double>((i * 7 + rank() * 5) % 9) - 4;
    const Tensor found = values.to(type);
    MPI_Allreduce(MPI_IN_PLACE, values.data<double>(), static_cast<int>(count), MPI_DOUBLE, MPI_SUM,
                  MPI_COMM_WORLD);
    run(found);
    const Tensor sums = found.to(DType::float64);
    for (std::int64_t i = 0; i < count; ++i)
      ASSERT_EQ(sums.data<double>()[i], values.data<double>()[i])
          << name_of(type) << ", element " << i << " of " << count;
  }

  void run(const Tensor& values) {
    PlannedAllreduce allreduce(rank(), size(), {.algorithm = GetParam()});
    allreduce.run(values.raw(), values.count(), values.dtype(), ReduceOp::sum, comm_);
  }

  std::unique_ptr<Communicator> world_ = create_communicator("naive");
  MPI_Comm comm_ = mpi_comm(*world_);
};

TEST_P(Algorithms, SumIntegersExactlyInEveryTypeAndLength) {
  for (const DType type : types) {
    for (const std::int64_t count : lengths) {
      // More ranks than processors take their time; the long vector in two types is enough there.
      if (count > 1000 && size() > 4 && type != DType::float16 && type != DType::int64) continue;
      check_integers(type, count);
    }
  }
}

// Between two elements of the sum in double lies the rounding of (ranks - 1) additions.
TEST_P(Algorithms, SumFloatsWithinRoundingAndAlikeOnAllRanks) {
  for (const std::int64_t count : lengths) {
    const Tensor values = Tensor::empty({count});
    std::vector<double> sums(static_cast<std::size_t>(count)), sizes(sums.size());
    for (std::int64_t i = 0; i < count; ++i) {
      const float value = std::sin(static_cast<float>(i + 1) * static_cast<float>(rank() + 1));
      values.data<float>()[i] = value;
      sums[static_cast<std::size_t>(i)] = value;
      sizes[static_cast<std::size_t>(i)] = std::abs(value);
    }
    for (std::vector<double>* each : {&sums, &sizes})
      MPI_Allreduce(MPI_IN_PLACE, each->data(), static_cast<int>(count), MPI_DOUBLE, MPI_SUM,
                    MPI_COMM_WORLD);
    run(values);
    for (std::int64_t i = 0; i < count; ++i)
      ASSERT_NEAR(values.data<float>()[i], sums[static_cast<std::size_t>(i)],
                  (size() - 1) * 0x1p-24 * sizes[static_cast<std::size_t>(i)])
          << "element " << i << " of " << count;
    if (GetParam() == AllreduceAlgorithm::mpi) continue;
    const Tensor first = values.clone();
    MPI_Bcast(first.raw(), static_cast<int>(first.bytes()), MPI_BYTE, 0, MPI_COMM_WORLD);
    EXPECT_EQ(std::memcmp(first.raw(), values.raw(), first.bytes()), 0) << count << " elements";
  }
}

TEST_P(Algorithms, SumGradientsOfCommunicators) {
  for (const char* kind : {"flat", "hierarchical", "two_dimensional"}) {
    if (!allows(kind, world_->topology())) continue;
    const auto comm =
        create_communicator(kind, {.sizes = {.message_chunk = 4096}, .algorithm = GetParam()});
    for (const std::int64_t count : {3, 5000, 100'000}) {
      const Tensor values{
          comm->allocate(static_cast<std::size_t>(count) * 4), 0, {count}, DType::float32};
      for (int turn = 0; turn < 3; ++turn) {
        values.fill(static_cast<float>(rank() + turn));
        comm->sum_gradients({values, {}, 0});
        const int sum_of_ranks = size() * (size() - 1) / 2;
        const auto expected = static_cast<float>(sum_of_ranks + size() * turn);
        for (std::int64_t i = 0; i < count; ++i)
          ASSERT_EQ(values.data<float>()[i], expected) << kind << ", element " << i;
      }
    }
  }
}

TEST(LinkProbe, MeasuresExistingLevels) {
  const auto world = create_communicator("naive");
  const Links found = probe_links(*world, 0.05);
  EXPECT_EQ(found.between.has_value(), world->inter_size() > 1);
  EXPECT_EQ(found.inside.has_value(), world->size() > world->inter_size());
  for (const auto& link : {found.between, found.inside}) {
    if (!link) continue;
    EXPECT_GT(link->latency, 0);
    EXPECT_LT(link->latency, 1);
    EXPECT_GT(link->bytes_per_second, 1e4);
    EXPECT_LT(link->bytes_per_second, 1e12);
    const Tensor own = Tensor::full({1}, link->bytes_per_second, DType::float64);
    for (const Tensor& other : world->allgather(own)) EXPECT_EQ(other.item(), own.item());
  }
}

std::string name_of_algorithm(const ::testing::TestParamInfo<AllreduceAlgorithm>& info) {
  std::string name = name_of(info.param);
  std::ranges::replace(name, '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, Algorithms, ::testing::ValuesIn(allreduce_algorithms()),
                         name_of_algorithm);

}  // namespace
}  // namespace tasuki
