#include "server/log.h"

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/stubs/logging.h"
#include "grpc/support/log.h"
#include "server/core/errors.h"
#include "spdlog/spdlog.h"

namespace hmann::server {
namespace {

constexpr std::size_t kMostOfLine = 400;
constexpr std::chrono::seconds kOneHandshakeLine(10);

std::atomic<std::uint64_t> g_failed_handshakes{0}, g_reported_handshakes{0};
std::atomic<std::int64_t> g_next_handshake_line{0};
std::mutex g_dropped_mutex;
std::function<std::uint64_t()> g_dropped;

void HandshakeFailed(absl::string_view why) {
  const std::uint64_t failed = g_failed_handshakes.fetch_add(1) + 1;
  const std::int64_t now = std::chrono::steady_clock::now().time_since_epoch().count();
  std::int64_t next = g_next_handshake_line.load();
  const std::int64_t after = now + std::chrono::nanoseconds(kOneHandshakeLine).count();
  if (now < next || !g_next_handshake_line.compare_exchange_strong(next, after)) return;
  spdlog::warn("{} handshakes failed, the last: {}",
               failed - g_reported_handshakes.exchange(failed), Echo(why, kMostOfLine));
}

/// gRPC reports a failed handshake nowhere but here, in a line for developers.
void FromGrpc(gpr_log_func_args* line) {
  constexpr absl::string_view kHandshake = "Handshaking failed: ";
  const absl::string_view text = line->message;
  if (absl::StartsWith(text, kHandshake)) HandshakeFailed(text.substr(kHandshake.size()));
  spdlog::debug("grpc: {}", Echo(text, kMostOfLine));
}

void FromProtobuf(google::protobuf::LogLevel, const char*, int, const std::string& text) {
  spdlog::debug("protobuf: {}", Echo(text, kMostOfLine));
}

}  // namespace

void RouteLibraryLogs() {
  gpr_set_log_function(FromGrpc);
  gpr_set_log_verbosity(GPR_LOG_SEVERITY_DEBUG);
  google::protobuf::SetLogHandler(FromProtobuf);
}

std::uint64_t FailedHandshakes() { return g_failed_handshakes.load(); }

void SetDroppedLines(std::function<std::uint64_t()> dropped) {
  const std::lock_guard lock(g_dropped_mutex);
  g_dropped = std::move(dropped);
}

std::uint64_t DroppedLines() {
  const std::lock_guard lock(g_dropped_mutex);
  return g_dropped ? g_dropped() : 0;
}

}  // namespace hmann::server
