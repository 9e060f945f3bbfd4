// Observation: named values as sums and counts, so that means over batches, epochs and ranks are
// exact whatever their sizes. Values that are on a GPU are added up there until somebody reads
// them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tasuki/communicator/communicator.hpp"
#include "tasuki/tensor/tensor.hpp"
#include "tasuki/training/recording/journal.hpp"
#include "tasuki/training/snapshots/serializer.hpp"

namespace tasuki {

// Whom a value speaks for: this rank's part (to be added up over ranks) or already the whole job
// (the same on every rank; the learning rate, say, or what a multi-node evaluator found).
enum class Reach : std::uint8_t { rank, job };

class Observation {
 public:
  struct Value {
    double sum = 0;
    std::int64_t count = 0;
    Reach reach = Reach::rank;
    double mean() const { return sum / static_cast<double>(count); }
  };

  // Adds `sum` over `count` things (examples, mostly) to what `key` has.
  void add(std::string_view key, double sum, std::int64_t count, Reach reach = Reach::rank);
  // Adds factor * value, a scalar on any device. Nothing waits for a GPU.
  void add(std::string_view key, const Tensor& value, double factor, std::int64_t count,
           Reach reach = Reach::rank);
  // What a journal will hold.
  void add(std::string_view key, const JournalSum& sum, std::int64_t count);
  // All that `other` has, with `prefix` before the keys; nothing waits for a GPU.
  void add(const Observation& other, std::string_view prefix = "");
  // What `other` has under `key`, if anything.
  void add_value_of(const Observation& other, std::string_view key) {
    add_value_of(other, key, "");
  }
  // A single value of the whole job.
  void add(std::string_view key, double value) { add(key, value, 1, Reach::job); }
  void clear();
  bool empty() const { return values_.empty(); }
  // Whether reading values() would wait for a GPU.
  bool is_on_device() const { return !terms_.empty() || !journal_.empty(); }

  // A part of a key's sum that is on a GPU: factor * value.
  struct Term {
    Tensor value;
    double factor = 1;
    bool is_own = false;  // made here, to be added to
  };
  using Terms = std::vector<Term>;  // one a device
  // Keys with their counts and what is known of their sums, and such parts by key.
  const std::map<std::string, Value, std::less<>>& known() const { return values_; }
  const std::map<std::string, Terms, std::less<>>& terms() const { return terms_; }

  // By key, in alphabetical order. Waits for what is still on a GPU.
  const std::map<std::string, Value, std::less<>>& values() const;
  // Nothing when `key` was not observed, or over no example.
  std::optional<double> mean(std::string_view key) const;

  // The same over all ranks: sums and counts added up in rank order, so that every rank gets the
  // same bits and the same keys, also those that it has not seen itself. Collective; the identity
  // without a communicator.
  Observation over_ranks(Communicator* communicator) const;

  // Keeps each rank's own part; resumed with another number of ranks, rank 0 takes all of it.
  void serialize(const Serializer& serializer);

 private:
  Bytes encode() const;
  static Observation decode(std::span<const std::byte> bytes);
  // What ranks encoded, in their order. Values of the job are the same in all parts and are taken
  // from the first that has them.
  static Observation join(const std::vector<Bytes>& parts);

  static void add_term(Terms& terms, const Tensor& value, double factor);
  void add_value_of(const Observation& other, std::string_view key, std::string_view prefix);
  void add_journal(const std::string& key, const JournalSum& sum);

  // Terms and what journals hold move into values when these are read.
  mutable std::map<std::string, Value, std::less<>> values_;
  mutable std::map<std::string, Terms, std::less<>> terms_;
  mutable std::map<std::string, std::vector<JournalSum>, std::less<>> journal_;
};

}  // namespace tasuki
