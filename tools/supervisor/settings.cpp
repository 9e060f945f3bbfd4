#include "tools/supervisor/settings.hpp"

#include <algorithm>
#include <boost/program_options/parsers.hpp>

#include "core/error.hpp"
#include "program/flags/options_builtin.hpp"

namespace tasuki::supervisor {
namespace {

using program::Choice;
using program::Option;
using program::Options;
namespace builtin = program::builtin;

constexpr std::int64_t most_ranks = 1 << 20;
constexpr double longest = 1e7;  // seconds

void add_flags(Options& options, SupervisorSettings& settings) {
  options.group("Ranks");
  options.add(
      "np,n", settings.np, "auto", {1, most_ranks}, "N",
      "number of ranks, also as -np N; `auto`: the slots in --hostfile, or Slurm's tasks, or one "
      "per core of this machine. At most 128 per core of this machine");
  options.add("hostfile", settings.hostfile, "none", "FILE",
              "the hosts to run on, one per line: `node1 slots=4`");
  options.add("launcher", settings.launcher,
              {{"mpirun", LauncherKind::mpirun}, {"srun", LauncherKind::srun}}, "NAME",
              "what starts the ranks: mpirun, also in a Slurm job, or Slurm's srun");
  options
      .add("mpirun-args", settings.mpirun_args, "none", "WORDS",
           "more flags for mpirun or srun, quoted as one word; --bind-to, --map-by, --tune, "
           "--launch-agent, --oversubscribe and --prefix replace tasuki-run's choices, and "
           "without -np a ppr in --map-by sets the number of ranks")
      .in_short("more flags for mpirun or srun");
  options
      .add("stdin", settings.passes_stdin,
           "pass standard input to rank 0, unless it is a terminal; without this flag the "
           "program's input is empty, so that a shell loop around tasuki-run keeps its own")
      .in_short("pass standard input to rank 0");
  options.add("print-command", settings.print_command,
              "print the command that starts the ranks, and exit");
  options
      .add("verbose", settings.verbose,
           "print the command before each start, and everything that mpirun prints")
      .in_short("print each command and mpirun's output");

  options.group("Failures");
  options
      .add("max-restarts", settings.max_restarts, {0, 1'000'000}, "R",
           "restart a failed job at most R times without progress (a newer saved state in "
           "--out), after 1, 2, 4, ... 60 s; after progress it restarts at once, and counting "
           "starts again; programs other than Tasuki's restart only if this flag is given")
      .in_short("restarts without progress");
  options
      .add("min-np", settings.min_np, "np", {1, most_ranks}, "M",
           "if a host of --hostfile does not answer, continue with at least M ranks on the "
           "remaining hosts; `np`: wait for the host")
      .in_short("fewest ranks if hosts are lost");
  options
      .add("host-timeout", settings.host_timeout, {0, longest}, "SECONDS",
           "how long to wait for a host that does not answer, or a process of the job that still "
           "writes to --out, before giving up")
      .in_short("time to wait for a silent host");

  options.group("Stopping");
  options
      .add(
          "stop-timeout", settings.stop_timeout, {0, longest}, "SECONDS",
          "how long a job that is asked to stop (Ctrl-C, SIGTERM, SIGUSR1) may take to save "
          "before it is ended; a second Ctrl-C ends it at once. Programs other than Tasuki's "
          "get SIGTERM from mpirun and have 1 second, or this time if the flag is given (with Open "
          "MPI 4; with MPICH and Intel MPI 5 seconds)")
      .in_short("time to save after Ctrl-C");
}

// Whether this word of the command line takes `next` as its value.
bool takes_next_word(const Options& options, const std::string& word, const std::string& next) {
  if (word.find('=') != std::string::npos) return false;
  const bool is_long = word.starts_with("--");
  if (!is_long && word.size() > 2) return false;  // -n4
  std::string name = word.substr(is_long ? 2 : 1);
  std::ranges::replace(name, '_', '-');
  const auto is_meant = [&](const auto& flag) {
    return is_long ? flag.name == name : flag.letter != 0 && flag.letter == name.front();
  };
  if (const auto own = std::ranges::find_if(builtin::flags, is_meant); own != builtin::flags.end())
    return !own->value_name.empty() && !(own->value_may_miss && next.starts_with('-'));
  const auto found = std::ranges::find_if(options.all(), is_meant);
  return found != options.all().end() && found->implicit.empty();
}

std::vector<std::string> split(const std::string& text) {
  bool is_open = false, is_escaped = false;
  for (const char c : text) {
    if (!is_escaped && (c == '"' || c == '\'')) is_open = !is_open;
    is_escaped = !is_escaped && c == '\\';
  }
  if (is_open || is_escaped)
    fail(ErrorKind::usage, "--mpirun-args: expected words as in a shell, found {} in {}",
         is_open ? "a quote without its end" : "a backslash at the end", text);
  return boost::program_options::split_unix(text);
}

// The program's flags that tasuki-run must know.
void refuse_own_flags(const SupervisorSettings& settings) {
  const bool is_srun = settings.launcher == LauncherKind::srun;
  const std::vector<std::string> counts = {"np", "n", is_srun ? "ntasks" : "c"};
  const std::vector<std::string> hosts = {"H",           "host",  "hostfile", "default-hostfile",
                                          "machinefile", "hosts", "f"};
  for (const std::string& word : settings.launcher_words) {
    const std::string name = word.substr(std::min(word.find_first_not_of('-'), word.size()));
    const std::string plain = name.substr(0, name.find('='));
    const auto is_one_of = [&](const std::vector<std::string>& names) {
      return word.starts_with('-') && std::ranges::find(names, plain) != names.end();
    };
    if (is_one_of(counts))
      fail(ErrorKind::usage, "--mpirun-args: {}: use tasuki-run -np N instead", word);
    if (!is_srun && is_one_of(hosts))
      fail(ErrorKind::usage, "--mpirun-args: {}: use tasuki-run --hostfile FILE instead", word);
  }
}

}  // namespace

CommandLine parse_command_line(const std::vector<std::string>& arguments) {
  CommandLine line;
  SupervisorSettings& settings = line.settings;
  Options options("tasuki-run",
                  "starts a training program with mpirun, and restarts it from its last saved "
                  "state when it fails; Ctrl-C saves and stops",
                  "tasuki-run -np 4 train_mnist --epoch 20");
  options.operands("PROGRAM [its flags]");
  add_flags(options, settings);

  std::vector<std::string> own;
  auto word = arguments.begin();
  for (; word != arguments.end() && word->size() > 1 && word->front() == '-'; ++word) {
    if (*word == "--") {
      ++word;
      break;
    }
    own.push_back(*word == "-np" ? "--np" : *word);  // as mpirun accepts
    if (word + 1 != arguments.end() && takes_next_word(options, own.back(), word[1]))
      own.push_back(*++word);
  }
  settings.program.assign(word, arguments.end());

  line.request = options.parse(own);
  line.text = options.text(line.request);
  settings.is_max_restarts_given = options.is_given("max-restarts");
  settings.is_stop_timeout_given = options.is_given("stop-timeout");
  if (line.request != Options::Request::run) return line;
  if (settings.program.empty())
    fail(ErrorKind::usage,
         "no program was given; expected: tasuki-run [flags] PROGRAM [its flags] (see --help)");
  if (settings.min_np && settings.np && *settings.min_np > *settings.np)
    fail(ErrorKind::usage, "--min-np: expected at most -np {}, found {}", *settings.np,
         *settings.min_np);
  if (settings.min_np && !settings.hostfile)
    fail(ErrorKind::usage,
         "--min-np: expected --hostfile FILE, whose hosts may be left out; found none");
  settings.launcher_words = split(settings.mpirun_args.value_or(""));
  refuse_own_flags(settings);
  if (settings.launcher == LauncherKind::srun && settings.hostfile)
    fail(ErrorKind::usage, "--hostfile: srun takes the hosts from Slurm; leave it out");
  return line;
}

}  // namespace tasuki::supervisor
