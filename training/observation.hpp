// Observation: named values as sums and counts, so that means over batches, epochs and ranks are
// exact whatever their sizes, and do not depend on the order of sums (core/exact_sum.hpp). Values
// on a GPU are added up there until they are read.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "communicator/bytes.hpp"
#include "communicator/communicator.hpp"
#include "core/exact_sum.hpp"
#include "saving/serializer.hpp"
#include "tensor/tensor.hpp"
#include "training/recording/journal.hpp"

namespace tasuki {

// Which ranks a value covers: this rank's part (to be added up over ranks) or the whole job's (the
// same on every rank, such as the learning rate or a multi-node evaluator's result).
enum class Reach : std::uint8_t { rank, job };

class Observation {
 public:
  struct Value {
    ExactSum total = {};
    std::int64_t count = 0;
    Reach reach = Reach::rank;
    double sum() const { return total.value(); }
    double mean() const { return sum() / static_cast<double>(count); }
  };

  // --- this rank's part of a mean ---
  // Adds `sum` over `count` items (usually examples) to `key`.
  void add_sum(std::string_view key, double sum, std::int64_t count);
  void add_mean(std::string_view key, double mean, std::int64_t count) {
    add_sum(key, mean * static_cast<double>(count), count);
  }
  // Adds a scalar on any device. The host does not wait for a GPU.
  void add_sum(std::string_view key, const Tensor& sum, std::int64_t count);
  void add_mean(std::string_view key, const Tensor& mean, std::int64_t count);
  // With a count that differs between batches of one shape (such as tokens): an integer in a scalar
  // on any device. If steps are recorded on a GPU, it should be there: a step that reports sums or
  // counts of the host is not recorded.
  void add_sum(std::string_view key, const Tensor& sum, const Tensor& count);

  // --- a value of the whole job ---
  // Sets a value of the whole job, such as the learning rate. The caller must pass the same value
  // on all ranks. Replaces the value of `key`; do not use add_sum() or add_mean() on that key.
  void set(std::string_view key, double value);

  // Adds everything in `other`, with `prefix` before the keys; the host does not wait for a GPU.
  void add(const Observation& other, std::string_view prefix = "");
  // Adds the value of `key` in `other`, if any.
  void add_value_of(const Observation& other, std::string_view key) {
    add_value_of(other, key, "");
  }
  void clear();
  // Keeps the keys of this rank's parts of means and forgets what was observed.
  void forget_own();
  bool empty() const { return values_.empty(); }
  // Whether reading values() would wait for a GPU.
  bool is_on_device() const { return !late_[0].empty() || !late_[1].empty(); }

  // By key, in alphabetical order. Waits for values that are still on a GPU.
  const std::map<std::string, Value, std::less<>>& values() const;
  // Nothing if `key` was not observed, or was observed over no examples.
  std::optional<double> mean(std::string_view key) const;

  // The values of all ranks: sums and counts are added up exactly, so every rank gets the
  // same keys, including those it has not observed, and the same bits. All values of the result are
  // marked Reach::job. Collective; without a communicator, the result has this rank's values.
  Observation over_ranks(Communicator* communicator) const;

  // over_ranks() of several observations in one message, for rank 0 alone: on other ranks the
  // result is empty. All ranks pass equally many. Values keep their reach. Collective.
  static std::vector<Observation> gather(std::span<const Observation> own,
                                         Communicator* communicator);

  // Keeps each rank's part; after a resume with another number of ranks, rank 0 has all of it.
  void serialize(const Serializer& serializer);

 private:
  friend class ObservationParts;

  enum class Part : std::uint8_t { sum, count };
  // A part of a key's sum or count that is on a GPU: factor * value.
  struct Term {
    Tensor value;
    double factor = 1;
    bool is_own = false;  // made here, to be added to
  };
  using Terms = std::vector<Term>;  // one a device
  const Terms& terms(std::string_view key, Part part) const;
  void add_known(std::string_view key, const Value& value);
  void add_journal(std::string_view key, Part part, const JournalSum& sum);

  Bytes encode() const;
  static Observation decode(std::span<const std::byte> bytes);
  // Combines what ranks encoded, in their order. Values of the job are the same in all parts and
  // are taken from the first part that has them.
  static Observation join(const std::vector<Bytes>& parts);

  // What is still to be added to a key's sum or count when the values are read.
  struct Late {
    Terms terms;
    std::vector<JournalSum> journal;
  };
  using LateParts = std::map<std::string, Late, std::less<>>;

  void add_scalar(std::string_view key, Part part, const Tensor& value, double factor);
  static void add_term(Terms& terms, const Tensor& value, double factor);
  static void add_journal(Late& late, const JournalSum& sum);
  void add_value_of(const Observation& other, std::string_view key, std::string_view prefix);
  LateParts& late(Part part) const { return late_[static_cast<std::size_t>(part)]; }
  static void add_late(const Late& late, ExactSum& sum);

  mutable std::map<std::string, Value, std::less<>> values_;
  mutable std::array<LateParts, 2> late_;  // of sums and counts
  // Whether the host knows more than counts that were given beside tensors of devices.
  mutable bool has_numbers_of_host_ = false;
};

}  // namespace tasuki
