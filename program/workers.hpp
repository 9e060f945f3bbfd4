// Workers of one process, as flags name them.
#pragma once

#include <string>
#include <vector>

#include "tasuki/program/job.hpp"
#include "tasuki/training/workers/batch_split.hpp"

namespace tasuki::program {

struct WorkerSettings {
  std::vector<Device> devices = {Device::cpu(), Device::cpu()};  // of each worker
  std::string split = "even";
};

// --devices and --split.
void add_worker_options(Options& options, WorkerSettings& settings);

// "0,1" are GPUs by number, each once; "cpu" is a worker on the CPU, "cpu:2" are two. Throws
// std::invalid_argument with what was expected.
std::vector<Device> parse_devices(const std::string& text);
std::string devices_text(const std::vector<Device>& devices);
// "cpu", "cuda:0, cuda:1": each once, for people.
std::string worker_names(const std::vector<Device>& devices);

// "even", "auto" (by measured speed) or parts as "3:1", one for each worker; anything else is a
// usage error.
BatchSplit parse_split(const std::string& text, std::size_t workers);

// Threads that each worker computes with: as many as were asked for, or the process's share of the
// cores dealt to its workers.
int threads_of_worker(const Job& job, std::size_t workers);

// Makes the GPUs among the devices usable; what is missing is an error of kind unavailable, a
// number that no GPU has one of kind config.
void prepare_devices(const std::vector<Device>& devices);

}  // namespace tasuki::program
