// SPDX-License-Identifier: Apache-2.0
// What a pod's claims are on this node while the pod is here: mounted files, or a device. Each use is written down before it
// begins, so that a claim is let go when its last pod is gone, whoever has died meanwhile.
import { join } from "node:path";
import {
  PERSISTENT_VOLUME_CLAIMS,
  PERSISTENT_VOLUMES,
  type Container,
  type PersistentVolume,
  type PersistentVolumeClaim,
  type Pod,
} from "@patchbay/api";
import { AppError } from "@patchbay/core";
import type { Store } from "@patchbay/core/ports";
import { KeyedMutex } from "@patchbay/core/keyed-mutex";
import type { ClaimMachine } from "../deps.ts";
import { isHandle, placesOf, type ClaimPlaces } from "../layout.ts";
import { PROVISIONER } from "../words.ts";

/** A volume of a pod that is a claim. */
export interface ClaimVolume {
  readonly name: string;
  readonly claimName: string;
}

/** Claims of the pods of this node. */
export interface ClaimUses {
  /**
   * The host's path of the claim for the pod: a directory, or a device.
   * @throws AppError with RUNTIME_VOLUME_FAILED, or an `OS_` code
   */
  begin(pod: Pod, volume: ClaimVolume): Promise<string>;
  /** Ends all uses of the pod; none is success. */
  end(uid: string): Promise<void>;
}

/** The machine, and the API server as the node's account sees it. */
export interface UseDeps extends ClaimMachine {
  readonly store: Store;
}

const ALONE = "ReadWriteOncePod";

function failed(volume: string, reason: string): AppError {
  return new AppError("RUNTIME_VOLUME_FAILED", { volume, reason });
}

function namesIn(
  { spec }: Pod,
  listOf: (container: Container) => readonly { readonly name: string }[] | undefined,
): readonly string[] {
  const all = [...(spec.initContainers ?? []), ...spec.containers];
  return all.flatMap((container) => (listOf(container) ?? []).map(({ name }) => name));
}

/** Files are mounted, devices are not: else a container would get a path that is none. */
function checkMode(pod: Pod, { name, claimName }: ClaimVolume, isDevice: boolean): void {
  const mounted = namesIn(pod, ({ volumeMounts }) => volumeMounts);
  const asDevice = namesIn(pod, ({ volumeDevices }) => volumeDevices);
  if (isDevice && mounted.includes(name)) {
    throw failed(name, `claim ${claimName} has volumeMode Block, but is in volumeMounts`);
  }
  if (!isDevice && asDevice.includes(name)) {
    throw failed(name, `claim ${claimName} has volumeMode Filesystem, but is in volumeDevices`);
  }
}

class NodeClaims implements ClaimUses {
  readonly #deps: UseDeps;
  /** By handle: one use begins or ends at a time. */
  readonly #mutex = new KeyedMutex();

  constructor(deps: UseDeps) {
    this.#deps = deps;
  }

  async begin(pod: Pod, volume: ClaimVolume): Promise<string> {
    const { claimsDir, disk } = this.#deps;
    const claim = await this.#findClaim(pod, volume);
    const found = await this.#findVolume(claim, volume);
    const handle = found.spec.csi?.volumeHandle ?? "";
    if (found.spec.csi?.driver !== PROVISIONER || !isHandle(handle)) {
      throw failed(volume.name, `volume ${found.metadata.name} is not a volume of this machine`);
    }
    const isDevice = found.spec.volumeMode === "Block";
    checkMode(pod, volume, isDevice);
    const places = placesOf(claimsDir, handle);
    const isAlone = claim.spec.accessModes?.includes(ALONE) === true;
    return this.#mutex.runExclusive(handle, async () => {
      const isOnly = await this.#noteUser(places, pod, { volume, isAlone });
      return isDevice ? disk.attach(places.file) : this.#mount(places, pod, isOnly);
    });
  }

  async end(uid: string): Promise<void> {
    const { claimsDir, disk, files } = this.#deps;
    for (const handle of (await files.list(claimsDir)).filter(isHandle)) {
      const { file, mount, users } = placesOf(claimsDir, handle);
      await this.#mutex.runExclusive(handle, async () => {
        const all = await files.list(users);
        if (!all.includes(uid)) return;
        if (all.length === 1) await disk.release(file, mount);
        await files.remove(join(users, uid));
      });
    }
  }

  async #findClaim(pod: Pod, { name, claimName }: ClaimVolume): Promise<PersistentVolumeClaim> {
    const { namespace = "" } = pod.metadata;
    const key = { namespace, name: claimName };
    const claim = await this.#deps.store.find(PERSISTENT_VOLUME_CLAIMS, key);
    if (claim === undefined) throw failed(name, `claim ${claimName} does not exist`);
    if (claim.status?.phase !== "Bound") throw failed(name, `claim ${claimName} is not bound`);
    return claim;
  }

  /** The volume, which must be that claim's: a claim names it, but not every claim that names one has it. */
  async #findVolume(
    claim: PersistentVolumeClaim,
    { name, claimName }: ClaimVolume,
  ): Promise<PersistentVolume> {
    const { volumeName = "" } = claim.spec;
    const volume = await this.#deps.store.find(PERSISTENT_VOLUMES, { name: volumeName });
    if (volume !== undefined && volume.spec.claimRef?.uid === claim.metadata.uid) return volume;
    throw failed(name, `claim ${claimName} does not have volume ${volumeName}`);
  }

  /** Whether no other pod has it. */
  async #noteUser(
    { users }: ClaimPlaces,
    pod: Pod,
    { volume, isAlone }: { readonly volume: ClaimVolume; readonly isAlone: boolean },
  ): Promise<boolean> {
    const { files } = this.#deps;
    const { uid = "" } = pod.metadata;
    const known = await files.list(users);
    const others = known.filter((one) => one !== uid);
    if (isAlone && others.length > 0) {
      throw failed(volume.name, `claim ${volume.claimName} is ${ALONE}, and another pod has it`);
    }
    if (!known.includes(uid)) {
      await files.ensureDirectory(users);
      await files.writeAtomic(join(users, uid), "");
    }
    return others.length === 0;
  }

  /** Files change their group while nobody can move them under root's hands: before the first pod has them. */
  async #mount({ file, mount }: ClaimPlaces, pod: Pod, isOnly: boolean): Promise<string> {
    const { fsGroup } = pod.spec.securityContext ?? {};
    const group = fsGroup === undefined || !isOnly ? {} : { group: fsGroup };
    await this.#deps.disk.mount(file, { directory: mount, ...group });
    return mount;
  }
}

/** The claims of this node's pods. */
export function createClaimUses(deps: UseDeps): ClaimUses {
  return new NodeClaims(deps);
}
