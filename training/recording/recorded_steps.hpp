// RecordedSteps: when to record a step's device work, and when to repeat a recording (CUDA graphs).
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "tasuki/tensor/backend.hpp"

namespace tasuki {

// automatic: record where that is possible, else go on without; on: that it is impossible is an
// error; off: never.
enum class GraphMode : std::uint8_t { automatic, on, off };

class RecordedSteps {
 public:
  // Steps with equal keys ask their device for the same work: a recording of one serves all.
  struct Key {
    std::int64_t examples = 0, global_examples = 0;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  using Work = std::function<void()>;
  // As Backend::record: nullptr where devices do not record; throws what recording failed with.
  using Record = std::function<std::unique_ptr<Recording>(const Work&)>;
  // Whether all ranks say yes, asked of all of them at the same time.
  using Agree = std::function<bool(bool yes)>;
  // With `agree`, steps hold exchanges, which are recorded and repeated on all ranks or on none
  // (NCCL relies on it).
  RecordedSteps(GraphMode mode, Record record, Agree agree = nullptr);

  // Has the device do `work`, as a recording where there is one. The first steps are done as they
  // are, as libraries then choose algorithms and connect. When recording fails, here or on another
  // rank, `work` is called again, and no other step is recorded. A step in which ranks do not do
  // the same (`is_alike`, the same on all) is done as it is and does not count.
  void run(const Key& key, const Work& work, bool is_alike = true);

  // Steps are not recorded from now on, because of `reason`; with GraphMode::on an error of kind
  // config.
  void refuse(const std::string& reason);
  // Recordings no longer fit (the model has changed).
  void forget() { steps_.clear(); }
  bool records() const { return mode_ != GraphMode::off && reason_.empty(); }
  // Why steps are not recorded any more; empty when they are.
  const std::string& reason() const { return reason_; }
  std::int64_t recordings() const { return recordings_; }

 private:
  struct Known {
    int runs = 0;
    std::unique_ptr<Recording> recording;
  };
  std::unique_ptr<Recording> try_to_record(const Work& work);

  GraphMode mode_;
  Record record_;
  Agree agree_;
  std::string reason_;
  std::map<Key, Known> steps_;
  std::int64_t recordings_ = 0;
  bool has_met_unlike_ = false;  // and said so
};

}  // namespace tasuki
