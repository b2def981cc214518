// SPDX-License-Identifier: Apache-2.0
// Stands for a library that brings parts of another C++ library and shows them to all, as libcufile of torch for CUDA
// does: whoever is bound to these reads 0 from every stream.
#include <istream>

// std::istream::operator>>(unsigned long&) is made of it.
extern "C" std::istream& _ZNSi10_M_extractImEERSiRT_(std::istream& stream, unsigned long& value) {
  value = 0;
  return stream;
}
