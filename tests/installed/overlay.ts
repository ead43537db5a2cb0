// SPDX-License-Identifier: Apache-2.0
// Adapts manifests to a standalone machine: its directories, and the process in the host's namespaces.
import { join } from "node:path";
import { isJsonObject } from "@patchbay/api/json";
import type { KubeObject } from "@patchbay/api/kubernetes";

export interface Place {
  readonly dataDir: string;
  readonly socket: string;
  /** A machine process in the host's namespaces: a test machine's first may be inaccessible. */
  readonly hostPid: number;
}

function pathsOf({ dataDir }: Place): Readonly<Record<string, string>> {
  return {
    "/var/lib/kubelet/pods": join(dataDir, "pods"),
    "/var/lib/kubelet/device-plugins": join(dataDir, "none/device-plugins"),
    "/var/lib/net-agent": join(dataDir, "net-agent"),
    "/var/lib/cni": join(dataDir, "none/cni"),
    "/var/lib/patchbay/virt-handler": join(dataDir, "virt-handler"),
  };
}

function adapt(value: unknown, place: Place, member = ""): unknown {
  if (typeof value === "string") {
    if (member === "path") return pathsOf(place)[value] ?? value;
    return value === "--host-process=1" ? `--host-process=${String(place.hostPid)}` : value;
  }
  if (Array.isArray(value)) {
    const runtime = `--cri-endpoint=unix:///proc/${String(place.hostPid)}/root${place.socket}`;
    return [
      ...value.map((one: unknown) => adapt(one, place, member)),
      ...(member === "args" ? [runtime] : []),
    ];
  }
  if (!isJsonObject(value)) return value;
  const entries = Object.entries(value).map(([name, one]) => [name, adapt(one, place, name)]);
  return Object.fromEntries(entries) as unknown;
}

/** The manifests for that machine; container paths stay. */
export function onMachine(objects: readonly KubeObject[], place: Place): readonly KubeObject[] {
  return objects.map((object) =>
    object.kind === "DaemonSet" ? (adapt(object, place) as KubeObject) : object,
  );
}
