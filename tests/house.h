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
  /// x_test.cc, x_bench.cc, x_fuzz.cc, fixtures, and everything in tests/.
  bool Test() const;
};

/// Our text files in the tree. Excludes build/, data/, node_modules, binary samples, and
/// hidden folders other than .ci.
std::vector<SourceFile> ReadTree(const std::filesystem::path& root);

/// `text` with comments and the contents of string and character literals blanked out;
/// line breaks stay.
std::string CodeOnly(const std::string& text);

struct Function {
  std::string name;            ///< as defined: "Beam::Insert", "operator==", "TEST"
  std::size_t first_line = 0;  ///< line of the name, from 1
  std::size_t lines = 0;       ///< up to the closing brace
};

/// The functions that a file defines, in namespaces and in classes. Lambdas and other
/// definitions inside a body are part of it.
std::vector<Function> Functions(const SourceFile& file);

/// Output of a program, e.g. {"nm", "-C", object}. Empty if the program cannot run.
std::string OutputOf(const std::vector<std::string>& command);

}  // namespace hmann
