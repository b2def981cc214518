// SPDX-License-Identifier: Apache-2.0
// Stands in for NVML where there is no GPU: as many GPUs as it was compiled with, and links between them or none.
#include <stdio.h>

enum { kSuccess = 0, kUninitialized = 1, kNotSupported = 3, kNotFound = 6 };

static int users;
static int devices[GPUS + 1];

int nvmlInit_v2(void) {
#ifdef NO_DRIVER
  return 9;
#else
  ++users;
  return kSuccess;
#endif
}

int nvmlShutdown(void) {
  --users;
  return kSuccess;
}

int standin_users(void) { return users; }

int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = GPUS;
  return users > 0 ? kSuccess : kUninitialized;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = &devices[index];
  return index < GPUS ? kSuccess : kNotFound;
}

int nvmlDeviceGetName(void* device, char* name, unsigned length) {
  (void)device;
  return snprintf(name, length, "NVIDIA Stand-in 80GB") < (int)length ? kSuccess : kNotFound;
}

// The second link of the last GPU is the one that is active.
int nvmlDeviceGetNvLinkState(void* device, unsigned link, unsigned* is_active) {
  if (LINKS == 0) return kNotSupported;
  *is_active = device == &devices[GPUS - 1] && link == 1;
  return kSuccess;
}

int nvmlSystemGetDriverVersion(char* version, unsigned length) {
  snprintf(version, length, "580.65.06");
  return kSuccess;
}
