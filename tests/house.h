/// The source tree as the house rules see it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace hmann {

struct SourceFile {
  std::string path;  ///< from the root: "index/graph/beam.h"
  std::string text;
  std::vector<std::string> lines;  ///< of text

  bool Cpp() const { return path.ends_with(".cc") || path.ends_with(".h"); }
  /// x_test.cc, x_bench.cc, x_fuzz.cc, fixtures and what lies in tests/.
  bool Test() const;
};

/// Every text file of the tree that is ours: not build/, data/, node_modules, hidden
/// folders but .ci, nor binary samples.
std::vector<SourceFile> ReadTree(const std::filesystem::path& root);

/// `text` with comments and the contents of string and character literals blanked out,
/// line breaks kept.
std::string CodeOnly(const std::string& text);

struct Function {
  std::string name;            ///< as the definition has it: "Beam::Insert", "operator==", "TEST"
  std::size_t first_line = 0;  ///< where the name stands, from 1
  std::size_t lines = 0;       ///< to the closing brace
};

/// The functions that a file defines, in namespaces and in classes. Lambdas and what else
/// stands inside a body are part of it.
std::vector<Function> Functions(const SourceFile& file);

/// Output of a program, e.g. {"nm", "-C", object}. Empty when it cannot run.
std::string OutputOf(const std::vector<std::string>& command);

}  // namespace hmann
