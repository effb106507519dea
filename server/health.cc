#include "server/health.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/errors.h"

namespace hmann {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

/// One Watch call. Calls into gRPC are made without a lock held, since gRPC may call back
/// from within; `busy_` keeps them apart.
class HealthService::Watcher : public grpc::ServerWriteReactor<HealthCheckResponse> {
 public:
  Watcher(HealthService* health, std::string service)
      : health_(health), service_(std::move(service)) {}

  const std::string& service() const { return service_; }

  /// Sends the current status unless it was sent already.
  void Poke() { Advance(); }

  void End(grpc::Status status) {
    {
      const std::lock_guard lock(mutex_);
      if (ended_) return;
      ended_ = true;
      end_status_ = std::move(status);
    }
    Advance();
  }

  void OnWriteDone(bool ok) override {
    {
      const std::lock_guard lock(mutex_);
      busy_ = false;
      if (!ok && !ended_) {
        ended_ = true;
        end_status_ = grpc::Status(grpc::StatusCode::CANCELLED, "the watcher went away");
      }
    }
    Advance();
  }
  void OnCancel() override {
    End(grpc::Status(grpc::StatusCode::CANCELLED, "the watcher went away"));
  }
  void OnDone() override { health_->Forget(this); }

 private:
  void Advance() {
    bool finish = false;
    {
      const std::lock_guard lock(mutex_);
      if (busy_ || finished_) return;
      const Serving status =
          health_->Status(service_);  // under the lock, so that no older one is sent after it
      finish = finished_ = ended_;
      if (!finish) {
        if (sent_any_ && status == response_.status()) return;
        sent_any_ = busy_ = true;
        response_.set_status(status);
      }
    }
    if (finish) {
      Finish(end_status_);
    } else {
      StartWrite(&response_);
    }
  }

  HealthService* const health_;
  const std::string service_;
  std::mutex mutex_;
  HealthCheckResponse response_;  // being written while busy_
  grpc::Status end_status_;
  bool busy_ = false, sent_any_ = false, ended_ = false, finished_ = false;
};

void HealthService::Register(const std::string& service) {
  const std::lock_guard lock(mutex_);
  statuses_.emplace(service, HealthCheckResponse::NOT_SERVING);
}

void HealthService::Set(const std::string& service, bool serving) {
  {
    const std::lock_guard lock(mutex_);
    if (draining_) return;
    statuses_[service] = serving ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING;
  }
  Poke(&service);
}

void HealthService::BeginDrain() {
  {
    const std::lock_guard lock(mutex_);
    draining_ = true;
    for (auto& [service, status] : statuses_) status = HealthCheckResponse::NOT_SERVING;
  }
  Poke(nullptr);
}

void HealthService::EndWatches() {
  std::vector<std::shared_ptr<Watcher>> watchers;
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    watchers = watchers_;
  }
  for (const auto& watcher : watchers)
    watcher->End(grpc::Status(grpc::StatusCode::UNAVAILABLE, "the server shuts down"));
}

HealthService::Serving HealthService::Status(const std::string& service) const {
  const std::lock_guard lock(mutex_);
  const auto found = statuses_.find(service);
  return found == statuses_.end() ? HealthCheckResponse::SERVICE_UNKNOWN : found->second;
}

void HealthService::Poke(const std::string* service) {
  std::vector<std::shared_ptr<Watcher>> watchers;
  {
    const std::lock_guard lock(mutex_);
    watchers = watchers_;
  }
  for (const auto& watcher : watchers) {
    if (service == nullptr || watcher->service() == *service) watcher->Poke();
  }
}

void HealthService::Forget(Watcher* watcher) {
  std::shared_ptr<Watcher> last;  // destroyed after the lock
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(watchers_.begin(), watchers_.end(),
                                  [&](const auto& w) { return w.get() == watcher; });
  if (found == watchers_.end()) return;
  last = std::move(*found);
  watchers_.erase(found);
}

grpc::ServerUnaryReactor* HealthService::Check(grpc::CallbackServerContext* context,
                                               const HealthCheckRequest* request,
                                               HealthCheckResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const Serving status = Status(request->service());
  if (status == HealthCheckResponse::SERVICE_UNKNOWN) {
    reactor->Finish(ToGrpc(
        absl::NotFoundError(absl::StrCat("service '", request->service(), "' is not registered"))));
    return reactor;
  }
  response->set_status(status);
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerWriteReactor<HealthCheckResponse>* HealthService::Watch(
    grpc::CallbackServerContext*, const HealthCheckRequest* request) {
  const auto watcher = std::make_shared<Watcher>(this, request->service());
  bool ended = false;
  {
    const std::lock_guard lock(mutex_);
    watchers_.push_back(watcher);
    ended = ended_;
  }
  if (ended) {
    watcher->End(grpc::Status(grpc::StatusCode::UNAVAILABLE, "the server shuts down"));
  } else {
    watcher->Poke();
  }
  return watcher.get();
}

}  // namespace hmann
