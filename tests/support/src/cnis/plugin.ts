// SPDX-License-Identifier: Apache-2.0
// A CNI plugin that behaves like networks of other projects: `behaviors/` has one file for each, with its source. Most delegate to
// Debian's `bridge`, and change the request or act on the result. `installThirdPartyCni` installs it under a name of its own.
import { readFileSync } from "node:fs";
import { CHOOSES } from "./behaviors/chooses.ts";
import { CLAIMS_ADDRESSES } from "./behaviors/claims.ts";
import { MOVES } from "./behaviors/moves.ts";
import { NO_INTERFACE } from "./behaviors/no-interface.ts";
import { PEER_ELSEWHERE } from "./behaviors/peer-elsewhere.ts";
import { PINS } from "./behaviors/pins.ts";
import { PERMANENT_NEIGHBOR, PROXY_ARP } from "./behaviors/slash-32.ts";
import { SLOW } from "./behaviors/slow.ts";
import { VLAN_TRUNK } from "./behaviors/vlan-trunk.ts";
import { spawnPlugin, type Behavior, type Call, type Result } from "./call.ts";

/** Behaviors by the configuration's member `behavior`. Others are only a configuration of `bridge`. */
const BEHAVIORS: Readonly<Record<string, Behavior>> = {
  pins: PINS,
  chooses: CHOOSES,
  "permanent-neighbor": PERMANENT_NEIGHBOR,
  "proxy-arp": PROXY_ARP,
  "no-interface": NO_INTERFACE,
  slow: SLOW,
  moves: MOVES,
  claims: CLAIMS_ADDRESSES,
  "vlan-trunk": VLAN_TRUNK,
  "peer-elsewhere": PEER_ELSEWHERE,
};

function print(result: Result): void {
  process.stdout.write(JSON.stringify(result));
}

function delegate(call: Call, finish: Behavior["finish"]): void {
  const { status, stdout } = spawnPlugin("bridge", call);
  if (status === 0) finish?.(JSON.parse(stdout === "" ? "{}" : stdout) as Result, call);
  process.stdout.write(stdout);
  process.exitCode = status ?? 1;
}

/** With member `storePerNode`, host-local stores leases of pods named `target…` separately, as another node does. */
function withNodeStore(config: Readonly<Record<string, unknown>>): Call["config"] {
  const { storePerNode, ipam, ...rest } = config;
  const isTarget = /(^|;)K8S_POD_NAME=target/.test(process.env["CNI_ARGS"] ?? "");
  const { dataDir, ...others } = { ...(ipam as Readonly<Record<string, unknown>> | undefined) };
  if (storePerNode !== true || !isTarget || typeof dataDir !== "string")
    return ipam === undefined ? rest : { ...rest, ipam };
  return { ...rest, ipam: { ...others, dataDir: `${dataDir}-target` } };
}

function main(): void {
  const config = JSON.parse(readFileSync(0, "utf8")) as Record<string, unknown>;
  const { behavior: name, ...rest } = config;
  const behavior: Behavior = BEHAVIORS[String(name)] ?? {};
  const call = { args: process.env, config: { ...withNodeStore(rest), type: "bridge" } };
  const command = process.env["CNI_COMMAND"];
  if (command === "ADD" && behavior.add !== undefined) print(behavior.add(call));
  else if (command === "ADD") delegate(behavior.prepare?.(call) ?? call, behavior.finish);
  else if (command === "DEL" && behavior.remove !== undefined) behavior.remove(call);
  else delegate(call, undefined);
}

main();
