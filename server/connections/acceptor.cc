#include "server/connections/acceptor.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "index/base/errors.h"
#include "index/base/status_macros.h"
#include "server/connections/listen_tcp.h"
#include "spdlog/spdlog.h"

namespace hmann::server {
namespace {

/// Descriptors reserved for files: an index has a few, and a pool of rings has one per
/// thread.
constexpr std::uint64_t kForFiles = 64;
constexpr int kBacklog = 1024;

std::uint64_t DescriptorLimit() {
  rlimit limit{};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 1024;
}

/// With a small limit, connections get half, so that something is left for both.
bool TooMany(int descriptor) {
  const std::uint64_t limit = DescriptorLimit();
  const std::uint64_t most = limit / 2 > kForFiles ? limit - kForFiles : limit / 2;
  return static_cast<std::uint64_t>(descriptor) >= most;
}

/// Held while a path is looked at and then bound or removed, so that servers that start
/// and stop at the same moment take turns. Without the right to read the folder, it locks
/// nothing.
FileDescriptor LockFolder(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  FileDescriptor lock(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (lock.fd() >= 0) flock(lock.fd(), LOCK_EX);
  return lock;
}

}  // namespace

namespace {

/// Adds the address to an error of listening there.
absl::Status AtAddress(const std::string& listen, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat("listen ", listen, ": ", status.message(),
                                                  absl::StrContains(status.message(), "in use")
                                                      ? ": stop what listens there"
                                                      : ""));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Acceptor>> Acceptor::Listen(const std::string& listen,
                                                           int socket_mode) {
  std::unique_ptr<Acceptor> acceptor(new Acceptor);
  const std::string path = UnixPath(listen);
  HMANN_RETURN_IF_ERROR(
      AtAddress(listen, path.empty() ? ListenTcp(listen, &acceptor->listeners_, &acceptor->port_)
                                     : acceptor->OpenUnix(path, socket_mode)));
  for (FileDescriptor* event : {&acceptor->stop_, &acceptor->came_, &acceptor->due_}) {
    *event = FileDescriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (event->fd() < 0) return absl::ErrnoToStatus(errno, "listen: eventfd");
  }
  return acceptor;
}

absl::Status Acceptor::Also(const std::string& listen) {
  int port = 0;
  return AtAddress(listen, ListenTcp(listen, &listeners_, &port));
}

absl::Status Acceptor::OpenUnix(const std::string& path, int mode) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return InvalidArgument("a path of at most ", sizeof(address.sun_path) - 1,
                           " characters is expected");
  }
  path.copy(address.sun_path, path.size());
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (listener < 0) return absl::ErrnoToStatus(errno, "socket");
  listeners_.emplace_back(listener);  // closed by Stop
  const auto* to = reinterpret_cast<const sockaddr*>(&address);
  const FileDescriptor lock = LockFolder(path);
  // A socket without a listener was left by a server that was killed.
  struct stat found {};
  if (stat(path.c_str(), &found) == 0 && S_ISSOCK(found.st_mode)) {
    const FileDescriptor probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (connect(probe.fd(), to, sizeof(address)) != 0 && errno == ECONNREFUSED)
      unlink(path.c_str());
  }
  if (bind(listener, to, sizeof(address)) != 0) return absl::ErrnoToStatus(errno, "bind");
  path_ = path;
  if (stat(path.c_str(), &found) == 0) inode_ = found.st_ino;
  // bind(2) applies the umask. No client can connect before listen(2).
  if (chmod(path.c_str(), static_cast<mode_t>(mode)) != 0)
    return absl::ErrnoToStatus(errno, "chmod");
  if (::listen(listener, kBacklog) != 0) return absl::ErrnoToStatus(errno, "listen");
  return absl::OkStatus();
}

void Acceptor::Start(ConnectionGuard* guard, std::int64_t server, Take take) {
  guard_ = guard;
  server_ = server;
  take_ = std::move(take);
  thread_ = std::thread([this] { Run(); });
  watch_ = std::thread([this] { Watch(); });
}

/// Another server may have taken the path since this one closed its socket.
void Acceptor::RemovePath() {
  if (path_.empty()) return;
  const std::string path = std::exchange(path_, "");
  const FileDescriptor lock = LockFolder(path);
  struct stat found {};
  if (stat(path.c_str(), &found) == 0 && found.st_ino == inode_) unlink(path.c_str());
}

void Acceptor::Stop() {
  if (thread_.joinable()) {
    eventfd_write(stop_.fd(), 1);
    thread_.join();
    watch_.join();
  }
  const bool first = !listeners_.empty();
  listeners_.clear();
  if (guard_ != nullptr && first) {
    for (const auto& [connection, peer] : guard_->held()) close(connection);
  }
  RemovePath();
  for (FileDescriptor* event : {&stop_, &came_, &due_}) *event = FileDescriptor();
}

void Acceptor::Run() {
  std::vector<pollfd> waiting;
  waiting.reserve(listeners_.size() + 2);
  for (const FileDescriptor& listener : listeners_) waiting.push_back({listener.fd(), POLLIN, 0});
  waiting.push_back({due_.fd(), POLLIN, 0});
  waiting.push_back({stop_.fd(), POLLIN, 0});
  for (;;) {
    if (poll(waiting.data(), waiting.size(), -1) <= 0) continue;  // a signal
    if (waiting.back().revents != 0) return;
    for (std::size_t i = 0; i < listeners_.size(); ++i) {
      if (waiting[i].revents != 0) AcceptAll(waiting[i].fd);
    }
    eventfd_t due = 0;
    if (waiting[listeners_.size()].revents == 0 || eventfd_read(due_.fd(), &due) != 0) continue;
    for (const int connection : guard_->Released()) take_(listeners_.front().fd(), connection);
    guard_->Trim();
  }
}

void Acceptor::Watch() {
  // The thread has little work, and a flood must not starve it. Without the right to a
  // higher priority, it keeps the default.
  constexpr int kNice = -10;
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNice);
  std::array<pollfd, 2> waiting = {{{came_.fd(), POLLIN, 0}, {stop_.fd(), POLLIN, 0}}};
  while (waiting.back().revents == 0) {
    guard_->Look(server_);
    if (guard_->IsAnythingDue()) eventfd_write(due_.fd(), 1);
    poll(&waiting.back(), 1, static_cast<int>(guard_->Tick().count()));
    eventfd_t came = 0;
    if (guard_->idle()) poll(waiting.data(), waiting.size(), -1);
    eventfd_read(came_.fd(), &came);
  }
}

void Acceptor::AcceptAll(int listener) {
  for (;;) {
    const int connection = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (connection >= 0 && TooMany(connection)) {
      close(connection);
      Refused(Refusal::kDescriptors);
    } else if (connection >= 0) {
      const ConnectionGuard::Verdict verdict = guard_->Take(connection);
      if (verdict == ConnectionGuard::Verdict::kTake) {
        eventfd_write(came_.fd(), 1);
        take_(listener, connection);
      }
      if (verdict == ConnectionGuard::Verdict::kClose) close(connection);
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      // The connection waits in the backlog until there is room.
      Refused(Refusal::kDescriptors);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      return;
    } else if (errno != EINTR && errno != ECONNABORTED) {
      return;  // none left, or a network error of that connection
    }
  }
}

void Acceptor::Refused(Refusal why) {
  guard_->Refused(why);
  ++refused_;
  const std::int64_t now = std::chrono::steady_clock::now().time_since_epoch().count();
  if (now < next_line_ns_) return;
  next_line_ns_ = now + 1'000'000'000;
  spdlog::warn("{} connections refused: {} descriptors may be open (ulimit -n)",
               refused_ - std::exchange(told_, refused_), DescriptorLimit());
}

}  // namespace hmann::server
