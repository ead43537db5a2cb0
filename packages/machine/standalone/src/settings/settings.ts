// SPDX-License-Identifier: Apache-2.0
// What is chosen once for a standalone machine and kept.
import type { JsonObject } from "@patchbay/api/json";
import { AppError } from "@patchbay/core";
import type { Files } from "@patchbay/core/ports";
import { numberOf, readFields, textOf } from "../data-dir/json.ts";
import { KIND } from "../data-dir/ours.ts";
import type { Paths } from "../data-dir/paths.ts";
import { isPort, settingProblems, type AskedSettings } from "./problems.ts";
import { chooseSubnetBeside, serviceSubnetsBeside } from "./subnet.ts";

/** Settings of a machine. */
export interface Settings {
  /** TCP port of the API server on the loopback address. */
  readonly apiPort: number;
  /** Address of this machine at which pods, and whoever else reaches it, find the API server too; absent: nobody does. */
  readonly apiAddress?: string;
  /** TCP port of virt-api on the loopback address. */
  readonly virtApiPort: number;
  /** TCP port of virt-handler there. */
  readonly virtHandlerPort: number;
  readonly nodeName: string;
  /** Network of the pods' default network, a /24 in CIDR form. */
  readonly podSubnet: string;
  /** Network of which Services have their addresses, a /16 in CIDR form. */
  readonly serviceSubnet: string;
  /** Bridge of the pods' default network on the host. */
  readonly bridge: string;
  /** Number of the group of a dataplane of vhost-user that is not root; absent: it is root. */
  readonly dataplaneGroup?: number;
  /** Set in the file only, by tests: the API server behaves as a cluster's where ours is kinder. */
  readonly strict?: true;
}

/** What may be asked for; what is absent stays as it was, or gets a default. */
export type WantedSettings = Partial<Omit<Settings, "virtApiPort" | "virtHandlerPort" | "strict">>;

const DEFAULT_API_PORT = 6443;
const DEFAULT_BRIDGE = "patchbay0";
/** How many ports above the API server's are tried for virt-api and virt-handler. */
const PORT_TRIES = 100;

/** Whether the kept settings ask for a server that is as strict as a cluster's. */
export function isStrict(fields: JsonObject | undefined): boolean {
  return fields?.["strict"] === true;
}

async function findFreePort(from: number, machine: MachineFacts): Promise<number> {
  for (let port = from; port < from + PORT_TRIES; port += 1) {
    if (await machine.isPortFree(port)) return port;
  }
  const causes = `virt-api and virt-handler need a port each, and none from ${String(from)} on is free`;
  throw new AppError("STANDALONE_SETTING_INVALID", { causes });
}

/** What the machine itself offers. */
export interface MachineFacts {
  readonly hostname: string;
  /** Names of the host's links. */
  readonly listLinks: () => Promise<readonly string[]>;
  /** Whether nobody listens at that TCP port of the loopback address. */
  readonly isPortFree: (port: number) => Promise<boolean>;
  /** Networks that the host has routes to. */
  readonly listRoutes: () => Promise<readonly string[]>;
  /** Takes a network of Services for this machine; false: another one was faster. */
  readonly claimServiceSubnet: (network: string) => Promise<boolean>;
}

interface SettingsDeps {
  readonly files: Files;
  readonly paths: Paths;
}

/** Settings as they are kept; what is missing was never kept. */
export async function readSettings({ files, paths }: SettingsDeps): Promise<Partial<Settings>> {
  const fields = await readFields(files, paths.settings);
  const names = [
    "apiPort",
    "apiAddress",
    "virtApiPort",
    "virtHandlerPort",
    "nodeName",
    "podSubnet",
    "serviceSubnet",
    "bridge",
    "dataplaneGroup",
  ] as const;
  const kept = names.flatMap((name): [string, string | number][] => {
    const value = numberOf(fields, name) ?? textOf(fields, name);
    return value === "" ? [] : [[name, value]];
  });
  // keepSettings wrote them; a number where a text should be is refused like any other.
  return { ...Object.fromEntries(kept), ...(isStrict(fields) && { strict: true }) };
}

