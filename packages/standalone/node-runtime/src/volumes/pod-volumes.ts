// SPDX-License-Identifier: Apache-2.0
import type { Pod, PodVolume } from "@patchbay/api/kubernetes";
import { SHARE_KEYS } from "@patchbay/base";
import {
  printReference,
  listTokenSources,
  listVolumeReferences,
  isApiBacked,
} from "./content/references.ts";
import { buildFiles, type VolumeContents, buildVolumeError } from "./content/volume-files.ts";
import type { VolumeDeps } from "./deps.ts";
import { requestsSockets } from "../translate/resources.ts";
import { makeEmptyDir } from "./empty-dir.ts";
import { mountHostDisk, findHostPath } from "./host-paths.ts";
import { findOwnKind, buildPodDirectory, buildVolumePath, buildKindDirectory } from "./layout.ts";
import { join } from "node:path";

const PUBLIC_ACCESS = { uid: 0, gid: 0, mode: 0o755 } as const;

/** Reads the objects and tokens of the pod's volumes, and subscribes to changes of the objects. */
export async function readVolumeContents(deps: VolumeDeps, pod: Pod): Promise<VolumeContents> {
  const { objects, tokens, node } = deps;
  const { uid = "", namespace = "" } = pod.metadata;
  const references = listVolumeReferences(pod);
  objects.setReferences(uid, namespace, references);
  const entries = new Map(
    await Promise.all(
      references.map(async (reference) => {
        return [printReference(reference), await objects.read(namespace, reference)] as const;
      }),
    ),
  );
  const tokenTexts = new Map<unknown, string>();
  for (const source of listTokenSources(pod))
    tokenTexts.set(source, await tokens.find(pod, source));
  return {
    pod,
    node,
    findEntries: (reference) => entries.get(printReference(reference)),
    findToken: (source) => tokenTexts.get(source),
  };
}

/** Writes a volume's files and returns whether they changed. Writes only ConfigMaps to disk, because other volumes may contain secrets. */
export async function publishVolume(
  { disk }: VolumeDeps,
  contents: VolumeContents,
  target: { readonly volume: PodVolume; readonly path: string },
): Promise<boolean> {
  const files = await buildFiles(target.volume, contents);
  if (target.volume.configMap !== undefined) await disk.makeDirectory(target.path, PUBLIC_ACCESS);
  else await disk.mountMemory(target.path, { access: PUBLIC_ACCESS });
  return disk.publish(target.path, files);
}

/** Access to a pod's directory. Only root and root's group may read it. Source: kubelet. */
const POD_ACCESS = { uid: 0, gid: 0, mode: 0o750 } as const;

export function findVolumePath(deps: VolumeDeps, pod: Pod, volume: PodVolume): string | undefined {
  const kind = findOwnKind(volume);
  if (kind === undefined) return undefined;
  const { uid = "" } = pod.metadata;
  return buildVolumePath({ podsDir: deps.node.podsDir, uid, kind, name: volume.name });
}

async function makeVolume(
  deps: VolumeDeps,
  contents: VolumeContents,
  target: { readonly volume: PodVolume; readonly path: string },
): Promise<void> {
  const { name, emptyDir, image } = target.volume;
  if (emptyDir !== undefined) {
    await makeEmptyDir(deps, { pod: contents.pod, name, emptyDir, path: target.path });
  } else if (image !== undefined) {
    await deps.images.mount(image.reference, target.path);
  } else {
    await publishVolume(deps, contents, target);
  }
}

async function prepareVolume(
  deps: VolumeDeps,
  contents: VolumeContents,
  volume: PodVolume,
): Promise<string> {
  const { name, hostPath, persistentVolumeClaim: claim } = volume;
  const path = findVolumePath(deps, contents.pod, volume);
  if (path !== undefined) {
    await makeVolume(deps, contents, { volume, path });
    return path;
  }
  if (claim !== undefined) {
    return deps.claims.begin(contents.pod, { name, claimName: claim.claimName });
  }
  if (hostPath !== undefined) {
    return deps.mayUseHostPaths(contents.pod)
      ? findHostPath(deps, { name, hostPath })
      : mountHostDisk(deps, contents.pod, { name, hostPath });
  }
  throw buildVolumeError(name, "volumes of its kind are not supported");
}

async function prepareSockets({ sockets }: VolumeDeps, { metadata, spec }: Pod): Promise<void> {
  if (spec.containers.some(requestsSockets)) await sockets.make(metadata.uid ?? "");
}

async function prepareLocked(deps: VolumeDeps, pod: Pod): Promise<ReadonlyMap<string, string>> {
  const volumes = pod.spec.volumes ?? [];
  const directory = buildPodDirectory(deps.node.podsDir, pod.metadata.uid ?? "");
  await deps.disk.makeDirectory(directory, POD_ACCESS);
  await prepareSockets(deps, pod);
  const needsReading = volumes.some(isApiBacked);
  const contents: VolumeContents = needsReading
    ? await readVolumeContents(deps, pod)
    : { pod, node: deps.node, findEntries: () => undefined, findToken: () => undefined };
  const namespaceKey = SHARE_KEYS.namespace(pod.metadata.namespace ?? "");
  const paths = volumes.map(async (volume) => {
    const prepare = (): Promise<string> => prepareVolume(deps, contents, volume);
    return [volume.name, await deps.preparations.run(namespaceKey, prepare)] as const;
  });
  await Promise.allSettled(paths); // If one volume fails, waits until the preparation of all other volumes has ended too.
  return new Map(await Promise.all(paths));
}

/** Prepares the pod's volumes and returns their paths by name. Idempotent. @throws RUNTIME_VOLUME_FAILED, or the error of an adapter */
export function prepareVolumes(deps: VolumeDeps, pod: Pod): Promise<ReadonlyMap<string, string>> {
  return deps.mutex.runExclusive(pod.metadata.uid ?? "", () => prepareLocked(deps, pod));
}

export async function removeLocked(deps: VolumeDeps, uid: string): Promise<void> {
  const { claims, disk, files, images, node, objects, sockets, tokens } = deps;
  objects.setReferences(uid, "", []);
  tokens.forget(uid);
  const imagesDirectory = buildKindDirectory(node.podsDir, uid, "image");
  for (const name of await files.list(imagesDirectory))
    await images.unmount(join(imagesDirectory, name));
  const directory = buildPodDirectory(node.podsDir, uid);
  await claims.end(uid);
  await disk.unmountAll(directory);
  await sockets.remove(uid);
  await files.remove(directory); // Removed last, because a restarted node-runtime finds incomplete removals by this directory.
}

/** Unmounts and removes the volumes of a pod. The pod's containers must have ended. */
export function removeVolumes(deps: VolumeDeps, uid: string): Promise<void> {
  return deps.mutex.runExclusive(uid, () => removeLocked(deps, uid));
}
