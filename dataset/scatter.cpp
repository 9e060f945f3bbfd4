#include "dataset/scatter.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "communicator/bytes.hpp"
#include "communicator/number_bytes.hpp"
#include "communicator/run_on_root.hpp"
#include "core/activity.hpp"
#include "core/hash.hpp"
#include "dataset/in_memory.hpp"
#include "dataset/views.hpp"

namespace tasuki {
namespace {

constexpr int examples_tag = 0x5CA7;

// Known to all ranks before examples are sent.
struct Announcement {
  DatasetHeader header;
  int shards;
  bool force_equal_length;

  Bytes encoded() const {
    std::vector<std::int64_t> numbers{shards, force_equal_length ? 1 : 0};
    const std::vector<std::int64_t> fields = encode_header(header);
    numbers.insert(numbers.end(), fields.begin(), fields.end());
    return encode_numbers(numbers);
  }
  explicit Announcement(const Bytes& bytes) {
    const std::vector<std::int64_t> numbers = decode_numbers(bytes);
    NumberReader reader(numbers);
    shards = static_cast<int>(reader.next());
    force_equal_length = reader.next() != 0;
    header = decode_header(reader.rest());
  }
  Announcement(DatasetHeader known, const ScatterOptions& options)
      : header(std::move(known)),
        shards(options.shards),
        force_equal_length(options.force_equal_length) {}
};

// Opens the root's source and announces it.
Announcement announce(const OpenSource& open, Communicator& communicator,
                      const ScatterOptions& options, std::unique_ptr<DataSource>& source) {
  return Announcement(run_on_root(communicator, options.root, [&] {
    source = open();
    return Announcement(source->header(), options).encoded();
  }));
}

// An example's destination and its numbers.
struct Address {
  std::int64_t local;  // number in the rank's share
  std::int64_t id;     // number in the whole data set
};

// Examples for one rank: their number, their addresses, then their records. A record has one field
// after the other; a variable field is preceded by its number of bytes. Packed from a block,
// unpacked into a share.
Bytes pack(const std::vector<Address>& addresses, const RecordBlock& block,
           const std::vector<Field>& fields) {
  const std::uint64_t count = addresses.size();
  std::size_t size = sizeof(count) + count * sizeof(Address);
  for (std::size_t field = 0; field < fields.size(); ++field)
    for (const Address& address : addresses)
      size += block.at(field, address.id - block.first).size() +
              (fields[field].is_variable() ? sizeof(std::uint64_t) : 0);
  Bytes message(size);
  std::byte* next = message.data();
  const auto append = [&next](const void* values, std::size_t bytes) {
    if (bytes > 0) std::memcpy(next, values, bytes);
    next += bytes;
  };
  append(&count, sizeof(count));
  append(addresses.data(), count * sizeof(Address));
  for (const Address& address : addresses)
    for (std::size_t field = 0; field < fields.size(); ++field) {
      const std::span<const std::byte> values = block.at(field, address.id - block.first);
      const std::uint64_t bytes = values.size();
      if (fields[field].is_variable()) append(&bytes, sizeof(bytes));
      append(values.data(), bytes);
    }
  return message;
}

void unpack(const Bytes& message, InMemoryDataset& share) {
  std::span<const std::byte> rest = message;
  const auto take = [&rest](std::size_t bytes) {
    TASUKI_CHECK(bytes <= rest.size(), "{} bytes expected in a message, {} left", bytes,
                 rest.size());
    const auto taken = rest.first(bytes);
    rest = rest.subspan(bytes);
    return taken;
  };
  const auto take_number = [&take] {
    std::uint64_t number = 0;
    std::memcpy(&number, take(sizeof(number)).data(), sizeof(number));
    return number;
  };
  const std::vector<Field>& fields = share.header().fields;
  std::vector<std::span<const std::byte>> example(fields.size());
  std::span<const std::byte> addresses = take(take_number() * sizeof(Address));
  for (; !addresses.empty(); addresses = addresses.subspan(sizeof(Address))) {
    Address address;
    std::memcpy(&address, addresses.data(), sizeof(Address));
    for (std::size_t field = 0; field < fields.size(); ++field)
      example[field] =
          take(fields[field].is_variable() ? take_number() : fields[field].stored_bytes());
    share.set(address.local, address.id, example);
  }
}

// Deals the examples of a block to the ranks.
class Dealer {
 public:
  Dealer(const ShardPlan& plan, const ScatterOptions& options)
      : plan_(plan),
        positions_(DealingOrder(plan.examples(), options.shuffle, options.seed).positions()),
        addresses_(static_cast<std::size_t>(plan.ranks())) {}

