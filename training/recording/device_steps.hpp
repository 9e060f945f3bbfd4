// DeviceSteps: runs the steps of a training or an evaluation on a device without waiting for it.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tasuki/dataset/iterators/iterator.hpp"
#include "tasuki/tensor/step_block.hpp"
#include "tasuki/training/observation.hpp"
#include "tasuki/training/recording/journal.hpp"
#include "tasuki/training/recording/recorded_steps.hpp"

namespace tasuki {

// A step's numbers go to the device in block(), and what it finds comes back through a journal. In
// between, the work is repeated from a recording where that is possible. On a CPU all of that is a
// plain call.
class DeviceSteps {
 public:
  // `agree`: as RecordedSteps.
  DeviceSteps(Device device, GraphMode mode, RecordedSteps::Agree agree = nullptr);

  Device device() const { return device_; }
  // What is to be reserved there is reserved before the first run().
  StepBlock& block() { return block_; }
  RecordedSteps& recorded() { return recorded_; }
  // Has what differs from batch to batch go through the block; refuses recording where it does not.
  void join(Iterator& iterator);

  // Sends the block and has `work` done, which asks the device for everything and returns its
  // scalars; their keys and counts are the same for all steps of a key. Work that returns numbers
  // of the host is not recorded.
  Observation run(const RecordedSteps::Key& key, const std::function<Observation()>& work,
                  bool is_alike = true);

 private:
  // What a step of a key returns: scalars of the device by the journal's columns, counts, and
  // numbers of the host.
  struct Report {
    struct Column {
      std::string key;
      double factor = 1;
    };
    std::vector<Column> columns;
    Observation rest;  // without those scalars
    bool has_numbers_of_host = false;
  };
  void post(const Observation& found, Report& report);

  Device device_;
  StepBlock block_;
  StepBlock::Field row_;
  RecordedSteps recorded_;
  std::optional<Journal> journal_;  // not on a CPU
  std::map<RecordedSteps::Key, Report> reports_;
};

}  // namespace tasuki
