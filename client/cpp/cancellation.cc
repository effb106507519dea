#include "client/cpp/cancellation.h"

#include <memory>

namespace hmann::client {

Cancellation::Cancellation() : state_(std::make_unique<State>()) {}
Cancellation::~Cancellation() = default;

void Cancellation::Cancel() {
  const std::lock_guard lock(state_->mutex);
  state_->cancelled = true;
  if (state_->context != nullptr) state_->context->TryCancel();
}

}  // namespace hmann::client
