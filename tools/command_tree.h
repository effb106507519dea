/// Walks over the command line as CLI11 knows it, from which completion scripts and manual pages are made.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "CLI/App.hpp"

namespace hmann {

/// Calls visit(command, path) for `root` and every command below it, parents first; path is {"hmann", "data", "fetch"}.
inline void VisitCommands(CLI::App* root, const std::function<void(CLI::App*, const std::vector<std::string>&)>& visit,
                          std::vector<std::string> path = {}) {
  path.push_back(root->get_name());
  visit(root, path);
  for (CLI::App* sub : root->get_subcommands([](CLI::App*) { return true; })) VisitCommands(sub, visit, path);
}

inline CLI::App* Root(CLI::App* app) {
  while (app->get_parent() != nullptr) app = app->get_parent();
  return app;
}

}  // namespace hmann
