// SPDX-License-Identifier: Apache-2.0
// The second door: a fake of what this package does, the suite that it passes too, and hooks that listen.
export { describeHookSidecarsContract, type HooksBench } from "./contracts/hook-sidecars.ts";
export {
  createFakeHookSidecars,
  type FakeHook,
  type FakeHookSidecars,
} from "./fakes/hook-sidecars.ts";
export { serveHook, type ServedHook } from "./serve-hook.ts";
