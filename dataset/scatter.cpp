#include "tasuki/dataset/scatter.hpp"

#include <cstring>
#include <exception>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "tasuki/communicator/run_on_root.hpp"
#include "tasuki/core/activity.hpp"
#include "tasuki/core/hash.hpp"
#include "tasuki/dataset/images/encoded_images.hpp"
#include "tasuki/dataset/in_memory.hpp"
#include "tasuki/dataset/numbers.hpp"
#include "tasuki/dataset/views.hpp"

namespace tasuki {
namespace {

constexpr int examples_tag = 0x5CA7;

// What all ranks must know before examples flow.
struct Announcement {
  DatasetHeader header;
  int shards;
  bool force_equal_length;

  Bytes encoded() const {
    std::vector<std::int64_t> numbers{header.count,
                                      header.classes,
                                      static_cast<std::int64_t>(header.stored),
                                      shards,
                                      force_equal_length ? 1 : 0,
                                      header.encoded ? 1 : 0};
    numbers.insert(numbers.end(), header.example_shape.begin(), header.example_shape.end());
    return encode_numbers(numbers);
  }
  explicit Announcement(const Bytes& bytes) {
    const std::vector<std::int64_t> numbers = decode_numbers(bytes);
    constexpr std::size_t fixed = 6;
    TASUKI_CHECK(numbers.size() >= fixed, "the root's announcement has {} bytes", bytes.size());
    header = {numbers[0], Shape(std::span(numbers).subspan(fixed)), numbers[1],
              static_cast<DType>(numbers[2]), numbers[5] != 0};
    shards = static_cast<int>(numbers[3]);
    force_equal_length = numbers[4] != 0;
  }
  Announcement(const DatasetHeader& known, const ScatterOptions& options)
      : header(known), shards(options.shards), force_equal_length(options.force_equal_length) {}
};

// Opens the root's source and announces it.
Announcement announce(const OpenSource& open, Communicator& communicator,
                      const ScatterOptions& options, std::unique_ptr<DataSource>& source) {
  return Announcement(run_on_root(communicator, options.root, [&] {
    source = open();
    return Announcement(source->header(), options).encoded();
  }));
}

// Where an example goes, and which one it is.
struct Address {
  std::int64_t local;  // number in the rank's share
  std::int64_t id;     // number in the whole data set
  std::int64_t label;
  std::uint64_t bytes;  // of its record
};

// A share being filled: examples held as stored, or images as files.
struct ShareBuilder {
  std::shared_ptr<const Dataset> dataset;
  std::function<void(const Address& address, std::span<const std::byte> record)> set;

  explicit ShareBuilder(const DatasetHeader& header) {
    if (header.encoded)
      fill(std::make_shared<EncodedImages>(header));
    else
      fill(std::make_shared<InMemoryDataset>(header));
  }

 private:
  void fill(const std::shared_ptr<EncodedImages>& images) {
    dataset = images;
    set = [images](const Address& to, std::span<const std::byte> record) {
      images->set(to.local, to.id, record, static_cast<std::int32_t>(to.label));
    };
  }
  void fill(const std::shared_ptr<InMemoryDataset>& examples) {
    dataset = examples;
    set = [examples](const Address& to, std::span<const std::byte> record) {
      TASUKI_CHECK(record.size() == examples->header().value_bytes(),
                   "an example of {} bytes, expected {}", record.size(),
                   examples->header().value_bytes());
      examples->set(to.local, to.id, record.data(), static_cast<std::int32_t>(to.label));
    };
  }
};

// Examples for one rank: their number, their addresses, then their records. Packed from a block,
// unpacked into a share.
Bytes pack(const std::vector<Address>& addresses, const RecordBlock& block) {
  const std::uint64_t count = addresses.size();
  std::size_t size = sizeof(count) + count * sizeof(Address);
  for (const Address& address : addresses) size += address.bytes;
  Bytes message(size);
  std::byte* next = message.data();
  const auto append = [&next](const void* bytes, std::size_t length) {
    if (length > 0) std::memcpy(next, bytes, length);
    next += length;
  };
  append(&count, sizeof(count));
  append(addresses.data(), count * sizeof(Address));
  for (const Address& address : addresses)
    append(block.values_of(address.id - block.first).data(), address.bytes);
  return message;
}

void unpack(const Bytes& message, const ShareBuilder& share) {
  std::span<const std::byte> rest = message;
  const auto take = [&rest](std::size_t bytes) {
    TASUKI_CHECK(bytes <= rest.size(), "{} bytes expected in a message, {} left", bytes,
                 rest.size());
    const auto taken = rest.first(bytes);
    rest = rest.subspan(bytes);
    return taken;
  };
  std::uint64_t count = 0;
  std::memcpy(&count, take(sizeof(count)).data(), sizeof(count));
  std::span<const std::byte> addresses = take(count * sizeof(Address));
  for (; !addresses.empty(); addresses = addresses.subspan(sizeof(Address))) {
    Address address;
    std::memcpy(&address, addresses.data(), sizeof(Address));
    share.set(address, take(address.bytes));
  }
}

// Which of a block's examples each rank gets.
class Dealer {
 public:
  Dealer(const ShardPlan& plan, const ScatterOptions& options)
      : plan_(plan),
        positions_(DealingOrder(plan.examples(), options.shuffle, options.seed).positions()),
        addresses_(static_cast<std::size_t>(plan.ranks())) {}

