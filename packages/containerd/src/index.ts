// SPDX-License-Identifier: Apache-2.0
// The public door of containerd.
export { ctr, waitUntilServing, type CtrDeps } from "./ctr.ts";
export { layoutOf, type ContainerdLayout, type ContainerdPlaces } from "./layout.ts";
export { containerdCommand, prepareContainerd, removeDeadSocket } from "./prepare.ts";
export { removeGroups } from "./leftovers/cgroups.ts";
export { mountsBelow, unmountBelow } from "./leftovers/mounts.ts";
export { removeContainerdLeftovers } from "./leftovers/remove-leftovers.ts";
