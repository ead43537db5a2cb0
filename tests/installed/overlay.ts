// SPDX-License-Identifier: Apache-2.0
// What of the manifests is another on a standalone machine: where its directories are, and which process is the host's.
import { dirname, join } from "node:path";
import { isJsonObject, type KubeObject } from "@patchbay/api";

/** Where the machine is. */
export interface Place {
  readonly dataDir: string;
  /** Of its containerd. */
  readonly socket: string;
  /** A process of the machine that is in the host's namespaces: a test machine's first may not be looked at. */
  readonly hostPid: number;
}

function pathsOf({ dataDir, socket }: Place): Readonly<Record<string, string>> {
  return {
    "/var/lib/kubelet/pods": join(dataDir, "pods"),
    "/var/lib/kubelet/device-plugins": join(dataDir, "none/device-plugins"),
    "/var/lib/net-agent": join(dataDir, "net-agent"),
    "/var/lib/patchbay/virt-handler": join(dataDir, "virt-handler"),
    "/run/containerd": dirname(socket),
    "/run/crio": join(dataDir, "none/crio"),
    "/run/k3s/containerd": join(dataDir, "none/k3s"),
  };
}

function adapt(value: unknown, place: Place, member = ""): unknown {
  if (typeof value === "string") {
    if (member === "path") return pathsOf(place)[value] ?? value;
    return value === "--host-process=1" ? `--host-process=${String(place.hostPid)}` : value;
  }
  if (Array.isArray(value)) return value.map((one) => adapt(one, place, member));
  if (!isJsonObject(value)) return value;
  const entries = Object.entries(value).map(([name, one]) => [name, adapt(one, place, name)]);
  return Object.fromEntries(entries) as unknown;
}

/** The manifests for that machine; names of containers' own directories stay. */
export function onMachine(objects: readonly KubeObject[], place: Place): readonly KubeObject[] {
  // Texts take the place of texts.
  return objects.map((object) =>
    object.kind === "DaemonSet" ? (adapt(object, place) as KubeObject) : object,
  );
}
