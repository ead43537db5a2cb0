// SPDX-License-Identifier: Apache-2.0
// A call of a CNI plugin, and what behaviors do with it: delegate, create veths, run commands.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { join } from "node:path";

export interface Interface {
  readonly name: string;
  readonly mac?: string;
  readonly mtu?: number;
  readonly sandbox?: string;
}

interface Ip {
  readonly address: string;
  readonly gateway?: string;
  readonly interface?: number;
}

interface Route {
  readonly dst: string;
  readonly gw?: string;
}

export interface Result {
  readonly cniVersion?: string;
  readonly interfaces?: readonly Interface[];
  readonly ips?: readonly Ip[];
  readonly routes?: readonly Route[];
}

export interface Call {
  readonly args: Readonly<Record<string, string | undefined>>;
  readonly config: Readonly<Record<string, unknown>>;
}

/** Behavior of a network. Without `add`, ADD delegates to Debian's `bridge`; without `remove`, so does DEL. */
export interface Behavior {
  /** Changes a call of ADD before it is delegated. */
  readonly prepare?: (call: Call) => Call;
  /** Acts on the result of a delegated ADD. */
  readonly finish?: (result: Result, call: Call) => void;
  readonly add?: (call: Call) => Result;
  readonly remove?: (call: Call) => void;
}

export function run(command: string, args: readonly string[], input = ""): string {
  const { status, stdout, stderr } = spawnSync(command, args, { input, encoding: "utf8" });
  if (status !== 0) throw new Error(`${command} ${args.join(" ")}: ${stderr}${stdout}`);
  return stdout;
}

/** Runs `ip` in a named network namespace. */
export function ip(namespace: string, ...words: readonly string[]): string {
  return run("ip", ["-n", namespace, ...words]);
}

/** Text of the configuration's member; empty if it has none. */
export function textOf({ config }: Call, name: string): string {
  const value = config[name];
  return typeof value === "string" ? value : "";
}

/** Digits that differ between attachments. */
export function attachmentDigits({ args }: Pick<Call, "args">): string {
  const key = `${args["CNI_CONTAINERID"] ?? ""} ${args["CNI_IFNAME"] ?? ""}`;
  return createHash("sha256").update(key).digest("hex");
}

/** Name of the pod's network namespace for `ip -n`. */
export function podOf({ args }: Call): string {
  return (args["CNI_NETNS"] ?? "").split("/").at(-1) ?? "";
}

export function nicOf({ args }: Call): string {
  return args["CNI_IFNAME"] ?? "";
}

/** Runs another plugin with the call's environment and configuration; returns its process. */
export function spawnPlugin(type: string, { args, config }: Call) {
  const directory = (args["CNI_PATH"] ?? "").split(":").at(-1) ?? "";
  return spawnSync(join(directory, type), {
    input: JSON.stringify(config),
    env: { ...args },
    encoding: "utf8",
  });
}

/** Address that host-local assigns from the configuration's `ipam`, without prefix length. */
export function leaseAddress(call: Call): string {
  const { status, stdout } = spawnPlugin("host-local", call);
  if (status !== 0) throw new Error(stdout);
  const { ips = [] } = JSON.parse(stdout) as Result;
  return ips[0]?.address.split("/")[0] ?? "";
}

/** Frees the addresses of {@link leaseAddress}. */
export function freeAddress(call: Call): void {
  spawnPlugin("host-local", call);
}

/** A veth from the pod's NIC to the namespace that the configuration names as `node`. */
export interface Veth {
  readonly node: string;
  readonly pod: string;
  readonly nic: string;
  readonly nodeEnd: string;
}

export function describeVeth(call: Call, prefix: string): Veth {
  const nodeEnd = `${prefix}${attachmentDigits(call).slice(0, 11)}`;
  return { node: textOf(call, "node"), pod: podOf(call), nic: nicOf(call), nodeEnd };
}

/** Creates the veth, sets both ends up, and gives the node's end a MAC. */
export function makeVeth({ node, pod, nic, nodeEnd }: Veth, nodeMac: string): void {
  const peer = ["peer", "name", nic, "netns", pod];
  ip(node, "link", "add", nodeEnd, "address", nodeMac, "type", "veth", ...peer);
  ip(node, "link", "set", nodeEnd, "up");
  ip(pod, "link", "set", nic, "up");
}

/** Gives the pod's NIC the requested MAC. */
export function setRequestedMac({ args }: Call, { pod, nic }: Veth): void {
  const mac = /(?:^|;)MAC=([^;]+)/.exec(args["CNI_ARGS"] ?? "")?.[1];
  if (mac !== undefined) ip(pod, "link", "set", nic, "address", mac);
}

export function removeVeth({ node, nodeEnd }: Veth): void {
  spawnSync("ip", ["-n", node, "link", "del", nodeEnd]);
}

export function macOf(namespace: string, link: string): string {
  const [found] = JSON.parse(ip(namespace, "-j", "link", "show", "dev", link)) as readonly {
    readonly address: string;
  }[];
  return found?.address ?? "";
}

/** Result for a veth's NIC. */
export function resultOf(call: Call, veth: Veth, result: Omit<Result, "interfaces">): Result {
  const sandbox = call.args["CNI_NETNS"] ?? "";
  const interfaces = [
    { name: veth.nodeEnd, mac: macOf(veth.node, veth.nodeEnd) },
    { name: veth.nic, mac: macOf(veth.pod, veth.nic), sandbox },
  ];
  return { cniVersion: "1.0.0", interfaces, ...result };
}
