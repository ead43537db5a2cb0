// SPDX-License-Identifier: Apache-2.0
// The public door of cri.
export { createContainerRuntime } from "./container-runtime.ts";
export { DEFAULT_CRI_ENDPOINTS } from "./endpoints.ts";
export { createExecPrograms } from "./exec-programs.ts";
export { findProblem, openSandboxes, type OpenSandboxes } from "./open-sandboxes.ts";
