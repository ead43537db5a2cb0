// SPDX-License-Identifier: Apache-2.0
// Which layers are being unpacked now, of which image, and how much has come out of them so far?
import { isJsonObject, parseJson } from "@patchbay/api/json";
import { isAppError } from "@patchbay/core";
import { ctr, type CtrDeps } from "../ctr.ts";

/** Where containerd's CRI plugin names the image of a layer. Source: containerd, pkg/snapshotters, TargetRefLabel. */
const IMAGE_LABEL = "containerd.io/snapshot/cri.image-ref";
/** Source: containerd, snapshots.UnpackKeyPrefix: `extract-UNIQUE CHAIN`. */
const KEY = /^(extract-\S+ \S+)/;

/** One layer. */
export interface UnpackingLayer {
  /** Another one for each try. */
  readonly key: string;
  /** Whole reference of the image; undefined: somebody else's than CRI's. */
  readonly reference: string | undefined;
  readonly bytes: number;
}

/** The keys in what `ctr snapshots ls` prints. Pure. */
export function unpackingKeys(listing: string): readonly string[] {
  return listing.split("\n").flatMap((line) => KEY.exec(line)?.[1] ?? []);
}

/** The image in what `ctr snapshots info` prints. Pure. */
export function imageOfLayer(info: string): string | undefined {
  const value = parseJson(info);
  const labels = isJsonObject(value) ? value["Labels"] : undefined;
  const reference = isJsonObject(labels) ? labels[IMAGE_LABEL] : undefined;
  return typeof reference === "string" ? reference : undefined;
}

/** The bytes in what `ctr snapshots usage -b KEY` prints. Pure. */
export function bytesOfLayer(usage: string): number {
  const line = usage.split("\n").find((each) => KEY.test(each)) ?? "";
  const [bytes = "0"] = line.replace(KEY, "").trim().split(/\s+/);
  return Number(bytes);
}

async function readLayer(
  deps: CtrDeps,
  snapshots: readonly string[],
  key: string,
): Promise<readonly UnpackingLayer[]> {
  try {
    const reference = imageOfLayer(await ctr(deps, [...snapshots, "info", key]));
    const bytes = bytesOfLayer(await ctr(deps, [...snapshots, "usage", "-b", key]));
    return [{ key, reference, bytes }];
  } catch (error) {
    if (isAppError(error, "CONTAINERD_FAILED")) return []; // done meanwhile
    throw error;
  }
}

/**
 * The layers that are being unpacked.
 * @throws AppError with CONTAINERD_FAILED
 */
export async function listUnpacking(
  deps: CtrDeps,
  snapshotter: string,
): Promise<readonly UnpackingLayer[]> {
  const snapshots = ["snapshots", "--snapshotter", snapshotter];
  const keys = unpackingKeys(await ctr(deps, [...snapshots, "ls"]));
  const layers = await Promise.all(keys.map((key) => readLayer(deps, snapshots, key)));
  return layers.flat();
}
