// SPDX-License-Identifier: Apache-2.0
// Controls of the stand-in for NCCL for tests, beside NCCL's own functions.
#pragma once

extern "C" {

// The call-th call of the function from now on fails with NCCL's `code`; "init" is the meeting of the ranks.
void standin_nccl_fail(const char* function, int call, int code);
// Every operation, enqueueing and meeting takes up to so long more, drawn at random (STANDIN_SEED).
void standin_nccl_delay(int max_us);
// All communicators of this process from now on see a remote error, and their operations hang.
void standin_nccl_lose();
// The communicators alive; there should be none at the end.
int standin_nccl_communicators();
int standin_nccl_kernels();
// The limit on thread blocks of the communicator that got the last operation of this process; 0: none.
int standin_nccl_last_ctas();
}
