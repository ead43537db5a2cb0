// SPDX-License-Identifier: Apache-2.0
// The network namespace of a pod, with its default network by CNI.
import { join } from "node:path";
import type { Pod } from "@patchbay/api";
import { parseNetworkConfig } from "@patchbay/cni";
import { AppError } from "@patchbay/core";
import type { AttachmentRequest, NetworkConfigList, Sandbox } from "@patchbay/ports";
import type { Deps } from "../deps.ts";
import type { PodPaths } from "./paths.ts";
import { readRecord, writeRecord, type PodRecord } from "./record.ts";
import { runProgram } from "../run-program.ts";

/** The NIC of the default network. Source: Kubernetes. */
const DEFAULT_INTERFACE = "eth0";

/** Inode of the pod's namespace, or undefined when there is none. */
export function findNetns(deps: Deps, paths: PodPaths): string | undefined {
  const netns = deps.namespaces.open(paths.netns);
  netns?.close();
  return netns?.inode;
}

/** The configuration of the default network: the first in the directory. */
async function readDefaultNetwork(deps: Deps): Promise<NetworkConfigList> {
  const directory = deps.directories.cniConf;
  const file = (await deps.files.list(directory)).find((name) => /\.conf(list)?$/.test(name));
  const network = file ?? directory;
  if (file === undefined) {
    throw new AppError("CNI_CONFIG_INVALID", { network, reason: "there is no *.conflist" });
  }
  const text = (await deps.files.readText(join(directory, file))) ?? "";
  const parsed = parseNetworkConfig(text, file.replace(/\..*$/, ""));
  if (parsed.ok) return parsed.config;
  const reason = parsed.causes.map(({ field, message }) => `${field} ${message}`).join("; ");
  throw new AppError("CNI_CONFIG_INVALID", { network, reason });
}

function requestOf(pod: Pod, uid: string, config: NetworkConfigList): AttachmentRequest {
  const { namespace = "", name } = pod.metadata;
  return {
    containerId: uid,
    interfaceName: DEFAULT_INTERFACE,
    config,
    args: [
      ["IgnoreUnknown", "1"],
      ["K8S_POD_NAMESPACE", namespace],
      ["K8S_POD_NAME", name],
      ["K8S_POD_INFRA_CONTAINER_ID", uid],
      ["K8S_POD_UID", uid],
    ],
    capabilityArgs: {},
  };
}

async function addNamespace(deps: Deps, paths: PodPaths): Promise<string> {
  if (findNetns(deps, paths) === undefined) {
    // A plain file is what a crash of `ip netns add` leaves.
    await deps.files.remove(paths.netns);
    await runProgram(deps.runner, "ip", "netns", "add", paths.netnsName);
  }
  await runProgram(deps.runner, "ip", "-n", paths.netnsName, "link", "set", "lo", "up");
  const inode = findNetns(deps, paths);
  if (inode !== undefined) return inode;
  const reason = "ip netns add left no namespace";
  throw new AppError("OS_FILE_FAILED", { call: "open", path: paths.netns, reason });
}

/** Makes the sandbox, whatever an earlier attempt has left; `sandbox.json` is the last thing that is written. */
export async function createSandbox(deps: Deps, pod: Pod, paths: PodPaths): Promise<PodRecord> {
  const { uid = "", namespace = "", name } = pod.metadata;
  const { bootId, cni, files } = deps;
  await files.ensureDirectory(paths.state, 0o700);
  await files.ensureDirectory(paths.directory);
  const earlier = await readRecord(files, paths.record);
  const request = earlier?.request ?? requestOf(pod, uid, await readDefaultNetwork(deps));
  const begun: PodRecord = { uid, namespace, name, bootId, request };
  if (earlier === undefined) await writeRecord(files, paths.record, begun);
  const inode = await addNamespace(deps, paths);
  let record = earlier;
  if (record?.result === undefined) {
    const there = { ...request, netnsPath: paths.netns };
    if (earlier !== undefined) await cni.del(there);
    record = { ...begun, result: await cni.add(there) };
    await writeRecord(files, paths.record, record);
  }
  const ids = { id: uid, podUid: uid, pod: { namespace, name } };
  const sandbox: Sandbox = { ...ids, netnsPath: paths.netns, netnsInode: inode };
  await files.writeAtomic(paths.sandboxFile, `${JSON.stringify(sandbox)}\n`);
  return record;
}

/** Gives back what the default network has given, and removes the namespace. */
export async function removeSandbox(deps: Deps, paths: PodPaths, record: PodRecord): Promise<void> {
  const isThere = findNetns(deps, paths) !== undefined;
  const request = isThere ? { ...record.request, netnsPath: paths.netns } : record.request;
  await deps.cni.del(request, record.result);
  if (isThere) await runProgram(deps.runner, "ip", "netns", "del", paths.netnsName);
  await deps.files.remove(paths.netns);
}
