#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "absl/status/status.h"
#include "grpc/support/log.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "server/server.h"
#include "spdlog/sinks/stdout_color_sinks.h"
#include "spdlog/spdlog.h"
#include "tools/commands.h"
#include "tools/connection_flags.h"
#include "tools/flags.h"
#include "tools/open_flags.h"
#include "tools/print.h"

namespace hmann::tools {
namespace {

struct ServeFlags {
  server::ServerOptions server;
  std::vector<std::string> indexes;
  std::chrono::nanoseconds drain = std::chrono::seconds(5);
  bool json = false;
};

/// Turns SIGTERM and SIGINT into bytes in a pipe instead of ending the process. (Blocking
/// them for sigwait does not work: libraries start threads before main, which would take
/// the signal and end the process.) One instance at a time.
class Signals {
 public:
  static absl::StatusOr<std::unique_ptr<Signals>> Take() {
    int fds[2];
    if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0) return ErrnoError(errno, "pipe", "signals");
    return std::unique_ptr<Signals>(new Signals(fds[0], fds[1]));
  }
  ~Signals() {
    sigaction(SIGTERM, &before_term_, nullptr);
    sigaction(SIGINT, &before_int_, nullptr);
    close(read_);
    close(write_);
  }

  /// True when a signal came within `time`; each signal counts once.
  bool Wait(std::chrono::nanoseconds time) const {
    const auto end = std::chrono::steady_clock::now() + time;
    for (;;) {
      char byte = 0;
      if (read(read_, &byte, 1) == 1) return true;
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
      if (left.count() <= 0) return false;
      pollfd waiting{read_, POLLIN, 0};
      poll(&waiting, 1, static_cast<int>(std::min<std::int64_t>(left.count(), 1 << 30)));
    }
  }

 private:
  Signals(int read, int write) : read_(read), write_(write) {
    pipe_ = write;
    struct sigaction action {};
    action.sa_handler = [](int) {
      const int saved = errno;
      [[maybe_unused]] const auto written = ::write(pipe_, "", 1);
      errno = saved;
    };
    sigaction(SIGTERM, &action, &before_term_);
    sigaction(SIGINT, &action, &before_int_);
  }

  static inline std::atomic<int> pipe_{-1};  // reachable from the handler
  const int read_, write_;
  struct sigaction before_term_ {
  }, before_int_{};
};

void LogOnStderr() {
  spdlog::set_default_logger(spdlog::stderr_color_mt("hmann"));
  gpr_set_log_function([](gpr_log_func_args* args) { spdlog::debug("grpc: {}", args->message); });
}

/// Waits for a signal, or until it is known that no index can be served.
absl::Status WaitForEnd(server::Server& server, const Signals& signals) {
  std::future<absl::Status> loaded =
      std::async(std::launch::async, [&server] { return server.WaitLoaded(); });
  bool known = false;
  while (!signals.Wait(known ? std::chrono::nanoseconds(std::chrono::hours(24))
                             : std::chrono::milliseconds(20))) {
    if (known || loaded.wait_for(std::chrono::seconds(0)) != std::future_status::ready) continue;
    HMANN_RETURN_IF_ERROR(loaded.get());
    known = true;
  }
  if (!known) spdlog::info("signalled while loading: waiting for the index that is being opened");
  return absl::OkStatus();
}

/// Drains for `drain`: accepts no new connections, reports NOT_SERVING, and still answers
/// requests on open connections. Running requests then get half a second before they are
/// cancelled. Another signal cuts both short. The process ends within a second after
/// `drain`, whatever connections do.
void Drain(server::Server& server, const Signals& signals, std::chrono::nanoseconds drain) {
  spdlog::info("draining for {}; signal again to stop at once",
               FormatDuration(std::chrono::duration<double>(drain).count()));
  server.BeginDrain();
  std::chrono::nanoseconds grace = std::chrono::milliseconds(500);
  if (signals.Wait(drain)) grace = std::chrono::nanoseconds::zero();
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(900);
  std::future<void> done = std::async(std::launch::async, [&] { server.Shutdown(grace); });
  while (done.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    if (signals.Wait(std::chrono::milliseconds(20))) server.CancelCalls();
    if (std::chrono::steady_clock::now() < end) continue;
    spdlog::warn("stopped, though connections were not closed by their clients");
    spdlog::shutdown();
    std::fflush(nullptr);
    std::_Exit(0);
  }
  spdlog::info("stopped");
}

/// Raises the descriptor limit to what the system allows: each connection takes one.
void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

absl::Status Serve(const ServeFlags& flags) {
  LogOnStderr();
  RaiseDescriptorLimit();
  HMANN_ASSIGN_OR_RETURN(const std::unique_ptr<Signals> signals, Signals::Take());
  HMANN_ASSIGN_OR_RETURN(const std::unique_ptr<server::Server> server,
                         server::Server::Start(flags.server));
  std::fprintf(stderr, "listening on %s\n", server->address().c_str());
  const std::string http = server->http_address();
  if (!http.empty()) std::fprintf(stderr, "metrics on http://%s/metrics\n", http.c_str());
  if (flags.json) {
    nlohmann::ordered_json json = {{"listening", server->address()}, {"port", server->port()}};
    if (!http.empty()) json["http"] = http;
    HMANN_RETURN_IF_ERROR(PrintJson(json));
  }
  HMANN_RETURN_IF_ERROR(WaitForEnd(*server, *signals));
  Drain(*server, *signals, flags.drain);
  return absl::OkStatus();
}

std::string CheckIndex(const std::string& text) {
  return std::string(server::IndexSpec::Parse(text).status().message());
}

/// Declares the options that control access.
void AddSecurityFlags(CLI::App& app, server::ServerOptions* server) {
  app.add_option("--tls-cert", server->tls.certificate,
                 "certificate chain of this server (PEM); read again when it changes");
  app.add_option("--tls-key", server->tls.key, "key of --tls-cert (PEM)");
  app.add_option("--tls-client-ca", server->tls.client_ca,
                 "require client certificates from one of these authorities (PEM)");
  app.add_option("--tokens", server->tokens,
                 "file of accepted tokens, one line `SHA-256 read` or `SHA-256 admin` per token; "
                 "read again when it changes");
  app.add_flag("--insecure", server->insecure, "allow non-loopback addresses without TLS");
}

}  // namespace

