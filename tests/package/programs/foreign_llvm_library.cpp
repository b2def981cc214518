// SPDX-License-Identifier: Apache-2.0
// As tests/integration/programs/foreign_cxx_library.cpp, for LLVM's C++ library: code that is bound to this reads 0.
#include <istream>

// std::istream::operator>>(unsigned long&)
extern "C" std::istream& _ZNSt3__113basic_istreamIcNS_11char_traitsIcEEErsERm(std::istream& stream,
                                                                              unsigned long& value) {
  value = 0;
  return stream;
}
