// SPDX-License-Identifier: Apache-2.0
export { createContainerRuntime } from "./container-runtime.ts";
export { DEFAULT_CRI_ENDPOINTS } from "./endpoints.ts";
export { createExecPrograms } from "./tasks.ts";
export { findProblem, openSandboxConnection, type SandboxConnection } from "./sandboxes.ts";
