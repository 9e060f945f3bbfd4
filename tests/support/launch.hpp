// Runs programs from tests, mpirun among them, and says how they ended.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "paths.hpp"

namespace tasuki::testing {

struct Finished {
  int exit_code = -1;      // 128 + signal when a signal ended it
  bool timed_out = false;  // it was killed, with all its descendants
  double seconds = 0;      // from start to end
  std::string out, err;    // what it wrote
  std::string all() const { return out + err; }
};

// `words[0]` is looked up in PATH. The environment is this process's with `changes`. The program is
// the first of a new process group; `meanwhile` is called with its id, about every 50 ms. The limit
// grows with patience(). If other processes keep the output open, it is read for 10 s more.
Finished run_program(const std::vector<std::string>& words, double limit_seconds = 60,
                     const std::map<std::string, std::string>& changes = {},
                     const std::function<void(pid_t program)>& meanwhile = {});

// Whether this build's MPI is started by Hydra (MPICH, Intel MPI), not by Open MPI's mpirun.
bool has_hydra();
// What messages call that launcher.
std::string launcher_name();
// The environment variable that has a rank's number.
std::string rank_variable();

// The words that start `np` ranks of a program here: as root, with more ranks than cores, unbound.
// `options` are Open MPI's.
std::vector<std::string> mpirun(int np, const std::vector<std::string>& program,
                                const std::vector<std::string>& options = {});

// How often `part` occurs in `text`.
int count_of(const std::string& text, const std::string& part);

// Seconds of a clock that all processes of this machine share.
double shared_clock();

}  // namespace tasuki::testing
