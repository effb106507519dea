#include "server/connections/connection_guard.h"

#include <malloc.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "server/connections/socket_facts.h"
#include "spdlog/spdlog.h"

namespace hmann::server {
namespace {

/// A connection is checked after this many bytes (fewer than two thousand of the shortest
/// calls) or after kTimeToLook.
constexpr std::uint64_t kBytesToLook = 16 << 10;
/// New connections are checked more often, for kHurry.
constexpr std::chrono::milliseconds kUsual(5), kQuick(1), kHurry(100);
constexpr std::uint64_t kBytesOfNew = 2 << 10;
constexpr std::chrono::milliseconds kTimeToLook(250);
/// Closed connections are found this many at a time, or all when there is no room.
constexpr std::size_t kForgetAtATime = 64;
/// Socket numbers may appear out of order by this much.
constexpr std::int64_t kOutOfOrder = 256;
constexpr std::chrono::seconds kOneLine(1);
/// How long after a call has waited for its request the rest of that may come: a guess.
constexpr std::chrono::seconds kLarge(10);
/// What the kernels of both ends hold of a request when its call is refused, at most: a
/// guess above their largest buffers. gRPC drops it.
constexpr std::uint64_t kRest = 16 << 20;
/// Memory of a connection that was shut down is freed gradually.
constexpr std::chrono::milliseconds kBetweenTrims(200);
constexpr std::chrono::seconds kTrims(5);
/// After a shutdown, the peer gets one new connection per kBarred. It gets none while
/// calls of its shut-down connections are ending, for at most kMostEnding. A peer of
/// which a call succeeded within kTrust is not barred, and waits for at most
/// kShortEnding.
constexpr std::chrono::milliseconds kBarred(250), kShortEnding(500);
constexpr std::chrono::seconds kMostEnding(5), kTrust(60);
constexpr std::size_t kMostTrusted = 4096;
/// Bytes that a connection may send ahead of what is read: while new and from a barred
/// peer, while new, and after its first check. These are guesses from floods on one
/// machine.
constexpr int kNarrowest = 2 << 10, kNarrow = 16 << 10, kWide = 1 << 30;
/// The interval between searches for closed connections.
constexpr std::chrono::milliseconds kSweep(20);

/// The largest ratios to the allowed calls: of calls without a message, and of all calls.
/// gRPC keeps some finished calls until their deadline.
constexpr std::int64_t kMoreStreams = 2, kMostStreams = 16;

}  // namespace

ConnectionGuard::ConnectionGuard(const ConnectionLimits& limits, UnreadRequests* unread)
    : limits_(limits), unread_(*unread), activity_(epoll_create1(EPOLL_CLOEXEC)) {}

void ConnectionGuard::Refused(Refusal why) {
  counts_.refused[static_cast<std::size_t>(why)].fetch_add(1, std::memory_order_relaxed);
}

ConnectionGuard::Verdict ConnectionGuard::Take(int descriptor) {
  const std::lock_guard lock(mutex_);
  Forget(descriptor);  // an earlier connection with the same number
  Connection connection;
  if (!PeerOf(descriptor, &connection.peer, &connection.name))
    return Verdict::kClose;  // gone already
  const auto full = [&] {
    const auto of_peer = by_peer_.find(connection.peer);
    return connections_.size() + held_.size() >= limits_.connections ||
           (of_peer != by_peer_.end() && of_peer->second >= limits_.connections_per_peer);
  };
  if (full()) ForgetGone(connections_.size());
  if (full()) {
    const bool of_all = connections_.size() + held_.size() >= limits_.connections;
    Refused(of_all ? Refusal::kConnections : Refusal::kPeer);
    return Verdict::kClose;
  }
  if (barred_.contains(connection.peer)) {
    ++by_peer_[connection.peer];
    held_.emplace_back(descriptor, connection.peer);
    return Verdict::kLater;
  }
  SetWindow(descriptor, kNarrow);
  Watch(descriptor, std::move(connection));
  return Verdict::kTake;
}

void ConnectionGuard::Watch(int descriptor, Connection connection) {
  connection.cookie = CookieOf(descriptor);
  connection.looked = connection.second_began = Clock::now();
  connection.after = last_socket_;
  connection.new_until = hurry_until_ = connection.looked + kHurry;
  ++by_peer_[connection.peer];
  if (!connection.name.empty()) nameless_[connection.name] = descriptor;
  connections_[descriptor] = std::move(connection);
  counts_.accepted.fetch_add(1, std::memory_order_relaxed);
  counts_.open.store(connections_.size(), std::memory_order_relaxed);
  epoll_event event{};
  // Data may have been read before this call. The socket is still writable then, so
  // EPOLLOUT delivers the event.
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  event.data.fd = descriptor;
  epoll_ctl(activity_.fd(), EPOLL_CTL_ADD, descriptor, &event);
}

/// Releases one connection at a time of each barred peer, which bars the peer again. This
/// bounds the calls that a persistent peer can have open.
std::vector<int> ConnectionGuard::Released() {
  const std::lock_guard lock(mutex_);
  const Clock::time_point now = Clock::now();
  std::vector<int> released;
  absl::flat_hash_map<std::string, int> of_peer;
  for (const auto& [descriptor, peer] : std::exchange(held_, {})) {
    const auto barred = barred_.find(peer);
    const bool trusted = IsTrusted(peer, now);
    if ((barred != barred_.end() && IsBarred(barred->second, trusted, now)) ||
        (!trusted && of_peer[peer] > 0)) {
      held_.emplace_back(descriptor, peer);
      continue;
    }
    Left(peer);  // Watch counts it again
    Connection connection;
    if (!PeerOf(descriptor, &connection.peer, &connection.name)) {
      close(descriptor);
      continue;
    }
    if (CallsUnread(descriptor) > limits_.streams) {  // gRPC would start them all at once
      close(descriptor);
      Refused(Refusal::kStreams);
      continue;
    }
    ++of_peer[peer];
    released.push_back(descriptor);
    SetWindow(descriptor, kNarrowest);
    Watch(descriptor, std::move(connection));
  }
  for (auto barred = barred_.begin(); barred != barred_.end();) {
    const bool over = !IsBarred(barred->second, IsTrusted(barred->first, now), now);
    if (over && of_peer[barred->first] > 0) {
      barred->second.until = now + kBarred;
    } else if (over) {
      barred_.erase(barred++);
      continue;
    }
    ++barred;
  }
  return released;
}

/// A peer is barred until its time is over and gRPC has finished the calls of its
/// shut-down connections. On a busy machine that may take seconds, and the memory of such
/// calls would add up.
bool ConnectionGuard::IsBarred(Barred& barred, bool trusted, Clock::time_point now) {
  if (barred.until > now && !trusted) return true;
  std::erase_if(barred.ending, [](std::int64_t socket) { return StreamsOf(socket).started == 0; });
  return !barred.ending.empty() &&
         now < (trusted ? barred.until - kBarred + kShortEnding : barred.until + kMostEnding);
}

bool ConnectionGuard::IsTrusted(const std::string& peer, Clock::time_point now) const {
  const auto found = succeeded_.find(peer);
  return found != succeeded_.end() && now - found->second < kTrust;
}

std::size_t ConnectionGuard::CloseIdle() {
  const std::lock_guard lock(mutex_);
  std::size_t left = 0;
  for (auto& [descriptor, connection] : connections_) {
    if (connection.socket == 0 || Gone(descriptor, connection)) continue;
    ++left;
    if (connection.shut || StreamsOf(connection.socket).open() > 0) continue;
    shutdown(descriptor, SHUT_RDWR);  // what was sent still arrives
    connection.shut = true;
  }
  return left;
}

bool ConnectionGuard::Gone(int descriptor, const Connection& connection) const {
  return CookieOf(descriptor) != connection.cookie;
}

void ConnectionGuard::Forget(int descriptor) {
  const auto found = connections_.find(descriptor);
  if (found == connections_.end()) return;
  Left(found->second.peer);
  const auto nameless = nameless_.find(found->second.name);
  if (nameless != nameless_.end() && nameless->second == descriptor) nameless_.erase(nameless);
  unread_.TakeRefused(found->second.name);
  connections_.erase(found);
  counts_.open.store(connections_.size(), std::memory_order_relaxed);
}

void ConnectionGuard::Left(const std::string& peer) {
  const auto of_peer = by_peer_.find(peer);
  if (of_peer != by_peer_.end() && --of_peer->second == 0) by_peer_.erase(of_peer);
}

void ConnectionGuard::ForgetGone(std::size_t most) {
  std::vector<int> gone;
  for (std::size_t seen = 0, buckets = connections_.bucket_count(); seen < most && buckets > 0;
       --buckets) {
    next_bucket_ = (next_bucket_ + 1) % connections_.bucket_count();
    for (auto it = connections_.begin(next_bucket_); it != connections_.end(next_bucket_); ++it) {
      ++seen;
      if (Gone(it->first, it->second)) gone.push_back(it->first);
    }
  }
  for (const int descriptor : gone) Forget(descriptor);
}

void ConnectionGuard::FindSockets(std::int64_t server) {
  for (const NumberedSocket& socket :
       SocketsOf(server, std::max<std::int64_t>(0, last_socket_ - kOutOfOrder))) {
    last_socket_ = std::max(last_socket_, socket.number);
    const auto nameless = nameless_.find(socket.name);
    // An older socket of the same name belonged to an earlier connection.
    if (nameless == nameless_.end() || socket.number <= connections_[nameless->second].after)
      continue;
    connections_[nameless->second].socket = socket.number;
    nameless_.erase(nameless);
  }
}

/// True if enough data has come, or enough time has passed, for a check. Data not read
/// yet may become calls at any time.
bool ConnectionGuard::Due(int descriptor, const Connection& connection,
                          Clock::time_point now) const {
  return now - connection.looked >= kTimeToLook || BytesUnread(descriptor) >= kBytesOfNew ||
         BytesReceived(descriptor) - connection.bytes >=
             (now < connection.new_until ? kBytesOfNew : kBytesToLook);
}

void ConnectionGuard::Look(std::int64_t server) {
  const std::lock_guard lock(mutex_);
  std::array<epoll_event, 512> events;
  const int count = epoll_wait(activity_.fd(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    const auto found = connections_.find(events[static_cast<std::size_t>(i)].data.fd);
    if (found == connections_.end()) continue;
    found->second.more = true;
    if (std::exchange(found->second.active, true)) continue;
    active_.push_back(found->first);
  }
  if (!nameless_.empty() && !active_.empty()) FindSockets(server);
  const Clock::time_point now = Clock::now();
  std::vector<int> waiting;
  for (const int descriptor : std::exchange(active_, {})) {
    const auto found = connections_.find(descriptor);
    if (found == connections_.end()) continue;
    Connection& connection = found->second;
    if (!std::exchange(connection.more, false) && now >= connection.new_until &&
        now - connection.looked < kTimeToLook) {
      waiting.push_back(descriptor);
      continue;
    }
    if (Gone(descriptor, connection)) {
      Forget(descriptor);
      continue;
    }
    // Without a name, gRPC's counts of the connection cannot be told apart.
    if (connection.shut || connection.name.empty()) continue;
    if (connection.socket == 0 || !Due(descriptor, connection, now)) {
      waiting.push_back(descriptor);
      continue;
    }
    connection.active = false;
    Judge(descriptor, connection, now);
    if (connection.narrow && !connection.shut && now >= connection.new_until) {
      connection.narrow = false;
      SetWindow(descriptor, kWide);
    }
    if (BytesUnread(descriptor) >= kBytesOfNew) hurry_until_ = now + kHurry;
    // A connection with open calls is checked again, whether or not more data comes.
    if (connection.streams.open() == 0) continue;
    connection.active = true;
    waiting.push_back(descriptor);
  }
  active_.insert(active_.end(), waiting.begin(), waiting.end());
  if (now >= next_sweep_) {
    ForgetGone(kForgetAtATime);
    next_sweep_ = now + kSweep;
  }
}

bool ConnectionGuard::TrimIsDue() const {
  const Clock::time_point now = Clock::now();
  return now < trim_until_ && now >= next_trim_;
}

bool ConnectionGuard::idle() const {
  const std::lock_guard lock(mutex_);
  return connections_.empty() && held_.empty() && Clock::now() >= trim_until_;
}

bool ConnectionGuard::IsAnythingDue() const {
  const std::lock_guard lock(mutex_);
  return !held_.empty() || TrimIsDue();
}

void ConnectionGuard::Trim() {
  {
    const std::lock_guard lock(mutex_);
    if (!TrimIsDue()) return;
    next_trim_ = Clock::now() + kBetweenTrims;
  }
  malloc_trim(0);
}

std::chrono::milliseconds ConnectionGuard::Tick() const {
  const std::lock_guard lock(mutex_);
  return Clock::now() < hurry_until_ ? kQuick : kUsual;
}

/// The descriptor belongs to gRPC, which closes it when it sees that the connection
/// ended. Data still in the kernel is dropped: it may hold ten thousand calls.
void ConnectionGuard::ShutDown(int descriptor, Connection& connection, Refusal why, bool bar) {
  if (Gone(descriptor, connection)) return;
  shutdown(descriptor, SHUT_RDWR);
  sockaddr nobody{};
  nobody.sa_family = AF_UNSPEC;
  static_cast<void>(connect(descriptor, &nobody, sizeof(nobody)));
  Refused(why);
  connection.shut = true;
  ++untold_;
  const Clock::time_point now = Clock::now();
  if (bar || now < next_line_) {  // one mistake in a second is none of a flood
    Barred& barred = barred_[connection.peer];
    barred.until = now + kBarred;
    barred.ending.push_back(connection.socket);
  }
  spdlog::debug("connection {} shut down ({})", connection.name, Name(why));
  trim_until_ = now + kTrims;
  if (now < next_line_) return;
  next_line_ = now + kOneLine;
  spdlog::warn(
      "{} connections shut down, the last of {} ({}): {} calls open, {} of {} ended without "
      "an answer",
      std::exchange(untold_, 0), connection.name, Name(why), connection.streams.open(),
      connection.streams.failed, connection.streams.started);
}

void ConnectionGuard::Judge(int descriptor, Connection& connection, Clock::time_point now) {
  StreamCounts streams = StreamsOf(connection.socket);
  connection.refused += unread_.TakeRefused(connection.name);
  // Refused calls count as if they had never come. They may be counted before they end.
  const std::uint64_t before = connection.streams.succeeded,
                      refused = std::min(connection.refused,
                                         std::max(streams.succeeded, before) - before);
  streams.started -= refused;
  streams.succeeded -= refused;
  if (const std::uint64_t bytes = BytesReceived(descriptor); bytes != connection.bytes) {
    if (bytes - connection.bytes >= kBytesToLook) unread_.Came(connection.name);
    connection.bytes = bytes;
  }
  connection.looked = now;
  const std::int64_t without_message = WithoutMessage(connection, streams);
  if (streams.messages != connection.streams.messages) connection.bytes_then = connection.bytes;
  if (streams.succeeded > before) {
    if (succeeded_.size() >= kMostTrusted)
      absl::erase_if(succeeded_, [&](const auto& peer) { return now - peer.second >= kTrust; });
    if (succeeded_.size() < kMostTrusted || succeeded_.contains(connection.peer))
      succeeded_[connection.peer] = now;
  }
  const bool half_sent = HalfSent(connection, streams,
                                  without_message > 0 && !unread_.HoldsBack(connection.name), now);
  // A request that is too large is a mistake of one call. What belongs to no call is not.
  // The message may have come since they were counted.
  bool too_long = TooLong(connection, streams.open()) &&
                  StreamsOf(connection.socket).messages == streams.messages;
  if (too_long && unread_.End(connection.name, limits_.request_bytes)) {
    connection.bytes_then = connection.bytes;
    connection.rest_until = now + kLarge;
    too_long = false;
  }
  connection.streams = streams;
  if (now - connection.second_began >= std::chrono::seconds(1)) {
    connection.second_began = now;
    connection.failed_before = streams.failed;
  }
  if (without_message > kMoreStreams * limits_.streams ||
      streams.open() > std::uint64_t{kMostStreams} * limits_.streams) {
    ShutDown(descriptor, connection, Refusal::kStreams);
  } else if (streams.failed - connection.failed_before > limits_.cancels_per_second) {
    ShutDown(descriptor, connection, Refusal::kCancels);
  } else if (half_sent || too_long) {
    ShutDown(descriptor, connection, Refusal::kHalfSent, half_sent || streams.open() == 0);
  }
}

/// Returns a lower bound on the open calls without a message. Each call has one message
/// from its client. Messages that belong to no successful call belong to failed or open
/// calls. The bound is the number of open calls minus these messages.
std::int64_t ConnectionGuard::WithoutMessage(Connection& connection, const StreamCounts& now) {
  const auto unclaimed =
      static_cast<std::int64_t>(now.messages) - static_cast<std::int64_t>(now.succeeded);
  if (now.open() == 0) connection.unclaimed_of_ended = unclaimed;
  return static_cast<std::int64_t>(now.open()) - (unclaimed - connection.unclaimed_of_ended);
}

/// True if calls without a message exist and no message arrives at all for the timeout:
/// the client started a request and stopped sending.
bool ConnectionGuard::HalfSent(Connection& connection, const StreamCounts& now, bool half,
                               Clock::time_point time) const {
  if (!half || connection.half_sent_since == Clock::time_point() ||
      now.messages != connection.messages_then) {
    connection.half_sent_since = half ? time : Clock::time_point();
    connection.messages_then = now.messages;
    return false;
  }
  return time - connection.half_sent_since >= limits_.request_timeout;
}

/// True if more bytes came without a complete message than all open calls may have. (gRPC
/// checks the length of a message only when all of it is there.) Only a call that waits
/// for its request may have a large one, and what is left of it may come after its end.
/// Headers without an end belong to no call: in memory they take some twenty times their
/// bytes.
bool ConnectionGuard::TooLong(Connection& connection, std::uint64_t open) {
  const std::uint64_t bytes = connection.bytes - connection.bytes_then;
  if (bytes < kBytesToLook) return false;
  if (unread_.Has(connection.name)) connection.large_until = connection.looked + kLarge;
  const std::uint64_t most =
      connection.looked < connection.large_until ? limits_.request_bytes : limits_.single_bytes;
  const std::uint64_t rest = connection.looked < connection.rest_until ? kRest : 0;
  // Frames and TLS take less than the extra eighth.
  return bytes > std::max<std::uint64_t>(open, 1) * (most + most / 8) + rest;
}

}  // namespace hmann::server