  // One list per rank, valid until the next call.
  const std::vector<std::vector<Address>>& deal(const RecordBlock& block) {
    for (auto& list : addresses_) list.clear();
    for (std::int64_t i = 0; i < block.count; ++i) {
      const std::int64_t id = block.first + i;
      const std::int64_t position =
          positions_.empty() ? id : positions_[static_cast<std::size_t>(id)];
      const Range shards = plan_.shards_with(position);
      for (int shard = static_cast<int>(shards.begin); shard < shards.end; ++shard)
        addresses_[static_cast<std::size_t>(shard / plan_.shards_per_rank())].push_back(
            {plan_.offset_in_share(shard) + position - plan_.shard(shard).begin, id});
    }
    return addresses_;
  }

 private:
  const ShardPlan& plan_;
  std::vector<std::int64_t> positions_;  // of each example; empty: the example's number
  std::vector<std::vector<Address>> addresses_;
};

// Continues the hash of the targets, or of all fields if there are no targets.
std::uint64_t hash_targets(const RecordBlock& block, const std::vector<Field>& fields,
                           std::uint64_t hash) {
  const bool has_targets = std::ranges::any_of(fields, &Field::is_target);
  for (std::size_t field = 0; field < fields.size(); ++field)
    if (fields[field].is_target || !has_targets)
      hash = hash_bytes(block.columns[field].bytes, hash);
  return hash;
}

// The root's side: sends what it reads until the end or an error, and returns that error. Hashes
// the targets. An empty message ends each rank's wait.
std::exception_ptr send_shares(DataSource& source, const ShardPlan& plan,
                               const ScatterOptions& options, Communicator& communicator,
                               InMemoryDataset& own, std::uint64_t& labels_hash) {
  // Sends to all ranks that have the share.
  const auto send = [&](const Bytes& message, int share) {
    for (int i = 0; i < options.ranks_per_share; ++i) {
      const int rank = share * options.ranks_per_share + i;
      if (rank != options.root)
        send_bytes(communicator, message, rank, examples_tag);
      else if (!message.empty())
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
    labels_hash = hash_targets(block, source.header().fields, labels_hash);
    const auto& addresses = dealer.deal(block);
    for (int share = 0; share < plan.ranks(); ++share)
      if (const auto& part = addresses[static_cast<std::size_t>(share)]; !part.empty())
        send(pack(part, block, source.header().fields), share);
  }
  for (int share = 0; share < plan.ranks(); ++share) send({}, share);
  return error;
}

void receive_share(Communicator& communicator, int root, InMemoryDataset& own) {
  for (;;) {
    const Bytes message = recv_bytes(communicator, root, examples_tag);
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
  TASUKI_CHECK(communicator.size() % options.ranks_per_share == 0,
               "{} ranks cannot be divided into groups of {} with one share each",
               communicator.size(), options.ranks_per_share);
  const int share = communicator.rank() / options.ranks_per_share;
  const ShardPlan plan(known.header.count, communicator.size() / options.ranks_per_share,
                       known.shards, known.force_equal_length);
  DatasetHeader header = known.header;
  header.count = plan.share_size(share);
  const auto own = std::make_shared<InMemoryDataset>(std::move(header));
  std::exception_ptr error;
  std::uint64_t labels_hash = 0;
  if (communicator.rank() == options.root) {
    error = send_shares(*source, plan, options, communicator, *own, labels_hash);
  } else {
    receive_share(communicator, options.root, *own);
  }
  const Bytes sent = run_on_root(communicator, options.root, [&] {
    if (error) std::rethrow_exception(error);
    const auto number = static_cast<std::int64_t>(labels_hash);
    return encode_numbers({&number, 1});
  });
  labels_hash = static_cast<std::uint64_t>(decode_numbers(sent).at(0));
  return {own, plan, share, labels_hash};
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
