// SPDX-License-Identifier: Apache-2.0
// A CNI plugin that behaves like networks of other projects. It delegates to Debian's `bridge` plugin, before and after which
// a behavior changes the request and the result. `installThirdPartyCni` installs it under a name of its own.
import { spawnSync } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";

interface Interface {
  readonly name: string;
  readonly mac?: string;
  readonly sandbox?: string;
}

interface Result {
  readonly interfaces?: readonly Interface[];
}

interface Call {
  readonly args: Readonly<Record<string, string | undefined>>;
  readonly config: Readonly<Record<string, unknown>>;
}

/** Changes a call before the bridge plugin runs. */
type Prepare = (call: Call) => Call;
/** Acts on the result of ADD. */
type Finish = (result: Result) => void;

interface Behavior {
  readonly prepare?: Prepare;
  readonly finish?: Finish;
}

function run(command: string, args: readonly string[], input: string): void {
  const { status, stdout, stderr } = spawnSync(command, args, { input, encoding: "utf8" });
  if (status !== 0) throw new Error(`${command} ${args.join(" ")}: ${stderr}${stdout}`);
}

/** Replaces the requested MAC by a random one. Source: Kube-OVN and OVN-Kubernetes assign MACs from their own database. */
function chooseMac({ args, config }: Call): Call {
  const { CNI_ARGS = "" } = args;
  const others = CNI_ARGS.split(";").filter((each) => !each.startsWith("MAC=") && each !== "");
  const mac = ["02", ...(randomBytes(5).toString("hex").match(/../g) ?? [])].join(":");
  return {
    args: { ...args, CNI_ARGS: [...others, `MAC=${mac}`].join(";") },
    config: { ...config, runtimeConfig: {} },
  };
}

function tableOf(args: Call["args"]): string {
  const key = `${args["CNI_CONTAINERID"] ?? ""} ${args["CNI_IFNAME"] ?? ""}`;
  return `pbt-${createHash("sha256").update(key).digest("hex").slice(0, 16)}`;
}

/** Drops frames from other MACs than the result's. Source: Cilium, Kube-OVN and OVN-Kubernetes port security. */
function pinMac({ interfaces = [] }: Result): void {
  const mac = interfaces.find(({ sandbox = "" }) => sandbox !== "")?.mac ?? "";
  const peer = interfaces.find(({ name, sandbox = "" }) => sandbox === "" && /^veth/.test(name));
  const table = tableOf(process.env);
  const rules = [
    `add table netdev ${table}`,
    `add chain netdev ${table} in { type filter hook ingress device ${peer?.name ?? ""} priority 0; }`,
    `add rule netdev ${table} in ether saddr != ${mac} counter drop`,
  ];
  run("nft", ["-f", "-"], rules.join("\n"));
}

/** Behaviors by the configuration's member `behavior`. */
const BEHAVIORS: Readonly<Record<string, Behavior>> = {
  pins: { finish: pinMac },
  chooses: { prepare: chooseMac, finish: pinMac },
};

function main(): void {
  const config = JSON.parse(readFileSync(0, "utf8")) as Record<string, unknown>;
  const { behavior: name, ...rest } = config;
  const { prepare = (call) => call, finish }: Behavior = BEHAVIORS[String(name)] ?? {};
  const isAdd = process.env["CNI_COMMAND"] === "ADD";
  const call = { args: process.env, config: { ...rest, type: "bridge" } };
  const { args, config: changed } = isAdd ? prepare(call) : call;
  if (process.env["CNI_COMMAND"] === "DEL") {
    spawnSync("nft", ["delete", "table", "netdev", tableOf(process.env)]);
  }
  const directory = (process.env["CNI_PATH"] ?? "").split(":").at(-1) ?? "";
  const done = spawnSync(join(directory, "bridge"), {
    input: JSON.stringify(changed),
    env: { ...process.env, ...args },
    encoding: "utf8",
  });
  if (isAdd && done.status === 0) finish?.(JSON.parse(done.stdout) as Result);
  process.stdout.write(done.stdout);
  process.exitCode = done.status ?? 1;
}

main();
