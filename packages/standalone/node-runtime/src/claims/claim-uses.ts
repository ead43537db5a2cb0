// SPDX-License-Identifier: Apache-2.0
// Attaches the claims of this node's pods as directories or devices. Records each use on disk first, so that a crash does not lose it.
import { join } from "node:path";
import { PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES } from "@patchbay/api";
import type {
  Container,
  PersistentVolume,
  PersistentVolumeClaim,
  Pod,
} from "@patchbay/api/kubernetes";
import { AppError, KeyedMutex } from "@patchbay/base";
import type { Store } from "@patchbay/core/interfaces";

import type { ClaimMachine } from "./deps.ts";
import { isHandle, buildClaimPaths, type ClaimPaths, PROVISIONER } from "./names.ts";

interface ClaimVolume {
  readonly name: string;
  readonly claimName: string;
}

export interface ClaimUses {
  /** @throws AppError with RUNTIME_VOLUME_FAILED, or an `OS_` code */
  begin(pod: Pod, volume: ClaimVolume): Promise<string>;
  end(uid: string): Promise<void>;
}

interface UseDeps extends ClaimMachine {
  readonly store: Store;
}

const SINGLE_POD_MODE = "ReadWriteOncePod";

function volumeError(volume: string, reason: string): AppError {
  return new AppError("RUNTIME_VOLUME_FAILED", { volume, reason });
}

function listReferencedVolumes(
  { spec }: Pod,
  select: (container: Container) => readonly { readonly name: string }[] | undefined,
): readonly string[] {
  const containers = [...(spec.initContainers ?? []), ...spec.containers];
  return containers.flatMap((container) => (select(container) ?? []).map(({ name }) => name));
}

function checkMode(pod: Pod, { name, claimName }: ClaimVolume, isDevice: boolean): void {
  const mountNames = listReferencedVolumes(pod, ({ volumeMounts }) => volumeMounts);
  const deviceNames = listReferencedVolumes(pod, ({ volumeDevices }) => volumeDevices);
  if (isDevice && mountNames.includes(name)) {
    throw volumeError(name, `claim ${claimName} has volumeMode Block, but is in volumeMounts`);
  }
  if (!isDevice && deviceNames.includes(name)) {
    throw volumeError(
      name,
      `claim ${claimName} has volumeMode Filesystem, but is in volumeDevices`,
    );
  }
}

class NodeClaims implements ClaimUses {
  readonly #deps: UseDeps;
  readonly #mutex = new KeyedMutex();

  constructor(deps: UseDeps) {
    this.#deps = deps;
  }

  async begin(pod: Pod, volume: ClaimVolume): Promise<string> {
    const { claimsDir, disk } = this.#deps;
    const claim = await this.#findClaim(pod, volume);
    const persistentVolume = await this.#findVolume(claim, volume);
    const handle = persistentVolume.spec.csi?.volumeHandle ?? "";
    if (persistentVolume.spec.csi?.driver !== PROVISIONER || !isHandle(handle)) {
      throw volumeError(
        volume.name,
        `volume ${persistentVolume.metadata.name} is not a volume of this machine`,
      );
    }
    const isDevice = persistentVolume.spec.volumeMode === "Block";
    checkMode(pod, volume, isDevice);
    const paths = buildClaimPaths(claimsDir, handle);
    const isSinglePod = claim.spec.accessModes?.includes(SINGLE_POD_MODE) === true;
    return this.#mutex.runExclusive(handle, async () => {
      const isFirstUser = await this.#recordUser(paths, pod, { volume, isSinglePod });
      return isDevice ? disk.attach(paths.file) : this.#mount(paths, pod, isFirstUser);
    });
  }

  async end(uid: string): Promise<void> {
    const { claimsDir, disk, files } = this.#deps;
    for (const handle of (await files.list(claimsDir)).filter(isHandle)) {
      const { file, mount, users } = buildClaimPaths(claimsDir, handle);
      await this.#mutex.runExclusive(handle, async () => {
        const userUids = await files.list(users);
        if (!userUids.includes(uid)) return;
        if (userUids.length === 1) await disk.release(file, mount);
        await files.remove(join(users, uid));
      });
    }
  }

  async #findClaim(pod: Pod, { name, claimName }: ClaimVolume): Promise<PersistentVolumeClaim> {
    const { namespace = "" } = pod.metadata;
    const key = { namespace, name: claimName };
    const claim = await this.#deps.store.find(PERSISTENT_VOLUME_CLAIMS, key);
    if (claim === undefined) throw volumeError(name, `claim ${claimName} does not exist`);
    if (claim.status?.phase !== "Bound") throw volumeError(name, `claim ${claimName} is not bound`);
    return claim;
  }

  /** Returns the claim's volume. Checks the claimRef, because a claim can name a volume that belongs to another claim. */
  async #findVolume(
    claim: PersistentVolumeClaim,
    { name, claimName }: ClaimVolume,
  ): Promise<PersistentVolume> {
    const { volumeName = "" } = claim.spec;
    const volume = await this.#deps.store.find(PERSISTENT_VOLUMES, { name: volumeName });
    if (volume !== undefined && volume.spec.claimRef?.uid === claim.metadata.uid) return volume;
    throw volumeError(name, `claim ${claimName} does not have volume ${volumeName}`);
  }

  /** Records that the pod uses the volume. Returns whether no other pod uses it. Throws if another pod uses it and `isSinglePod` is set. */
  async #recordUser(
    { users }: ClaimPaths,
    pod: Pod,
    { volume, isSinglePod }: { readonly volume: ClaimVolume; readonly isSinglePod: boolean },
  ): Promise<boolean> {
    const { files } = this.#deps;
    const { uid = "" } = pod.metadata;
    const userUids = await files.list(users);
    const otherUids = userUids.filter((userUid) => userUid !== uid);
    if (isSinglePod && otherUids.length > 0) {
      throw volumeError(
        volume.name,
        `claim ${volume.claimName} is ${SINGLE_POD_MODE}, and another pod uses it`,
      );
    }
    if (!userUids.includes(uid)) {
      await files.ensureDirectory(users);
      await files.writeAtomic(join(users, uid), "");
    }
    return otherUids.length === 0;
  }

  /** Mounts the volume. Sets the files' group to the fsGroup only if no other pod, which could rename files meanwhile, uses the volume. */
  async #mount({ file, mount }: ClaimPaths, pod: Pod, isFirstUser: boolean): Promise<string> {
    const { fsGroup } = pod.spec.securityContext ?? {};
    const group = fsGroup === undefined || !isFirstUser ? {} : { group: fsGroup };
    await this.#deps.disk.mount(file, { directory: mount, ...group });
    return mount;
  }
}

export function createClaimUses(deps: UseDeps): ClaimUses {
  return new NodeClaims(deps);
}
