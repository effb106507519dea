#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "server/connections/channelz.h"
#include "server/connections/options.h"
#include "server/core/metrics.h"

namespace hmann::server {

/// Knows each connection of a server by its descriptor and peer, and shuts down those
/// that do what no good client does: more calls at once than they were told they may,
/// calls begun and cancelled by the thousand, a request of which no rest comes. (The
/// gRPC that we are built with holds memory for all of these without a bound.) What a
/// connection did is read from gRPC's own counts of its streams (channelz), and only of
/// connections that something arrived on. Those of a Unix socket are counted and no more:
/// who may open it may as well end the server.
///
/// Thread safety: one thread takes and releases, another one looks; the rest from any.
class ConnectionGuard {
 public:
  explicit ConnectionGuard(const ConnectionLimits& limits);
  ~ConnectionGuard();
  ConnectionGuard(const ConnectionGuard&) = delete;
  ConnectionGuard& operator=(const ConnectionGuard&) = delete;

  /// When Look is to be called again.
  std::chrono::milliseconds Tick() const;

  enum class Verdict { kTake, kLater, kClose };
  /// Of a connection that was just accepted. kTake: it is watched from now on. kClose:
  /// there are too many, in all or of its peer. kLater: one of its peer was shut down a
  /// moment ago, so that this one has to wait until Released names it.
  Verdict Take(int descriptor);
  /// Connections that have waited long enough; they are watched from now on.
  std::vector<int> Released();
  /// One that the caller did not take.
  void Refused(Refusal why);
  /// Looks at what came since the last time. `server`: its number in channelz.
  void Look(std::int64_t server);
  /// Whether there is nothing to look at.
  bool idle() const;
  /// Whether it is time for Released, or for Trim.
  bool IsAnythingDue() const;
  /// Gives the system what connections that were shut down have left. It may take a tenth
  /// of a second.
  void Trim();
  /// That still wait; the caller closes them at the end, when nobody takes any more.
  const std::vector<int>& held() const { return held_; }
  const ConnectionCounts& counts() const { return counts_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Connection {
    std::uint64_t cookie = 0;  ///< the kernel's number of the socket, never used again
    std::string peer;          ///< address, without port
    std::string name;          ///< as gRPC has it: address and port
    std::int64_t after = 0;    ///< the socket's number in channelz is higher
    std::int64_t socket = 0;   ///< that number; 0: not known yet
    bool active = false;       ///< something came, and nobody has looked
    bool narrow = true;        ///< may send little at once
    bool shut = false;         ///< shut down; gRPC has yet to notice
    std::uint64_t bytes = 0;   ///< received when last looked at
    Clock::time_point looked, new_until;
    StreamCounts streams;                 ///< when last looked at
    std::uint64_t failed_before = 0;      ///< of the second before this one
    Clock::time_point second_began;       ///< that failed_before was counted at
    std::int64_t unclaimed_of_ended = 0;  ///< messages; see WithoutMessage
    Clock::time_point half_sent_since;    ///< none: the epoch
    std::uint64_t messages_then = 0;
    std::uint64_t bytes_then = 0;  ///< received when its messages were last seen to be more
  };

  /// A peer of whose connections one was shut down.
  struct Barred {
    Clock::time_point until;
    std::vector<std::int64_t> ending;  ///< sockets in channelz, until their calls are over
  };

  static bool IsBarred(Barred& barred, Clock::time_point now);
  bool Gone(int descriptor, const Connection& connection) const;
  void ForgetGone(std::size_t most);
  void Watch(int descriptor, Connection connection);
  void Forget(int descriptor);
  void FindSockets(std::int64_t server);
  bool Due(int descriptor, const Connection& connection, Clock::time_point now) const;
  void Judge(int descriptor, Connection& connection, Clock::time_point now);
  static std::int64_t WithoutMessage(Connection& connection, const StreamCounts& now);
  bool HalfSent(Connection& connection, const StreamCounts& now, bool half,
                Clock::time_point time) const;
  bool TooLong(const Connection& connection, std::uint64_t open) const;
  void ShutDown(int descriptor, Connection& connection, Refusal why);

  bool TrimIsDue() const;

  const ConnectionLimits limits_;
  ConnectionCounts counts_;
  mutable std::mutex mutex_;  ///< of what follows, but activity_
  int activity_ = -1;         ///< an epoll of all connections
  std::unordered_map<int, Connection> connections_;
  absl::flat_hash_map<std::string, std::uint32_t> by_peer_;
  absl::flat_hash_map<std::string, int> nameless_;  ///< connections whose socket is not known
  std::vector<int> active_;
  std::vector<int> held_;                            ///< in the order in which they came
  absl::flat_hash_map<std::string, Barred> barred_;  ///< by peer
  std::size_t next_bucket_ = 0;  ///< of connections_, that ForgetGone goes on at
  std::int64_t last_socket_ = 0;
  Clock::time_point hurry_until_, next_line_, next_sweep_, next_trim_, trim_until_;
  std::uint64_t untold_ = 0;
};

}  // namespace hmann::server
