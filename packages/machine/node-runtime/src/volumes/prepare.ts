// SPDX-License-Identifier: Apache-2.0
// Makes the volumes of a pod, before its containers.
import type { Pod, PodVolume } from "@patchbay/api";
import { asksForSockets } from "../translate/devices.ts";
import { volumeFailed } from "./content/file-set.ts";
import { isShown } from "./content/references.ts";
import type { Shown } from "./content/volume-files.ts";
import type { VolumeDeps } from "./deps.ts";
import { makeEmptyDir } from "./empty-dir.ts";
import { showHostDisk } from "./host-disk.ts";
import { findHostPath } from "./host-path.ts";
import { ownKindOf, podDirectory, volumePath } from "./layout.ts";
import { readShown, showVolume } from "./show.ts";

/** Others than root see nothing of a pod. Source: Kubernetes kubelet, mode of the pods' directories. */
const POD_ACCESS = { uid: 0, gid: 0, mode: 0o750 } as const;

/** Where a volume of a kind that has a directory is; undefined: it is none of those. */
export function placeOf(deps: VolumeDeps, pod: Pod, volume: PodVolume): string | undefined {
  const kind = ownKindOf(volume);
  if (kind === undefined) return undefined;
  const { uid = "" } = pod.metadata;
  return volumePath({ podsDir: deps.node.podsDir, uid, kind, name: volume.name });
}

async function makeVolume(
  deps: VolumeDeps,
  shown: Shown,
  at: { readonly volume: PodVolume; readonly path: string },
): Promise<void> {
  const { name, emptyDir, image } = at.volume;
  if (emptyDir !== undefined) {
    await makeEmptyDir(deps, { pod: shown.pod, name, emptyDir, path: at.path });
  } else if (image !== undefined) {
    await deps.images.show(image.reference, at.path);
  } else {
    await showVolume(deps, shown, at);
  }
}

async function prepareOne(deps: VolumeDeps, shown: Shown, volume: PodVolume): Promise<string> {
  const { name, hostPath, persistentVolumeClaim: claim } = volume;
  const path = placeOf(deps, shown.pod, volume);
  if (path !== undefined) {
    await makeVolume(deps, shown, { volume, path });
    return path;
  }
  if (claim !== undefined) {
    return deps.claims.begin(shown.pod, { name, claimName: claim.claimName });
  }
  if (hostPath !== undefined) {
    return deps.mayUseHostPaths(shown.pod)
      ? findHostPath(deps, { name, hostPath })
      : showHostDisk(deps, shown.pod, { name, hostPath });
  }
  throw volumeFailed(name, "volumes of its kind are not supported");
}

/** Where a pod that asks for sockets of vhost-user has them. */
async function prepareSockets({ sockets }: VolumeDeps, { metadata, spec }: Pod): Promise<void> {
  if (spec.containers.some(asksForSockets)) await sockets.make(metadata.uid ?? "");
}

async function prepareLocked(deps: VolumeDeps, pod: Pod): Promise<ReadonlyMap<string, string>> {
  const volumes = pod.spec.volumes ?? [];
  const directory = podDirectory(deps.node.podsDir, pod.metadata.uid ?? "");
  await deps.disk.makeDirectory(directory, POD_ACCESS);
  await prepareSockets(deps, pod);
  const needsReading = volumes.some(isShown);
  const shown: Shown = needsReading
    ? await readShown(deps, pod)
    : { pod, node: deps.node, entriesOf: () => undefined, tokenOf: () => undefined };
  const made = volumes.map(async (volume) => {
    return [volume.name, await prepareOne(deps, shown, volume)] as const;
  });
  await Promise.allSettled(made); // nothing goes on behind an error
  return new Map(await Promise.all(made));
}

/**
 * Makes what is not there yet, and answers the host's path of each volume by its name. May be repeated; volumes that
 * containers use stay as they are.
 * @throws AppError with RUNTIME_VOLUME_FAILED while something that a volume shows is missing, or what the machine said
 */
export function prepareVolumes(deps: VolumeDeps, pod: Pod): Promise<ReadonlyMap<string, string>> {
  return deps.mutex.runExclusive(pod.metadata.uid ?? "", () => prepareLocked(deps, pod));
}
