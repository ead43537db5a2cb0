// SPDX-License-Identifier: Apache-2.0
import { isJsonObject, parseJson } from "@patchbay/api/json";
import { isAppError } from "@patchbay/base";
import { ctr, type CtrDeps } from "../ctr.ts";

/** Label with the reference of the image to which a layer belongs. Source: containerd, pkg/snapshotters, TargetRefLabel. */
const IMAGE_LABEL = "containerd.io/snapshot/cri.image-ref";
/** Pattern of the snapshot key of a layer that is being unpacked: `extract-UNIQUE CHAIN`. Source: containerd, snapshots.UnpackKeyPrefix. */
const KEY_PATTERN = /^(extract-\S+ \S+)/;

export interface UnpackingLayer {
  /** Key of the snapshot, unique for each attempt to unpack the layer. */
  readonly key: string;
  /** Full reference of the image; undefined if the layer was not pulled through CRI. */
  readonly reference: string | undefined;
  readonly bytes: number;
}

export function parseUnpackingKeys(listing: string): readonly string[] {
  return listing.split("\n").flatMap((line) => KEY_PATTERN.exec(line)?.[1] ?? []);
}

export function parseLayerImage(info: string): string | undefined {
  const value = parseJson(info);
  const labels = isJsonObject(value) ? value["Labels"] : undefined;
  const reference = isJsonObject(labels) ? labels[IMAGE_LABEL] : undefined;
  return typeof reference === "string" ? reference : undefined;
}

export function parseLayerBytes(usage: string): number {
  const line = usage.split("\n").find((each) => KEY_PATTERN.test(each)) ?? "";
  const [bytes = "0"] = line.replace(KEY_PATTERN, "").trim().split(/\s+/);
  return Number(bytes);
}

async function readLayer(
  deps: CtrDeps,
  snapshotsCommand: readonly string[],
  key: string,
): Promise<readonly UnpackingLayer[]> {
  try {
    const reference = parseLayerImage(await ctr(deps, [...snapshotsCommand, "info", key]));
    const bytes = parseLayerBytes(await ctr(deps, [...snapshotsCommand, "usage", "-b", key]));
    return [{ key, reference, bytes }];
  } catch (error) {
    if (isAppError(error, "CONTAINERD_FAILED")) return []; // Assumes that the key no longer exists, because the unpacking has ended.
    throw error;
  }
}

/** Lists the layers that containerd is unpacking. @throws AppError with CONTAINERD_FAILED */
export async function listUnpacking(
  deps: CtrDeps,
  snapshotter: string,
): Promise<readonly UnpackingLayer[]> {
  const snapshotsCommand = ["snapshots", "--snapshotter", snapshotter];
  const keys = parseUnpackingKeys(await ctr(deps, [...snapshotsCommand, "ls"]));
  const layers = await Promise.all(keys.map((key) => readLayer(deps, snapshotsCommand, key)));
  return layers.flat();
}