  // One list per rank, valid until the next call.
  const std::vector<std::vector<Address>>& deal(const RecordBlock& block) {
    for (auto& list : addresses_) list.clear();
    for (std::int64_t i = 0; i < block.count(); ++i) {
      const std::int64_t id = block.first + i;
      const std::int64_t position =
          positions_.empty() ? id : positions_[static_cast<std::size_t>(id)];
      const Range shards = plan_.shards_with(position);
      for (int shard = static_cast<int>(shards.begin); shard < shards.end; ++shard)
        addresses_[static_cast<std::size_t>(shard / plan_.shards_per_rank())].push_back(
            {plan_.offset_in_share(shard) + position - plan_.shard(shard).begin, id,
             block.label_of(i), block.values_of(i).size()});
    }
    return addresses_;
  }

 private:
  const ShardPlan& plan_;
  std::vector<std::int64_t> positions_;  // of each example; empty: its own number
  std::vector<std::vector<Address>> addresses_;
};

// The root's side: sends what it reads until it is all read or cannot be read on, and returns what
// stands in the way. Labels go into the hash. An empty message ends each rank's wait.
std::exception_ptr send_shares(DataSource& source, const ShardPlan& plan,
                               const ScatterOptions& options, Communicator& communicator,
                               const ShareBuilder& own, std::uint64_t& labels_hash) {
  const auto send = [&](const Bytes& message, int rank) {
    if (rank != options.root) {
      communicator.send_bytes(message, rank, examples_tag);
    } else {
      unpack(message, own);
    }
  };
  Dealer dealer(plan, options);
  std::exception_ptr error;
  for (RecordBlock block;;) {
    try {
      if (!source.read_block(block)) break;
      report_progress();
    } catch (...) {
      error = std::current_exception();
      break;
    }
    labels_hash = hash_bytes(std::as_bytes(std::span(block.labels)), labels_hash);
    const auto& addresses = dealer.deal(block);
    for (int rank = 0; rank < plan.ranks(); ++rank)
      if (const auto& part = addresses[static_cast<std::size_t>(rank)]; !part.empty())
        send(pack(part, block), rank);
  }
  for (int rank = 0; rank < plan.ranks(); ++rank)
    if (rank != options.root) send({}, rank);
  return error;
}

void receive_share(Communicator& communicator, int root, const ShareBuilder& own) {
  for (;;) {
    const Bytes message = communicator.recv_bytes(root, examples_tag);
    if (message.empty()) return;
    unpack(message, own);
  }
}

}  // namespace

Share Share::whole(std::shared_ptr<const Dataset> dataset) {
  const ShardPlan plan(dataset->size());
  return {std::move(dataset), plan, 0};
}

Share scatter_dataset(const OpenSource& open, Communicator& communicator,
                      const ScatterOptions& options) {
  const PhaseScope handing_out(Phase::reading_data);
  std::unique_ptr<DataSource> source;
  const Announcement known = announce(open, communicator, options, source);
  const ShardPlan plan(known.header.count, communicator.size(), known.shards,
                       known.force_equal_length);
  DatasetHeader header = known.header;
  header.count = plan.share_size(communicator.rank());
  const ShareBuilder own(header);
  std::exception_ptr error;
  std::uint64_t labels_hash = 0;
  if (communicator.rank() == options.root) {
    error = send_shares(*source, plan, options, communicator, own, labels_hash);
  } else {
    receive_share(communicator, options.root, own);
  }
  const Bytes sent = run_on_root(communicator, options.root, [&] {
    if (error) std::rethrow_exception(error);
    const auto number = static_cast<std::int64_t>(labels_hash);
    return encode_numbers({&number, 1});
  });
  labels_hash = static_cast<std::uint64_t>(decode_numbers(sent).at(0));
  return {own.dataset, plan, communicator.rank(), labels_hash};
}

Share scatter_dataset(const Dataset* dataset, Communicator& communicator,
                      const ScatterOptions& options) {
  return scatter_dataset(
      [dataset] {
        TASUKI_CHECK(dataset != nullptr, "the root of scatter_dataset has no data set");
        return source_of(*dataset);
      },
      communicator, options);
}

Share take_share(std::shared_ptr<const Dataset> dataset, int ranks, int rank,
                 const ScatterOptions& options) {
  const ShardPlan plan(dataset->size(), ranks, options.shards, options.force_equal_length);
  const DealingOrder order(dataset->size(), options.shuffle, options.seed);
  std::vector<std::int64_t> indices;
  indices.reserve(static_cast<std::size_t>(plan.share_size(rank)));
  for (int i = 0; i < plan.shards_per_rank(); ++i) {
    const Range shard = plan.shard(plan.first_shard(rank) + i);
    for (std::int64_t position = shard.begin; position < shard.end; ++position)
      indices.push_back(order.example_at(position));
  }
  return {subset_of(std::move(dataset), std::move(indices)), plan, rank};
}

DatasetHeader broadcast_header(const OpenSource& open, Communicator& communicator, int root) {
  std::unique_ptr<DataSource> source;
  return announce(open, communicator, {.root = root}, source).header;
}

Range scatter_index(std::int64_t n, Communicator& communicator, int root, bool force_equal_length) {
  const Bytes examples = run_on_root(communicator, root, [n] { return encode_numbers({&n, 1}); });
  return part_of(decode_numbers(examples).at(0), communicator.size(), communicator.rank(),
                 force_equal_length);
}

}  // namespace tasuki
