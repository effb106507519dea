/// Conversions from command-line text to the engine's own types. Text that does not parse
/// is wrong usage (exit 2).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "CLI/App.hpp"
#include "CLI/Error.hpp"
#include "absl/status/statusor.h"
#include "absl/strings/strip.h"

namespace hmann::tools {

/// Lets the options for whole numbers of `app` and its commands accept 200M, 1e9 and 4k.
void AcceptUnits(CLI::App& app);

/// Declares `--filter TEXT`, a condition on attributes. Blank text is wrong usage: a
/// script whose variable is empty does not mean all vectors.
CLI::Option* AddFilterFlag(CLI::App& app, std::string* filter, const std::string& description);

/// An optional text of an option; empty: it was not given.
inline std::optional<std::string> Given(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(text);
}

/// "; did you mean '--queries'?" for the nearest of `known`, or "" if none is near.
std::string Suggestion(std::string_view found, const std::vector<std::string>& known);

/// Declares `--option TEXT`. One of the engine's parsers (ParseSize, ParseMetric, ...)
/// reads it, and `store` receives the result.
template <typename T>
CLI::Option* AddParsed(CLI::App& app, const std::string& name,
                       absl::StatusOr<T> (*parse)(std::string_view),
                       std::type_identity_t<std::function<void(T)>> store,
                       const std::string& description) {
  return app.add_option_function<std::string>(
      name,
      [name, parse, store = std::move(store)](const std::string& text) {
        absl::StatusOr<T> value = parse(text);
        if (!value.ok()) {
          // The name of the value, "metric: ", is there already.
          throw CLI::ValidationError(name, std::string(absl::StripPrefix(value.status().message(),
                                                                         name.substr(2) + ": ")));
        }
        store(*std::move(value));
      },
      description);
}

/// The same, assigning the result to `place`.
template <typename T, typename Place>
CLI::Option* AddParsed(CLI::App& app, const std::string& name,
                       absl::StatusOr<T> (*parse)(std::string_view), Place* place,
                       const std::string& description) {
  return AddParsed(
      app, name, parse, [place](T value) { *place = std::move(value); }, description);
}

}  // namespace hmann::tools
