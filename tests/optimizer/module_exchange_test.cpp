// Gradients and values of a model without an optimizer, against plain MPI.
#include <gtest/gtest.h>
#include <mpi.h>

#include "communicators.hpp"
#include "nn/connection.hpp"
#include "nn/normalization.hpp"
#include "optimizer/module_exchange.hpp"

namespace tasuki {
namespace {

constexpr std::int64_t tied_inputs = 3, tied_units = 4;

// `lazy` has no shape until something passes through it; `again` is `first` once more.
struct TiedNet : Module {
  Linear first{tied_inputs, tied_units};
  BatchNorm norm{tied_units};
  Linear lazy{std::nullopt, tied_units};
  explicit TiedNet(std::uint64_t seed) {
    add("first", first);
    add("norm", norm);
    add("lazy", lazy);
    add("again", first);
    initialize(seed);
  }
};

class ModuleExchange : public testing::WithCommunicator {};

std::vector<double> numbers_of(const Tensor& values) {
  const Tensor wide = values.to(DType::float64);
  return {wide.data<double>(), wide.data<double>() + wide.count()};
}

// Element i of the parameter number k on a rank.
double gradient(int k, std::int64_t i, int rank) {
  return static_cast<double>(8 * k + i % 5 + rank);
}

TEST_P(ModuleExchange, AveragesGradients) {
  for (const double divisor : {0.0, 8.0}) {
    TiedNet net(0);
    const auto parameters = net.parameters();
    for (int k = 0; k < static_cast<int>(parameters.size()); ++k) {
      Parameter& parameter = *parameters[static_cast<std::size_t>(k)].parameter;
      parameter.clear_grad();
      // The last rank has computed none.
      if (rank() == size() - 1) continue;
      parameter.fill_missing_grad();
      const Tensor values = parameter.grad_storage();
      for (std::int64_t i = 0; i < values.count(); ++i)
        values.data<float>()[i] = static_cast<float>(gradient(k, i, rank()));
    }
    mean_gradients(*communicator_, net, divisor);
    for (int k = 0; k < static_cast<int>(parameters.size()); ++k) {
      const Parameter& parameter = *parameters[static_cast<std::size_t>(k)].parameter;
      // Tied weights were filled under their last path.
      const int filled = k < 2 ? static_cast<int>(parameters.size()) - 2 + k : k;
      const std::int64_t count = parameter.shape().count();
      std::vector<double> sums(static_cast<std::size_t>(count));
      for (std::int64_t i = 0; i < count && rank() != size() - 1; ++i)
        sums[static_cast<std::size_t>(i)] = gradient(filled, i, rank());
      MPI_Allreduce(MPI_IN_PLACE, sums.data(), static_cast<int>(count), MPI_DOUBLE, MPI_SUM,
                    MPI_COMM_WORLD);
      EXPECT_TRUE(parameter.has_grad());
      for (std::int64_t i = 0; i < count; ++i)
        ASSERT_FLOAT_EQ(parameter.grad().data<float>()[i],
                        static_cast<float>(sums[static_cast<std::size_t>(i)] /
                                           (divisor == 0 ? size() : divisor)))
            << parameters[static_cast<std::size_t>(k)].path;
    }
  }
}

TEST_P(ModuleExchange, BroadcastsRankZerosParametersAndBuffers) {
  TiedNet net(static_cast<std::uint64_t>(rank()));
  for (const auto& [path, tensor] : net.buffers()) tensor->fill(rank() + 1);
  bcast_data(*communicator_, net);
  const TiedNet expected(0);
  const auto found = net.parameters(), wanted = expected.parameters();
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t k = 0; k < found.size(); ++k)
    EXPECT_EQ(numbers_of(found[k].parameter->value()), numbers_of(wanted[k].parameter->value()))
        << found[k].path;
  ASSERT_FALSE(net.buffers().empty());
  for (const auto& [path, tensor] : net.buffers())
    EXPECT_EQ(numbers_of(*tensor),
              std::vector<double>(static_cast<std::size_t>(tensor->count()), 1))
        << path;
}

TEST_P(ModuleExchange, RejectsDifferentModelsOnAllRanks) {
  if (size() == 1) GTEST_SKIP() << "one rank agrees with itself";
  const Linear own(tied_inputs, rank() == 0 ? tied_units : tied_units + 1);
  for (const auto& exchange :
       {+[](Communicator&comm, const Module&model) { mean_gradients(comm, model); },
        +[](Communicator&comm, const Module&model) { bcast_data(comm, model); }}) {
    try {
      exchange(*communicator_, own);
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::disagreement) << error.what();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Communicators, ModuleExchange,
                         ::testing::ValuesIn(testing::summing_communicators()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace tasuki
