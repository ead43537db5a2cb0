// SPDX-License-Identifier: Apache-2.0
// Where is a pod's network namespace? As the machine's containerd tells its own tool, at once.
import { execFileSync } from "node:child_process";
import { statSync } from "node:fs";
import { join } from "node:path";

/** A network namespace. */
export interface SandboxNetns {
  readonly path: string;
  /** Decimal text. */
  readonly inode: string;
}

/** What `ctr containers info` prints, as far as it is read. Source: OCI runtime specification. */
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
