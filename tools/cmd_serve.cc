#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "CLI/App.hpp"
#include "absl/status/status.h"
#include "index/base/cpu.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"
#include "index/base/thread_pool.h"
#include "index/base/units.h"
#include "server/log.h"
#include "server/server.h"
#include "spdlog/async_logger.h"
#include "spdlog/details/thread_pool.h"
#include "spdlog/sinks/stdout_color_sinks.h"
#include "spdlog/spdlog.h"
#include "tools/commands.h"
#include "tools/print.h"
#include "tools/serve_flags.h"

namespace hmann::tools {
namespace {

/// The signals that end a process unless it takes them and that mean nothing to a server:
/// those of timers, of limits, of others' devices, and real-time signals. Not those that
/// tell of a fault of the program.
std::vector<int> MeaninglessSignals() {
  std::vector<int> all = {SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM,
                          SIGPROF, SIGPWR,  SIGXCPU, SIGSTKFLT};
  for (int signal = SIGRTMIN; signal <= SIGRTMAX; ++signal) all.push_back(signal);
  return all;
}

/// Turns signals into bytes of a pipe. SIGTERM, SIGINT and SIGQUIT stop the server,
/// SIGHUP lets it read its files again, others do nothing. (Blocking them for sigwait
/// does not work: libraries start threads before main, which would take the signal and
/// end the process.) One instance at a time.
class Signals {
 public:
  /// Until Take, a signal ends the process as usual, but not one that means nothing.
  static void IgnoreMeaningless() {
    for (const int signal : MeaninglessSignals()) ::signal(signal, SIG_IGN);
  }
  static absl::StatusOr<std::unique_ptr<Signals>> Take() {
    int fds[2];
    if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0) return ErrnoError(errno, "pipe", "signals");
    return std::unique_ptr<Signals>(new Signals(fds[0], fds[1]));
  }
  ~Signals() {
    for (const auto& [signal, before] : before_) sigaction(signal, &before, nullptr);
  }

  /// True when a signal to stop came within `time`; each counts once. Other signals call
  /// `reload` or are logged.
  bool Wait(std::chrono::nanoseconds time, const std::function<void()>& reload) const {
    const auto end = std::chrono::steady_clock::now() + time;
    for (;;) {
      for (char signal = 0; read(read_.fd(), &signal, 1) == 1;) {
        if (Stops(signal)) return true;
        waits_[static_cast<std::size_t>(signal)].store(false);
        if (signal == SIGHUP) {
          reload();
        } else {
          spdlog::info("signal {} means nothing to this server", strsignal(signal));
        }
      }
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
      if (left.count() <= 0) return false;
      pollfd waiting{read_.fd(), POLLIN, 0};
      poll(&waiting, 1, static_cast<int>(std::min<std::int64_t>(left.count(), 1 << 30)));
    }
  }

 private:
  Signals(int read, int write) : read_(read), write_(write) {
    pipe_ = write;
    struct sigaction action {};
    action.sa_handler = [](int signal) {
      const int saved = errno;
      const char byte = static_cast<char>(signal);
      // A timer may send more than the pipe holds, and those that stop need room.
      if (Stops(signal) || !waits_[static_cast<std::size_t>(signal)].exchange(true))
          [[maybe_unused]]
        const auto written = ::write(pipe_, &byte, 1);
      errno = saved;
    };
    action.sa_flags = SA_RESTART;
    std::vector<int> taken = MeaninglessSignals();
    taken.insert(taken.end(), {SIGTERM, SIGINT, SIGQUIT, SIGHUP});
    for (const int signal : taken) sigaction(signal, &action, &before_[signal]);
  }

  static bool Stops(int signal) {
    return signal == SIGTERM || signal == SIGINT || signal == SIGQUIT;
  }

  // Reachable from the handler; waits_: by signal, whether its byte is in the pipe.
  static inline std::atomic<int> pipe_{-1};
  static inline std::array<std::atomic<bool>, NSIG> waits_{};
  const FileDescriptor read_, write_;
  std::map<int, struct sigaction> before_;
};

/// The log on stderr. A thread of its own writes it, so that no other thread waits for
/// the reader of a pipe. Lines beyond the queue are dropped, oldest first, and counted.
class Log {
 public:
  explicit Log(const std::string& level)
      : pool_(std::make_shared<spdlog::details::thread_pool>(kLines, 1)), plain_(MakeLogger()) {
    plain_->set_pattern("%v");  // later it would wait for a line that is being written
    // A reader that went away, and a limit on the size of a file, are errors of a write;
    // SIGIO asks for a lease back.
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    signal(SIGIO, SIG_IGN);
    spdlog::set_default_logger(MakeLogger());
    spdlog::set_level(spdlog::level::from_str(level));
    server::SetDroppedLines([pool = std::weak_ptr(pool_)] {
      const auto held = pool.lock();
      return held == nullptr ? std::uint64_t{0} : std::uint64_t{held->overrun_counter()};
    });
  }
  ~Log() { Close(); }

  /// Waits a moment until all is written. False: the reader does not read, and each
  /// thread that writes to stderr now, if only at exit, waits for it.
  bool Close() {
    if (pool_ == nullptr) return true;
    server::SetDroppedLines(nullptr);
    spdlog::set_level(spdlog::level::off);
    const auto written = std::make_shared<std::promise<void>>();
    std::future<void> done = written->get_future();
    std::thread([written, pool = std::move(pool_)]() mutable {
      pool.reset();
      written->set_value();
    }).detach();
    return done.wait_for(std::chrono::milliseconds(300)) == std::future_status::ready;
  }

