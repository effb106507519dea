#pragma once

#include <mutex>

#include "grpcpp/client_context.h"
#include "hmann/client.h"

namespace hmann::client {

struct Cancellation::State {
  std::mutex mutex;
  grpc::ClientContext* context = nullptr;  // of the running call
  bool cancelled = false;
};

/// Connects the cancellation to the call during its lifetime.
class Cancellation::Attachment {
 public:
  Attachment(Cancellation* cancellation, grpc::ClientContext* context)
      : state_(cancellation == nullptr ? nullptr : cancellation->state_.get()) {
    if (state_ == nullptr) return;
    const std::lock_guard lock(state_->mutex);
    state_->context = context;
    if (state_->cancelled) context->TryCancel();
  }
  ~Attachment() {
    if (state_ == nullptr) return;
    const std::lock_guard lock(state_->mutex);
    state_->context = nullptr;
  }

 private:
  State* const state_;
};

}  // namespace hmann::client