/** What is wanted, else what was kept, else defaults; a network is chosen only when it is needed. */
function mergeSettings(
  wanted: WantedSettings,
  kept: Partial<Settings>,
  hostname: string,
): AskedSettings {
  return {
    apiPort: DEFAULT_API_PORT,
    nodeName: hostname,
    bridge: DEFAULT_BRIDGE,
    ...kept,
    ...wanted,
  };
}

/**
 * Refuses what cannot be; makes nothing.
 * @throws AppError with STANDALONE_SETTING_INVALID, all causes at once
 */
export async function checkSettings(
  deps: SettingsDeps,
  wanted: WantedSettings,
  machine: MachineFacts,
): Promise<void> {
  const kept = await readSettings(deps);
  const asked = mergeSettings(wanted, kept, machine.hostname);
  const host = {
    links: await machine.listLinks(),
    routes: await machine.listRoutes(),
    isPortFree: isPort(asked.apiPort) && (await machine.isPortFree(asked.apiPort)),
  };
  const problems = settingProblems(asked, kept, host);
  if (problems.length === 0) return;
  throw new AppError("STANDALONE_SETTING_INVALID", { causes: problems.join("; ") });
}

/** Writes them, unless they are there. */
async function write({ files, paths }: SettingsDeps, settings: Settings): Promise<void> {
  const text = `${JSON.stringify({ kind: KIND, ...settings }, undefined, 2)}\n`;
  if (text === (await files.readText(paths.settings))) return;
  await files.writeAtomic(paths.settings, text);
}

/**
 * The settings with a network of Services that is this machine's now. They are kept before it is claimed: who dies in between
 * finds it in them, and `patchbay down` takes away what the claim has made.
 */
async function keepWithServices(
  deps: SettingsDeps,
  settingsWith: (serviceSubnet: string) => Settings,
  machine: MachineFacts,
): Promise<Settings> {
  const { files, paths } = deps;
  const before = await files.readText(paths.settings);
  for (const network of serviceSubnetsBeside(await machine.listRoutes())) {
    const settings = settingsWith(network);
    await write(deps, settings);
    if (await machine.claimServiceSubnet(network)) return settings;
  }
  await (before === undefined
    ? files.remove(paths.settings)
    : files.writeAtomic(paths.settings, before));
  const causes =
    "Services need a network, and none of 10.96.0.0/16 to 10.111.0.0/16 is free; name another one with --service-subnet";
  throw new AppError("STANDALONE_SETTING_INVALID", { causes });
}

/**
 * The settings: what is wanted, else what was kept, else defaults; they are kept.
 * @throws AppError with STANDALONE_SETTING_INVALID
 */
export async function keepSettings(
  deps: SettingsDeps,
  wanted: WantedSettings,
  machine: MachineFacts,
): Promise<Settings> {
  await checkSettings(deps, wanted, machine);
  const kept = await readSettings(deps);
  const asked = mergeSettings(wanted, kept, machine.hostname);
  const { apiPort, apiAddress, nodeName, bridge, podSubnet, serviceSubnet, dataplaneGroup } = asked;
  const keptPort = kept.virtApiPort === apiPort ? undefined : kept.virtApiPort;
  const virtApiPort = keptPort ?? (await findFreePort(apiPort + 1, machine));
  const { virtHandlerPort: old } = kept;
  const isOldGood = old !== undefined && ![apiPort, virtApiPort].includes(old);
  const virtHandlerPort = isOldGood ? old : await findFreePort(virtApiPort + 1, machine);
  const pods = podSubnet ?? chooseSubnetBeside(await machine.listRoutes());
  const settingsWith = (services: string): Settings => ({
    apiPort,
    ...(apiAddress !== undefined && { apiAddress }),
    virtApiPort,
    virtHandlerPort,
    nodeName,
    podSubnet: pods,
    serviceSubnet: services,
    bridge,
    ...(dataplaneGroup !== undefined && { dataplaneGroup }),
    ...(kept.strict === true && { strict: true }),
  });
  if (serviceSubnet === undefined) return keepWithServices(deps, settingsWith, machine);
  const settings = settingsWith(serviceSubnet);
  await write(deps, settings);
  return settings;
}
