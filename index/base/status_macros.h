#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "index/base/errors.h"

/// Returns from the enclosing function when `expr` (an absl::Status) is not OK.
#define HMANN_RETURN_IF_ERROR(expr)                                                     \
  do {                                                                                  \
    if (absl::Status hmann_status_ = (expr); !hmann_status_.ok()) return hmann_status_; \
  } while (false)

#define HMANN_CONCAT_INNER_(a, b) a##b
#define HMANN_CONCAT_(a, b) HMANN_CONCAT_INNER_(a, b)

/// `HMANN_ASSIGN_OR_RETURN(auto x, F())` sets x to F()'s value, or returns the error.
#define HMANN_ASSIGN_OR_RETURN(lhs, expr) \
  HMANN_ASSIGN_OR_RETURN_(HMANN_CONCAT_(hmann_statusor_, __LINE__), lhs, expr)
#define HMANN_ASSIGN_OR_RETURN_(tmp, lhs, expr) \
  auto tmp = (expr);                            \
  if (!tmp.ok()) return tmp.status();           \
  lhs = *std::move(tmp)
