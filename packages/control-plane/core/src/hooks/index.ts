// SPDX-License-Identifier: Apache-2.0
export {
  applyHookAnswer,
  buildCloudInitDisk,
  type HookedCloudInit,
  cloudInitForHooks,
} from "./cloud-init-data.ts";
export { isoImage } from "./iso-image.ts";
export { refusedChanges } from "./refused-changes.ts";
export {
  buildHookName,
  type Subscriber,
  subscribersAt,
  type Subscription,
  subscriptionProblem,
} from "./subscriptions.ts";
