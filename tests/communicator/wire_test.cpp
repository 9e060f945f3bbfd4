// Gradients that travel as 16 bits: every algorithm over MPI, and every communicator. The bytes
// that are sent are counted on their way to MPI.
#include <mpi.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "communicator/algorithms/planned_allreduce.hpp"
#include "communicator/mpi_comm.hpp"
#include "communicator_fixture.hpp"

namespace {
std::int64_t bytes_sent = 0;
}  // namespace

// In place of MPI's, which it calls by MPI's other name.
extern "C" int MPI_Isend(const void* values, int count, MPI_Datatype type, int peer, int tag,
                         MPI_Comm comm, MPI_Request* request) {
  int size = 0;
  PMPI_Type_size(type, &size);
  bytes_sent += std::int64_t{count} * size;
  return PMPI_Isend(values, count, type, peer, tag, comm, request);
}

namespace tasuki {
namespace {

constexpr DType types[] = {DType::float16, DType::bfloat16};
constexpr std::int64_t lengths[] = {0, 1, 3, 1000, 1'000'001};
constexpr std::int64_t notices = 16;

// Of one rounding to the nearest value.
double relative_error(DType type) {
  return type == DType::float16 ? 0x1p-11 : 0x1p-8;
}
// The same where values are small.
double absolute_error(const WireFormat& format) {
  return format.dtype == DType::float16 ? 0x1p-25 / format.factor : 0;
}

// A number that differs between elements and ranks.
float some_value(std::int64_t element, int rank) {
  return std::sin(static_cast<float>(element + 1) * static_cast<float>(rank + 1));
}

std::vector<double> sum_of_all(std::vector<double> own) {
  MPI_Allreduce(MPI_IN_PLACE, own.data(), static_cast<int>(own.size()), MPI_DOUBLE, MPI_SUM,
                MPI_COMM_WORLD);
  return own;
}

std::vector<double> doubles(const Tensor& values) {
  const auto floats = values.span<float>();
  return {floats.begin(), floats.end()};
}

void expect_same_bits_everywhere(const Tensor& values) {
  const Tensor first = values.clone();
  MPI_Bcast(first.raw(), static_cast<int>(first.bytes()), MPI_BYTE, 0, MPI_COMM_WORLD);
  EXPECT_EQ(std::memcmp(first.raw(), values.raw(), first.bytes()), 0)
      << values.count() << " elements";
}

class WireRounding : public ::testing::TestWithParam<AllreduceAlgorithm> {
 protected:
  int rank() const { return world_->rank(); }
  int size() const { return world_->size(); }

  Wire wire(DType type, double terms = 0) const { return {wire_format(type, size(), terms)}; }

  // Returns the bytes that this rank sends.
  std::int64_t run(const Tensor& values, const Wire& wire) {
    bytes_sent = 0;
    PlannedAllreduce allreduce(rank(), size(), {.algorithm = GetParam()});
    allreduce.run(values.raw(), values.count(), values.dtype(), ReduceOp::sum, comm_, {}, wire);
    return bytes_sent;
  }

  // More ranks than processors take their time: the long vector in one type is enough there.
  bool is_worth_it(DType type, std::int64_t count) const {
    return count <= 1000 || size() <= 2 || type == DType::float16;
  }

  // A sum passes one rounding for each rank, and where halving-doubling has neighbours sum first,
  // one half of it passes one more for each of these.
  double roundings() const {
    return 2 * size() - static_cast<int>(std::bit_floor(static_cast<unsigned>(size())));
  }

