// SPDX-License-Identifier: Apache-2.0
// Drops frames from other MACs than the result's. Source: Cilium, Kube-OVN and OVN-Kubernetes port security.
import { spawnSync } from "node:child_process";
import {
  attachmentDigits,
  run,
  spawnPlugin,
  type Behavior,
  type Call,
  type Result,
} from "../call.ts";

function tableOf(call: Pick<Call, "args">): string {
  return `pbt-${attachmentDigits(call).slice(0, 16)}`;
}

export function pinMac({ interfaces = [] }: Result, call: Call): void {
  const mac = interfaces.find(({ sandbox = "" }) => sandbox !== "")?.mac ?? "";
  const peer = interfaces.find(({ name, sandbox = "" }) => sandbox === "" && /^veth/.test(name));
  const table = tableOf(call);
  const rules = [
    `add table netdev ${table}`,
    `add chain netdev ${table} in { type filter hook ingress device ${peer?.name ?? ""} priority 0; }`,
    `add rule netdev ${table} in ether saddr != ${mac} counter drop`,
  ];
  run("nft", ["-f", "-"], rules.join("\n"));
}

export function removePinned(call: Call): void {
  spawnSync("nft", ["delete", "table", "netdev", tableOf(call)]);
  spawnPlugin("bridge", call);
}

export const PINS: Behavior = { finish: pinMac, remove: removePinned };
