#include "index/base/file_lock.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <set>

#include "index/base/errors.h"
#include "index/base/status_macros.h"

namespace hmann {
namespace {

/// The descriptors of all locks. A child that is forked shares the open files, and with
/// them the locks, even after their owner has ended: it lets go of them at once.
struct HeldLocks {
  HeldLocks() {
    pthread_atfork([] { All().mutex.lock(); }, [] { All().mutex.unlock(); }, LetGo);
  }
  static HeldLocks& All() {
    static auto& all = *new HeldLocks();
    return all;
  }
  /// In the child. The numbers stay taken, since objects may still close them.
  static void LetGo() {
    const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    for (const int fd : All().fds) {
      if (nothing < 0) {
        ::close(fd);
      } else {
        ::dup3(nothing, fd, O_CLOEXEC);
      }
    }
    if (nothing >= 0) ::close(nothing);
    All().fds.clear();
    All().mutex.unlock();
  }

  std::mutex mutex;
  std::set<int> fds;
};

}  // namespace

absl::StatusOr<FileLock> FileLock::Take(const std::string& path) {
  HeldLocks& held = HeldLocks::All();
  const std::scoped_lock lock(held.mutex);
  FileLock taken;
  HMANN_ASSIGN_OR_RETURN(FileDescriptor file, FileDescriptor::Open(path, O_RDWR | O_CREAT, 0666));
  if (::flock(file.fd(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return ErrnoError(errno, "lock", path);
    return Unavailable(path, ": another process has this lock, or this one");
  }
  held.fds.insert(file.fd());
  taken.file_ = std::move(file);
  return taken;
}

FileLock::~FileLock() {
  if (file_.fd() < 0) return;
  HeldLocks& held = HeldLocks::All();
  const std::scoped_lock lock(held.mutex);
  held.fds.erase(file_.fd());
  const FileDescriptor closed = std::move(file_);
}

}  // namespace hmann