  /// Writes a line without time and level.
  void Line(const std::string& text) { plain_->info(text); }

 private:
  static constexpr std::size_t kLines = 8192;

  std::shared_ptr<spdlog::logger> MakeLogger() {
    return std::make_shared<spdlog::async_logger>(
        "hmann", std::make_shared<spdlog::sinks::stderr_color_sink_mt>(), pool_,
        spdlog::async_overflow_policy::overrun_oldest);
  }

  std::shared_ptr<spdlog::details::thread_pool> pool_;
  const std::shared_ptr<spdlog::logger> plain_;
};

/// Waits for a signal to stop, or until it is known that no index can be served. Calls
/// `ready` once when all indexes are loaded or have failed, and at least one is served.
absl::Status WaitForEnd(server::Server& server, const Signals& signals,
                        const std::function<void()>& ready) {
  bool known = false;
  while (!signals.Wait(
      known ? std::chrono::nanoseconds(std::chrono::hours(24)) : std::chrono::milliseconds(20),
      [&] { server.Reload(); })) {
    if (known) continue;
    const std::optional<absl::Status> loaded = server.Loaded();
    if (!loaded.has_value()) continue;
    HMANN_RETURN_IF_ERROR(*loaded);
    ready();
    known = true;
  }
  return absl::OkStatus();
}

/// Drains for `drain`: accepts no new connections, reports NOT_SERVING, and still answers
/// requests on open connections. Running requests then get half a second before they are
/// cancelled. Another signal cuts both short. Returns within a second after `drain`,
/// whatever connections, devices and indexes that are loading do: false if some of them
/// still use the server.
bool Drain(const std::shared_ptr<server::Server>& server, const Signals& signals,
           std::chrono::nanoseconds drain) {
  spdlog::info("draining for {}; signal again to stop at once",
               FormatDuration(std::chrono::duration<double>(drain).count()));
  server->BeginDrain();
  const auto reload = [&] { server->Reload(); };
  std::chrono::nanoseconds grace = std::chrono::milliseconds(500);
  if (signals.Wait(drain, reload)) grace = std::chrono::nanoseconds::zero();
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(900);
  const auto ended = std::make_shared<std::promise<void>>();
  std::future<void> done = ended->get_future();
  std::thread([server, grace, ended] {
    server->Shutdown(grace);
    ended->set_value();
  }).detach();
  while (done.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    if (signals.Wait(std::chrono::milliseconds(20), reload)) server->CancelCalls();
    if (std::chrono::steady_clock::now() < end) continue;
    spdlog::warn("stopped, though a connection was not closed or an index was still loading");
    return false;
  }
  spdlog::info("stopped");
  return true;
}

/// Raises the descriptor limit to what the system allows: each connection takes one.
void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

/// `line`: the options as they were given.
absl::Status Serve(const CLI::App& line, const ServeFlags& flags) {
  HMANN_RETURN_IF_ERROR(CheckThreads(2));  // the log has one, and one to close it
  Signals::IgnoreMeaningless();
  BoundArenas();
  Log log(flags.log_level);
  RaiseDescriptorLimit();
  std::atomic<std::chrono::nanoseconds> drain = flags.drain;
  const auto configuration = [&]() -> absl::StatusOr<server::ServerOptions> {
    HMANN_ASSIGN_OR_RETURN(ServeFlags now, ReadServeFlags(line, flags.config));
    HMANN_RETURN_IF_ERROR(CheckFixed(flags, now));
    spdlog::set_level(spdlog::level::from_str(now.log_level));
    drain = now.drain;
    return std::move(now.server);
  };
  HMANN_ASSIGN_OR_RETURN(
      std::shared_ptr<server::Server> server,
      server::Server::Start(flags.server, flags.config.empty()
                                              ? server::Server::Configuration()
                                              : server::Server::Configuration(configuration)));
  // Until here a signal ends the process as usual: a file may lie on storage that hangs.
  HMANN_ASSIGN_OR_RETURN(const std::unique_ptr<Signals> signals, Signals::Take());
  const std::string http = server->http_address();
  spdlog::info("loading; {} answers UNAVAILABLE until then", server->address());
  if (!http.empty()) log.Line("metrics on http://" + http + "/metrics");
  if (flags.json) {
    nlohmann::ordered_json json = {{"listening", server->address()}, {"port", server->port()}};
    if (!http.empty()) json["http"] = http;
    HMANN_RETURN_IF_ERROR(PrintJson(json));
  }
  HMANN_RETURN_IF_ERROR(
      WaitForEnd(*server, *signals, [&] { log.Line("listening on " + server->address()); }));
  const bool ended = Drain(server, *signals, drain);
  if (ended) server.reset();
  if (log.Close() && ended) return absl::OkStatus();
  std::fflush(stdout);
  std::_Exit(0);
}

}  // namespace

CommandAction SetupServe(CLI::App& app) {
  auto flags = std::make_shared<ServeFlags>();
  AddServeFlags(app, flags.get());
  app.parse_complete_callback([&app, flags] {
    absl::StatusOr<ServeFlags> read = ReadServeFlags(app, flags->config);
    if (!read.ok()) throw CLI::ValidationError(std::string(read.status().message()));
    *flags = *std::move(read);
  });
  return [&app, flags] { return Serve(app, *flags); };
}

}  // namespace hmann::tools
