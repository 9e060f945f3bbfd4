// The device monitor: a file for each rank, written by a thread that training does not wait for.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <sstream>
#include <thread>

#include "scripted_updater.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/temporary_folder.hpp"
#include "training/extensions/device_monitor.hpp"
#include "training/extensions/log_report.hpp"
#include "training/gpu_sensors.hpp"
#include "training/process_load.hpp"

namespace tasuki {
namespace {

using testing::ScriptedUpdater;
using testing::TemporaryFolder;

// Libraries of these names are then found loaded, whatever the machine has.
void load_fakes() {
  for (const std::string& path : {FAKE_NVML, FAKE_CUDA})
    ASSERT_NE(::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL), nullptr) << ::dlerror();
}

std::vector<std::vector<std::string>> read_csv(const std::filesystem::path& path) {
  std::vector<std::vector<std::string>> rows;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    auto& row = rows.emplace_back();
    std::istringstream cells(line + ',');
    for (std::string cell; std::getline(cells, cell, ',');) row.push_back(cell);
  }
  return rows;
}

// Trains nothing for as many iterations of 5 ms.
void run_monitored(const std::filesystem::path& out, const std::vector<Device>& devices,
                   int iterations) {
  Trainer trainer(
      std::make_unique<ScriptedUpdater>(iterations,
                                        [](std::int64_t, Observation&) {
                                          std::this_thread::sleep_for(std::chrono::milliseconds(5));
                                        }),
      stop_after(1, {}), out);
  trainer.extend(monitor_devices(devices, 0.01));
  trainer.run();
}

TEST(Monitor, WritesALinePerInterval) {
  const TemporaryFolder folder;
  run_monitored(folder / "out", {Device::cpu()}, 200);
  const auto rows = read_csv(folder / "out/monitor.0.csv");
  ASSERT_GE(rows.size(), 3u);
  EXPECT_EQ(rows[0], (std::vector<std::string>{"seconds", "cpu_percent", "memory_mb",
                                               "machine_cpu_percent", "machine_free_mb"}));
  double before = 0;
  for (std::size_t i = 1; i < rows.size(); ++i) {
    ASSERT_EQ(rows[i].size(), 5u);
    EXPECT_GT(std::stod(rows[i][0]), before);
    before = std::stod(rows[i][0]);
    EXPECT_GT(std::stod(rows[i][2]), 1);
    EXPECT_GT(std::stod(rows[i][4]), 1);
  }
}

TEST(Monitor, ToleratesUnwritableFiles) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "out/monitor.0.csv");
  ::testing::internal::CaptureStderr();
  run_monitored(folder / "out", {Device::cpu()}, 100);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("monitor.0.csv: expected a regular file, found a folder"), std::string::npos)
      << said;
}

// The second time another job has taken the name meanwhile.
TEST(Monitor, StartsOverWhenItsFolderIsRemoved) {
  for (const bool is_taken : {false, true}) {
    SCOPED_TRACE(is_taken);
    const TemporaryFolder folder;
    OutputFolder other(folder / "out");
    Trainer trainer(std::make_unique<ScriptedUpdater>(60,
                                                      [&](std::int64_t iteration, Observation&) {
                                                        std::this_thread::sleep_for(
                                                            std::chrono::milliseconds(5));
                                                        if (iteration != 30) return;
                                                        std::filesystem::remove_all(folder / "out");
                                                        if (is_taken) other.take(OldResults::join);
                                                      }),
                    stop_after(2), folder / "out");
    trainer.extend(monitor_devices({Device::cpu()}, 0.01));
    trainer.extend(std::make_unique<LogReport>());
    trainer.run();
    const auto rows = read_csv(folder / (is_taken ? "out-2" : "out") / "monitor.0.csv");
    ASSERT_GE(rows.size(), 3u);
    EXPECT_EQ(rows[0][0], "seconds");
    EXPECT_GT(std::stod(rows[1][0]), 0.15) << "after the loss";
    EXPECT_EQ(std::filesystem::exists(folder / "out/monitor.0.csv"), !is_taken);
  }
}

TEST(Monitor, MonitorsTheProcessWithoutNvml) {
  if (void* const library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW); library != nullptr) {
    ::dlclose(library);
    GTEST_SKIP() << "this machine has NVML";
  }
  const TemporaryFolder folder;
  ::testing::internal::CaptureStderr();
  run_monitored(folder / "out", {Device::cuda(0)}, 100);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("GPUs cannot be monitored without NVML"), std::string::npos) << said;
  EXPECT_EQ(read_csv(folder / "out/monitor.0.csv").at(0).size(), 5u);
}

TEST(Monitor, MeasuresProcessLoad) {
  ProcessLoad load;
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
  volatile double work = 1;
  while (std::chrono::steady_clock::now() < end) work = work * 1.0000001;
  const ProcessLoad::Reading reading = load.read();
  EXPECT_GT(reading.cpu_percent, 0);
  EXPECT_LE(reading.cpu_percent, 200);
  EXPECT_GT(reading.machine_cpu_percent, 0);
  EXPECT_LE(reading.machine_cpu_percent, 100);
}

// From here on the fakes are loaded: tests run in the order of this file.
TEST(MonitorOfGpu, UsesCudaDeviceNumbers) {
  load_fakes();
  const GpuSensors::Reading first = GpuSensors(0).read(), second = GpuSensors(1).read();
  EXPECT_EQ(first.load_percent, 41);
  EXPECT_EQ(first.memory_mb, 1500);
  EXPECT_EQ(first.memory_total_mb, 80000);
  EXPECT_EQ(first.clock_mhz, 1901);
  EXPECT_EQ(first.temperature_c, 61);
  EXPECT_EQ(first.power_w, 250.5);
  EXPECT_EQ(second.load_percent, 40);
  EXPECT_EQ(second.power_w, std::nullopt) << "this card does not measure it";
  try {
    const GpuSensors none(7);
    FAIL() << "a GPU that is not there";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("Not Found"), std::string::npos) << error.what();
  }
}

TEST(MonitorOfGpu, WritesItsColumns) {
  load_fakes();
  const TemporaryFolder folder;
  run_monitored(folder / "out", {Device::cuda(1)}, 100);
  const auto rows = read_csv(folder / "out/monitor.0.csv");
  ASSERT_GE(rows.size(), 2u);
  ASSERT_EQ(rows[0].size(), 11u);
  EXPECT_EQ(rows[0].back(), "gpu_power_w");
  EXPECT_EQ(std::vector<std::string>(rows[1].begin() + 5, rows[1].end()),
            (std::vector<std::string>{"40.0", "1000.0", "80000.0", "1900.0", "60.0", ""}));
}

TEST(MonitorOfGpu, WritesAFilePerGpu) {
  load_fakes();
  const TemporaryFolder folder;
  run_monitored(folder / "out", {Device::cuda(1), Device::cpu(), Device::cuda(0)}, 100);
  for (const auto& [file, load] :
       {std::pair("monitor.0.0.csv", "41.0"), {"monitor.0.1.csv", "40.0"}}) {
    const auto rows = read_csv(folder / "out" / file);
    ASSERT_GE(rows.size(), 2u) << file;
    EXPECT_EQ(rows[1].at(5), load) << file;
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "out/monitor.0.csv"));
}

TEST(MonitorOfGpu, TreatsCpuWorkersAsOneProcess) {
  const TemporaryFolder folder;
  run_monitored(folder / "out", {Device::cpu(), Device::cpu()}, 100);
  EXPECT_EQ(read_csv(folder / "out/monitor.0.csv").at(0).size(), 5u);
}

}  // namespace
}  // namespace tasuki
