// Arrays and objects between ranks, for every communicator.
#include <cstdlib>
#include <limits>
#include <numeric>

#include "communicator/objects.hpp"
#include "communicator/send_queue.hpp"
#include "communicator_fixture.hpp"
#include "tensor/backend.hpp"
#include "tests/support/json.hpp"

namespace tasuki {
namespace {

constexpr DType all_types[] = {DType::float32, DType::float64, DType::float16, DType::bfloat16,
                               DType::int32,   DType::int64,   DType::uint8};

Tensor sequence(const Shape& shape, double first, DType dtype = DType::float32) {
  Tensor values = Tensor::empty(shape, DType::float64);
  std::iota(values.data<double>(), values.data<double>() + values.count(), first);
  return values.to(dtype);
}

void expect_equal(const Tensor& a, const Tensor& b) {
  ASSERT_TRUE(a.defined() && b.defined());
  EXPECT_EQ(a.dtype(), b.dtype());
  ASSERT_EQ(a.shape().text(), b.shape().text());
  for (std::int64_t i = 0; i < a.count(); ++i) {
    const Shape one{a.count()};
    const double x = a.reshape(one).slice(i, i + 1).item();
    const double y = b.reshape(one).slice(i, i + 1).item();
    ASSERT_EQ(x, y) << "element " << i << " of " << a.shape().text();
  }
}

Bytes bytes_of_text(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

class Messages : public EveryCommunicator {
 protected:
  int next() const { return (rank() + 1) % size(); }
  int previous() const { return (rank() + size() - 1) % size(); }
  // Passes tensors round: even ranks send first, and the last of an odd number too, which only
  // works because its receiver is rank 0, who sends first.
  std::vector<Tensor> pass_on(std::span<const Tensor> tensors) {
    if (rank() % 2 == 0) comm_->send(tensors, next());
    auto received = comm_->recv_many(previous());
    if (rank() % 2 != 0) comm_->send(tensors, next());
    return received;
  }
};

// All ranks send long messages before any of them receives.
TEST_P(Messages, QueueSendsWithoutReceivers) {
  if (size() == 1) GTEST_SKIP() << "one rank has no neighbour";
  SendQueue queue(*comm_);
  for (int turn = 0; turn < 3; ++turn) {
    const Tensor sent[] = {Tensor::full({100000}, rank() + turn), Tensor::zeros({0, 3})};
    queue.send(sent, next(), turn);
  }
  for (int turn = 0; turn < 3; ++turn) {
    const auto received = comm_->recv_many(previous(), turn);
    ASSERT_EQ(received.size(), 2u);
    expect_equal(received[0], Tensor::full({100000}, previous() + turn));
    expect_equal(received[1], Tensor::zeros({0, 3}));
  }
  queue.wait();
}

TEST_P(Messages, RingOfArrays) {
  if (size() == 1) GTEST_SKIP() << "one rank has no neighbour";
  for (const Shape& shape : {Shape{50}, Shape{50, 20}, Shape{50, 20, 5}, Shape{50, 20, 5, 3}}) {
    const Tensor own = Tensor::full(shape, rank());
    const auto received = pass_on({&own, 1});
    ASSERT_EQ(received.size(), 1u);
    expect_equal(received[0], Tensor::full(shape, previous()));
  }
}

TEST_P(Messages, TuplesOfArrays) {
  if (size() == 1) GTEST_SKIP() << "one rank has no neighbour";
  const auto tuple = [](int of_rank) {
    return std::vector<Tensor>{sequence({3, 4}, of_rank), sequence({}, of_rank + 1, DType::int64),
                               Tensor::empty({0, 5}, DType::float16)};
  };
  const auto received = pass_on(tuple(rank()));
  ASSERT_EQ(received.size(), 3u);
  for (std::size_t i = 0; i < received.size(); ++i) expect_equal(received[i], tuple(previous())[i]);
  EXPECT_TRUE(pass_on({}).empty());
}

TEST_P(Messages, CollectivesPreserveEveryTypeAndShape) {
  for (const DType dtype : all_types) {
    for (const Shape& shape : {Shape{}, Shape{1}, Shape{18}, Shape{0}, Shape{2, 3}}) {
      const int last = size() - 1;
      const Tensor own = sequence(shape, rank(), dtype);
      expect_equal(comm_->bcast(rank() == last ? own : Tensor(), last),
                   sequence(shape, last, dtype));
      const auto gathered = comm_->gather(own, last);
      ASSERT_EQ(gathered.size(), rank() == last ? static_cast<std::size_t>(size()) : 0u);
      const auto all = comm_->allgather(own);
      ASSERT_EQ(all.size(), static_cast<std::size_t>(size()));
      for (int other = 0; other < size(); ++other) {
        const auto place = static_cast<std::size_t>(other);
        expect_equal(all[place], sequence(shape, other, dtype));
        if (rank() == last) expect_equal(gathered[place], sequence(shape, other, dtype));
      }
      if (size() > 1) expect_equal(pass_on({&own, 1}).at(0), sequence(shape, previous(), dtype));
    }
  }
}

TEST_P(Messages, AllowDifferentShapesOnRanks) {
  const auto of = [](int from, int to) { return sequence({from + 1, to}, 10 * from + to); };
  std::vector<Tensor> outgoing;
  outgoing.reserve(static_cast<std::size_t>(size()));
  for (int other = 0; other < size(); ++other) outgoing.push_back(of(rank(), other));
  const auto incoming = comm_->alltoall(outgoing);
  for (int other = 0; other < size(); ++other)
    expect_equal(incoming.at(static_cast<std::size_t>(other)), of(other, rank()));
  for (int root = 0; root < size(); ++root) {
    expect_equal(comm_->scatter(rank() == root ? outgoing : std::vector<Tensor>{}, root),
                 of(root, rank()));
    const auto gathered = comm_->gather(of(rank(), root), root);
    for (std::size_t other = 0; other < gathered.size(); ++other)
      expect_equal(gathered[other], of(static_cast<int>(other), root));
  }
}

TEST_P(Messages, ScatterDistributesItemsOfAnArray) {
  for (int root = 0; root < size(); ++root) {
    for (const std::int64_t items : {0, 1, 7, 12}) {
      const Tensor all = sequence({items, 2, 3}, root, DType::int32);
      const Tensor part = comm_->scatter(rank() == root ? all : Tensor(), root);
      const Range dealt = part_of(items, size(), rank());
      expect_equal(part, all.slice(dealt.begin, dealt.end));
    }
  }
}

TEST_P(Messages, RejectScatterOfAScalar) {
  const Tensor scalar = Tensor::full({}, 1);
  // Not on one rank alone: the others would wait for the root, which refuses.
  if (rank() == 0) {
    EXPECT_THROW(comm_->scatter(scalar), Error);
  }
  EXPECT_THROW(comm_->scatter(scalar, size()), Error);
}

// Parts of a larger array, at any offset, as they are found in arenas and batches.
TEST_P(Messages, SendSlicesLikeWholeArrays) {
  const Tensor matrix = sequence({7, 5}, rank());
  const Tensor rows = matrix.slice(2, 6);
  if (size() > 1) expect_equal(pass_on({&rows, 1}).at(0), sequence({7, 5}, previous()).slice(2, 6));
  const auto incoming =
      comm_->alltoall(std::vector<Tensor>(static_cast<std::size_t>(size()), rows));
  for (int other = 0; other < size(); ++other)
    expect_equal(incoming[static_cast<std::size_t>(other)], sequence({7, 5}, other).slice(2, 6));
}

// A convolution's result has a blocked layout on some processors.
TEST_P(Messages, ConvertBackendLayoutsToPlain) {
  const auto activation = [](int of_rank) {
    const Tensor x = Tensor::full({2, 16, 8, 8}, of_rank + 1), w = Tensor::full({32, 16, 3, 3}, 1);
    return backend(Device::cpu()).conv2d(x, w, Tensor(), Conv2dOptions{});
  };
  const Tensor own = activation(rank());
  const auto all = comm_->allgather(own);
  for (int other = 0; other < size(); ++other) {
    EXPECT_TRUE(all[static_cast<std::size_t>(other)].is_plain());
    expect_equal(all[static_cast<std::size_t>(other)], activation(other).plain());
  }
  comm_->allreduce(own);
  const double sum = size() * (size() + 1) / 2.0;
  expect_equal(own.plain(), Tensor::full({2, 32, 6, 6}, 16 * 9 * sum));
}

TEST_P(Messages, ObjectsWithTagAndSource) {
  if (size() == 1) GTEST_SKIP() << "one rank has no other side";
  if (rank() == 0) {
    for (int turn = 1; turn < size(); ++turn) {
      MessageInfo info;
      const Bytes bytes = recv_bytes(*comm_, any_source, any_tag, &info);
      EXPECT_EQ(bytes, bytes_of_text("from " + std::to_string(info.source)));
      EXPECT_EQ(info.tag, 7 * info.source);
      EXPECT_TRUE(recv_bytes(*comm_, info.source, 99).empty());
    }
  } else {
    send_bytes(*comm_, bytes_of_text("from " + std::to_string(rank())), 0, 7 * rank());
    send_bytes(*comm_, {}, 0, 99);
  }
}

TEST_P(Messages, ObjectCollectives) {
  const auto text_of = [](int of_rank) {
    return std::string(static_cast<std::size_t>(of_rank), 'x');
  };
  const Bytes own = bytes_of_text(text_of(rank()));
  const auto all = allgather_bytes(*comm_, own);
  for (int root = 0; root < size(); ++root) {
    EXPECT_EQ(all[static_cast<std::size_t>(root)], bytes_of_text(text_of(root)));
    EXPECT_EQ(bcast_bytes(*comm_, own, root), all[static_cast<std::size_t>(root)]);
    const auto gathered = gather_bytes(*comm_, own, root);
    EXPECT_EQ(gathered, rank() == root ? all : std::vector<Bytes>{});
    EXPECT_EQ(scatter_bytes(*comm_, rank() == root ? all : std::vector<Bytes>{}, root), own);
  }
}

nlohmann::json object_of(int rank) {
  return {{"rank", rank},
          {"text", std::string(static_cast<std::size_t>(rank), 'x')},
          {"nested", {{"list", {1, -2.5, nullptr, true}}, {"tenth", 0.1}}},
          {"long", (std::int64_t{1} << 53) + 1 + rank}};
}

TEST_P(Messages, JsonCollectives) {
  for (int root = 0; root < size(); ++root) {
    EXPECT_EQ(bcast_object(*comm_, rank() == root ? object_of(root) : nlohmann::json(), root),
              object_of(root));
    std::vector<nlohmann::json> all;
    all.reserve(static_cast<std::size_t>(size()));
    for (int other = 0; other < size(); ++other) all.push_back(object_of(other));
    EXPECT_EQ(allgather_object(*comm_, object_of(rank())), all);
    EXPECT_EQ(gather_object(*comm_, object_of(rank()), root),
              rank() == root ? all : std::vector<nlohmann::json>{});
    EXPECT_EQ(scatter_object(*comm_, rank() == root ? all : std::vector<nlohmann::json>{}, root),
              object_of(rank()));
  }
  const double infinite = std::numeric_limits<double>::infinity();
  EXPECT_EQ(bcast_object(*comm_, infinite).get<double>(), infinite);
}

TEST_P(Messages, JsonWithTagAndSource) {
  if (size() == 1) GTEST_SKIP() << "one rank has no other side";
  if (rank() == 0) {
    for (int turn = 1; turn < size(); ++turn) {
      MessageInfo info;
      const nlohmann::json object = recv_object(*comm_, any_source, any_tag, &info);
      EXPECT_EQ(object, object_of(info.source));
      EXPECT_EQ(info.tag, 7 * info.source);
    }
  } else {
    send_object(*comm_, object_of(rank()), 0, 7 * rank());
  }
  comm_->barrier();  // else the next message could be received above
  // Empty, because nobody would receive further bytes, and MPICH would give them to a communicator
  // that is made later.
  if (rank() == 1) send_bytes(*comm_, {}, 0);
  if (rank() == 0) {
    EXPECT_THROW(recv_object(*comm_, 1), Error);
  }
}

TEST_P(Messages, ChunkedBroadcast) {
  constexpr std::int64_t longest = std::numeric_limits<int>::max();
  const std::pair<std::size_t, std::int64_t> cases[] = {
      {10, 1}, {1024, 7}, {355678, 2378}, {234, longest - 1}};
  for (const auto& [length, chunk] : cases) {
    Bytes sent(length);
    for (std::size_t i = 0; i < length; ++i) sent[i] = static_cast<std::byte>(i * 31);
    EXPECT_EQ(bcast_bytes(*comm_, rank() == 0 ? sent : Bytes{}, 0, chunk), sent);
  }
  EXPECT_THROW(bcast_bytes(*comm_, {}, 0, -1), Error);
  EXPECT_THROW(bcast_bytes(*comm_, {}, 0, 0), Error);
  EXPECT_THROW(bcast_bytes(*comm_, {}, 0, longest), Error);
}

// Like messages beyond 2^31 elements, with a limit of 10.
TEST_P(Messages, SplitBeyondMpisCountLimit) {
  make_with({.mpi_call = 10});
  const Tensor own = sequence({101}, rank());
  const auto all = comm_->allgather(own);
  for (int other = 0; other < size(); ++other)
    expect_equal(all[static_cast<std::size_t>(other)], sequence({101}, other));
  if (size() > 1) expect_equal(pass_on({&own, 1}).at(0), sequence({101}, previous()));
  const std::vector<Bytes> parts(static_cast<std::size_t>(size()), Bytes(1234, std::byte{42}));
  EXPECT_EQ(scatter_bytes(*comm_, rank() == 0 ? parts : std::vector<Bytes>{}, 0), parts[0]);
  EXPECT_EQ(allgather_bytes(*comm_, parts[0]), parts);
}

TEST_P(Messages, BcastDataSendsRankZerosValues) {
  const Tensor parameters = allocated(1000);
  parameters.copy_from(sequence({1000}, rank()));
  comm_->bcast_data(parameters);
  expect_equal(parameters, sequence({1000}, 0));
}

TEST_P(Messages, NameTheRankOnMisuse) {
  EXPECT_THROW(comm_->send(Tensor::zeros({1}), size()), Error);
  EXPECT_THROW(send_bytes(*comm_, {}, rank()), Error);
  EXPECT_THROW(comm_->recv(-2), Error);
  EXPECT_THROW(comm_->bcast(Tensor::zeros({1}), size()), Error);
  EXPECT_THROW(comm_->gather(Tensor::zeros({1}), -1), Error);
  EXPECT_THROW(comm_->gather(Tensor()), Error);
  EXPECT_THROW(comm_->alltoall(std::vector<Tensor>(static_cast<std::size_t>(size() + 1))), Error);
}

TEST_P(Messages, RejectArraysReceivedAsBytes) {
  if (size() == 1) GTEST_SKIP() << "one rank has no other side";
  if (rank() == 1) comm_->send(Tensor::empty({0}), 0);
  if (rank() == 0) {
    EXPECT_THROW(recv_bytes(*comm_, 1), Error);
  }
}

TEST_P(Messages, Topology) {
  const Topology& topology = comm_->topology();
  if (const char* local = std::getenv("OMPI_COMM_WORLD_LOCAL_RANK")) {
    EXPECT_EQ(comm_->intra_rank(), std::atoi(local));
  }
  EXPECT_LT(comm_->inter_rank(), comm_->inter_size());
  int ranks = 0;
  for (int node = 0; node < comm_->inter_size(); ++node) {
    const auto members = topology.ranks_of_node(node);
    ASSERT_FALSE(members.empty());
    for (std::size_t place = 0; place < members.size(); ++place)
      EXPECT_EQ(topology.intra_rank_of[static_cast<std::size_t>(members[place])],
                static_cast<int>(place));
    ranks += static_cast<int>(members.size());
  }
  EXPECT_EQ(ranks, size());
}

TEST_P(Messages, SplitKeepsTheKindAndRenumbersRanks) {
  // Odd and even ranks, in reverse order.
  const auto part = comm_->split(rank() % 2, -rank());
  EXPECT_EQ(part->name(), GetParam());
  const int members = (size() + 1 - rank() % 2) / 2;
  ASSERT_EQ(part->size(), members);
  EXPECT_EQ(part->rank(), members - 1 - rank() / 2);
  EXPECT_LT(part->intra_rank(), part->intra_size());
  const Tensor one(part->allocate(sizeof(float)), 0, {1}, DType::float32);
  one.fill(1);
  part->allreduce(one);
  EXPECT_EQ(one.item(), members);
}

TEST(AutoCommunicator, ChoosesAgainForEachPart) {
  const auto comm = create_communicator("auto");
  EXPECT_EQ(comm->name(), "auto");
  EXPECT_NE(comm->describe().find("chosen by auto"), std::string::npos) << comm->describe();
  const auto alone = comm->split(comm->rank(), 0);
  EXPECT_EQ(alone->name(), "auto");
  EXPECT_EQ(alone->describe().find("single_node"), 0) << alone->describe();
}

// Also where an algorithm was chosen for messages between nodes, which a part does not send.
TEST(AutoCommunicator, ForgetsTheAlgorithmInPartsOnOneNode) {
  if (create_communicator("naive")->topology().inter_size == 1)
    GTEST_SKIP() << "needs several nodes";
  const auto comm = create_communicator("auto", {.algorithm = AllreduceAlgorithm::ring});
  const auto node = comm->split(comm->topology().inter_rank, comm->rank());
  EXPECT_EQ(node->describe().find("single_node"), 0) << node->describe();
}

TEST_P(Messages, SplitRejectsNegativeColours) {
  EXPECT_THROW(comm_->split(-1, 0), Error);
}

TASUKI_FOR_EVERY_COMMUNICATOR(Messages);

}  // namespace
}  // namespace tasuki
