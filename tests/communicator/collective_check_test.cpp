// TASUKI_CHECK_COLLECTIVES finds ranks that call another operation than the others.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>

#include "communicator/objects.hpp"
#include "communicator_fixture.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/json.hpp"

namespace tasuki {
namespace {

using testing::error_of;

// Where rank 0 runs alone: mpirun does not bring variables to other hosts.
const bool is_asked_for = [] {
  for (const char* const variable : {"OMPI_COMM_WORLD_RANK", "PMI_RANK"})
    if (const char* const rank = std::getenv(variable); rank != nullptr && std::string(rank) == "0")
      return setenv("TASUKI_CHECK_COLLECTIVES", "1", 1) == 0;
  return false;
}();

class CollectiveChecks : public EveryCommunicator {
 protected:
  bool is_last() const { return rank() == size() - 1; }
  // What all ranks throw when the last one makes the other call. The communicator works afterwards.
  std::string error_of_calls(const std::function<void()>& usual,
                             const std::function<void()>& other) {
    const std::string text = error_of(is_last() ? other : usual);
    const auto texts = allgather_object(*comm_, text);
    for (const auto& each : texts) EXPECT_EQ(each, text);
    return text;
  }
  // With both descriptions, whatever the number of ranks.
  void expect_found(const std::string& usual, const std::string& other,
                    const std::function<void()>& do_usual, const std::function<void()>& do_other) {
    if (size() == 1) return;
    const std::string text = error_of_calls(do_usual, do_other);
    const std::string last = std::to_string(size() - 1);
    EXPECT_NE(text.find("rank " + last + " on "), std::string::npos) << text;
    EXPECT_NE(text.find("calls " + other), std::string::npos) << text;
    EXPECT_NE(text.find(size() == 2 ? "calls " + usual + ","
                                    : " where the other " + last + " call " + usual),
              std::string::npos)
        << text;
    EXPECT_EQ(text.find('\n'), std::string::npos);
  }
};

TEST_P(CollectiveChecks, DetectsDifferentOperation) {
  const Tensor values = Tensor::zeros({10});
  expect_found(
      "sum_gradients of 10 float32", "barrier", [&] { comm_->sum_gradients({.arena = values}); },
      [&] { comm_->barrier(); });
}

TEST_P(CollectiveChecks, DetectsDifferentSize) {
  const Tensor values = Tensor::zeros({is_last() ? 11 : 10});
  const auto reduce = [&] { comm_->allreduce(values); };
  expect_found("allreduce of 10 float32 (sum)", "allreduce of 11 float32 (sum)", reduce, reduce);
}

TEST_P(CollectiveChecks, DetectsDifferentRoot) {
  const auto bcast = [&] { bcast_object(*comm_, 1, is_last() ? 1 : 0); };
  expect_found("bcast_bytes from rank 0", "bcast_bytes from rank 1", bcast, bcast);
}

TEST_P(CollectiveChecks, DetectsDifferentBackgroundExchange) {
  const Tensor values = allocated(is_last() ? 11 : 10);
  values.fill(1);
  for (const Background background : {Background::thread, Background::slices}) {
    if (!comm_->supports(background)) continue;
    const auto start = [&] { comm_->start_sum_gradients({.arena = values}, background); };
    expect_found("start_sum_gradients of 10 float32", "start_sum_gradients of 11 float32", start,
                 start);
  }
}

// Sizes that may differ, several exchanges at once, and parts of the job with a communicator each.
TEST_P(CollectiveChecks, AcceptsMatchingCalls) {
  allgather_object(*comm_, std::string(static_cast<std::size_t>(rank()), 'x'));
  const Tensor memory = allocated(100 + rank()), values = memory.slice(0, 100);
  values.fill(1);
  const GradientView::Segment half[] = {{0, 50}};
  const GradientView first{.arena = values.slice(0, 50), .segments = half},
      second{.arena = values.slice(50, 100), .segments = half};
  {
    const auto one = comm_->start_sum_gradients(first), two = comm_->start_sum_gradients(second);
    one->wait();
    two->wait();
  }
  EXPECT_EQ(values.data<float>()[99], size());
  if (GetParam() != "naive") return;  // others may not allow all placements of parts
  const auto part = comm_->split(rank() % 2, rank());
  if (rank() % 2 == 0) part->barrier();
  EXPECT_EQ(allgather_object(*part, rank()).size(), static_cast<std::size_t>(part->size()));
}

TASUKI_FOR_EVERY_COMMUNICATOR(CollectiveChecks);

}  // namespace
}  // namespace tasuki
