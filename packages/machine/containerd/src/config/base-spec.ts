// SPDX-License-Identifier: Apache-2.0
// What does every container's specification begin with? CRI has no field for a limit of processes, so it is here. Pure.
import { isJsonObject, parseJson, type JsonObject } from "@patchbay/api/json";
import { AppError } from "@patchbay/core";

/**
 * Processes and threads that one container may have: QEMU with its I/O workers and libvirt need less than 200, and a
 * fork bomb leaves the machine usable.
 */
export const PIDS_MAX = 1024;

function objectAt(object: JsonObject, name: string): JsonObject {
  const value = object[name];
  return isJsonObject(value) ? value : {};
}

/**
 * The specification that `ctr oci spec` has printed, with a limit of processes, and without limits of open files, which
 * would be 1024.
 * @throws AppError with CONTAINERD_FAILED when it is none.
 */
export function baseSpecText(printed: string, pidsMax: number = PIDS_MAX): string {
  const spec = parseJson(printed);
  if (!isJsonObject(spec) || !isJsonObject(spec["process"])) {
    throw new AppError("CONTAINERD_FAILED", {
      call: "oci spec",
      reason: "the output is not an OCI specification",
    });
  }
  const process = Object.fromEntries(
    Object.entries(spec["process"]).filter(([name]) => name !== "rlimits"),
  );
  const linux = objectAt(spec, "linux");
  const resources = { ...objectAt(linux, "resources"), pids: { limit: pidsMax } };
  return `${JSON.stringify({ ...spec, process, linux: { ...linux, resources } }, undefined, 2)}\n`;
}
