// SPDX-License-Identifier: Apache-2.0
// What is chosen once for a standalone machine and kept.
import { createServer } from "node:net";
import { AppError } from "@patchbay/core";
import type { Files } from "@patchbay/ports";
import { numberOf, readFields, textOf, type JsonFields } from "./json.ts";
import type { Paths } from "./paths.ts";

/** Settings of a machine. */
export interface Settings {
  /** TCP port of the API server on the loopback address. */
  readonly apiPort: number;
  /** TCP port of virt-api on the loopback address. */
  readonly virtApiPort: number;
  readonly nodeName: string;
  /** Network of the pods' default network, a /24 in CIDR form. */
  readonly podSubnet: string;
  /** Bridge of the pods' default network on the host. */
  readonly bridge: string;
  /** Set in the file only, by tests: the API server behaves as a cluster's where ours is kinder. */
  readonly strict?: true;
}

/** What may be asked for; what is absent stays as it was, or gets a default. */
export type WantedSettings = Partial<Omit<Settings, "virtApiPort" | "strict">>;

const KIND = "PatchbayStandalone";
const DEFAULT_API_PORT = 6443;
const DEFAULT_BRIDGE = "patchbay0";
const PORT_MAX = 65_535;
/** How many ports above the API server's are tried for virt-api. */
const PORT_TRIES = 100;
const SUBNET = /^(\d{1,3}\.){3}0\/24$/;

/** Whether the settings file is one of ours. */
export function isOurs(fields: JsonFields | undefined): boolean {
  return textOf(fields, "kind") === KIND;
}

/** Whether the kept settings ask for a server that is as strict as a cluster's. */
export function isStrict(fields: JsonFields | undefined): boolean {
  return fields?.["strict"] === true;
}

function isFree(port: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const server = createServer();
  server.once("error", () => {
    resolve(false);
  });
  server.listen(port, "127.0.0.1", () => {
    server.close(() => {
      resolve(true);
    });
  });
  return promise;
}

async function findFreePort(from: number): Promise<number> {
  for (let port = from; port < from + PORT_TRIES; port += 1) {
    if (await isFree(port)) return port;
  }
  throw new AppError("STANDALONE_SETTING_INVALID", {
    setting: "the port of virt-api",
    value: from,
    reason: "no port from there on is free",
  });
}

function check(setting: string, value: string | number, problem: string | undefined): void {
  if (problem === undefined) return;
  throw new AppError("STANDALONE_SETTING_INVALID", { setting, value, reason: problem });
}

function checkWanted({ apiPort, podSubnet }: WantedSettings): void {
  const badPort =
    apiPort !== undefined && !(Number.isInteger(apiPort) && apiPort > 0 && apiPort <= PORT_MAX);
  check("the API port", apiPort ?? "", badPort ? "it must be from 1 to 65535" : undefined);
  const badSubnet = podSubnet !== undefined && !SUBNET.test(podSubnet);
  check("the pod subnet", podSubnet ?? "", badSubnet ? "it must be like 10.88.1.0/24" : undefined);
}

/** What the machine itself offers. */
export interface MachineFacts {
  readonly hostname: string;
  /** Gives a /24 that no route of the host covers. */
  readonly chooseSubnet: () => Promise<string>;
}

/**
 * The settings: what is wanted, else what was kept, else defaults; they are kept.
 * @throws AppError with STANDALONE_SETTING_INVALID
 */
export async function keepSettings(
  deps: { readonly files: Files; readonly paths: Paths },
  wanted: WantedSettings,
  machine: MachineFacts,
): Promise<Settings> {
  checkWanted(wanted);
  const { files, paths } = deps;
  const kept = await readFields(files, paths.settings);
  const keptText = (name: "nodeName" | "podSubnet" | "bridge"): string | undefined => {
    const text = wanted[name] ?? textOf(kept, name);
    return text === "" ? undefined : text;
  };
  const apiPort = wanted.apiPort ?? numberOf(kept, "apiPort") ?? DEFAULT_API_PORT;
  const settings: Settings = {
    apiPort,
    virtApiPort: numberOf(kept, "virtApiPort") ?? (await findFreePort(apiPort + 1)),
    nodeName: keptText("nodeName") ?? machine.hostname,
    podSubnet: keptText("podSubnet") ?? (await machine.chooseSubnet()),
    bridge: keptText("bridge") ?? DEFAULT_BRIDGE,
    ...(isStrict(kept) && { strict: true }),
  };
  const text = `${JSON.stringify({ kind: KIND, ...settings }, undefined, 2)}\n`;
  if (text !== (await files.readText(paths.settings))) {
    await files.writeAtomic(paths.settings, text);
  }
  return settings;
}
