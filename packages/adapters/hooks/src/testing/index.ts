// SPDX-License-Identifier: Apache-2.0
// A fake of this package's port, the contract suite that both pass, and test hooks.
export { describeHookSidecarsContract, type HooksBench } from "./contracts/hook-sidecars.ts";
export {
  createFakeHookSidecars,
  type FakeHook,
  type FakeHookSidecars,
} from "./fakes/hook-sidecars.ts";
export { serveHook, type ServedHook } from "./serve-hook.ts";
