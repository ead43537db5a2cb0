// SPDX-License-Identifier: Apache-2.0
// Where is the storage of a claim on this machine? Pure.
import { join } from "node:path";

/** What a volume's handle is: the name of a directory, and nothing else can be. */
const HANDLE = /^pvc-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Files and directories of one volume. */
export interface ClaimPlaces {
  readonly directory: string;
  /** The sparse file: ends where the claim ends. */
  readonly file: string;
  /** Where its files are mounted, while pods use them. */
  readonly mount: string;
  /** A file for each pod that uses it, by uid. */
  readonly users: string;
}

/** The handle of a claim's volume, which is its volume's name as well. Source: Kubernetes external-provisioner, pvc-UID. */
export function handleOf(claimUid: string): string {
  return `pvc-${claimUid}`;
}

/** Whether it can be a volume of ours. */
export function isHandle(handle: string): boolean {
  return HANDLE.test(handle);
}

/** The places below the directory of all claims. */
export function placesOf(claimsDir: string, handle: string): ClaimPlaces {
  const directory = join(claimsDir, handle);
  const at = (name: string): string => join(directory, name);
  return { directory, file: at("volume.img"), mount: at("mount"), users: at("users") };
}
