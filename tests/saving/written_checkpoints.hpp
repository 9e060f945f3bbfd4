// Checkpoints that tests write, with several writers as threads of the test.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "saving/checkpoint.hpp"
#include "saving/checkpoint_writer.hpp"
#include "saving/output_layout.hpp"
#include "saving/saved_states.hpp"
#include "tests/support/errors.hpp"

namespace tasuki::testing {

// Calls `work` once for each writer, all at a time. Returns the message of each one's error.
inline std::vector<std::string> with_writers(int count,
                                             const std::function<void(const Writers&)>& work) {
  std::barrier all(count);
  std::vector<std::string> texts(static_cast<std::size_t>(count)), errors(texts.size());
  std::vector<std::thread> threads;
  for (int index = 0; index < count; ++index)
    threads.emplace_back([&, i = static_cast<std::size_t>(index), index] {
      const Writers writers(index, count, [&, i](const std::string& own) {
        texts[i] = own;
        all.arrive_and_wait();
        std::vector<std::string> copy = texts;
        all.arrive_and_wait();
        return copy;
      });
      errors[i] = error_of([&] { work(writers); });
    });
  for (std::thread& thread : threads) thread.join();
  return errors;
}

inline Tensor ramp(const Shape& shape, float start) {
  Tensor values = Tensor::empty(shape);
  for (std::int64_t i = 0; i < values.count(); ++i)
    values.data<float>()[i] = start + static_cast<float>(i);
  return values;
}

// A small state; the same for the same start.
inline std::vector<NpzEntry> state_from(float start) {
  return {{"updater/model:main/l1/W", ramp(Shape{6, 5}, start)},
          {"updater/model:main/l1/b", ramp(Shape{6}, start / 2)},
          {"updater/optimizer:main/name", std::string("MomentumSGD")},
          {"updater/nothing", Tensor::empty(Shape{0})},
          {"updater/iteration", Tensor::full(Shape{}, start, DType::int64)}};
}

// Writes it alone, and returns its folder.
inline std::filesystem::path write_alone(const std::filesystem::path& out, std::int64_t iteration,
                                         float start) {
  CheckpointWriter writer({.out = out, .iteration = iteration, .epoch = 1, .parts = 1});
  return writer.write({.part = "", .state = state_from(start), .pieces = {}});
}

inline void expect_array(const ArraySource& source, const std::string& name,
                         const Tensor& expected) {
  const Tensor found = std::get<Tensor>(source.read(name));
  ASSERT_EQ(found.shape(), expected.shape()) << name;
  ASSERT_EQ(found.dtype(), expected.dtype()) << name;
  EXPECT_EQ(std::memcmp(found.raw(), expected.raw(), expected.bytes()), 0) << name;
}

// Reads all of it.
inline void expect_state(const std::filesystem::path& folder, float start) {
  const CheckpointReader checkpoint(folder);
  std::vector<std::string> names;
  for (const auto& [name, value] : state_from(start)) {
    names.push_back(name);
    if (const auto* array = std::get_if<Tensor>(&value))
      expect_array(checkpoint, name, *array);
    else
      EXPECT_EQ(std::get<std::string>(checkpoint.read(name)), std::get<std::string>(value));
  }
  EXPECT_EQ(checkpoint.names(), names);
}

// The newest one that can be read whole, as a run that resumes looks for it.
inline std::filesystem::path newest_intact(const std::filesystem::path& out) {
  for (const SavedState& each : saved_states_in(out)) {
    try {
      const CheckpointReader checkpoint(each.path);
      for (const std::string& name : checkpoint.names()) checkpoint.read(name);
      return each.path;
    } catch (const Error& error) {
      EXPECT_TRUE(is_damage(error)) << error.what();
      EXPECT_THAT(error.what(), ::testing::HasSubstr(each.path.string()));
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    }
  }
  return {};
}

}  // namespace tasuki::testing
