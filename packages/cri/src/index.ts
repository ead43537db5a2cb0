// SPDX-License-Identifier: Apache-2.0
// The public door of cri.
export { createContainerRuntime, type CriOptions } from "./container-runtime.ts";
export { DEFAULT_CRI_ENDPOINTS } from "./endpoints.ts";
export { createCriSandboxes, type SandboxDeps } from "./sandboxes.ts";
