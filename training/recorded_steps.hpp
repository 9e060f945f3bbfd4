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
  RecordedSteps(GraphMode mode, Record record);

  // Has the device do `work`, as a recording where there is one. The first steps are done as they
  // are, as libraries then choose algorithms and connect. When recording fails, `work` is called
  // again, and no other step is recorded.
  void run(const Key& key, const Work& work);

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
  std::string reason_;
  std::map<Key, Known> steps_;
  std::int64_t recordings_ = 0;
};

}  // namespace tasuki
