// SPDX-License-Identifier: Apache-2.0
// A pod's network namespace, from containerd's own tool.
import { execFileSync } from "node:child_process";
import { statSync } from "node:fs";
import { join } from "node:path";

export interface SandboxNetns {
  readonly path: string;
  readonly inode: string;
}

/** The used part of `ctr containers info`. Source: OCI runtime specification. */
interface Described {
  readonly Spec?: {
    readonly linux?: {
      readonly namespaces?: readonly { readonly type: string; readonly path?: string }[];
    };
  };
}

/** The namespace of the pod's sandbox on a standalone machine. */
export function netnsOfPod(dataDir: string, podUid: string): SandboxNetns {
  const socket = join(dataDir, "run/containerd/containerd.sock");
  const ctr = (...args: readonly string[]): string =>
    execFileSync("ctr", ["--address", socket, "--namespace", "k8s.io", ...args], {
      encoding: "utf8",
    });
  const filter = `labels."io.kubernetes.pod.uid"==${podUid},labels."io.cri-containerd.kind"==sandbox`;
  const ids = ctr("containers", "ls", "--quiet", filter).trim().split("\n");
  for (const id of ids.filter((one) => one !== "")) {
    const { Spec } = JSON.parse(ctr("containers", "info", id)) as Described;
    const path = Spec?.linux?.namespaces?.find(({ type }) => type === "network")?.path;
    if (path !== undefined) return { path, inode: String(statSync(path).ino) };
  }
  throw new Error(`pod ${podUid} has no sandbox with a network`);
}
