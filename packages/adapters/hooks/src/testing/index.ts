// SPDX-License-Identifier: Apache-2.0
// Fake of HookSidecars, its contract suite, and test hooks.
export { describeHookSidecarsContract, type HooksBench } from "./contracts/hook-sidecars.ts";
export {
  createFakeHookSidecars,
  type FakeHook,
  type FakeHookSidecars,
} from "./fakes/hook-sidecars.ts";
export { serveHook, type ServedHook } from "./serve-hook.ts";
