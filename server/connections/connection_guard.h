#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "index/base/file.h"
#include "server/connections/channelz.h"
#include "server/connections/options.h"
#include "server/connections/unread_requests.h"
#include "server/core/metrics.h"

namespace hmann::server {

/// Tracks each connection of a server by its descriptor and peer, and shuts down
/// connections that misbehave. Signs are more calls at once than the server allowed,
/// thousands of calls begun and cancelled, or a request whose rest never arrives. (The
/// gRPC version in use holds memory for all of these without a bound.) The guard reads
/// gRPC's own stream counts (channelz), and only for connections that received something.
/// Unix socket connections are only counted: a user who may open the socket could just as
/// well end the server.
///
/// Thread safety: one thread takes and releases, another one looks; the rest may be
/// called from any thread.
class ConnectionGuard {
 public:
  /// `unread` must outlive this.
  ConnectionGuard(const ConnectionLimits& limits, UnreadRequests* unread);
  ConnectionGuard(const ConnectionGuard&) = delete;
  ConnectionGuard& operator=(const ConnectionGuard&) = delete;

  /// The time until the next call of Look.
  std::chrono::milliseconds Tick() const;

  enum class Verdict { kTake, kLater, kClose };
  /// Judges a connection that was just accepted. kTake: it is watched from now on.
  /// kClose: there are too many, in total or from its peer. kLater: a connection of its
  /// peer was shut down a moment ago, so this one has to wait until Released names it:
  /// for half a second at most if a call of that peer has succeeded of late. (Many
  /// clients may share one address, that of a proxy: one of them must not keep the others
  /// out.)
  Verdict Take(int descriptor);
  /// Connections that have waited long enough. They are watched from now on.
  std::vector<int> Released();
  /// Counts a connection that the caller rejected.
  void Refused(Refusal why);
  /// Checks the traffic since the last call. `server`: its number in channelz.
  void Look(std::int64_t server);
  /// True when there is nothing to check.
  bool idle() const;
  /// True when it is time for Released or Trim.
  bool IsAnythingDue() const;
  /// Returns to the system the memory that shut-down connections left behind. It may take
  /// a tenth of a second.
  void Trim();
  /// At the end of the server: shuts down the connections that have no
  /// open call, so that their clients find no server instead of a cancelled call. Returns
  /// the number of connections that gRPC has not closed yet.
  std::size_t CloseIdle();
  /// Connections that still wait, and their peers. The caller closes them at the end,
  /// when nothing takes connections any more.
  const std::vector<std::pair<int, std::string>>& held() const { return held_; }
  const ConnectionCounts& counts() const { return counts_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Connection {
    std::uint64_t cookie = 0;  ///< the kernel's socket number, never reused
    std::string peer;          ///< address, without port
    std::string name;          ///< as gRPC writes it: address and port
    std::int64_t after = 0;    ///< its channelz number is higher
    std::int64_t socket = 0;   ///< its channelz number; 0: unknown yet
    bool active = false;       ///< has traffic not yet checked
    bool more = false;         ///< something has come since Due was asked
    bool narrow = true;        ///< has a small receive window
    bool shut = false;         ///< shut down; gRPC has yet to notice
    std::uint64_t bytes = 0;   ///< received at the last check
    Clock::time_point looked, new_until;
    StreamCounts streams;                 ///< at the last check, without refused calls
    std::uint64_t refused = 0;            ///< see UnreadRequests
    std::uint64_t failed_before = 0;      ///< at the start of the second
    Clock::time_point second_began;       ///< when failed_before was read
    std::int64_t unclaimed_of_ended = 0;  ///< messages; see WithoutMessage
    Clock::time_point half_sent_since;    ///< epoch: nothing is half sent
    std::uint64_t messages_then = 0;
    std::uint64_t bytes_then = 0;   ///< received when messages last grew
    Clock::time_point large_until;  ///< a large request may come
    Clock::time_point rest_until;   ///< what is left of a refused request may come
  };

  /// A peer that had a connection shut down.
  struct Barred {
    Clock::time_point until;
    std::vector<std::int64_t> ending;  ///< channelz sockets with open calls
  };

  static bool IsBarred(Barred& barred, bool trusted, Clock::time_point now);
  bool IsTrusted(const std::string& peer, Clock::time_point now) const;
  bool Gone(int descriptor, const Connection& connection) const;
  void ForgetGone(std::size_t most);
  void Watch(int descriptor, Connection connection);
  void Forget(int descriptor);
  void Left(const std::string& peer);
  void FindSockets(std::int64_t server);
  bool Due(int descriptor, const Connection& connection, Clock::time_point now) const;
  void Judge(int descriptor, Connection& connection, Clock::time_point now);
  static std::int64_t WithoutMessage(Connection& connection, const StreamCounts& now);
  bool HalfSent(Connection& connection, const StreamCounts& now, bool half,
                Clock::time_point time) const;
  bool TooLong(Connection& connection, std::uint64_t open);
  void ShutDown(int descriptor, Connection& connection, Refusal why, bool bar = true);

  bool TrimIsDue() const;

  const ConnectionLimits limits_;
  UnreadRequests& unread_;
  ConnectionCounts counts_;
  mutable std::mutex mutex_;  ///< guards all below except activity_
  FileDescriptor activity_;   ///< epoll descriptor of all connections
  std::unordered_map<int, Connection> connections_;
  absl::flat_hash_map<std::string, std::uint32_t> by_peer_;
  absl::flat_hash_map<std::string, int> nameless_;  ///< connections with unknown socket
  std::vector<int> active_;
  std::vector<std::pair<int, std::string>> held_;    ///< and peers, in order of arrival
  absl::flat_hash_map<std::string, Barred> barred_;  ///< by peer
  /// By peer: when a call of it last succeeded.
  absl::flat_hash_map<std::string, Clock::time_point> succeeded_;
  std::size_t next_bucket_ = 0;  ///< where ForgetGone resumes
  std::int64_t last_socket_ = 0;
  Clock::time_point hurry_until_, next_line_, next_sweep_, next_trim_, trim_until_;
  std::uint64_t untold_ = 0;
};

}  // namespace hmann::server
