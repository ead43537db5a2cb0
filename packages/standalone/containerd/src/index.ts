// SPDX-License-Identifier: Apache-2.0
export { ctr, waitUntilServing } from "./ctr.ts";
export { listAdded } from "./images/images.ts";
export { archiveDirectory } from "./images/archive-directory.ts";
export { measureImage } from "./images/measure-image.ts";
export { listUnpacking, type UnpackingLayer } from "./images/unpacking.ts";
export { PullProgress } from "./images/images.ts";
export { createImageMounts } from "./images/image-views.ts";
export {
  findImage,
  importImage,
  listImages,
  pullImage,
  readSnapshotter,
  removeImage,
  type ImageChangeDeps,
} from "./images/images.ts";
export { runSourceProgram } from "./images/run-on-source.ts";
export { fullReference, parseRepository, shortReference } from "./images/reference.ts";
export { OWN_NETWORK_RUNTIME } from "./containerd-config.ts";
export { buildLayout, type ContainerdLayout } from "./layout.ts";
export { containerdCommand, prepareContainerd, removeDeadSocket } from "./prepare.ts";
export { removeCgroups } from "./leftovers/cgroups.ts";
export { isMountPoint, mountsBelow, unmountBelow } from "./leftovers/mounts.ts";
export { sweepShimSocketsOnChange } from "./leftovers/shim-sockets.ts";
export { removeOrphans } from "./leftovers/remove-leftovers.ts";
export { removeContainerdLeftovers } from "./leftovers/remove-leftovers.ts";
export { listProcesses, findShims } from "./leftovers/shims.ts";
