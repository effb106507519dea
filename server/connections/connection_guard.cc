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

/// A connection is looked at when so much has come, which is less than two thousand of
/// the shortest calls, or when so much time has passed.
constexpr std::uint64_t kBytesToLook = 16 << 10;
/// New ones more often, for so long.
constexpr std::chrono::milliseconds kUsual(5), kQuick(1), kHurry(100);
constexpr std::uint64_t kBytesOfNew = 2 << 10;
constexpr std::chrono::milliseconds kTimeToLook(250);
/// Connections that were closed are found so many at a time, or when there is no room.
constexpr std::size_t kForgetAtATime = 64;
/// Numbers of sockets may appear out of order by so many.
constexpr std::int64_t kOutOfOrder = 256;
constexpr std::chrono::seconds kOneLine(1);
/// Memory of a connection that was shut down comes back bit by bit.
constexpr std::chrono::milliseconds kBetweenTrims(200);
constexpr std::chrono::seconds kTrims(5);
/// A peer of whose connections one was shut down has one new one in so much time, and
/// none while calls of those that were shut down end, for so long.
constexpr std::chrono::milliseconds kBarred(250);
constexpr std::chrono::seconds kMostEnding(5);
/// Bytes that a connection may be ahead of what is read: while it is new, of a peer that
/// was barred and of others, and once it was looked at. Guesses, of one machine's floods.
constexpr int kNarrowest = 2 << 10, kNarrow = 16 << 10, kWide = 1 << 30;
/// Closed connections are looked for so often.
constexpr std::chrono::milliseconds kSweep(20);

/// Calls without a message, to those that were allowed; and calls of any kind, of which
/// gRPC keeps some that are over until their deadline.
constexpr std::int64_t kMoreStreams = 2, kMostStreams = 16;

}  // namespace

ConnectionGuard::ConnectionGuard(const ConnectionLimits& limits)
    : limits_(limits), activity_(epoll_create1(EPOLL_CLOEXEC)) {}

ConnectionGuard::~ConnectionGuard() {
  if (activity_ >= 0) close(activity_);
}

void ConnectionGuard::Refused(Refusal why) {
  counts_.refused[static_cast<std::size_t>(why)].fetch_add(1, std::memory_order_relaxed);
}