  std::unique_ptr<Communicator> world_ = create_communicator("naive");
  MPI_Comm comm_ = mpi_comm(*world_);
};

TEST_P(WireRounding, SumsRepresentableValuesExactly) {
  for (const DType type : types) {
    for (const std::int64_t count : lengths) {
      if (!is_worth_it(type, count)) continue;
      const Tensor values = Tensor::empty({count});
      for (std::int64_t i = 0; i < count; ++i)
        values.data<float>()[i] = static_cast<float>((i * 7 + rank() * 5) % 9 - 4);
      const std::vector<double> sums = sum_of_all(doubles(values));
      run(values, wire(type));
      ASSERT_EQ(doubles(values), sums) << name_of(type) << ", " << count << " elements";
    }
  }
}

TEST_P(WireRounding, RoundsOncePerMessageAndAlikeOnAllRanks) {
  for (const DType type : types) {
    for (const std::int64_t count : lengths) {
      if (!is_worth_it(type, count)) continue;
      const Tensor values = Tensor::empty({count});
      std::vector<double> sizes;
      for (std::int64_t i = 0; i < count; ++i) {
        values.data<float>()[i] = some_value(i, rank());
        sizes.push_back(std::abs(values.data<float>()[i]));
      }
      const std::vector<double> sums = sum_of_all(doubles(values));
      sizes = sum_of_all(sizes);
      run(values, wire(type));
      const double times = size() == 1 ? 0 : roundings();
      const double error = times * relative_error(type);
      const double least = times * absolute_error(wire(type).format);
      for (std::size_t i = 0; i < sums.size(); ++i)
        ASSERT_NEAR(values.data<float>()[i], sums[i], error * sizes[i] + least)
            << name_of(type) << ", element " << i << " of " << count;
      expect_same_bits_everywhere(values);
    }
  }
}

TEST_P(WireRounding, KeepsSumsBeyondFloat16OfKnownTerms) {
  constexpr double examples = 4000;  // on each rank, each with a gradient of about 100
  const Tensor values = Tensor::empty({1000});
  for (std::int64_t i = 0; i < values.count(); ++i)
    values.data<float>()[i] = static_cast<float>(examples * (100 + some_value(i, rank())));
  const std::vector<double> sums = sum_of_all(doubles(values));
  run(values, wire(DType::float16, examples * size()));
  for (std::size_t i = 0; i < sums.size(); ++i)
    ASSERT_NEAR(values.data<float>()[i], sums[i],
                roundings() * relative_error(DType::float16) * sums[i]);
}

TEST_P(WireRounding, KeepsTrailingElementsExact) {
  for (const DType type : types) {
    for (const std::int64_t count : {1, 16, 17, 1019, 100'000}) {
      const Tensor values = Tensor::empty({count});
      Wire partly = wire(type);
      partly.exact_from = std::max<std::int64_t>(0, count - notices);
      for (std::int64_t i = 0; i < count; ++i)
        values.data<float>()[i] = static_cast<float>(i < partly.exact_from ? 1 : 4095 - i % 3);
      const std::vector<double> sums = sum_of_all(doubles(values));
      run(values, partly);
      ASSERT_EQ(doubles(values), sums) << name_of(type) << ", " << count << " elements";
    }
  }
}

TEST_P(WireRounding, HalvesTheTraffic) {
  constexpr std::int64_t count = 200'000;
  const Tensor values = Tensor::zeros({count}, DType::float32, Device::cpu());
  const std::int64_t full = run(values, {});
  for (const DType type : types) {
    EXPECT_NEAR(static_cast<double>(run(values, wire(type))), static_cast<double>(full) / 2,
                size() * 256.0);
    Wire partly = wire(type);
    partly.exact_from = count - notices;
    EXPECT_LE(run(values, partly), full / 2 + size() * 512);
  }
  EXPECT_EQ(full > 0, size() > 1);
}

// Parts of many sizes, one of them empty, and what all ranks get behind them. A rank sends all
// parts but its own.
TEST_P(WireRounding, GivesEachRankTheSumsOfItsPart) {
  Division division(0);
  division.parts.resize(static_cast<std::size_t>(size()));
  for (int owner = 0; owner < size(); ++owner) {
    const std::int64_t end = division.common.end + 7001 * ((owner + size() - 1) % size());
    division.append_to_part(owner, {division.common.end, end});
    division.common.end = end;
  }
  division.common = {division.common.end, division.common.end + notices};
  const std::int64_t count = division.common.end, divided = division.common.begin;
  for (const DType type : {DType::float32, DType::float16, DType::bfloat16})
    for (const bool is_whole : {true, false}) {
      const Tensor values = Tensor::empty({count});
      std::vector<double> sizes;
      for (std::int64_t i = 0; i < count; ++i) {
        values.data<float>()[i] = is_whole || i >= divided
                                      ? static_cast<float>((i * 7 + rank() * 5) % 9 - 4)
                                      : some_value(i, rank());
        sizes.push_back(std::abs(values.data<float>()[i]));
      }
      const std::vector<double> sums = sum_of_all(doubles(values));
      sizes = sum_of_all(sizes);
      Wire rounded = wire(type);
      rounded.exact_from = divided;
      bytes_sent = 0;
      PlannedAllreduce scatter(rank(), size(), {.algorithm = GetParam()});
      scatter.run(values.raw(), division, values.dtype(), ReduceOp::sum, comm_, {}, rounded);
      const std::int64_t sent = bytes_sent;
      std::vector<Range> gets = division.parts[static_cast<std::size_t>(rank())];
      std::int64_t own = 0;
      for (const Range range : gets) own += range.size();
      gets.push_back(division.common);
      const double error = type == DType::float32 ? 0x1p-24 : relative_error(type);
      for (const Range range : gets)
        for (std::int64_t i = range.begin; i < range.end; ++i) {
          const auto at = static_cast<std::size_t>(i);
          const double most = is_whole || i >= divided
                                  ? 0
                                  : size() * (error * sizes[at] + absolute_error(rounded.format));
          ASSERT_NEAR(values.data<float>()[i], sums[at], most) << name_of(type) << ", " << i;
        }
      if (size() == 1) continue;
      const auto width = static_cast<std::int64_t>(size_of(rounded.type_of(DType::float32)));
      const std::int64_t of_parts = (divided - own) * width;
      EXPECT_GE(sent, of_parts) << name_of(type);
      EXPECT_LE(sent, of_parts + size() * notices * std::int64_t{sizeof(float)}) << name_of(type);
    }
}

// Whatever rounding takes is kept by some rank, so nothing is lost over many steps.
TEST_P(WireRounding, CarriesRoundingErrorsOver) {
  constexpr int steps = 12;
  for (const DType type : types) {
    for (const std::int64_t count : {1000, 20'000}) {
      const Tensor values = Tensor::empty({count}),
                   residual = Tensor::zeros({count}, DType::float32, Device::cpu());
      Wire with_feedback = wire(type);
      with_feedback.residual = residual.data<float>();
      std::vector<double> arrived(static_cast<std::size_t>(count), 0), own(arrived);
      for (int step = 0; step < steps; ++step) {
        for (std::int64_t i = 0; i < count; ++i) {
          values.data<float>()[i] = some_value(i, rank()) / 3;
          own[static_cast<std::size_t>(i)] += values.data<float>()[i];
        }
        run(values, with_feedback);
        for (std::int64_t i = 0; i < count; ++i)
          arrived[static_cast<std::size_t>(i)] += values.data<float>()[i];
      }
      const std::vector<double> sums = sum_of_all(own), kept = sum_of_all(doubles(residual));
      double most_kept = 0;
      for (std::size_t i = 0; i < sums.size(); ++i) {
        ASSERT_NEAR(arrived[i] + kept[i], sums[i], steps * size() * 1e-6) << "element " << i;
        ASSERT_NEAR(arrived[i], sums[i], roundings() * 2 * relative_error(type) * size());
        most_kept = std::max(most_kept, std::abs(kept[i]));
      }
      EXPECT_EQ(most_kept > 0, size() > 1);
    }
  }
}

std::string name_of_algorithm(const ::testing::TestParamInfo<AllreduceAlgorithm>& info) {
  std::string name = name_of(info.param);
  std::ranges::replace(name, '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Algorithms, WireRounding,
                         ::testing::Values(AllreduceAlgorithm::ring,
                                           AllreduceAlgorithm::halving_doubling,
                                           AllreduceAlgorithm::tree, AllreduceAlgorithm::direct),
                         name_of_algorithm);

class RoundingCommunicator : public EveryCommunicator {
 protected:
  void make_for(DType type) {
    comm_ = create_communicator(GetParam(), {.wire_dtype = type, .sizes = {.message_chunk = 1024}});
  }
  // Of 4 MiB, where memory is private.
  bool passes_in_pieces() const {
    return comm_->inter_size() > 1 &&
           (GetParam() == "hierarchical" || GetParam() == "two_dimensional");
  }
};

// In memory of the communicator and in private memory, in which some pass in pieces.
TEST_P(RoundingCommunicator, SumsGradientsAlikeAndNoticesExactly) {
  for (const DType type : types) {
    make_for(type);
    for (const std::int64_t count : {40, 5000, 1'100'000}) {
      if (count > 5000 && (type != DType::float16 || !passes_in_pieces())) continue;
      const GradientView::Segment segments[] = {
          {0, 7}, {16, count - notices - 16}, {count - notices, 4}};
      const Tensor own = Tensor::zeros({count}, DType::float32, Device::cpu());
      for (const auto& [offset, length] : segments)
        for (std::int64_t i = offset; i < offset + length; ++i)
          own.data<float>()[i] =
              i < count - notices ? some_value(i, rank()) : static_cast<float>(4095 - i % 3);
      const std::vector<double> sums = sum_of_all(doubles(own));
      for (const Tensor& values : {allocated(count), Tensor::empty({count})}) {
        values.copy_from(own);
        comm_->sum_gradients({.arena = values, .segments = segments, .exact_at_end = notices});
        for (std::int64_t i = 0; i < count; ++i) {
          const double most =
              i < count - notices ? 2.0 * size() * size() * relative_error(type) : 0;
          ASSERT_NEAR(values.data<float>()[i], sums[static_cast<std::size_t>(i)], most)
              << name_of(type) << ", element " << i << " of " << count;
        }
        expect_same_bits_everywhere(values);
      }
    }
  }
}

TEST_P(RoundingCommunicator, CarriesRoundingErrorsOver) {
  constexpr int steps = 4;
  make_for(DType::bfloat16);
  for (const std::int64_t count : {5000, 1'100'000}) {
    if (count > 5000 && !passes_in_pieces()) continue;
    const GradientView::Segment segments[] = {{0, count}};
    const Tensor residual = Tensor::zeros({count}, DType::float32, Device::cpu());
    for (const Tensor& values : {allocated(count), Tensor::empty({count})}) {
      residual.fill(0);
      std::vector<double> arrived(static_cast<std::size_t>(count), 0), own(arrived);
      for (int step = 0; step < steps; ++step) {
        for (std::int64_t i = 0; i < count; ++i) {
          values.data<float>()[i] = some_value(i, rank());
          own[static_cast<std::size_t>(i)] += values.data<float>()[i];
        }
        comm_->sum_gradients({.arena = values, .segments = segments, .residual = residual});
        for (std::int64_t i = 0; i < count; ++i)
          arrived[static_cast<std::size_t>(i)] += values.data<float>()[i];
      }
      const std::vector<double> sums = sum_of_all(own), kept = sum_of_all(doubles(residual));
      for (std::size_t i = 0; i < sums.size(); ++i)
        ASSERT_NEAR(arrived[i] + kept[i], sums[i], steps * size() * 1e-6) << "element " << i;
    }
  }
}

// Blocking and in slices, in memory of the communicator and in private memory. Each element is sent
// to its owner once by all others that exchange messages: half of what an allreduce sends.
TEST_P(RoundingCommunicator, SendsHalfWhenRanksNeedOnlyAPart) {
  const std::int64_t count = 30'000 * size();
  std::vector<Range> needed;
  for (int owner = 0; owner < size(); ++owner) needed.push_back(part_of(count, size(), owner));
  const GradientView::Segment segments[] = {{0, 100}, {100, count - 100}};
  for (const DType type : {DType::float32, DType::float16, DType::bfloat16}) {
    make_for(type);
    const bool has_node_memory = GetParam() != "naive" && GetParam() != "flat";
    const bool is_planned = has_node_memory || type != DType::float32;  // else by MPI
    const int groups = has_node_memory ? comm_->inter_size() : size();
    const std::int64_t width = comm_->inter_size() == 1 && has_node_memory ? 4 : size_of(type);
    for (const Tensor& values : {allocated(count), Tensor::empty({count})})
      for (const bool in_slices : {false, true}) {
        const GradientView view{
            .arena = values, .segments = segments, .is_agreed = in_slices, .needed = needed};
        for (std::int64_t i = 0; i < count; ++i)
          values.data<float>()[i] = static_cast<float>((i * 7 + rank() * 5) % 9 - 4);
        const std::vector<double> sums = sum_of_all(doubles(values));
        MPI_Barrier(MPI_COMM_WORLD);
        bytes_sent = 0;
        if (in_slices)
          comm_->start_sum_gradients(view, Background::slices)->wait();
        else
          comm_->sum_gradients(view);
        const std::vector<double> sent = sum_of_all({static_cast<double>(bytes_sent)});
        const Range own = needed[static_cast<std::size_t>(rank())];
        for (std::int64_t i = own.begin; i < own.end; ++i)
          ASSERT_EQ(values.data<float>()[i], sums[static_cast<std::size_t>(i)]) << i;
        if (!is_planned) continue;
        EXPECT_EQ(sent.front(), static_cast<double>((groups - 1) * count * width))
            << name_of(type) << (in_slices ? " in slices" : "");
      }
  }
}

TEST_P(RoundingCommunicator, RoundsOnlyGradients) {
  make_for(DType::bfloat16);
  const Tensor values = Tensor::full({1000}, 1 + 0x1p-20, DType::float32);
  comm_->allreduce(values);
  for (const float value : values.span<float>())
    ASSERT_EQ(value, static_cast<float>(size() * (1 + 0x1p-20)));
}

TASUKI_FOR_EVERY_COMMUNICATOR(RoundingCommunicator);

TEST(Wire, MpisAllreduceCannotRound) {
  try {
    create_communicator("flat",
                        {.wire_dtype = DType::float16, .algorithm = AllreduceAlgorithm::mpi});
    ADD_FAILURE() << "it was created";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::config);
    EXPECT_NE(std::string(error.what()).find("float16, use ring"), std::string::npos)
        << error.what();
  }
}

TEST(Wire, AlgorithmIsChosenByBytesSent) {
  const PlannedAllreduce allreduce(0, 8, {});
  bool differs = false;
  for (std::int64_t count = 64; count < 1 << 20; count += count / 2) {
    const AllreduceAlgorithm chosen = allreduce.algorithm_for(2 * count, DType::float16);
    EXPECT_EQ(chosen, allreduce.algorithm_for(count, DType::float32)) << count;
    differs |= chosen != allreduce.algorithm_for(2 * count, DType::float32);
  }
  EXPECT_TRUE(differs);
}

TEST(Wire, BannerSaysWhatIsRounded) {
  for (const DType type : types) {
    for (const std::string& name : real_communicators()) {
      const auto placement = create_communicator("naive");
      if (!allows(name, placement->topology())) continue;
      const std::string text = create_communicator(name, {.wire_dtype = type})->describe();
      EXPECT_NE(text.find(name_of(type)), std::string::npos) << text;
      EXPECT_EQ(create_communicator(name)->describe().find(name_of(type)), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace tasuki