CommandAction SetupServe(CLI::App& app) {
  auto flags = std::make_shared<ServeFlags>();
  app.add_option("--index", flags->indexes, "NAME=IDX, once per index")
      ->required()
      ->check(CheckIndex);
  app.add_option("--listen", flags->server.listen,
                 "address to listen on: HOST:PORT (port 0 picks one) or unix:PATH")
      ->capture_default_str();
  app.add_option("--http", flags->server.http,
                 "HOST:PORT for /metrics (Prometheus), /livez and /readyz (default: none)");
  AddOpenFlags(app, &flags->server.open);
  app.add_flag("--warm", flags->server.warm,
               "read all mapped data once, even if it exceeds the free memory");
  app.add_option("--threads", flags->server.threads,
                 "concurrent searches (0: one per core, or eight per core with L0 on nvme, where "
                 "they wait)")
      ->check(CLI::Range(0, 4096));
  app.add_option("--queue", flags->server.queue,
                 "maximum number of waiting requests, separately for short and long ones; more are "
                 "refused, as are requests that would miss their deadline")
      ->capture_default_str();
  app.add_option("--max-batch", flags->server.limits.max_batch, "maximum queries per request")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--max-k", flags->server.limits.max_k, "maximum neighbors per query")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  AddParsed(app, "--max-work", ParseDuration, &flags->server.most_work,
            "maximum thread time of one request, estimated from earlier ones (default: 60s)");
  AddConnectionFlags(app, &flags->server.connections);
  AddParsed(app, "--drain", ParseDuration, &flags->drain,
            "time to keep answering after SIGTERM, with the port closed and health NOT_SERVING "
            "(default: 5s)");
  AddParsed(app, "--scrub", ParseSize, &flags->server.scrub_bytes_per_second,
            "rate of the background checksum pass over data that is read in place (mapped, nvme), "
            "in bytes per second; 0: never (default: 32MiB)");
  AddSecurityFlags(app, &flags->server);
  app.parse_complete_callback([flags] {
    for (const std::string& text : flags->indexes)
      flags->server.indexes.push_back(*server::IndexSpec::Parse(text));  // CheckIndex checked it
    if (const absl::Status status = flags->server.Validate(); !status.ok())
      throw CLI::ValidationError(std::string(status.message()));
  });
  app.add_flag("--json", flags->json, "print the address as one JSON object on stdout");
  return [flags] { return Serve(*flags); };
}

}  // namespace hmann::tools