ConnectionGuard::Verdict ConnectionGuard::Take(int descriptor) {
  const std::lock_guard lock(mutex_);
  Forget(descriptor);  // of an earlier connection that had the same number
  Connection connection;
  if (!PeerOf(descriptor, &connection.peer, &connection.name))
    return Verdict::kClose;  // gone already
  const auto full = [&] {
    return connections_.size() + held_.size() >= limits_.connections ||
           by_peer_[connection.peer] >= limits_.connections_per_peer;
  };
  if (full()) ForgetGone(connections_.size());
  if (full()) {
    const bool of_all = connections_.size() + held_.size() >= limits_.connections;
    Refused(of_all ? Refusal::kConnections : Refusal::kPeer);
    if (by_peer_[connection.peer] == 0) by_peer_.erase(connection.peer);
    return Verdict::kClose;
  }
  if (barred_.contains(connection.peer)) {
    if (by_peer_[connection.peer] == 0) by_peer_.erase(connection.peer);
    held_.push_back(descriptor);
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
  // What came may have been read by then; that there is room to write is still so, and
  // the event is delivered for it.
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  event.data.fd = descriptor;
  epoll_ctl(activity_, EPOLL_CTL_ADD, descriptor, &event);
}

/// Of each peer that was barred one at a time, which bars it again: so much may one who
/// goes on have under way.
std::vector<int> ConnectionGuard::Released() {
  const std::lock_guard lock(mutex_);
  const Clock::time_point now = Clock::now();
  std::vector<int> released, waiting;
  absl::flat_hash_map<std::string, int> of_peer;
  for (const int descriptor : held_) {
    Connection connection;
    if (!PeerOf(descriptor, &connection.peer, &connection.name)) {
      close(descriptor);
      continue;
    }
    const auto barred = barred_.find(connection.peer);
    if ((barred != barred_.end() && IsBarred(barred->second, now)) ||
        of_peer[connection.peer] > 0) {
      waiting.push_back(descriptor);
      continue;
    }
    if (CallsUnread(descriptor) > limits_.streams) {  // gRPC would begin them all at once
      close(descriptor);
      Refused(Refusal::kStreams);
      continue;
    }
    ++of_peer[connection.peer];
    released.push_back(descriptor);
    SetWindow(descriptor, kNarrowest);
    Watch(descriptor, std::move(connection));
  }
  held_ = std::move(waiting);
  for (auto barred = barred_.begin(); barred != barred_.end();) {
    const bool over = !IsBarred(barred->second, now);
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

/// Until its time is over, and gRPC is done with the calls of those that were shut down:
/// on a busy machine these may be seconds, and what calls take would add up.
bool ConnectionGuard::IsBarred(Barred& barred, Clock::time_point now) {
  if (barred.until > now) return true;
  std::erase_if(barred.ending, [](std::int64_t socket) { return StreamsOf(socket).started == 0; });
  return !barred.ending.empty() && now < barred.until + kMostEnding;
}

bool ConnectionGuard::Gone(int descriptor, const Connection& connection) const {
  return CookieOf(descriptor) != connection.cookie;
}

void ConnectionGuard::Forget(int descriptor) {
  const auto found = connections_.find(descriptor);
  if (found == connections_.end()) return;
  const auto of_peer = by_peer_.find(found->second.peer);
  if (of_peer != by_peer_.end() && --of_peer->second == 0) by_peer_.erase(of_peer);
  const auto nameless = nameless_.find(found->second.name);
  if (nameless != nameless_.end() && nameless->second == descriptor) nameless_.erase(nameless);
  connections_.erase(found);
  counts_.open.store(connections_.size(), std::memory_order_relaxed);
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
    // An older one of the same name was that of a connection before it.
    if (nameless == nameless_.end() || socket.number <= connections_[nameless->second].after)
      continue;
    connections_[nameless->second].socket = socket.number;
    nameless_.erase(nameless);
  }
}

/// Whether enough has come, or enough time has passed, for a look. What is there and not
/// read yet may become calls at any time.
bool ConnectionGuard::Due(int descriptor, const Connection& connection,
                          Clock::time_point now) const {
  return now - connection.looked >= kTimeToLook || BytesUnread(descriptor) >= kBytesOfNew ||
         BytesReceived(descriptor) - connection.bytes >=
             (now < connection.new_until ? kBytesOfNew : kBytesToLook);
}

void ConnectionGuard::Look(std::int64_t server) {
  const std::lock_guard lock(mutex_);
  std::array<epoll_event, 512> events;
  const int count = epoll_wait(activity_, events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    const auto found = connections_.find(events[static_cast<std::size_t>(i)].data.fd);
    if (found == connections_.end() || found->second.active) continue;
    found->second.active = true;
    active_.push_back(found->first);
  }
  if (!nameless_.empty() && !active_.empty()) FindSockets(server);
  const Clock::time_point now = Clock::now();
  std::vector<int> waiting;
  for (const int descriptor : std::exchange(active_, {})) {
    const auto found = connections_.find(descriptor);
    if (found == connections_.end()) continue;
    Connection& connection = found->second;
    if (Gone(descriptor, connection)) {
      Forget(descriptor);
      continue;
    }
    // gRPC's counts of it cannot be told from those of others without a name.
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
    // What has calls under way is looked at again, whether or not more comes.
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

/// Its descriptor is gRPC's, which closes it when it finds the connection ended. What
/// the kernel still holds of it is thrown away: it may be ten thousand calls.
void ConnectionGuard::ShutDown(int descriptor, Connection& connection, Refusal why) {
  if (Gone(descriptor, connection)) return;
  shutdown(descriptor, SHUT_RDWR);
  sockaddr nobody{};
  nobody.sa_family = AF_UNSPEC;
  static_cast<void>(connect(descriptor, &nobody, sizeof(nobody)));
  Refused(why);
  connection.shut = true;
  ++untold_;
  const Clock::time_point now = Clock::now();
  Barred& barred = barred_[connection.peer];
  barred.until = now + kBarred;
  barred.ending.push_back(connection.socket);
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
  const StreamCounts streams = StreamsOf(connection.socket);
  connection.bytes = BytesReceived(descriptor);
  connection.looked = now;
  const std::int64_t without_message = WithoutMessage(connection, streams);
  if (streams.messages != connection.streams.messages) connection.bytes_then = connection.bytes;
  const bool half_sent = HalfSent(connection, streams, without_message > 0, now) ||
                         TooLong(connection, streams.open());
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
  } else if (half_sent) {
    ShutDown(descriptor, connection, Refusal::kHalfSent);
  }
}

/// Each call here has one message from its client. So of the messages, those that belong
/// to no call that ended well are of calls that failed or are open: there are at least so
/// many open calls without theirs as there are open calls more than such messages.
std::int64_t ConnectionGuard::WithoutMessage(Connection& connection, const StreamCounts& now) {
  const auto unclaimed =
      static_cast<std::int64_t>(now.messages) - static_cast<std::int64_t>(now.succeeded);
  if (now.open() == 0) connection.unclaimed_of_ended = unclaimed;
  return static_cast<std::int64_t>(now.open()) - (unclaimed - connection.unclaimed_of_ended);
}

/// While there are such calls, and no message comes at all, somebody has begun a request
/// and does not go on.
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

/// More has come without any message than all that are open may have. (gRPC looks at the
/// length of one when it is there whole.)
bool ConnectionGuard::TooLong(const Connection& connection, std::uint64_t open) const {
  // An eighth is more than frames and TLS take.
  const std::uint64_t most = limits_.request_bytes * std::max<std::uint64_t>(open, 1);
  return connection.bytes - connection.bytes_then > most + most / 8;
}

}  // namespace hmann::server
