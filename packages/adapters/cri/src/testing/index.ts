// SPDX-License-Identifier: Apache-2.0
// The door of cri for tests.
export { createCriSandboxes } from "../sandboxes.ts";
export { ToldSandboxes } from "./told-sandboxes.ts";
