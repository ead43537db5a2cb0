// SPDX-License-Identifier: Apache-2.0
// Takes away everything that a pod has on this node, whatever its containers made of it.
import { join } from "node:path";
import type { VolumeDeps } from "./deps.ts";
import { kindDirectory, podDirectory } from "./layout.ts";

/** {@link removeVolumes} for who has the pod's turn. */
export async function removeLocked(deps: VolumeDeps, uid: string): Promise<void> {
  const { claims, disk, files, images, node, objects, sockets, tokens } = deps;
  objects.hold(uid, "", []);
  tokens.forget(uid);
  const views = kindDirectory(node.podsDir, uid, "image");
  for (const name of await files.list(views)) await images.release(join(views, name));
  const directory = podDirectory(node.podsDir, uid);
  await claims.end(uid); // before the directory, which tells that there is something to end
  await disk.unmountAll(directory);
  await sockets.remove(uid);
  await files.remove(directory);
}

/**
 * Unmounts and removes the pod's directory; not there is success. Its containers must have ended: what they still use is
 * unmounted under their feet.
 */
export function removeVolumes(deps: VolumeDeps, uid: string): Promise<void> {
  return deps.mutex.runExclusive(uid, () => removeLocked(deps, uid));
}
